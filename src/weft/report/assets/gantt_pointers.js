// One finger or the mouse pans, two fingers zoom, a short press chooses.
class Pointers {
  constructor(canvas, gantt) {
    Object.assign(this, { canvas, gantt, down: new Map(), moved: 0 });
    canvas.addEventListener("pointerdown", (e) => this.press(e));
    canvas.addEventListener("pointermove", (e) => this.drag(e));
    canvas.addEventListener("pointerup", (e) => this.release(e));
    canvas.addEventListener("pointercancel", (e) => this.down.delete(e.pointerId));
  }

  press(e) {
    if (e.isTrusted) this.canvas.setPointerCapture(e.pointerId);
    this.canvas.focus({ preventScroll: true });
    this.down.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
    if (this.down.size === 1) this.moved = 0;
  }

  drag(e) {
    const old = this.down.get(e.pointerId),
      now = { x: e.offsetX, y: e.offsetY },
      { gantt } = this;
    if (!old) {
      gantt.hover(gantt.hit(now.x, now.y), now.x, now.y + gantt.parts.overview.offsetHeight, now.y);
      return;
    }
    this.down.set(e.pointerId, now);
    this.moved += Math.abs(now.x - old.x) + Math.abs(now.y - old.y);
    if (this.moved <= 4) return;
    gantt.hover(-1);
    this.canvas.classList.add("dragged");
    const other = [...this.down].find(([id]) => id !== e.pointerId);
    if (!other) {
      gantt.pan(now.x - old.x, now.y - old.y);
      return;
    }
    const before = Math.max(12, Math.abs(old.x - other[1].x)),
      after = Math.max(12, Math.abs(now.x - other[1].x));
    gantt.zoom(before / after, (now.x + other[1].x) / 2);
  }

  release(e) {
    if (!this.down.delete(e.pointerId)) return;
    this.canvas.classList.remove("dragged");
    if (this.moved > 4) return;
    const node = this.gantt.nodeAt(e.offsetX, e.offsetY);
    if (node !== null) {
      this.gantt.toggleNode(node);
      return;
    }
    const row = this.gantt.hit(e.offsetX, e.offsetY);
    this.gantt.choose(row === this.gantt.look.chosen ? -1 : row);
  }
}
