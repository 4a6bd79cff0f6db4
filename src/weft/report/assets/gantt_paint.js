// Painting: axis, lanes, bars. Bars below a pixel are gathered, so a frame costs no more than the
// pixels it shows.
const AXIS = 42,
  NODE_ROW = 22,
  SIDE = 84,
  WIDE_SIDE = 132;
const CRUMB = 4; // pixels: narrower bars are gathered
const CHAIN_FADE = 0.34,
  FADE = 0.18;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";

function theme() {
  const style = getComputedStyle(document.documentElement),
    read = (name) => style.getPropertyValue("--" + name).trim();
  return Object.fromEntries(
    ["paper", "panel", "ink", "muted", "line", "accent", "bad"].map((name) => [name, read(name)]),
  );
}

function inkOn(color) {
  const part = (k) => {
    const c = parseInt(color.slice(k, k + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  };
  const light = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

function hatch(context, color, cross) {
  const tile = document.createElement("canvas"),
    size = 8;
  tile.width = tile.height = size;
  const c = tile.getContext("2d");
  c.strokeStyle = color;
  c.lineWidth = 1.6;
  c.beginPath();
  for (const shift of [-size, 0, size]) {
    c.moveTo(shift, size);
    c.lineTo(shift + size, 0);
    if (cross) {
      c.moveTo(shift, 0);
      c.lineTo(shift + size, size);
    }
  }
  c.stroke();
  return context.createPattern(tile, "repeat");
}

class Painter {
  constructor(model, canvas) {
    this.model = model;
    this.beside = null; // the model of a second plan, drawn in the lower part of each lane
    this.collapsed = new Set();
    this.byBusy = false;
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.retheme();
  }

  retheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
    this.theme = theme();
    this.palette = this.model.data.palette[dark ? "dark" : "light"];
    this.inks = this.palette.map(inkOn);
    this.packed = this.palette.map((p) =>
      parseInt(p.slice(5, 7) + p.slice(3, 5) + p.slice(1, 3), 16),
    );
    this.copyHatch = hatch(this.context, "rgba(255,255,255,0.4)", false);
    this.lostHatch = hatch(this.context, this.theme.bad, true);
    this.downHatch = hatch(this.context, this.theme.bad, false);
    this.slowHatch = hatch(this.context, this.theme.muted, false);
    this.moveHatch = hatch(this.context, this.theme.bad, false);
  }

  // Sizes in CSS pixels; lanes get what room there is, within reason.
  layout(width, height, laneHeight) {
    const ratio = devicePixelRatio || 1,
      { lanes, data, grouped } = this.model;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.font = `12px ${FONT}`;
    const names = [...data.devices.names, ...(grouped ? data.devices.nodes : [])];
    const longest = names.reduce((a, b) => (a.length >= b.length ? a : b), "");
    this.gutter = Math.round(
      Math.min(width * 0.28, 160, Math.max(44, this.context.measureText(longest).width + 22)),
    );
    this.side = width > 900 ? WIDE_SIDE : width > 560 ? SIDE : 0;
    Object.assign(this, { width, height, laneHeight });
    this.crumbs = Object.assign(document.createElement("canvas"), {
      width: Math.max(1, this.plot),
      height: 2 * lanes.length,
    });
    this.image = new ImageData(this.crumbs.width, 2 * lanes.length);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.crumbed = new Uint8Array(2 * lanes.length);
    this.place();
  }

  // The top of each lane (NaN: collapsed), in order of nodes or of busy time.
  place() {
    const { lanes, data, busy } = this.model,
      order = [...lanes.keys()],
      headed = this.headed;
    if (this.byBusy) order.sort((a, b) => busy[b] - busy[a]);
    this.laneTop = new Array(lanes.length).fill(NaN);
    this.nodeTop = [];
    this.shown = [];
    let y = 0,
      node = null;
    for (const lane of order) {
      const own = data.devices.nodes[lanes[lane]];
      if (headed && own !== node) {
        node = own;
        this.nodeTop.push([y, node]);
        y += NODE_ROW;
      }
      if (headed && this.collapsed.has(own)) continue;
      this.laneTop[lane] = y;
      this.shown.push(lane);
      y += this.laneHeight;
    }
    this.content = Math.abs(y - this.room) < 1 ? this.room : y; // heights are rounded to pixels
  }

  get headed() {
    return this.model.grouped && !this.byBusy;
  }
  get right() {
    return this.width - this.side;
  }
  get pad() {
    return this.laneHeight >= 12 ? 2 : this.laneHeight >= 5 ? 1 : 0;
  }
  get room() {
    return this.height - AXIS;
  }
  get plot() {
    return this.width - this.gutter - this.side;
  }

  x(time, view) {
    return this.gutter + ((time - view.t0) / (view.t1 - view.t0)) * this.plot;
  }
  time(x, view) {
    return view.t0 + ((x - this.gutter) / this.plot) * (view.t1 - view.t0);
  }

  // Top and height of the bars of a lane; a second plan takes the lower part.
  band(lane, view, second) {
    const top = AXIS - view.y + this.laneTop[lane] + this.pad,
      h = this.laneHeight - 2 * this.pad;
    if (!this.beside) return [top, h];
    return second ? [top + 0.62 * h, 0.38 * h] : [top, 0.58 * h];
  }

  box(row, view, model = this.model) {
    const [top, h] = this.band(model.laneOf[model.device[row]], view, model !== this.model),
      part = h / model.size[row];
    const x0 = this.x(model.start[row], view),
      x1 = this.x(model.finish[row], view);
    return { x0, x1, y: top + part * model.slot[row], h: part };
  }

  paint(view, look) {
    const c = this.context;
    this.bars = 0;
    c.globalAlpha = 1;
    c.fillStyle = this.theme.paper;
    c.fillRect(0, 0, this.width, this.height);
    c.save();
    c.beginPath();
    c.rect(0, AXIS, this.width, this.room);
    c.clip();
    this.paintLanes(view);
    c.save();
    c.beginPath();
    c.rect(this.gutter, AXIS, this.plot, this.room);
    c.clip();
    const marks = this.paintGrid(view);
    for (const lane of this.shown) {
      const y = AXIS - view.y + this.laneTop[lane];
      if (y > this.height || y + this.laneHeight < AXIS) continue;
      this.paintPauses(lane, y, view);
      this.paintLane(this.model, lane, view, look);
      if (this.beside) this.paintLane(this.beside, lane, view, look);
    }
    this.paintCrumbs(view);
    if (look.chain && look.chosen < 0) paintChain(this, view);
    paintMarks(this, view, look);
    c.restore();
    this.paintGutter(view);
    this.paintBusy(view);
    c.restore();
    this.paintAxis(view, marks);
    this.paintLimits(view);
    this.paintScrollbar(view);
    return this.bars;
  }

  paintLanes(view) {
    const c = this.context;
    this.shown.forEach((lane, k) => {
      const y = AXIS - view.y + this.laneTop[lane];
      if (y > this.height || y + this.laneHeight < 0) return;
      if (k % 2 === 0) {
        c.fillStyle = this.theme.panel;
        c.fillRect(0, y, this.width, this.laneHeight);
      }
    });
    c.fillStyle = this.theme.line;
    for (const [top] of this.nodeTop)
      c.fillRect(0, AXIS - view.y + top + NODE_ROW - 1, this.width, 1);
  }

  paintGrid(view) {
    const c = this.context,
      found = ticks(view.t0, view.t1, this.plot / 110);
    c.fillStyle = this.theme.line;
    c.globalAlpha = 0.6;
    for (const t of found.marks) c.fillRect(Math.round(this.x(t, view)), AXIS, 1, this.room);
    c.globalAlpha = 1;
    return found;
  }

  paintPauses(lane, y, view) {
    const c = this.context;
    for (const { from, to, slowdown } of this.model.failures[lane]) {
      const x0 = this.x(from, view),
        x1 = this.x(to, view);
      if (x1 < this.gutter || x0 > this.right) continue;
      c.fillStyle = slowdown === null ? this.downHatch : this.slowHatch;
      c.globalAlpha = 0.4;
      c.fillRect(x0, y, Math.max(1, x1 - x0), this.laneHeight);
      c.globalAlpha = 1;
    }
  }

  // Runs over every visible row of the lane, a hundred thousand perhaps: no call of the canvas and
  // no object for narrow bars.
  paintLane(model, lane, view, look) {
    const { gutter, right } = this,
      { start, finish, size, status, copy } = model,
      end = model.lanePtr[lane + 1],
      second = model !== this.model;
    const scale = this.plot / (view.t1 - view.t0),
      colors = second ? model.colors : look.colors,
      dims = !second && look.dims,
      { dimmed } = look;
    this.inked = this.faded = -1; // nothing is known of the canvas
    const [top, h] = this.band(lane, view, second),
      crumb = second ? lane + this.laneTop.length : lane;
    let pixel = -1,
      cover = 0,
      widest = -1,
      color = 0,
      dim = false;
    for (let r = model.firstVisible(lane, view.t0); r < end && start[r] <= view.t1; r++) {
      const x0 = gutter + (start[r] - view.t0) * scale,
        width = (finish[r] - start[r]) * scale;
      if (x0 + width < gutter) continue;
      const faint = second || (dims && dimmed[r] === 1);
      if (width < CRUMB && size[r] === 1 && status[r] === DONE && (width < 1.25 || copy[r] === 0)) {
        const x1 = x0 + width,
          first = Math.floor(x0),
          last = width < 1.25 ? first : Math.min(x1, right);
        for (let here = Math.max(gutter, first); here <= last; here++) {
          const share = first === last ? width : Math.min(x1, here + 1) - Math.max(x0, here);
          if (first < last && share < 0.2) continue; // no pale edges
          if (here !== pixel || faint !== dim) {
            if (pixel >= 0) this.sweep(crumb, pixel, cover, color, dim, look.fade);
            pixel = here;
            cover = 0;
            widest = -1;
            dim = faint;
          }
          cover += share;
          if (share > widest) {
            widest = share;
            color = colors[r];
          }
        }
      } else {
        const part = h / size[r];
        this.paintBar(
          model,
          r,
          x0,
          x0 + width,
          top + part * model.slot[r],
          part,
          colors[r],
          faint ? (second ? 0.45 : look.fade) : 1,
        );
      }
    }
    if (pixel >= 0) this.sweep(crumb, pixel, cover, color, dim, look.fade);
    this.context.globalAlpha = 1;
  }

  // One pixel for all the bars that fall into it; the fuller, the stronger. Kept in an image with
  // one row a lane.
  sweep(lane, pixel, cover, color, dim, fade) {
    const at = pixel - this.gutter;
    if (at < 0 || at >= this.crumbs.width) return;
    const alpha = Math.round(255 * (0.3 + 0.7 * Math.min(1, cover)) * (dim ? fade : 1));
    this.pixels[lane * this.crumbs.width + at] = ((alpha << 24) | this.packed[color]) >>> 0;
    this.crumbed[lane] = 1;
    this.bars++;
  }

  // A frame has up to a pixel a lane and column: stretched rows of an image are painted much faster
  // than as many rectangles.
  paintCrumbs(view) {
    const c = this.context,
      { width } = this.crumbs,
      lanes = this.laneTop.length;
    if (!this.crumbed.includes(1)) return;
    this.crumbs.getContext("2d").putImageData(this.image, 0, 0);
    c.imageSmoothingEnabled = false;
    this.crumbed.forEach((some, row) => {
      if (!some) return;
      const [top, h] = this.band(row % lanes, view, row >= lanes);
      c.drawImage(this.crumbs, 0, row, width, 1, this.gutter, top, width, h);
    });
    this.pixels.fill(0);
    this.crumbed.fill(0);
  }

  paintBar(model, r, x0, x1, y, h, color, alpha) {
    const c = this.context,
      left = Math.max(x0, this.gutter - 4),
      right = Math.min(x1, this.right + 4);
    const w = Math.max(1, right - left - (x1 - x0 > 4 ? 1 : 0)),
      tall = Math.max(0.75, h - (model.size[r] > 1 && h > 4 ? 1 : 0));
    const failed = model.status[r] !== DONE;
    if (w <= 10 && !failed && !model.copy[r]) {
      // most bars of a large chart: no path, no name, few changes of the canvas
      if (color !== this.inked) {
        c.fillStyle = this.palette[color];
        this.inked = color;
      }
      if (alpha !== this.faded) {
        c.globalAlpha = alpha;
        this.faded = alpha;
      }
      c.fillRect(left, y, w, tall);
      this.bars++;
      return;
    }
    this.inked = this.faded = -1;
    c.globalAlpha = alpha * (failed ? 0.4 : 1);
    c.fillStyle = this.palette[color];
    c.beginPath();
    if (w > 10 && tall > 6) c.roundRect(left, y, w, tall, 2.5);
    else c.rect(left, y, w, tall);
    c.fill();
    if (model.copy[r] && w > 3) {
      c.fillStyle = this.copyHatch;
      c.fill();
    }
    c.globalAlpha = alpha;
    if (model.status[r] === LOST) {
      c.fillStyle = this.lostHatch;
      c.fill();
      this.outline(this.theme.bad, []);
    }
    if (model.status[r] === CANCELLED) this.outline(this.theme.ink, [4, 3]);
    this.bars++;
    if (w > 26 && tall >= 11 && alpha === 1)
      this.paintName(r, left, w, y + tall / 2, failed ? this.theme.ink : this.inks[color], tall);
    c.globalAlpha = 1;
  }

  outline(color, dash) {
    const c = this.context;
    c.strokeStyle = color;
    c.lineWidth = 1.2;
    c.setLineDash(dash);
    c.stroke();
    c.setLineDash([]);
  }

  paintName(r, left, w, y, ink, tall) {
    const c = this.context,
      x = Math.max(left, this.gutter) + 5,
      size = Math.min(12, tall - 1);
    const room = left + w - x - 3,
      letters = Math.floor(room / (size * 0.55)),
      name = this.model.name(r);
    if (letters < 2 || (letters < name.length && letters < 5)) return;
    c.font = `${size}px ${FONT}`;
    c.fillStyle = ink;
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.fillText(shortened(name, letters), x, y + 0.5, room);
  }

  paintGutter(view) {
    const c = this.context,
      { model, laneHeight } = this;
    c.fillStyle = this.theme.paper;
    c.fillRect(0, AXIS, this.gutter, this.room);
    c.textBaseline = "middle";
    const size = Math.max(8, Math.min(12, laneHeight - 1)),
      skip = Math.ceil(9 / laneHeight);
    this.shown.forEach((lane, k) => {
      const y = AXIS - view.y + this.laneTop[lane];
      if (y > this.height || y + laneHeight < AXIS) return;
      if (k % 2 === 0) {
        c.fillStyle = this.theme.panel;
        c.fillRect(0, y, this.gutter, laneHeight);
      }
      if (k % skip) return;
      c.font = `${size}px ${FONT}`;
      c.fillStyle = this.theme.ink;
      c.textAlign = "right";
      c.fillText(
        fitted(c, model.deviceName(model.lanes[lane]), this.gutter - 14),
        this.gutter - 8,
        y + laneHeight / 2,
      );
    });
    for (const [top, node] of this.nodeTop) {
      const y = AXIS - view.y + top;
      c.fillStyle = this.theme.line;
      c.fillRect(0, y + NODE_ROW - 1, this.gutter, 1);
      c.font = `600 11px ${FONT}`;
      c.fillStyle = this.theme.muted;
      c.textAlign = "left";
      c.fillText(
        fitted(c, `${this.collapsed.has(node) ? "▸" : "▾"} ${node}`, this.gutter - 14),
        8,
        y + NODE_ROW / 2 + 1,
      );
    }
    c.fillStyle = this.theme.line;
    c.fillRect(this.gutter - 1, AXIS, 1, this.room);
  }

  // How busy each device is over the whole time, at the right.
  paintBusy(view) {
    if (!this.side) return;
    const c = this.context,
      x = this.right + 8,
      w = this.side - 56,
      { laneHeight, model } = this,
      skip = Math.ceil(10 / laneHeight);
    c.fillStyle = this.theme.paper;
    c.fillRect(this.right, AXIS, this.side, this.room);
    const bar = (y, h, share, label) => {
      c.fillStyle = this.theme.line;
      c.fillRect(x, y, w, h);
      c.fillStyle = this.theme.muted;
      c.fillRect(x, y, w * Math.min(1, share), h);
      if (label) {
        c.textAlign = "right";
        c.fillText(`${Math.round(100 * share)} %`, this.width - 8, y + h / 2 + 0.5);
      }
    };
    c.font = `11px ${FONT}`;
    c.textBaseline = "middle";
    this.shown.forEach((lane, k) => {
      const y = AXIS - view.y + this.laneTop[lane],
        h = Math.max(1, Math.min(11, laneHeight - 2));
      if (y > this.height || y + laneHeight < AXIS) return;
      bar(y + (laneHeight - h) / 2, h, model.busy[lane], k % skip === 0);
    });
    for (const [top, node] of this.nodeTop) {
      if (!this.collapsed.has(node)) continue;
      const mine = model.lanes
        .map((d, lane) => lane)
        .filter((lane) => model.data.devices.nodes[model.lanes[lane]] === node);
      bar(
        AXIS - view.y + top + 6,
        10,
        mine.reduce((sum, lane) => sum + model.busy[lane], 0) / mine.length,
        true,
      );
    }
  }

  // The makespan (solid) and the proven bound (dashed), named above the axis.
  paintLimits(view) {
    const c = this.context,
      { data } = this.model,
      t = this.theme;
    c.font = `11px ${FONT}`;
    c.textBaseline = "middle";
    let taken = Infinity;
    const line = (time, label, color, dash) => {
      const x = Math.round(this.x(time, view)) + 0.5;
      if (x < this.gutter || x > this.right + 1) return;
      c.strokeStyle = color;
      c.lineWidth = 1.5;
      c.setLineDash(dash);
      c.beginPath();
      c.moveTo(x, AXIS - 3);
      c.lineTo(x, this.height);
      c.stroke();
      c.setLineDash([]);
      const text = `${label} ${formatTime(time - this.model.begin)}`,
        width = c.measureText(text).width;
      const left = Math.max(4, Math.min(x - width / 2, this.right - width - 4, taken - width - 12));
      taken = left;
      c.fillStyle = t.ink;
      c.textAlign = "left";
      c.fillText(text, left, 9);
    };
    const limits = [[data.end, data.live ? "now" : "makespan", t.accent, []]];
    if (data.bound) limits.push([this.model.begin + data.bound, "bound", t.ink, [4, 3]]);
    // names go from right to left
    limits.sort((a, b) => b[0] - a[0]).forEach((limit) => line(...limit));
    if (this.side) {
      c.fillStyle = t.muted;
      c.textAlign = "left";
      c.fillText("busy", this.right + 8, AXIS - 12);
    }
  }

  paintAxis(view, { marks, step }) {
    const c = this.context;
    c.fillStyle = this.theme.paper;
    c.fillRect(0, 0, this.width, AXIS);
    c.fillStyle = this.theme.line;
    c.fillRect(0, AXIS - 1, this.width, 1);
    c.font = `11px ${FONT}`;
    c.fillStyle = this.theme.muted;
    c.textBaseline = "middle";
    const largest = Math.max(Math.abs(view.t0), Math.abs(view.t1));
    let taken = this.gutter - 30;
    for (const t of marks) {
      const x = this.x(t, view),
        label = tickLabel(t, step, largest),
        half = c.measureText(label).width / 2;
      if (x < this.gutter - 1 || x - half < taken || x + half > this.right + 14) continue;
      taken = x + half + 10;
      c.textAlign = "center";
      c.fillText(label, x, AXIS - 12);
    }
  }

  paintScrollbar(view) {
    if (this.content <= this.room) return;
    const c = this.context,
      size = Math.max(24, (this.room * this.room) / this.content);
    c.fillStyle = this.theme.muted;
    c.globalAlpha = 0.5;
    c.beginPath();
    c.roundRect(
      this.width - 6,
      AXIS + (view.y / (this.content - this.room)) * (this.room - size),
      4,
      size,
      2,
    );
    c.fill();
    c.globalAlpha = 1;
  }
}

function fitted(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let size = text.length;
  while (size > 1 && c.measureText(text.slice(0, size) + "…").width > width) size--;
  return text.slice(0, size) + "…";
}
