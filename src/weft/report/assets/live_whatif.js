// What-if questions of a live page: sliders for devices, bandwidth and durations.
const KIND_LIMIT = 6;

class Sliders {
  constructor(run) {
    this.run = run;
    this.said = make(
      "p",
      { class: "said", "aria-live": "polite" },
      "Move a slider: the server plans again.",
    );
    const box = make("div", { class: "sliders" }),
      { devices, kinds } = run.plan;
    this.all = [];
    const add = (label, least, most, shown, change) => {
      const id = `slider-${this.all.length}`,
        input = make("input", { type: "range", id, min: least, max: most, step: 1, value: 0 }),
        out = make("output", { for: id }, shown(0));
      input.addEventListener("input", () => {
        out.textContent = shown(+input.value);
        this.wish();
      });
      this.all.push(() => (+input.value ? change(+input.value) : null));
      box.append(make("label", { for: id }, shortened(label, 24)), input, out);
    };
    const counts = new Map();
    devices.kinds.forEach((kind) => counts.set(kind, (counts.get(kind) || 0) + 1));
    const factor = (v) => (2 ** (v / 4)).toPrecision(3),
      times = (v) => `× ${factor(v)}`;
    for (const [kind, count] of [...counts].slice(0, KIND_LIMIT)) {
      add(
        kind === "device" ? "devices" : `${kind} devices`,
        counts.size > 1 ? -count : 1 - count,
        8,
        (v) => String(count + v),
        (v) => (v > 0 ? `add ${v}x${kind}` : `remove ${-v}x${kind}`),
      );
    }
    add("bandwidth", -8, 8, times, (v) => `bandwidth x${factor(v)}`);
    for (const kind of kinds.slice(0, KIND_LIMIT))
      add(`${kind} faster`, -8, 8, times, (v) => `faster ${kind}=${factor(v)}`);
    this.section = section("What if", box, this.said);
  }

  wish() {
    if (this.asking) this.again = true;
    else this.ask();
  }

  // One question at a time; the newest wish is answered last.
  async ask() {
    const changes = this.all.map((change) => change()).filter((text) => text);
    if (!changes.length) {
      this.said.textContent = "As planned.";
      return;
    }
    this.asking = true;
    const begun = performance.now();
    try {
      const found = await ask("/v1/whatif", { run: this.run.id, changes });
      this.said.textContent = found.sentence;
      this.said.dataset.ms = String(Math.round(performance.now() - begun));
    } catch (error) {
      this.said.textContent = error.message;
    }
    this.asking = false;
    if (this.again) {
      this.again = false;
      this.ask();
    }
  }
}
