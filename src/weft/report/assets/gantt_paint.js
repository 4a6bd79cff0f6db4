// Painting: axis, lanes, bars. Bars below a pixel are gathered, so a frame costs no more than the pixels it shows.
const AXIS = 26, NODE_ROW = 20;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";

function theme() {
  const style = getComputedStyle(document.documentElement), read = (name) => style.getPropertyValue("--" + name).trim();
  return Object.fromEntries(["paper", "panel", "ink", "muted", "line", "accent", "bad"].map((name) => [name, read(name)]));
}

function inkOn(color) {
  const part = (k) => { const c = parseInt(color.slice(k, k + 2), 16) / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const light = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

function hatch(context, color, cross) {
  const tile = document.createElement("canvas"), size = 8;
  tile.width = tile.height = size;
  const c = tile.getContext("2d");
  c.strokeStyle = color;
  c.lineWidth = 1.6;
  c.beginPath();
  for (const shift of [-size, 0, size]) {
    c.moveTo(shift, size); c.lineTo(shift + size, 0);
    if (cross) { c.moveTo(shift, 0); c.lineTo(shift + size, size); }
  }
  c.stroke();
  return context.createPattern(tile, "repeat");
}

class Painter {
  constructor(model, canvas) {
    this.model = model;
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.retheme();
  }

  retheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    this.theme = theme();
    this.palette = this.model.data.palette[dark ? "dark" : "light"];
    this.inks = this.palette.map(inkOn);
    this.packed = this.palette.map((p) => parseInt(p.slice(5, 7) + p.slice(3, 5) + p.slice(1, 3), 16));
    this.copyHatch = hatch(this.context, "rgba(255,255,255,0.4)", false);
    this.lostHatch = hatch(this.context, this.theme.bad, true);
    this.downHatch = hatch(this.context, this.theme.bad, false);
    this.slowHatch = hatch(this.context, this.theme.muted, false);
  }

  // Sizes in CSS pixels; lanes get what room there is, within reason.
  layout(width, height, laneHeight) {
    const ratio = devicePixelRatio || 1, { lanes, data, grouped } = this.model;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.font = `12px ${FONT}`;
    const names = [...data.devices.names, ...(grouped ? data.devices.nodes : [])];
    const longest = names.reduce((a, b) => (a.length >= b.length ? a : b), "");
    this.gutter = Math.round(Math.min(width * 0.28, 160, Math.max(44, this.context.measureText(longest).width + 22)));
    Object.assign(this, { width, height, laneHeight });
    this.crumbs = Object.assign(document.createElement("canvas"), { width: Math.max(1, this.plot), height: lanes.length });
    this.image = new ImageData(this.crumbs.width, lanes.length);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.crumbed = new Uint8Array(lanes.length);
    this.laneTop = [];
    this.nodeTop = [];
    let y = 0, node = null;
    for (const device of lanes) {
      if (grouped && data.devices.nodes[device] !== node) {
        node = data.devices.nodes[device];
        this.nodeTop.push([y, node]);
        y += NODE_ROW;
      }
      this.laneTop.push(y);
      y += laneHeight;
    }
    this.content = y;
  }

  get pad() { return this.laneHeight >= 12 ? 2 : this.laneHeight >= 5 ? 1 : 0; }
  get room() { return this.height - AXIS; }
  get plot() { return this.width - this.gutter; }

  x(time, view) { return this.gutter + ((time - view.t0) / (view.t1 - view.t0)) * this.plot; }
  time(x, view) { return view.t0 + ((x - this.gutter) / this.plot) * (view.t1 - view.t0); }

  box(row, view) {
    const lane = this.model.laneOf[this.model.device[row]], part = (this.laneHeight - 2 * this.pad) / this.model.size[row];
    const x0 = this.x(this.model.start[row], view), x1 = this.x(this.model.finish[row], view);
    return { x0, x1, y: AXIS - view.y + this.laneTop[lane] + this.pad + part * this.model.slot[row], h: part };
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
    for (let lane = 0; lane < this.laneTop.length; lane++) {
      const y = AXIS - view.y + this.laneTop[lane];
      if (y > this.height || y + this.laneHeight < AXIS) continue;
      this.paintPauses(lane, y, view);
      this.paintLane(lane, view, look);
    }
    this.paintCrumbs(view);
    paintMarks(this, view, look);
    c.restore();
    this.paintGutter(view);
    c.restore();
    this.paintAxis(view, marks);
    this.paintScrollbar(view);
    return this.bars;
  }

  paintLanes(view) {
    const c = this.context;
    this.laneTop.forEach((top, lane) => {
      const y = AXIS - view.y + top;
      if (y > this.height || y + this.laneHeight < 0) return;
      if (lane % 2 === 0) { c.fillStyle = this.theme.panel; c.fillRect(0, y, this.width, this.laneHeight); }
    });
    c.fillStyle = this.theme.line;
    for (const [top] of this.nodeTop) c.fillRect(0, AXIS - view.y + top + NODE_ROW - 1, this.width, 1);
  }

  paintGrid(view) {
    const c = this.context, found = ticks(view.t0, view.t1, this.plot / 110);
    c.fillStyle = this.theme.line;
    c.globalAlpha = 0.6;
    for (const t of found.marks) c.fillRect(Math.round(this.x(t, view)), AXIS, 1, this.room);
    c.globalAlpha = 1;
    const end = this.x(this.model.data.end, view);
    c.fillStyle = this.theme.accent;
    if (end <= this.width) c.fillRect(Math.round(end), AXIS, 1.5, this.room);
    return found;
  }

  paintPauses(lane, y, view) {
    const c = this.context;
    for (const { from, to, pace } of this.model.failures[lane]) {
      const x0 = this.x(from, view), x1 = this.x(to, view);
      if (x1 < this.gutter || x0 > this.width) continue;
      c.fillStyle = pace === null ? this.downHatch : this.slowHatch;
      c.globalAlpha = 0.4;
      c.fillRect(x0, y, Math.max(1, x1 - x0), this.laneHeight);
      c.globalAlpha = 1;
    }
  }

  // Runs over every visible row of the lane, a hundred thousand perhaps: no call and no object for bars below a pixel.
  paintLane(lane, view, look) {
    const { model, gutter } = this, { start, finish, size, status } = model, end = model.lanePtr[lane + 1];
    const scale = this.plot / (view.t1 - view.t0), { colors } = look, dims = look.dims();
    const top = AXIS - view.y + this.laneTop[lane] + this.pad, h = this.laneHeight - 2 * this.pad;
    let pixel = -1, cover = 0, widest = -1, color = 0, dim = false;
    for (let r = model.firstVisible(lane, view.t0); r < end && start[r] <= view.t1; r++) {
      const x0 = gutter + (start[r] - view.t0) * scale, width = (finish[r] - start[r]) * scale;
      if (x0 + width < gutter) continue;
      const faint = dims && look.dimmed(r);
      if (width < 1.25 && size[r] === 1 && status[r] === DONE) {
        const here = Math.floor(x0);
        if (here !== pixel || faint !== dim) {
          if (pixel >= 0) this.sweep(lane, pixel, cover, color, dim);
          pixel = here; cover = 0; widest = -1; dim = faint;
        }
        cover += width;
        if (width > widest) { widest = width; color = colors[r]; }
      } else {
        const part = h / size[r];
        this.paintBar(r, x0, x0 + width, top + part * model.slot[r], part, colors[r], faint);
      }
    }
    if (pixel >= 0) this.sweep(lane, pixel, cover, color, dim);
  }

  // One pixel for all the bars that fall into it; the fuller, the stronger. Kept in an image with one row a lane.
  sweep(lane, pixel, cover, color, dim) {
    const at = pixel - this.gutter;
    if (at < 0 || at >= this.crumbs.width) return;
    const alpha = Math.round(255 * (0.3 + 0.7 * Math.min(1, cover)) * (dim ? 0.2 : 1));
    this.pixels[lane * this.crumbs.width + at] = ((alpha << 24) | this.packed[color]) >>> 0;
    this.crumbed[lane] = 1;
    this.bars++;
  }

  // A frame has up to a pixel a lane and column: stretched rows of an image are painted much faster than as many rectangles.
  paintCrumbs(view) {
    const c = this.context, { width } = this.crumbs, h = this.laneHeight - 2 * this.pad;
    if (!this.crumbed.includes(1)) return;
    this.crumbs.getContext("2d").putImageData(this.image, 0, 0);
    c.imageSmoothingEnabled = false;
    this.crumbed.forEach((some, lane) => {
      if (some) c.drawImage(this.crumbs, 0, lane, width, 1, this.gutter, AXIS - view.y + this.laneTop[lane] + this.pad, width, h);
    });
    this.pixels.fill(0);
    this.crumbed.fill(0);
  }

  paintBar(r, x0, x1, y, h, color, dim) {
    const c = this.context, { model } = this, left = Math.max(x0, this.gutter - 4), right = Math.min(x1, this.width + 4);
    const w = Math.max(1, right - left - (x1 - x0 > 4 ? 1 : 0)), tall = Math.max(0.75, h - (model.size[r] > 1 && h > 4 ? 1 : 0));
    const failed = model.status[r] !== DONE;
    c.globalAlpha = dim ? 0.18 : failed ? 0.4 : 1;
    c.fillStyle = this.palette[color];
    c.beginPath();
    if (w > 6 && tall > 6) c.roundRect(left, y, w, tall, 2.5); else c.rect(left, y, w, tall);
    c.fill();
    if (model.copy[r] && w > 3) { c.fillStyle = this.copyHatch; c.fill(); }
    c.globalAlpha = dim ? 0.18 : 1;
    if (model.status[r] === LOST) { c.fillStyle = this.lostHatch; c.fill(); this.outline(this.theme.bad, []); }
    if (model.status[r] === CANCELLED) this.outline(this.theme.ink, [4, 3]);
    this.bars++;
    if (w > 26 && tall >= 11 && !dim) this.paintName(r, left, w, y + tall / 2, failed ? this.theme.ink : this.inks[color]);
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

  paintName(r, left, w, y, ink) {
    const c = this.context, x = Math.max(left, this.gutter) + 5, size = Math.min(12, this.laneHeight - 3);
    const room = left + w - x - 3, letters = Math.floor(room / (size * 0.55)), name = this.model.name(r);
    if (letters < 2 || (letters < name.length && letters < 5)) return;
    c.font = `${size}px ${FONT}`;
    c.fillStyle = ink;
    c.textAlign = "left";
    c.textBaseline = "middle";
    c.fillText(shortened(name, letters), x, y + 0.5, room);
  }

  paintGutter(view) {
    const c = this.context, { model, laneHeight } = this;
    c.fillStyle = this.theme.paper;
    c.fillRect(0, AXIS, this.gutter, this.room);
    c.textBaseline = "middle";
    const size = Math.max(8, Math.min(12, laneHeight - 1)), skip = Math.ceil(9 / laneHeight);
    this.laneTop.forEach((top, lane) => {
      const y = AXIS - view.y + top;
      if (y > this.height || y + laneHeight < AXIS) return;
      if (lane % 2 === 0) { c.fillStyle = this.theme.panel; c.fillRect(0, y, this.gutter, laneHeight); }
      if (lane % skip) return;
      c.font = `${size}px ${FONT}`;
      c.fillStyle = this.theme.ink;
      c.textAlign = "right";
      c.fillText(fitted(c, model.deviceName(model.lanes[lane]), this.gutter - 14), this.gutter - 8, y + laneHeight / 2);
    });
    for (const [top, node] of this.nodeTop) {
      const y = AXIS - view.y + top;
      c.fillStyle = this.theme.line;
      c.fillRect(0, y + NODE_ROW - 1, this.gutter, 1);
      c.font = `600 11px ${FONT}`;
      c.fillStyle = this.theme.muted;
      c.textAlign = "left";
      c.fillText(fitted(c, node, this.gutter - 14), 8, y + NODE_ROW / 2 + 1);
    }
    c.fillStyle = this.theme.line;
    c.fillRect(this.gutter - 1, AXIS, 1, this.room);
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
      const x = this.x(t, view), label = tickLabel(t, step, largest), half = c.measureText(label).width / 2;
      if (x < this.gutter - 1 || x - half < taken || x + half > this.width) continue;
      taken = x + half + 10;
      c.textAlign = "center";
      c.fillText(label, x, AXIS / 2);
    }
  }

  paintScrollbar(view) {
    if (this.content <= this.room) return;
    const c = this.context, size = Math.max(24, (this.room * this.room) / this.content);
    c.fillStyle = this.theme.muted;
    c.globalAlpha = 0.5;
    c.beginPath();
    c.roundRect(this.width - 6, AXIS + (view.y / (this.content - this.room)) * (this.room - size), 4, size, 2);
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
