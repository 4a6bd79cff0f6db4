// The parts of live pages: tables, facts, and lines and areas over time. Names of users enter them
// as text only.
const byId = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(100 * share)} %`;

function tellLink(state, text) {
  const link = byId("link");
  link.dataset.state = state;
  link.textContent = text;
}

function section(title, ...children) {
  return make("section", {}, make("h2", {}, title), ...children);
}

// A text that stands under numbers: right-aligned like them.
const figure = (text) => ({ figure: String(text) });
const numeric = (value) =>
  typeof value === "number" ||
  (value !== null && typeof value === "object" && value.figure !== undefined);

function fillTable(table, head, rows) {
  const cell = (tag, value, kind) => {
    const shown = value instanceof Node ? value : String(value?.figure ?? value ?? "");
    return make(tag, kind ? { class: kind } : {}, shown);
  };
  const isBar = (value) => value instanceof Node && value.className === "share";
  const kinds = head.map((_, k) =>
    rows.some((row) => numeric(row[k])) ? "number" : rows.some((row) => isBar(row[k])) ? "bar" : "",
  );
  table.replaceChildren(
    make("thead", {}, make("tr", {}, ...head.map((value, k) => cell("th", value, kinds[k])))),
    make(
      "tbody",
      {},
      ...rows.map((row) => make("tr", {}, ...row.map((value, k) => cell("td", value, kinds[k])))),
    ),
  );
  // its edges may show more now
  if (table.parentElement) table.parentElement.dispatchEvent(new Event("scroll"));
}

function wideBox(table) {
  const box = make("div", { class: "wide", tabindex: "0" }, table);
  startEdges(box);
  return box;
}

function columns(...sections) {
  return make("div", { class: "columns" }, ...sections);
}

function shareBar(share) {
  const bar = make("i", { class: "share", "aria-hidden": "true" });
  bar.style.width = share > 0 ? `max(1px, ${Math.round(100 * Math.min(1, share))}%)` : "0";
  return bar;
}

function fillFacts(list, facts) {
  list.replaceChildren(
    ...facts
      .filter(([, value]) => value)
      .map(([label, value]) => make("div", {}, make("dt", {}, label), make("dd", {}, value))),
  );
}

// A service does not count how busy its devices were: no column then.
function fillDevices(table, devices, now) {
  const counted = devices.some((d) => d.busy !== null);
  fillTable(
    table,
    ["device", "now", "for", "queue", ...(counted ? ["busy"] : [])],
    devices.map((d) => {
      const elapsed = d.since === null ? "" : formatTime(Math.max(0, now - d.since));
      const of =
        d.expected === null || d.since === null ? "" : ` of ${formatTime(d.expected - d.since)}`;
      return [
        d.name,
        d.down ? "down" : d.task || "idle",
        figure(elapsed + of),
        d.queued,
        ...(counted ? [figure(percent(d.busy))] : []),
      ];
    }),
  );
}

// -- over time ------------------------------------------------------------------

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A picture over time: stretched to the room there is, so its labels stand around it as text.
class TimePlot {
  constructor(most) {
    this.svg = svg("svg", {
      class: "curve",
      viewBox: "0 0 1000 100",
      preserveAspectRatio: "none",
      role: "img",
    });
    this.top = make("p", { class: "scale" }, most);
    this.axis = make("p", { class: "axis", "aria-hidden": "true" });
    this.figure = make("div", { class: "over-time" }, this.top, this.svg, this.axis);
  }

  show(parts, from, until, label) {
    this.svg.replaceChildren(...parts);
    this.svg.setAttribute("aria-label", label);
    const { step, marks } = ticks(from, until, 5),
      largest = Math.max(Math.abs(from), Math.abs(until));
    const shown = marks.filter((t) => (t - from) / (until - from) < 0.93);
    this.axis.replaceChildren(
      ...shown.map((t) => {
        const mark = make("span", {}, tickLabel(t, step, largest));
        mark.style.left = `${(100 * (t - from)) / (until - from)}%`;
        return mark;
      }),
    );
  }
}

const REASONS = [
  "for inputs",
  "for a device",
  "in queues",
  "for data on its way",
  "for the next attempt",
];
const SAMPLE_LIMIT = 480;

// How many wait for what, over time: stacked areas, with the numbers of now in a table that is
// their legend.
class WaitingAreas {
  constructor(title, what, known = REASONS) {
    Object.assign(this, {
      what,
      known: [...known],
      rows: [],
      plot: new TimePlot(""),
      table: make("table"),
    });
    this.section = section(title, this.plot.figure, this.table);
  }

  color(reason) {
    if (!this.known.includes(reason)) this.known.push(reason);
    return `var(--c${this.known.indexOf(reason) % 24})`;
  }

  load({ time, counts }) {
    this.rows = time.map((at, k) => [
      at,
      Object.fromEntries(Object.entries(counts).map(([reason, each]) => [reason, each[k]])),
    ]);
  }

  add(now, waiting) {
    const last = this.rows.at(-1);
    if (last && now <= last[0]) return;
    this.rows.push([now, waiting]);
    if (this.rows.length > SAMPLE_LIMIT) this.rows = this.rows.filter((_, k) => k % 2 === 0);
  }

  show(waiting, over) {
    const all = Object.values(waiting).reduce((a, b) => a + b, 0),
      swatchOf = (reason) => {
        const box = swatch(null, "");
        box.style.background = this.color(reason);
        return box;
      };
    const label = (reason) => make("span", { class: "key-text" }, swatchOf(reason), reason),
      met = this.known.filter((reason) => this.rows.some(([, counts]) => counts[reason]));
    const shown = [
      ...new Set([...met, ...Object.keys(waiting).filter((reason) => waiting[reason])]),
    ];
    if (!shown.length)
      this.table.replaceChildren(
        make("caption", {}, `No ${this.what} ${over ? "waited" : "waits"}.`),
      );
    else if (over)
      fillTable(
        this.table,
        ["for", "most at once", "waited in all"],
        met.map((reason) => [label(reason), ...this.past(reason)]),
      );
    else
      fillTable(
        this.table,
        ["for", "now", "share"],
        shown.map((reason) => [
          label(reason),
          waiting[reason] || 0,
          shareBar(all ? (waiting[reason] || 0) / all : 0),
        ]),
      );
    this.draw();
  }

  // How many waited at most for a reason, and how long in all.
  past(reason) {
    const counts = this.rows.map(([, each]) => each[reason] || 0);
    const all = counts.reduce(
      (sum, count, k) =>
        sum + (k + 1 < counts.length ? count * (this.rows[k + 1][0] - this.rows[k][0]) : 0),
      0,
    );
    return [Math.max(0, ...counts), figure(formatTime(all, 3))];
  }

  // Each sample holds until the next one: steps, not slopes.
  draw() {
    const { rows } = this,
      most = rows.reduce(
        (high, [, counts]) =>
          Math.max(
            high,
            Object.values(counts).reduce((a, b) => a + b, 0),
          ),
        0,
      );
    this.plot.figure.hidden = rows.length < 2 || !most;
    if (this.plot.figure.hidden) return;
    const from = rows[0][0],
      until = rows.at(-1)[0],
      x = (t) => ((1000 * (t - from)) / (until - from || 1)).toFixed(1),
      y = (n) => (100 - (96 * n) / most).toFixed(1);
    const below = new Float64Array(rows.length),
      parts = [];
    for (const reason of this.known) {
      const counts = rows.map(([, each]) => each[reason] || 0);
      if (!counts.some((count) => count)) continue;
      const low = Array.from(below);
      counts.forEach((count, k) => {
        below[k] += count;
      });
      const steps = (values) =>
        values.map((value, k) =>
          k ? `H${x(rows[k][0])}V${y(value)}` : `${x(rows[0][0])},${y(value)}`,
        );
      const back = low
        .map((value, k) => `V${y(value)}H${x(rows[k][0])}`)
        .reverse()
        .join("");
      const area = svg("path", {
        class: "area",
        d: `M${steps(Array.from(below)).join("")}${back}Z`,
      });
      area.style.fill = this.color(reason);
      parts.push(area);
    }
    const what = `${this.what}${most === 1 ? "" : "s"}`;
    this.plot.top.textContent = `at most ${most.toLocaleString("en-US")} ${what} at once`;
    this.plot.show(
      parts,
      from,
      until,
      `Waiting ${this.what}s by reason over time, at most ${most}`,
    );
  }
}
