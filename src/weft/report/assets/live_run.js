// A page that follows a run while it goes on. Names of users enter it as text only.
const LOG_LIMIT = 200,
  REDRAW = 900;

class LiveRun {
  constructor(id, opening) {
    this.id = id;
    this.opening = opening;
    this.plan = opening.chart;
    this.rows = [];
    this.news = [];
    this.status = null;
    this.over = false;
    const { devices, templates } = this.plan,
      names = templates[0].names;
    this.deviceOf = new Map(devices.names.map((name, k) => [name, k]));
    this.taskOf = new Map(
      Array.from({ length: templates[0].n }, (_, k) => [names ? names[k] : `t${k}`, k]),
    );
    this.build();
  }

  build() {
    const list = (tag, attributes) => make(tag, attributes);
    Object.assign(this, {
      facts: list("dl", { class: "facts" }),
      devices: list("table"),
      log: list("ul", { class: "log" }),
      sentence: list("p", { class: "sentence" }),
      waiting: new WaitingAreas("Waiting tasks", "task"),
      progress: new TimePlot(""),
    });
    this.log.append(make("li", {}, "Nothing yet."));
    const root = make("section", { class: "gantt", "aria-label": "Gantt chart of the run" });
    this.whatif = new Sliders(this);
    byId("title").textContent = this.opening.name;
    document.title = `${this.opening.name}, live`;
    byId("live").replaceChildren(
      this.sentence,
      this.facts,
      section("Progress against the plan", this.progress.figure),
      section("The run over the plan", root),
      columns(
        make(
          "div",
          {},
          section("Devices", wideBox(this.devices)),
          section("Plans, losses and failures", this.log),
        ),
        make("div", {}, this.waiting.section, this.whatif.section),
      ),
    );
    this.ghost = new Model(this.plan);
    this.ghost.colors = Uint8Array.from(this.ghost.kind, (k) => k % this.plan.palette.light.length);
    this.chart = new Gantt(root, this.data());
    root.chart = this.chart;
    this.show();
  }

  // The chart's data as the static report writes it: rows by lane, start, batch, job and task; no
  // constant columns.
  data(running = []) {
    const lane = [];
    this.plan.devices.lanes.forEach((d, k) => {
      lane[d] = k;
    });
    const rows = [...this.rows, ...running];
    const keys = [
      (r) => lane[r.device],
      (r) => r.start,
      (r) => r.batch,
      (r) => r.job,
      (r) => r.task,
    ];
    rows.sort((a, b) => {
      for (const key of keys) if (key(a) !== key(b)) return key(a) - key(b);
      return 0;
    });
    const column = (key) => rows.map((r) => r[key]),
      columns = {
        task: column("task"),
        device: column("device"),
        start: column("start"),
        finish: column("finish"),
      };
    if (rows.some((r) => r.status)) columns.status = column("status");
    if (rows.some((r) => r.copy)) columns.copy = column("copy");
    if (new Set(column("batch")).size < rows.length) columns.batch = column("batch");
    if (rows.some((r) => r.decided !== undefined) && this.plan.rows.decided)
      columns.decided = column("decided");
    const end = rows.reduce((latest, r) => Math.max(latest, r.finish), this.plan.span[0]);
    return {
      ...this.plan,
      live: !this.over,
      title: "measured",
      rows: columns,
      span: [this.plan.span[0], end],
      end,
      outcome: null,
      pauses: [],
      bound: this.plan.bound,
      why: null,
    };
  }

  take(kind, event) {
    if (kind === "status") {
      this.see(event);
    } else if (kind === "report") {
      this.report = event.chart;
    } else this.happen(kind, event);
    this.due =
      this.due ||
      setTimeout(
        () => {
          this.due = 0;
          this.show();
        },
        kind === "ended" ? 0 : this.rows.length > 5000 ? 5 * REDRAW : REDRAW / 3,
      );
  }

  see(status) {
    this.status = status;
    this.now = status.now;
    if (status.history) this.waiting.load(status.history);
    if (status.waiting) this.waiting.add(status.now, status.waiting);
  }

  happen(kind, event) {
    if (kind === "begun") this.begun = this.begun ?? event.time;
    const at = event.at ?? event.time - this.begun;
    if (kind === "execution") this.rows.push(event);
    // a run of the service: names and seconds
    if (event.seconds !== undefined) this.addRow(kind, event, at);
    if (kind === "ended") {
      this.over = true;
      tellLink("ended", event.error ? `${event.state}: ${event.error}` : event.state);
    }
    const text =
      event.text ||
      (kind === "failed" ? `${event.task} failed on ${event.device}: ${event.error}` : "");
    if (text) this.note(at, text);
  }

  addRow(kind, event, at) {
    const task = this.taskOf.get(event.task),
      device = this.deviceOf.get(event.device);
    if (task === undefined || device === undefined) return;
    this.rows.push({
      job: 0,
      task,
      device,
      start: at - event.seconds,
      finish: at,
      status: kind === "failed" ? LOST : DONE,
      batch: this.rows.length,
      copy: 0,
    });
  }

  note(at, text) {
    if (!this.news.length) this.log.replaceChildren();
    this.news.push(text);
    this.log.prepend(make("li", {}, make("time", {}, formatTime(at)), text));
    if (this.log.children.length > LOG_LIMIT) this.log.lastChild.remove();
  }

  running() {
    if (!this.status || this.over) return [];
    return this.status.devices.flatMap((d, k) => {
      const task = d.since === null ? undefined : this.taskOf.get(d.task);
      return task === undefined
        ? []
        : [
            {
              job: 0,
              task,
              device: this.deviceOf.get(d.name) ?? k,
              start: d.since,
              finish: Math.max(d.since, this.now),
              status: DONE,
              batch: -1 - k,
              copy: 0,
              decided: d.since,
            },
          ];
    });
  }

  show() {
    const final = this.over && this.report;
    feed(this.chart, final ? this.report : this.data(this.running()), this.ghost);
    const done = this.rows.filter((r) => r.status === DONE && !r.copy).length,
      all = this.plan.templates[0].n,
      s = this.status,
      end = this.plan.end;
    const last = this.rows.reduce((t, r) => Math.max(t, r.finish), 0),
      forecast = s && s.forecast;
    this.sentence.textContent = final
      ? (this.report.why?.sentence ?? "")
      : this.explanation(done, all, forecast);
    fillFacts(this.facts, [
      ["tasks done", `${s && s.done > done ? s.done : done} of ${all}`],
      [this.over ? "took" : "so far", formatTime(this.over || !s ? last : this.now)],
      [this.opening.reference, formatTime(end)],
      ["expected end", !this.over && forecast ? formatTime(forecast.median, 3) : ""],
      ["50 % band of the end", !this.over && forecast ? formatRange(forecast.half, 3) : ""],
      ["90 % band of the end", !this.over && forecast ? formatRange(forecast.most, 3) : ""],
    ]);
    if (this.over) this.fillBusy(last);
    else if (s && s.devices) fillDevices(this.devices, s.devices, this.now);
    this.waiting.show((s && s.waiting) || {}, this.over);
    this.drawCurve(
      Math.max(
        end,
        this.over ? last : this.now || 0,
        forecast && !this.over ? forecast.most[1] : 0,
      ),
      forecast,
    );
    document.documentElement.dataset.done = String(this.over);
  }

  // The answer on top while the run goes on: how far it is, when it ends, and how far that is from
  // the plan.
  explanation(done, all, forecast) {
    const count = (n) => n.toLocaleString("en-US"),
      reference = this.opening.reference.replace("reference: ", "reference plan of ");
    if (this.over)
      return `${count(done)} of ${count(all)} tasks took ${formatTime(
        this.rows.reduce((t, r) => Math.max(t, r.finish), 0),
        3,
      )}; the ${reference} takes ${formatTime(this.plan.end, 3)}.`;
    if (!this.now) return "";
    const counted = count(Math.max(done, this.status.done || 0));
    const so = `${counted} of ${count(all)} tasks are done after ${formatTime(this.now, 3)}`;
    if (!forecast) return `${so}; the ${reference} ends at ${formatTime(this.plan.end, 3)}.`;
    const late = forecast.median - this.plan.end,
      against =
        Math.abs(late) < 0.005 * this.plan.end
          ? "as in"
          : `${formatTime(Math.abs(late), 3)} ${late > 0 ? "later" : "earlier"} than in`;
    return (
      `${so}. The end is expected at ${formatTime(forecast.median, 3)}, ${against} the ` +
      `${reference}; with 90 % probability between ${formatRange(forecast.most, 3, "and")}.`
    );
  }

  // After the end: what each device did.
  fillBusy(end) {
    const { names } = this.plan.devices,
      tasks = new Array(names.length).fill(0),
      busy = new Float64Array(names.length),
      seen = new Set();
    for (const r of this.rows) {
      if (r.status === DONE) tasks[r.device]++;
      if (!seen.has(r.batch)) busy[r.device] += r.finish - r.start;
      seen.add(r.batch);
    }
    fillTable(
      this.devices,
      ["device", "tasks", "busy"],
      names.map((name, d) => [name, tasks[d], figure(end ? percent(busy[d] / end) : "")]),
    );
  }

  // Share of tasks done over time, in steps: the plan dashed, the run solid, the bands of 50 and 90
  // % for the end.
  drawCurve(until, forecast) {
    const x = (t) => (1000 * t) / (until || 1),
      all = this.plan.templates[0].n,
      here = this.over ? null : forecast;
    const line = (ends) =>
      `M0,98${[...ends]
        .sort((a, b) => a - b)
        .map((t, k) => `H${x(t).toFixed(1)}V${(98 - (96 * (k + 1)) / all).toFixed(1)}`)
        .join("")}`;
    const done =
      line(this.rows.filter((r) => r.status === DONE && !r.copy).map((r) => r.finish)) +
      (this.over || !this.now ? "" : `H${x(this.now).toFixed(1)}`);
    const parts = [
      svg("path", { class: "plan", d: line(this.plan.rows.finish) }),
      svg("path", { class: "done", d: done }),
    ];
    for (const [name, pair] of here
      ? [
          ["half", here.half],
          ["most", here.most],
        ]
      : [])
      parts.unshift(
        svg("rect", {
          class: `band ${name}`,
          x: x(pair[0]),
          width: x(pair[1] - pair[0]),
          y: 0,
          height: 100,
        }),
      );
    if (this.now && !this.over)
      parts.push(svg("line", { class: "now", x1: x(this.now), x2: x(this.now), y1: 0, y2: 100 }));
    const key = (name, text) => [
      svg(
        "svg",
        { class: `curve key ${name}`, viewBox: "0 0 24 10", "aria-hidden": "true" },
        name === "band"
          ? svg("rect", { class: "band most", width: 24, height: 10 })
          : svg("line", { class: name, x1: 0, x2: 24, y1: 5, y2: 5 }),
      ),
      text,
    ];
    this.progress.top.replaceChildren(
      "share of tasks done: ",
      ...key("done", "run"),
      ...key("plan", this.opening.reference),
      ...(here ? key("band", "band of 90 % for the end") : []),
    );
    this.progress.show(
      parts,
      0,
      until || 1,
      `${this.rows.length} executions so far; the plan ends at ${formatTime(this.plan.end)}`,
    );
  }
}

// Give a chart other data; what the reader looks at stays in view.
function feed(chart, data, ghost) {
  const all = chart.whole(),
    zoomed = chart.view.t1 - chart.view.t0 < 0.999 * (all.t1 - all.t0),
    view = { ...chart.view };
  const chosen = chart.look.chosen,
    kept = chosen < 0 ? null : [chart.model.job[chosen], chart.model.task[chosen]];
  chart.model = new Model(data);
  chart.painter.model = chart.model;
  chart.look.colors = chart.model.colors = new Uint8Array(chart.model.n);
  Object.assign(chart.look, { chosen: -1, hovered: -1, parents: [], children: [], binding: null });
  Object.assign(chart, { kin: null, matches: null, load: chart.model.load(480) });
  chart.parts.chain.hidden = chart.model.chain.length === 0;
  const only = chart.only;
  chart.recolour();
  chart.only = only;
  chart.root.dataset.rows = chart.model.n;
  chart.compareWith({ model: ghost });
  chart.view = zoomed ? view : { ...chart.whole(), y: view.y };
  chart.showChain(chart.model.chain.length > 0);
  const rows = kept ? chart.model.executions(...kept) : [];
  if (rows.length) chart.choose(rows[0]);
  chart.resize();
}
