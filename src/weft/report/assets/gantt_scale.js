// Time as text, and where to put ticks.
function trimmed(x, digits) {
  const size = Math.abs(x);
  if (size !== 0 && (size >= 1e15 || size < 1e-4)) return x.toExponential(digits - 1);
  const places = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return x.toLocaleString("en-US", { maximumFractionDigits: Math.min(places, 20) });
}

// The middle goes first: names tend to differ at their ends.
function shortened(text, size) {
  if (text.length <= size) return text;
  const tail = Math.floor((size - 1) / 2);
  return text.slice(0, size - 1 - tail) + "…" + text.slice(text.length - tail);
}

const UNITS = [
  [1e-9, "ns"],
  [1e-6, "µs"],
  [1e-3, "ms"],
  [1, "s"],
];

function formatTime(seconds, digits = 4) {
  const size = Math.abs(seconds);
  if (size >= 600) return clock(seconds);
  if (size === 0) return "0 s";
  const [scale, unit] = UNITS.findLast(([s]) => size >= s) || UNITS[0];
  return trimmed(seconds / scale, digits) + " " + unit;
}

function clock(seconds) {
  const whole = Math.round(Math.abs(seconds)),
    days = Math.floor(whole / 86400);
  const h = Math.floor(whole / 3600) % 24,
    m = Math.floor(whole / 60) % 60,
    s = whole % 60;
  const parts = [
    [days, "d"],
    [h, "h"],
    [m, "min"],
    [s, "s"],
  ].filter(([x]) => x);
  return (seconds < 0 ? "-" : "") + parts.map(([x, unit]) => `${x} ${unit}`).join(" ");
}

// Two times; a unit that both have is shown once.
function formatRange([low, high], digits, word = "to") {
  const [from, to] = [formatTime(low, digits), formatTime(high, digits)],
    unit = (text) => (text.split(" ").length === 2 ? text.split(" ")[1] : text);
  return `${unit(from) === unit(to) ? from.split(" ")[0] : from} ${word} ${to}`;
}

function formatBytes(bytes, digits = 4) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let k = 0;
  while (bytes >= 1000 && k < units.length - 1) {
    bytes /= 1000;
    k++;
  }
  return trimmed(bytes, digits) + " " + units[k];
}

const ROUND_STEPS = [
  60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
];

function tickStep(span, count) {
  const rough = span / Math.max(1, count);
  if (rough > 30 && rough <= 604800 && span > 600)
    return ROUND_STEPS.find((s) => s >= rough) || 604800;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((k) => power * k >= rough * 0.999);
}

function ticks(t0, t1, count) {
  const step = tickStep(t1 - t0, count),
    marks = [];
  const first = Math.ceil(t0 / step - 1e-9) + 0;
  for (let k = first; k * step <= t1 + step * 1e-9 && marks.length < 200; k++)
    marks.push(k * step + 0);
  return { step, marks };
}

// One unit for the whole axis, as many places as the step needs.
function tickLabel(t, step, largest) {
  if (largest >= 600 && step >= 1) return t === 0 ? "0" : clock(t);
  const [scale, unit] = UNITS.findLast(([s]) => Math.max(largest, step) >= s) || UNITS[0];
  const places = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
  return (
    (t / scale).toLocaleString("en-US", {
      minimumFractionDigits: Math.min(places, 15),
      maximumFractionDigits: Math.min(places, 15),
    }) +
    " " +
    unit
  );
}
