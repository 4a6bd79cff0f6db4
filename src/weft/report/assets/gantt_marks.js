// What is laid over the bars: the chosen task, its parents and children with their transfers, and what the pointer is on.
function paintMarks(painter, view, look) {
  const { context: c, theme: t } = painter;
  if (look.chosen >= 0) {
    for (const d of look.parents) paintTransfer(painter, view, d, t.accent);
    for (const d of look.children) paintTransfer(painter, view, d, t.ink);
    for (const d of look.parents) frame(painter, view, d.from, t.accent, 1.5);
    for (const d of look.children) frame(painter, view, d.to, t.ink, 1.5);
    frame(painter, view, look.chosen, t.bad, 2.5);
  }
  if (look.hovered >= 0 && look.hovered !== look.chosen) frame(painter, view, look.hovered, t.ink, 1.5);
  c.globalAlpha = 1;
}

function frame(painter, view, row, color, width) {
  const c = painter.context, { x0, x1, y, h } = painter.box(row, view);
  const left = Math.max(x0, painter.gutter - 9), right = Math.min(Math.max(x1, x0 + 2), painter.width + 9);
  c.strokeStyle = color;
  c.lineWidth = width;
  c.beginPath();
  c.roundRect(left - 0.5, y - 0.5, Math.max(2, right - left), h + 1, 3);
  c.stroke();
}

// From the end of the parent to the moment the data is there; dotted from there to the child's start: it waits for its turn.
function paintTransfer(painter, view, { from, to, arrival, taken }, color) {
  const c = painter.context, a = painter.box(from, view), b = painter.box(to, view);
  const x0 = a.x1, y0 = a.y + a.h / 2, y1 = b.y + b.h / 2, x1 = Math.min(painter.x(arrival, view), b.x0);
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
function paintOverview(canvas, painter, load, view) {
  const { theme: t, model } = painter, ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight, left = painter.gutter, plot = painter.plot;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.fillStyle = t.accent;
  c.globalAlpha = 0.45;
  c.beginPath();
  c.moveTo(left, height);
  load.forEach((share, k) => {
    c.lineTo(left + (k / load.length) * plot, height - share * (height - 3));
    c.lineTo(left + ((k + 1) / load.length) * plot, height - share * (height - 3));
  });
  c.lineTo(left + plot, height);
  c.fill();
  c.globalAlpha = 1;
  c.fillStyle = t.line;
  c.fillRect(left, height - 1, plot, 1);
  c.font = `11px ${FONT}`;
  c.fillStyle = t.muted;
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillText("busy", left - 8, height / 2);
  const span = model.end - model.begin || 1;
  const x0 = left + ((view.t0 - model.begin) / span) * plot, x1 = left + ((view.t1 - model.begin) / span) * plot;
  if (x1 - x0 < plot - 1) {
    c.fillStyle = t.ink;
    c.globalAlpha = 0.1;
    c.fillRect(x0, 0, Math.max(3, x1 - x0), height);
    c.globalAlpha = 1;
    c.strokeStyle = t.accent;
    c.lineWidth = 1.5;
    c.strokeRect(Math.max(left, x0) + 0.5, 0.75, Math.max(3, Math.min(left + plot, x1) - Math.max(left, x0)) - 1, height - 1.5);
  }
}
