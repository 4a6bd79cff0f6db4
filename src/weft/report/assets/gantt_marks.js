// What is laid over the bars: the chosen task, its parents and children with their transfers, and
// what the pointer is on.
function paintMarks(painter, view, look) {
  const { context: c, theme: t } = painter;
  if (look.chosen >= 0) {
    for (const d of look.parents) paintTransfer(painter, view, d, t.accent);
    for (const d of look.children) paintTransfer(painter, view, d, t.ink);
    for (const d of look.parents) frame(painter, view, d.from, t.accent, 1.5);
    for (const d of look.children) frame(painter, view, d.to, t.ink, 1.5);
    frame(painter, view, look.chosen, t.bad, 2.5);
    if (look.binding) paintMove(painter, view, look.binding);
  }
  if (look.hovered >= 0 && look.hovered !== look.chosen)
    frame(painter, view, look.hovered, t.ink, 1.5);
  c.globalAlpha = 1;
}

// The critical chain: its tasks framed, its transfers hatched in the lane that waits for them.
function paintChain(painter, view) {
  const { model, theme: t } = painter;
  // The frames of many small bars would hide their colours.
  const scale = painter.plot / (view.t1 - view.t0),
    least = model.chain.length > 100 ? 3 : 0;
  for (const r of model.chain)
    if ((model.finish[r] - model.start[r]) * scale >= least) frame(painter, view, r, t.ink, 1.2);
  for (const s of model.segments) if (s.part === "moving data") paintMove(painter, view, s);
}

function paintMove(painter, view, { start, finish, row, bytes, source }) {
  const c = painter.context,
    { y, h } = painter.box(row, view),
    x0 = painter.x(start, view),
    x1 = painter.x(finish, view);
  if (Number.isNaN(y) || x1 < painter.gutter || x0 > painter.right) return;
  const tall = Math.max(3, Math.min(9, h * 0.45)),
    top = y + (h - tall) / 2,
    left = Math.max(painter.gutter - 2, x0),
    wide = Math.max(1, Math.min(x1, painter.right + 2) - left);
  c.fillStyle = painter.theme.paper;
  c.fillRect(left, top, wide, tall);
  c.fillStyle = painter.moveHatch;
  c.strokeStyle = painter.theme.bad;
  c.lineWidth = 1.2;
  c.fillRect(left, top, wide, tall);
  c.strokeRect(left, top, wide, tall);
  if (source >= 0) {
    const from = painter.box(source, view);
    if (!Number.isNaN(from.y)) {
      c.beginPath();
      c.moveTo(x0, from.y + from.h / 2);
      c.lineTo(x0, top + tall / 2);
      c.stroke();
    }
  }
  const text = `${formatBytes(bytes, 3)}, ${formatTime(finish - start, 3)}`;
  c.font = `600 12px ${FONT}`;
  const middle = (left + Math.min(x1, painter.right)) / 2;
  if (bytes > 0 && wide > c.measureText(text).width + 8) {
    c.textAlign = "center";
    c.textBaseline = "bottom";
    c.lineWidth = 3;
    c.strokeStyle = painter.theme.paper;
    c.strokeText(text, middle, top - 1);
    c.fillStyle = painter.theme.bad;
    c.fillText(text, middle, top - 1);
  }
}

function frame(painter, view, row, color, width) {
  const c = painter.context,
    { x0, x1, y, h } = painter.box(row, view);
  if (Number.isNaN(y)) return;
  const left = Math.max(x0, painter.gutter - 9),
    right = Math.min(Math.max(x1, x0 + 2), painter.right + 9);
  c.strokeStyle = color;
  c.lineWidth = width;
  c.beginPath();
  c.roundRect(left - 0.5, y - 0.5, Math.max(2, right - left), h + 1, 3);
  c.stroke();
}

// From the end of the parent to the moment the data is there; dotted from there to the child's
// start: it waits for its turn.
function paintTransfer(painter, view, { from, to, arrival, taken }, color) {
  const c = painter.context,
    a = painter.box(from, view),
    b = painter.box(to, view);
  if (Number.isNaN(a.y) || Number.isNaN(b.y)) return;
  const x0 = a.x1,
    y0 = a.y + a.h / 2,
    y1 = b.y + b.h / 2,
    x1 = Math.min(painter.x(arrival, view), b.x0);
  const bend = Math.max(14, Math.min(80, Math.abs(x1 - x0) / 2 + 10));
  c.strokeStyle = c.fillStyle = color;
  c.globalAlpha = taken ? 0.85 : 0.4;
  c.lineWidth = 1.4;
  c.setLineDash(taken ? [] : [5, 4]);
  c.beginPath();
  c.moveTo(x0, y0);
  c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
  c.stroke();
  if (b.x0 - x1 > 3) {
    c.setLineDash([1.5, 3]);
    c.beginPath();
    c.moveTo(x1, y1);
    c.lineTo(b.x0, y1);
    c.stroke();
  }
  c.setLineDash([]);
  c.beginPath();
  c.arc(x1, y1, 2.6, 0, 7);
  c.fill();
  c.globalAlpha = 1;
}

// The strip above the chart: how many devices are busy, and which part of the time is in view.
function paintOverview(canvas, painter, load, view, whole) {
  const { theme: t, model } = painter,
    ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth,
    height = canvas.clientHeight,
    left = painter.gutter,
    plot = painter.plot;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.fillStyle = t.accent;
  c.globalAlpha = 0.45;
  c.beginPath();
  c.moveTo(left, height);
  const span = whole.t1 - whole.t0 || 1,
    long = (plot * (model.end - model.begin)) / span;
  load.forEach((share, k) => {
    c.lineTo(left + (k / load.length) * long, height - share * (height - 3));
    c.lineTo(left + ((k + 1) / load.length) * long, height - share * (height - 3));
  });
  c.lineTo(left + long, height);
  c.fill();
  c.globalAlpha = 1;
  c.fillStyle = t.line;
  c.fillRect(left, height - 1, plot, 1);
  c.font = `11px ${FONT}`;
  c.fillStyle = t.muted;
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillText("busy", left - 8, height / 2);
  const x0 = left + ((view.t0 - model.begin) / span) * plot,
    x1 = left + ((view.t1 - model.begin) / span) * plot;
  if (x1 - x0 < plot - 1) {
    c.fillStyle = t.ink;
    c.globalAlpha = 0.1;
    c.fillRect(x0, 0, Math.max(3, x1 - x0), height);
    c.globalAlpha = 1;
    c.strokeStyle = t.accent;
    c.lineWidth = 1.5;
    c.strokeRect(
      Math.max(left, x0) + 0.5,
      0.75,
      Math.max(3, Math.min(left + plot, x1) - Math.max(left, x0)) - 1,
      height - 1.5,
    );
  }
}
