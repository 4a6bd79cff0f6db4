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
  return make("dl", { class: "pairs" }, ...facts.flatMap(([label, value]) => [make("dt", {}, label), make("dd", {}, value)]));
}

const HELP = "Wheel or pinch: zoom. Drag: pan. Arrows, + and −: move and zoom. 0: everything. N and P: next and previous task. "
  + "[ and ]: lower and taller lanes. Click a task: its parents and children. Escape: clear.";

function buildPanel(root, gantt) {
  const { model } = gantt, parts = {};
  parts.search = make("input", { type: "search", placeholder: "Find a task", "aria-label": "Find a task by name", autocomplete: "off", spellcheck: "false" });
  parts.found = make("output", { class: "found", "aria-live": "polite" });
  const modes = model.template.length > 1 ? ["kind", "job"] : ["kind"];
  modes.push("device kind");
  parts.mode = make("select", { "aria-label": "Colour by" }, ...modes.map((m) => make("option", { value: m }, "Colour: " + m)));
  const button = (label, sign, action) => make("button", { type: "button", "aria-label": label, title: label, onclick: action }, sign);
  const tools = make("div", { class: "tools", role: "toolbar", "aria-label": "Chart" },
    make("span", { class: "finder" }, parts.search, parts.found), parts.mode,
    make("span", { class: "buttons" },
      button("Zoom in", "+", () => gantt.zoom(0.5)), button("Zoom out", "−", () => gantt.zoom(2)),
      button("Taller lanes", "↕", () => gantt.stretch(1.4)), button("Lower lanes", "⇕", () => gantt.stretch(1 / 1.4)),
      button("Show everything", "Reset", () => gantt.reset())));
  parts.legend = make("div", { class: "legend", role: "group", "aria-label": "Legend" });
  parts.overview = make("canvas", { class: "overview", "aria-hidden": "true" });
  parts.canvas = make("canvas", { class: "bars", tabindex: "0", role: "application", "aria-roledescription": "Gantt chart" });
  parts.canvas.setAttribute("aria-label", `${model.title}: ${model.n} bars on ${model.lanes.length} devices, until ${formatTime(model.data.end)}. ${HELP}`);
  parts.tip = make("div", { class: "tip", hidden: "" });
  parts.frame = make("div", { class: "frame" }, parts.overview, parts.canvas, parts.tip);
  parts.details = make("div", { class: "details" }, make("p", { class: "hint" }, HELP));
  parts.live = make("p", { class: "unseen", "aria-live": "polite" });
  root.append(tools, parts.legend, parts.frame, parts.details, parts.live);
  return parts;
}

function swatch(color, extra) {
  const box = make("i", { class: "swatch " + (extra || "") });
  if (color) box.style.background = color;
  return box;
}

const LEGEND_LIMIT = 24;

function fillLegend(gantt) {
  const { parts, painter, model } = gantt, { names, of, used } = gantt.colouring();
  parts.legend.replaceChildren();
  const shown = used.slice(0, LEGEND_LIMIT);
  for (const k of shown) {
    const pressed = gantt.only === k;
    const entry = make("button", { type: "button", "aria-pressed": String(pressed), title: "Show only these" }, swatch(painter.palette[of(k)]), names(k));
    entry.addEventListener("click", () => { gantt.only = pressed ? null : k; fillLegend(gantt); gantt.redraw(); });
    parts.legend.append(entry);
  }
  if (used.length > shown.length) parts.legend.append(make("span", {}, `and ${used.length - shown.length} more`));
  const some = (column, value) => column.some((x) => x === value);
  const keys = [[some(model.copy, 1), "copy", "copy"], [some(model.status, LOST), "lost", "lost"],
    [some(model.status, CANCELLED), "cancelled", "cancelled"], [model.data.pauses.some((p) => p[3] === null), "down", "device down"],
    [model.data.pauses.some((p) => p[3] !== null), "slow", "device slower"]];
  for (const [present, style, label] of keys) if (present) parts.legend.append(make("span", {}, swatch(null, style), label));
}

function showTip(gantt, row, x, y) {
  const { tip, frame } = gantt.parts, { model } = gantt;
  tip.hidden = row < 0;
  if (row < 0) return;
  if (gantt.tipRow !== row) tip.replaceChildren(make("strong", {}, model.name(row)), factList(model.facts(row)));
  gantt.tipRow = row;
  const room = frame.getBoundingClientRect(), width = tip.offsetWidth, height = tip.offsetHeight;
  const left = x + 16 + width > room.width ? Math.max(0, x - width - 12) : x + 16;
  const top = Math.min(y + 14, innerHeight - room.top - height - 8);
  tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(-room.top, top))}px)`;
}

const LIST_LIMIT = 30;

function relatives(gantt, title, deliveries, end) {
  const { model } = gantt;
  const list = make("ul", {}, ...deliveries.slice(0, LIST_LIMIT).map((d) => {
    const row = d[end], moved = d.seconds === null ? formatBytes(d.bytes) : d.seconds > 0 ? `${formatBytes(d.bytes)} in ${formatTime(d.seconds)}` : "same device";
    const go = make("button", { type: "button", onclick: () => { gantt.choose(row); gantt.reveal(row); } }, model.name(row));
    return make("li", {}, go, ` ${model.deviceName(model.device[row])}, ${d.from === d.to ? "" : moved}${d.taken ? "" : ", not taken"}`);
  }));
  const more = deliveries.length - LIST_LIMIT;
  if (more > 0) list.append(make("li", {}, `and ${more} more`));
  return make("section", { class: "kin " + end }, make("h3", {}, `${title} (${deliveries.length})`), list);
}

function showDetails(gantt) {
  const { parts, model, look } = gantt;
  if (look.chosen < 0) { parts.details.replaceChildren(make("p", { class: "hint" }, HELP)); return; }
  const about = make("section", {}, make("h3", {}, model.name(look.chosen)), factList(model.facts(look.chosen)));
  parts.details.replaceChildren(about, relatives(gantt, "Parents", look.parents, "from"), relatives(gantt, "Children", look.children, "to"));
  const facts = model.facts(look.chosen).map((pair) => pair.join(" ")).join(", ");
  parts.live.textContent = `${model.name(look.chosen)}: ${facts}; ${look.parents.length} parents, ${look.children.length} children`;
}
