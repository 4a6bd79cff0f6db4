// The parts around the canvas. Names of users enter the page as text only, never as markup.
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

function factList(facts) {
  return make(
    "dl",
    { class: "pairs" },
    ...facts.flatMap(([label, value]) => [make("dt", {}, label), make("dd", {}, value)]),
  );
}

const TOUCH = matchMedia("(hover: none)").matches;

function helpText(gantt) {
  const wheel = gantt.solo ? "Wheel: zoom. " : "Click the chart, then wheel: zoom. ";
  if (TOUCH) return "Pinch: zoom. Drag: pan. Tap a task: why it is there. Tap a node: fold it.";
  return (
    wheel +
    "Drag: pan. Arrows, + and −: move and zoom. 0: everything. Click a task: why it is there. " +
    "P and C: what it waited for, what waited for it. K: the critical chain. " +
    "N and B: next and previous task. [ and ]: lower and taller lanes. Click a node: fold it. " +
    "Escape: clear."
  );
}

function buildPanel(root, gantt) {
  const { model } = gantt,
    parts = {},
    HELP = helpText(gantt);
  gantt.help = HELP;
  parts.search = make("input", {
    type: "search",
    placeholder: "Find a task",
    "aria-label": "Find a task by name",
    autocomplete: "off",
    spellcheck: "false",
  });
  parts.found = make("output", { class: "found", "aria-live": "polite" });
  const modes = model.template.length > 1 ? ["kind", "job"] : ["kind"];
  modes.push("device kind");
  parts.mode = make(
    "select",
    { "aria-label": "Colour by" },
    ...modes.map((m) => make("option", { value: m }, "Colour: " + m)),
  );
  parts.order = make(
    "select",
    { "aria-label": "Order of lanes" },
    make("option", { value: "node" }, "Lanes: by node"),
    make("option", { value: "busy" }, "Lanes: by busy"),
  );
  parts.chain = make(
    "button",
    {
      type: "button",
      class: "toggle",
      "aria-pressed": "false",
      onclick: () => {
        gantt.choose(-1);
        gantt.showChain(!gantt.look.chain);
      },
    },
    "Critical chain",
  );
  parts.chain.hidden = model.chain.length === 0;
  const button = (label, sign, action) =>
    make("button", { type: "button", "aria-label": label, title: label, onclick: action }, sign);
  const tools = make(
    "div",
    { class: "tools", role: "toolbar", "aria-label": "Chart" },
    make("span", { class: "finder" }, parts.search, parts.found),
    parts.chain,
    parts.mode,
    parts.order,
    make(
      "span",
      { class: "buttons" },
      button("Zoom in", "+", () => gantt.zoom(0.5)),
      button("Zoom out", "−", () => gantt.zoom(2)),
      button("Lanes taller", "Lanes taller", () => gantt.stretch(1.4)),
      button("Lanes lower", "Lanes lower", () => gantt.stretch(1 / 1.4)),
      button("Reset", "Reset", () => gantt.reset()),
    ),
  );
  parts.legend = make("div", { class: "legend", role: "group", "aria-label": "Legend" });
  parts.overview = make("canvas", { class: "overview", "aria-hidden": "true" });
  parts.canvas = make("canvas", {
    class: "bars",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "Gantt chart",
  });
  parts.canvas.setAttribute(
    "aria-label",
    `${model.title}: ${model.n} bars on ${model.lanes.length} devices, ` +
      `until ${formatTime(model.data.end)}. ${HELP}`,
  );
  parts.tip = make("div", { class: "tip", hidden: "" });
  parts.frame = make("div", { class: "frame" }, parts.overview, parts.canvas, parts.tip);
  parts.details = make("div", { class: "details" }, make("p", { class: "hint" }, HELP));
  parts.live = make("p", { class: "unseen", "aria-live": "polite" });
  parts.tools = tools;
  parts.difference = make("p", { class: "difference", "aria-live": "polite" });
  root.append(tools, parts.difference, parts.legend, parts.frame, parts.details, parts.live);
  return parts;
}

function swatch(color, extra) {
  const box = make("i", { class: "swatch " + (extra || "") });
  if (color) box.style.background = color;
  return box;
}

const LEGEND_LIMIT = 24;

function fillLegend(gantt) {
  const { parts, painter, model } = gantt,
    { names, of, used } = gantt.colouring();
  parts.legend.replaceChildren();
  const shown = used.slice(0, LEGEND_LIMIT);
  for (const k of shown) {
    const pressed = gantt.only === k;
    const entry = make(
      "button",
      { type: "button", "aria-pressed": String(pressed), title: "Show only these" },
      swatch(painter.palette[of(k)]),
      names(k),
    );
    entry.addEventListener("click", () => {
      gantt.only = pressed ? null : k;
      fillLegend(gantt);
      gantt.fades();
      gantt.redraw();
    });
    parts.legend.append(entry);
  }
  if (used.length > shown.length)
    parts.legend.append(make("span", {}, `and ${used.length - shown.length} more`));
  const some = (column, value) => column.some((x) => x === value);
  const keys = [
    [some(model.copy, 1), "copy", "copy"],
    [some(model.status, LOST), "lost", "lost"],
    [some(model.status, CANCELLED), "cancelled", "cancelled"],
    [model.data.pauses.some((p) => p[3] === null), "down", "device down"],
    [model.data.pauses.some((p) => p[3] !== null), "slow", "device slower"],
  ];
  keys.push([
    model.segments.some((x) => x.part === "moving data"),
    "move",
    "data moves on the critical chain",
  ]);
  for (const [present, style, label] of keys)
    if (present) parts.legend.append(make("span", {}, swatch(null, style), label));
}

// Why a device runs nothing: what the next task waits for.
function gapFacts(model, { from, to, row }) {
  const facts = [
    ["from", formatTime(from)],
    ["to", formatTime(to)],
  ];
  if (row >= 0) facts.push(["next", model.name(row)]);
  if (row >= 0 && model.why) facts.push(["which waits for", model.waited(row)]);
  return [
    make("strong", {}, `idle for ${formatTime(to - from)}${row < 0 ? ": no more work" : ""}`),
    factList(facts),
  ];
}

function showTip(gantt, row, x, y, gap) {
  const { tip, frame } = gantt.parts,
    { model } = gantt;
  tip.hidden = row < 0 && !gap;
  if (tip.hidden) return;
  if (row < 0) tip.replaceChildren(...gapFacts(model, gap));
  else if (gantt.tipRow !== row)
    tip.replaceChildren(make("strong", {}, model.name(row)), factList(model.facts(row)));
  gantt.tipRow = row;
  const room = frame.getBoundingClientRect(),
    width = tip.offsetWidth,
    height = tip.offsetHeight;
  const left = x + 16 + width > room.width ? Math.max(0, x - width - 12) : x + 16;
  const top = Math.min(y + 14, innerHeight - room.top - height - 8);
  const down = Math.round(Math.max(-room.top, top));
  tip.style.transform = `translate(${Math.round(left)}px, ${down}px)`;
}

const LIST_LIMIT = 30;

function relatives(gantt, title, deliveries, end) {
  const { model } = gantt;
  const list = make(
    "ul",
    {},
    ...deliveries.slice(0, LIST_LIMIT).map((d) => {
      const row = d[end],
        moved =
          d.seconds === null
            ? formatBytes(d.bytes)
            : d.seconds > 0
              ? `${formatBytes(d.bytes)} in ${formatTime(d.seconds)}`
              : "same device";
      const go = make(
        "button",
        {
          type: "button",
          onclick: () => {
            gantt.choose(row);
            gantt.reveal(row);
          },
        },
        model.name(row),
      );
      if (end === "from" && d.from === model.bindingParent(d.to) && model.cause(d.to) === "input")
        go.classList.add("binding");
      return make(
        "li",
        {},
        go,
        ` ${model.deviceName(model.device[row])}, ${d.from === d.to ? "" : moved}` +
          (d.taken ? "" : ", not taken"),
      );
    }),
  );
  const more = deliveries.length - LIST_LIMIT;
  if (more > 0) list.append(make("li", {}, `and ${more} more`));
  return make(
    "section",
    { class: "kin " + end },
    make("h3", {}, `${title} (${deliveries.length})`),
    list,
  );
}

// The sentence, the phases before the start, and the finish on each other device.
function whyPart(gantt, row) {
  const { model, look } = gantt,
    known = model.explanation(row),
    parts = [];
  if (known) parts.push(make("p", { class: "sentence" }, known.sentence));
  const phases = model.phases(row, look.parents),
    begin = model.begin,
    end = model.finish[row];
  if (end > begin) {
    parts.push(
      make(
        "div",
        { class: "phases", "aria-hidden": "true" },
        ...phases.map(([label, a, b]) => {
          const piece = make("i", { title: `${label}: ${formatTime(b - a)}`, "data-phase": label });
          piece.style.width = `${(100 * (b - a)) / (end - begin)}%`;
          return piece;
        }),
      ),
      factList(phases.map(([label, a, b]) => [label, formatTime(b - a)])),
    );
  }
  if (known && known.slack !== null)
    parts.push(
      make(
        "p",
        {},
        known.slack > 0
          ? `It could end ${formatTime(known.slack)} later without delaying the end.`
          : "Any delay of it delays the end.",
      ),
    );
  return make("section", { class: "why" }, make("h3", {}, model.name(row)), ...parts);
}

function othersPart(model, row) {
  const known = model.explanation(row);
  if (!known || !known.others) return null;
  const own = model.device[row],
    finish = model.finish[row];
  const rows = known.others
    .map((f, d) => [d, d === own ? finish : f])
    .sort((a, b) => (a[1] ?? Infinity) - (b[1] ?? Infinity))
    .slice(0, LIST_LIMIT);
  const line = ([d, f]) =>
    make(
      "tr",
      d === own ? { class: "own" } : {},
      make("td", {}, model.deviceName(d)),
      make("td", { class: "number" }, f === null ? "cannot run it" : formatTime(f)),
      make(
        "td",
        { class: "number" },
        f === null || d === own
          ? ""
          : `${f < finish ? "−" : "+"}${formatTime(Math.abs(f - finish))}`,
      ),
    );
  return make(
    "section",
    { class: "others" },
    make("h3", {}, "It would end at"),
    make("div", { class: "tall" }, make("table", {}, make("tbody", {}, ...rows.map(line)))),
  );
}

function showDetails(gantt) {
  const { parts, model, look } = gantt;
  if (look.chosen < 0) {
    parts.details.replaceChildren(make("p", { class: "hint" }, gantt.help));
    return;
  }
  const about = make("section", {}, make("h3", {}, "Facts"), factList(model.facts(look.chosen)));
  const others = othersPart(model, look.chosen);
  parts.details.replaceChildren(
    whyPart(gantt, look.chosen),
    about,
    ...(others ? [others] : []),
    relatives(gantt, "Parents", look.parents, "from"),
    relatives(gantt, "Children", look.children, "to"),
  );
  const facts = model
    .facts(look.chosen)
    .map((pair) => pair.join(" "))
    .join(", ");
  const kin = `${look.parents.length} parents, ${look.children.length} children`;
  parts.live.textContent = `${model.name(look.chosen)}: ${facts}; ${kin}`;
}

// What sets two plans of one problem apart: where tasks run, and the sentence Python wrote.
function showDifference(gantt, other) {
  const { model, parts } = gantt;
  parts.difference.replaceChildren();
  if (!other) return;
  let moved = 0;
  const all = new Set();
  for (let r = 0; r < model.n; r++) {
    const key = model.firstTask[model.job[r]] + model.task[r];
    if (all.has(key)) continue;
    all.add(key);
    const rows = other.model.executions(model.job[r], model.task[r]);
    if (!rows.length || other.model.device[rows[0]] !== model.device[r]) moved++;
  }
  const pairs = gantt.pairs || {},
    said =
      pairs[`${model.title}\n${other.model.title}`] ||
      pairs[`${other.model.title}\n${model.title}`] ||
      "";
  parts.difference.append(
    `Below each bar: ${other.model.title}. ${moved.toLocaleString("en-US")} of ` +
      `${all.size.toLocaleString("en-US")} tasks run elsewhere. ${said}`,
  );
}
