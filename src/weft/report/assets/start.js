// A shadow at the edge of a box that scrolls sideways, while there is more to see.
function startEdges(box) {
  const mark = () => {
    box.classList.toggle("more-right", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
    box.classList.toggle("more-left", box.scrollLeft > 1);
  };
  box.addEventListener("scroll", mark, { passive: true });
  addEventListener("resize", mark);
  mark();
}

// A workflow and the charts of its section: choosing a task in one shows it in the other.
function startGraph(box) {
  const section = box.closest("main > section") || document.body,
    template = +box.dataset.template;
  const nodes = new Map(
    [...box.querySelectorAll("[data-task]")].map((node) => [+node.dataset.task, node]),
  );
  const shown = () =>
    [...section.querySelectorAll("section.gantt")]
      .map((s) => s.chart)
      .find((chart) => chart && chart.parts.frame.clientWidth);
  box.addEventListener("click", (e) => {
    const node = e.target.closest("[data-task]"),
      chart = shown();
    if (!node || !chart) return;
    const job = chart.model.template.indexOf(template),
      rows = job < 0 ? [] : chart.model.executions(job, +node.dataset.task);
    if (rows.length) {
      chart.choose(rows[0]);
      chart.reveal(rows[0]);
    }
  });
  document.addEventListener("weft-chosen", ({ detail: chart }) => {
    if (chart !== shown()) return;
    const { model, look } = chart,
      r = look.chosen,
      mine = r >= 0 && model.template[model.job[r]] === template;
    const chain = new Set(
      model.chain
        .filter((k) => model.template[model.job[k]] === template)
        .map((k) => model.task[k]),
    );
    nodes.forEach((node, task) => {
      node.classList.toggle("chosen", mine && task === model.task[r]);
      node.classList.toggle("chain", chain.has(task));
    });
    const found = mine && nodes.get(model.task[r]);
    if (found) {
      const a = found.getBoundingClientRect(),
        b = box.getBoundingClientRect();
      box.scrollBy({ left: a.left - b.left - b.width / 2, top: a.top - b.top - b.height / 2 });
    }
  });
}

// Start everything on the page. What went wrong is written where a reader, and a test, can see it.
addEventListener("error", (e) => {
  document.documentElement.dataset.error = e.message;
});
document.querySelectorAll(".tabs").forEach(startTabs);
const charts = [...document.querySelectorAll("section.gantt")].map((root) => {
  const chart = new Gantt(root, JSON.parse(root.querySelector("script").textContent));
  root.chart = chart;
  return chart;
});
document.querySelectorAll(".tabs").forEach(startBeside);
document.querySelectorAll("[data-open]").forEach((button) =>
  button.addEventListener("click", () => {
    const section = button.closest("section, main"),
      tabs = section && section.querySelector(".tabs");
    if (tabs) tabs.open(button.dataset.open);
  }),
);
document.querySelectorAll(".wide").forEach(startEdges);
document.querySelectorAll(".dag").forEach(startGraph);

// On paper every panel is open, and charts are painted for the width of the paper. Panels open
// before the browser lays out its pages; which of the two events comes first differs between
// browsers.
function onPaper(printed) {
  document.querySelectorAll(".panel").forEach((panel) => {
    if (printed && panel.dataset.closed === undefined) {
      panel.dataset.closed = String(panel.hidden);
      panel.hidden = false;
    }
    if (!printed && panel.dataset.closed !== undefined) {
      panel.hidden = panel.dataset.closed === "true";
      delete panel.dataset.closed;
    }
  });
  document.querySelectorAll("section.gantt").forEach(({ chart }) => {
    if (chart) {
      chart.painter.retheme();
      chart.resize();
      chart.draw();
    }
  });
}
addEventListener("beforeprint", () => onPaper(true));
addEventListener("afterprint", () => onPaper(false));
matchMedia("print").addEventListener("change", (e) => onPaper(e.matches));

const wanted = decodeURIComponent((/[#&]task=([^&]*)/.exec(location.hash) || ["", ""])[1]);
charts.forEach((chart) => {
  if (chart.parts.frame.clientWidth)
    document.dispatchEvent(new CustomEvent("weft-chosen", { detail: chart }));
});
if (wanted) charts.forEach((chart) => chart.go(wanted));
document.documentElement.dataset.ready = "true";
