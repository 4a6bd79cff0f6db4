// Start everything on the page. What went wrong is written where a reader, and a test, can see it.
addEventListener("error", (e) => { document.documentElement.dataset.error = e.message; });
document.querySelectorAll(".tabs").forEach(startTabs);
const charts = [...document.querySelectorAll("section.gantt")].map((root) => {
  const chart = new Gantt(root, JSON.parse(root.querySelector("script").textContent));
  root.chart = chart;
  return chart;
});
const wanted = decodeURIComponent((/[#&]task=([^&]*)/.exec(location.hash) || ["", ""])[1]);
if (wanted) charts.forEach((chart) => chart.go(wanted));
document.documentElement.dataset.ready = "true";
