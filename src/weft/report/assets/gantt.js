// The chart: what is in view, what is chosen, and how the reader moves about.
class Gantt {
  constructor(root, data) {
    this.root = root;
    this.model = new Model(data);
    this.solo = document.body.classList.contains("solo");
    this.parts = buildPanel(root, this);
    this.painter = new Painter(this.model, this.parts.canvas);
    this.look = {
      chosen: -1,
      hovered: -1,
      parents: [],
      children: [],
      binding: null,
      chain: false,
      fade: FADE,
      dims: false,
      dimmed: new Uint8Array(this.model.n),
      colors: new Uint8Array(this.model.n),
    };
    this.model.colors = this.look.colors;
    this.only = null;
    this.matches = null;
    this.kin = null;
    this.stretched = 1;
    this.load = this.model.load(480);
    this.view = { ...this.whole(), y: 0 };
    this.recolour();
    this.showChain(this.model.chain.length > 0);
    this.listen();
    root.dataset.rows = this.model.n;
    // In the next frame: the observer may not change the size of what it observes.
    new ResizeObserver(() => requestAnimationFrame(() => this.resize())).observe(this.parts.frame);
    addEventListener("resize", () => this.resize());
    this.resize();
  }

  // -- the view ---------------------------------------------------------------

  whole() {
    const { begin } = this.model,
      end = Math.max(this.model.end, this.until || 0),
      span = end - begin || 1;
    return { t0: begin, t1: begin + span * 1.01 };
  }

  resize() {
    const width = this.parts.frame.clientWidth;
    if (!width) return;
    const { data } = this.model,
      { headed, collapsed } = this.painter,
      nodes = headed ? new Set(data.devices.nodes).size : 0;
    const lanes = this.model.lanes.filter((d) => !headed || !collapsed.has(data.devices.nodes[d]));
    const around = this.solo ? this.root.offsetTop + 220 : 0;
    const room =
      Math.max(280, this.solo ? innerHeight - around : Math.min(560, innerHeight * 0.75)) - AXIS;
    const fair = Math.min(
      this.model.batch || this.painter.beside ? 64 : 40,
      Math.max(9, (room - nodes * NODE_ROW) / Math.max(1, lanes.length)),
    );
    const lane = Math.min(
      80,
      Math.max(2, Math.max(fair, this.painter.beside ? 24 : 0) * this.stretched),
    );
    const height = Math.round(Math.min(room, lanes.length * lane + nodes * NODE_ROW) + AXIS);
    this.parts.canvas.style.height = height + "px";
    this.painter.layout(width, height, lane);
    const fits = this.painter.content <= this.painter.room;
    this.parts.canvas.style.touchAction = fits ? "pan-y" : "none";
    this.clamp();
    if (this.pending !== undefined) this.reveal(this.pending);
    this.pending = undefined;
    this.draw(); // at once: a canvas of a new size is blank until then
  }

  clamp() {
    const v = this.view,
      all = this.whole(),
      most = all.t1 - all.t0,
      least = most * 1e-7;
    const span = Math.min(most, Math.max(least, v.t1 - v.t0));
    const t0 = Math.min(Math.max(v.t0, all.t0), all.t1 - span);
    this.view = {
      t0,
      t1: t0 + span,
      y: Math.min(Math.max(0, v.y), Math.max(0, this.painter.content - this.painter.room)),
    };
  }

  zoom(factor, x) {
    const { painter, view } = this,
      at = painter.time(
        x === undefined ? painter.gutter + painter.plot / 2 : Math.max(x, painter.gutter),
        view,
      );
    this.move({ t0: at - (at - view.t0) * factor, t1: at + (view.t1 - at) * factor, y: view.y });
  }

  pan(dx, dy) {
    const { view, painter } = this,
      shift = (dx / painter.plot) * (view.t1 - view.t0);
    this.move({ t0: view.t0 - shift, t1: view.t1 - shift, y: view.y - dy });
  }

  move(view) {
    this.view = view;
    this.clamp();
    this.redraw();
  }
  reset() {
    this.stretched = 1;
    this.painter.collapsed.clear();
    this.view = { ...this.whole(), y: 0 };
    this.only = null;
    fillLegend(this);
    this.choose(-1);
    this.resize();
  }
  stretch(factor) {
    this.stretched = Math.min(12, Math.max(0.1, this.stretched * factor));
    this.resize();
  }

  // Bring a row and what it waited for into sight; zoom in when it would be too small to see.
  reveal(r) {
    const { model, painter } = this,
      length = Math.max(model.finish[r] - model.start[r], (model.end - model.begin) * 1e-6);
    const source = model.bindingParent(r),
      since = source < 0 ? model.start[r] : Math.min(model.finish[source], model.start[r]);
    const from = Math.min(since, model.start[r]),
      to = model.finish[r],
      now = this.view.t1 - this.view.t0;
    const span = Math.min(now, Math.max(length * 60, (to - from) * 1.3)),
      middle = (from + to) / 2;
    const y = painter.laneTop[model.laneOf[model.device[r]]] - painter.room / 2,
      deep = painter.content > painter.room && y === y ? y : 0;
    const seen = span === now && from >= this.view.t0 && to <= this.view.t1;
    this.move(
      seen
        ? { ...this.view, y: deep }
        : {
            t0: middle - Math.max(span, (to - from) * 1.1) / 2,
            t1: middle + Math.max(span, (to - from) * 1.1) / 2,
            y: deep,
          },
    );
  }

  redraw() {
    if (this.due) return;
    this.due = requestAnimationFrame(() => {
      this.due = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.painter.width) return;
    this.root.dataset.bars = this.painter.paint(this.view, this.look);
    paintOverview(this.parts.overview, this.painter, this.load, this.view, this.whole());
    this.root.dataset.ready = "true";
  }

  // -- colours ----------------------------------------------------------------

  colouring() {
    const { model } = this,
      deviceKinds = [...new Set(model.data.devices.kinds)];
    const number = new Map(deviceKinds.map((kind, k) => [kind, k]));
    const ways = {
      kind: [(r) => model.kind[r], (k) => model.kinds[k]],
      job: [(r) => model.job[r], (k) => `job ${k}`],
      "device kind": [
        (r) => number.get(model.data.devices.kinds[model.device[r]]),
        (k) => deviceKinds[k],
      ],
    };
    const [value, names] = ways[this.parts.mode.value],
      size = this.painter.palette.length,
      seen = new Set();
    for (let r = 0; r < model.n; r++) seen.add(value(r));
    return { value, names, of: (k) => k % size, used: [...seen].sort((a, b) => a - b) };
  }

  recolour() {
    const { value, of } = this.colouring();
    this.group = value;
    for (let r = 0; r < this.model.n; r++) this.look.colors[r] = of(value(r));
    this.only = null;
    this.fades();
    fillLegend(this);
  }

  // Which rows are pale, written down once: a frame looks at every row.
  dim() {
    const { look, model, kin, only, matches } = this,
      { n } = model,
      dimmed = look.dimmed.length === n ? look.dimmed : new Uint8Array(n);
    look.dimmed = dimmed;
    look.dims = kin !== null || only !== null || matches !== null || look.chain;
    if (!look.dims) return;
    if (kin) {
      dimmed.fill(1);
      for (const r of kin) dimmed[r] = 0;
      return;
    }
    if (only === null && matches === null) {
      for (let r = 0; r < n; r++) dimmed[r] = 1 - model.onChain[r];
      return;
    }
    for (let r = 0; r < n; r++)
      dimmed[r] =
        (only !== null && this.group(r) !== only) || (matches !== null && !matches[r]) ? 1 : 0;
  }

  // -- lanes, the chain and a second plan ----------------------------------------

  showChain(on) {
    this.look.chain = on && this.model.chain.length > 0;
    this.parts.chain.setAttribute("aria-pressed", String(this.look.chain));
    this.fades();
    this.redraw();
  }
  fades() {
    this.look.fade =
      this.kin === null && this.only === null && this.matches === null ? CHAIN_FADE : FADE;
    this.dim();
  }

  sortLanes(byBusy) {
    this.painter.byBusy = byBusy;
    this.view.y = 0;
    this.resize();
  }
  toggleNode(node) {
    const { collapsed } = this.painter;
    if (!collapsed.delete(node)) collapsed.add(node);
    this.resize();
  }

  // A second plan of the same problem, below each lane, on the same time axis.
  compareWith(other) {
    this.painter.beside = other ? other.model : null;
    this.until = other ? other.model.data.end : 0;
    showDifference(this, other);
    this.resize();
  }

  // What another chart of the same problem shows: the same time, the same task.
  follow(other) {
    const all = other.whole(),
      zoomed = other.view.t1 - other.view.t0 < 0.999 * (all.t1 - all.t0);
    this.stretched = other.stretched;
    this.painter.byBusy = other.painter.byBusy;
    this.parts.order.value = other.parts.order.value;
    this.showChain(other.look.chain);
    if (zoomed) this.view = { ...other.view };
    const chosen = other.look.chosen,
      rows =
        chosen < 0 ? [] : this.model.executions(other.model.job[chosen], other.model.task[chosen]);
    this.choose(rows.length ? rows[0] : -1);
    this.resize();
  }

  // -- choosing and finding -----------------------------------------------------

  choose(r) {
    const { look, model, root } = this;
    look.chosen = r;
    look.parents = r < 0 ? [] : model.parents(r);
    look.children = r < 0 ? [] : model.children(r);
    this.kin =
      r < 0
        ? null
        : new Set([r, ...look.parents.map((d) => d.from), ...look.children.map((d) => d.to)]);
    look.binding = r < 0 ? null : this.bindingTransfer(r);
    this.fades();
    showDetails(this);
    document.dispatchEvent(new CustomEvent("weft-chosen", { detail: this }));
    root.dataset.chosen = r < 0 ? "" : model.name(r);
    root.dataset.parents = look.parents.length;
    root.dataset.children = look.children.length;
    this.redraw();
  }

  // The transfer a row waited for, if data of another device was its binding cause.
  bindingTransfer(r) {
    const { model, look } = this,
      source = model.bindingParent(r);
    const found = model.cause(r) === "input" && look.parents.find((d) => d.from === source);
    return found && found.seconds > 0
      ? {
          start: found.sent,
          finish: Math.min(found.arrival, model.start[r]),
          row: r,
          bytes: found.bytes,
          source,
        }
      : null;
  }

  walk(r) {
    if (r >= 0) {
      this.choose(r);
      this.reveal(r);
    }
  }

  find(text) {
    const { model, parts } = this,
      wanted = text.trim().toLowerCase();
    this.matches = null;
    this.found = [];
    if (wanted) {
      this.matches = new Uint8Array(model.n);
      for (let r = 0; r < model.n; r++)
        if (model.name(r).toLowerCase().includes(wanted)) {
          this.matches[r] = 1;
          this.found.push(r);
        }
    }
    this.at = -1;
    parts.found.textContent = wanted ? `${this.found.length} found` : "";
    this.fades();
    this.redraw();
  }

  step(by) {
    if (!this.found || !this.found.length) return;
    this.at = (this.at + by + this.found.length) % this.found.length;
    this.parts.found.textContent = `${this.at + 1} of ${this.found.length}`;
    this.choose(this.found[this.at]);
    this.reveal(this.found[this.at]);
  }

  // A link to the page may name a task: #task=name.
  go(name) {
    this.find(name);
    const exact = this.found.find((r) => this.model.name(r) === name);
    if (exact !== undefined) this.find("");
    this.pending = exact === undefined ? this.found[0] : exact;
    if (this.pending !== undefined) this.choose(this.pending);
    this.resize();
  }

  neighbour(by) {
    const { model, look } = this;
    const r = look.chosen < 0 ? 0 : Math.min(model.n - 1, Math.max(0, look.chosen + by));
    if (model.n) {
      this.choose(r);
      this.reveal(r);
    }
  }

  laneAt(x, y) {
    const { painter, view } = this,
      depth = y - AXIS + view.y;
    if (x < painter.gutter || x > painter.right || y < AXIS) return -1;
    return painter.laneTop.findIndex((top) => depth >= top && depth < top + painter.laneHeight);
  }

  nodeAt(x, y) {
    const { painter, view } = this,
      depth = y - AXIS + view.y;
    const found =
      y >= AXIS && painter.nodeTop.find(([top]) => depth >= top && depth < top + NODE_ROW);
    return found ? found[1] : null;
  }

  // The row under a point: the innermost bar, or a small one no more than three pixels away.
  hit(x, y) {
    const { model, painter, view } = this;
    const lane = this.laneAt(x, y);
    if (lane < 0) return -1;
    const slack = (3 / painter.plot) * (view.t1 - view.t0),
      time = painter.time(x, view);
    let best = -1,
      nearest = slack;
    for (
      let r = model.firstVisible(lane, time - slack);
      r < model.lanePtr[lane + 1] && model.start[r] <= time + slack;
      r++
    ) {
      const { y: top, h } = painter.box(r, view),
        off = Math.max(model.start[r] - time, time - model.finish[r], 0);
      const inside = model.size[r] === 1 || (y >= top && y < top + h);
      if (inside && (best < 0 ? off <= nearest : off < nearest)) {
        best = r;
        nearest = off;
      }
    }
    return best;
  }

  // -- input --------------------------------------------------------------------

  listen() {
    const { canvas, overview, search, mode, order } = this.parts;
    order.addEventListener("change", () => this.sortLanes(order.value === "busy"));
    canvas.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    canvas.addEventListener("keydown", (e) => this.key(e));
    canvas.addEventListener("dblclick", (e) => this.zoom(0.5, e.offsetX));
    canvas.addEventListener("pointerleave", () => this.hover(-1));
    new Pointers(canvas, this);
    search.addEventListener("input", () => this.find(search.value));
    search.addEventListener("keydown", (e) => {
      if (e.key === "Enter") {
        e.preventDefault();
        this.step(e.shiftKey ? -1 : 1);
      }
    });
    mode.addEventListener("change", () => {
      this.recolour();
      this.redraw();
    });
    const centre = (e) => {
      const all = this.whole(),
        half = (this.view.t1 - this.view.t0) / 2;
      const at =
        all.t0 + ((e.offsetX - this.painter.gutter) / this.painter.plot) * (all.t1 - all.t0);
      this.move({ ...this.view, t0: at - half, t1: at + half });
    };
    overview.addEventListener("pointerdown", (e) => {
      overview.setPointerCapture(e.pointerId);
      centre(e);
    });
    overview.addEventListener("pointermove", (e) => {
      if (e.buttons) centre(e);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.painter.retheme();
      this.recolour();
      this.redraw();
    });
  }

  // In a longer page the wheel keeps scrolling it until the chart is clicked, so that no reader is
  // caught.
  wheel(e) {
    if (!this.solo && !e.ctrlKey && !e.metaKey && document.activeElement !== this.parts.canvas)
      return;
    e.preventDefault();
    const lines = e.deltaMode === 1 ? 16 : 1;
    if (e.offsetX < this.painter.gutter) this.pan(0, -e.deltaY * lines);
    else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))
      this.pan(-(e.deltaX || e.deltaY) * lines, 0);
    else this.zoom(Math.exp(Math.max(-120, Math.min(120, e.deltaY * lines)) * 0.0025), e.offsetX);
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const step = this.painter.plot * 0.15,
      actions = {
        ArrowLeft: () => this.pan(step, 0),
        ArrowRight: () => this.pan(-step, 0),
        ArrowUp: () => this.pan(0, 60),
        ArrowDown: () => this.pan(0, -60),
        "+": () => this.zoom(0.7),
        "=": () => this.zoom(0.7),
        "-": () => this.zoom(1 / 0.7),
        0: () => this.reset(),
        Home: () => this.reset(),
        "[": () => this.stretch(1 / 1.25),
        "]": () => this.stretch(1.25),
        n: () => this.neighbour(1),
        b: () => this.neighbour(-1),
        p: () =>
          this.walk(
            this.look.chosen < 0
              ? (this.model.chain[this.model.chain.length - 1] ?? -1)
              : this.model.bindingParent(this.look.chosen),
          ),
        c: () =>
          this.walk(
            this.look.chosen < 0
              ? (this.model.chain[0] ?? -1)
              : this.model.bindingChild(this.look.chosen),
          ),
        k: () => {
          this.choose(-1);
          this.showChain(!this.look.chain);
        },
        Escape: () => {
          this.choose(-1);
          this.parts.search.value = "";
          this.find("");
        },
        "/": () => this.parts.search.focus(),
      };
    const action = actions[e.key] || actions[e.key.toLowerCase()];
    if (action) {
      e.preventDefault();
      action();
    }
  }

  hover(r, x, y, below) {
    const lane = r < 0 && x !== undefined ? this.laneAt(x, below) : -1;
    showTip(
      this,
      r,
      x,
      y,
      lane < 0 ? null : this.model.gapAt(lane, this.painter.time(x, this.view)),
    );
    this.parts.canvas.classList.toggle("on-bar", r >= 0);
    if (r !== this.look.hovered) {
      this.look.hovered = r;
      this.redraw();
    }
  }
}
