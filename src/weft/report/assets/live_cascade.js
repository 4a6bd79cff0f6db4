// A page that follows a cascade: requests by stage, batches on units, completion times, the policy
// and what it proposes.
const CASCADE_LINES = [
  ["mean", "c0"],
  ["p95", "c1"],
  ["p99", "c2"],
];

class LiveCascade {
  constructor(first) {
    Object.assign(this, {
      rows: [],
      before: null,
      facts: make("dl", { class: "facts" }),
      stages: make("table"),
      units: make("table"),
      log: make("ul", { class: "log" }),
      policy: make("div"),
    });
    this.waiting = new WaitingAreas("Waiting requests", "request", Object.keys(first.stages));
    this.times = new TimePlot("");
    byId("title").textContent = first.cascade;
    document.title = `${first.cascade}, live`;
    byId("live").replaceChildren(
      this.facts,
      section("Completion times", this.times.figure),
      section("Stages", wideBox(this.stages)),
      columns(
        section("Units", wideBox(this.units)),
        this.waiting.section,
        section("Policy", this.policy),
        section("Events", this.log),
      ),
    );
  }

  take(kind, s) {
    if (kind !== "status") return;
    if (s.history) this.waiting.load(s.history);
    const waiting = Object.fromEntries(
      Object.entries(s.stages).map(([task, stage]) => [task, stage.waiting + stage.queued]),
    );
    this.waiting.add(s.now, waiting);
    this.waiting.show(waiting, false);
    this.showFacts(s);
    this.showStages(s.stages);
    this.showUnits(s);
    this.showPolicy(s);
    this.drawTimes(s);
    this.before = s;
    document.documentElement.dataset.seen = String(s.counts.accepted || 0);
  }

  showFacts(s) {
    const { mean, p95, p99, in_time: kept } = s.times,
      rate =
        this.before && s.now > this.before.now
          ? ((s.counts.accepted || 0) - (this.before.counts.accepted || 0)) /
            (s.now - this.before.now)
          : null;
    const time = (x) => (x === null ? "" : formatTime(x, 3));
    fillFacts(this.facts, [
      [
        "answered",
        `${(s.counts.answered || 0).toLocaleString("en-US")} of ` +
          (s.counts.accepted || 0).toLocaleString("en-US"),
      ],
      ...["failed", "cancelled", "refused"].map((kind) => [
        kind,
        s.counts[kind] ? s.counts[kind].toLocaleString("en-US") : "",
      ]),
      ["per second", rate === null ? "" : trimmed(rate, 3)],
      ["mean", time(mean)],
      ["p95", time(p95)],
      ["p99", time(p99)],
      ["in time", kept === null ? "" : percent(kept)],
    ]);
  }

  showStages(stages) {
    fillTable(
      this.stages,
      [
        "stage",
        "waiting",
        "on units",
        "running",
        "requests",
        "batches",
        "mean batch",
        "time per batch",
      ],
      Object.entries(stages).map(([task, s]) => [
        task,
        s.waiting,
        s.queued,
        s.running,
        s.requests,
        s.batches,
        figure(s.batches ? (s.requests / s.batches).toFixed(1) : ""),
        figure(s.batches ? formatTime(s.seconds / s.batches, 3) : ""),
      ]),
    );
  }

  showUnits(s) {
    fillTable(
      this.units,
      ["unit", "now", "batch", "for", "queue"],
      s.units.map((u) => [
        u.name,
        !u.up ? "starting" : u.task || "idle",
        figure(u.batch || ""),
        figure(u.since === null ? "" : formatTime(Math.max(0, s.now - u.since), 3)),
        u.queued,
      ]),
    );
  }

  showPolicy(s) {
    const parts = [make("p", {}, make("strong", {}, s.policy), " decides.")];
    if (s.replaced)
      parts.push(
        make("p", { class: "bad" }, `It replaced the policy that was wanted: ${s.replaced}`),
      );
    parts.push(
      make(
        "p",
        {},
        s.proposal
          ? `Proposal: ${s.proposal}; tune again with weft cascade tune.`
          : s.times.mean === null
            ? "Nothing is measured yet."
            : "What is measured fits what it was made for.",
      ),
    );
    this.policy.replaceChildren(...parts);
    this.log.replaceChildren(
      ...(s.events.length
        ? [...s.events]
            .reverse()
            .map((e) =>
              make("li", {}, make("time", {}, formatTime(e.time, 3)), `${e.kind}: ${e.text}`),
            )
        : [make("li", {}, "Nothing yet.")]),
    );
  }

  // Mean, p95 and p99 of the last ended requests, since the page was opened.
  drawTimes(s) {
    if (s.times.mean !== null) this.rows.push([s.now, s.times]);
    if (this.rows.length > SAMPLE_LIMIT) this.rows = this.rows.filter((_, k) => k % 2 === 0);
    const { rows } = this,
      most = rows.reduce((high, [, t]) => Math.max(high, t.p99), 0);
    this.times.figure.hidden = rows.length < 2;
    if (rows.length < 2) return;
    const from = rows[0][0],
      until = rows.at(-1)[0],
      x = (t) => ((1000 * (t - from)) / (until - from)).toFixed(1),
      y = (v) => (98 - (94 * v) / most).toFixed(1);
    const parts = CASCADE_LINES.map(([key, color]) => {
      const line = svg("polyline", {
        class: "line",
        points: rows.map(([t, each]) => `${x(t)},${y(each[key])}`).join(" "),
      });
      line.style.stroke = `var(--${color})`;
      return line;
    });
    const key = ([name, color]) => {
      const box = swatch(null, "");
      box.style.background = `var(--${color})`;
      return make("span", { class: "key-text" }, box, name);
    };
    this.times.top.replaceChildren(`up to ${formatTime(most, 3)}: `, ...CASCADE_LINES.map(key));
    this.times.show(
      parts,
      from,
      until,
      `Completion times: mean ${formatTime(s.times.mean, 3)}, ` +
        `p95 ${formatTime(s.times.p95, 3)}, p99 ${formatTime(s.times.p99, 3)}`,
    );
  }
}
