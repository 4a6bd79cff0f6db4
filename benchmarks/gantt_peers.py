"""Chart pages in a browser: weft's beside one by Apache ECharts with the same rows.

Rounds alternate, so that the load of the machine meets both. `ready` is the time from the start of
the navigation to the second frame after everything was drawn, `frame` the time between two frames
while a real mouse wheel zooms in and out. ECharts comes from npm:

npm install echarts
python benchmarks/gantt_peers.py --echarts node_modules/echarts/dist/echarts.min.js
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, sync_playwright

import weft
from weft.generators import stream_of

READY = """async () => {
  while (!window.drawn && !document.querySelector("section.gantt[data-bars]"))
    await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);
  return performance.now();
}"""
WATCH = """() => {
  window.frames_ms = []; let last = performance.now();
  const next = (now) => {
    window.frames_ms.push(now - last); last = now; requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}"""
PEER = """<!doctype html><meta charset="utf-8"><title>peer</title>
<div id="c" style="width:1200px;height:700px"></div><script src="ECHARTS"></script><script>
const rows = ROWS, lanes = LANES, chart = echarts.init(document.getElementById("c"));
chart.on("finished", () => { window.drawn = true; });
chart.setOption({ animation: false, xAxis: { type: "value" }, tooltip: {},
  yAxis: { type: "category", data: lanes },
  dataZoom: [{ type: "inside", xAxisIndex: 0, filterMode: "weakFilter" }],
  series: [{ type: "custom", progressive: 0, encode: { x: [1, 2], y: 0 }, data: rows,
    renderItem: (params, api) => {
      const lane = api.value(0), fill = echarts.color.modifyHSL("#5165a7", 47 * api.value(3));
      const a = api.coord([api.value(1), lane]), b = api.coord([api.value(2), lane]);
      const high = api.size([0, 1])[1] * 0.8;
      return { type: "rect", style: api.style({ fill }),
        shape: { x: a[0], y: a[1] - high / 2, width: b[0] - a[0], height: high } };
    } }] });
</script>"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--echarts", type=Path, required=True, help="echarts.min.js")
    parser.add_argument("--tasks", type=int, nargs="+", default=[5_000, 50_000])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=flags)
        for tasks in args.tasks:
            print(json.dumps(compared(browser, Path(folder), tasks, args)), flush=True)


def compared(
    browser: Browser, folder: Path, tasks: int, args: argparse.Namespace
) -> dict[str, Any]:
    """Measure both pages in turn; medians over the rounds."""
    pages = written(folder, tasks, args.echarts.resolve())
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in pages}
    for _ in range(args.rounds):
        for name, path in pages.items():
            found[name].append(measured(browser, path))
    row: dict[str, Any] = {"tasks": tasks, "rounds": args.rounds}
    for name, rounds in found.items():
        ready, middle, worst = (median(values) for values in zip(*rounds, strict=True))
        row[name] = {
            "ready_ms": round(ready),
            "median_frame_ms": round(middle, 1),
            "worst_frame_ms": round(worst, 1),
        }
    return row


def written(folder: Path, tasks: int, echarts: Path) -> dict[str, Path]:
    """Write a simulated stream of layered workflows, drawn by weft and by ECharts."""
    problem = weft.Problem.bind(
        weft.generate("layered", tasks=500, seed=1), weft.gpu_cluster("8xV100+8xT4")
    )
    trace = weft.simulate(stream_of(problem, jobs=tasks // 500, load=0.9, seed=1), "eft")
    ours, theirs = folder / f"weft{tasks}.html", folder / f"echarts{tasks}.html"
    weft.save_gantt(trace, ours)
    columns = (trace.device, trace.start, trace.finish, trace.job % 8)
    rows = [list(row) for row in zip(*(c.tolist() for c in columns), strict=True)]
    page = PEER.replace("ECHARTS", echarts.as_uri()).replace("ROWS", json.dumps(rows))
    theirs.write_text(page.replace("LANES", json.dumps(list(problem.cluster.names))))
    return {"weft": ours, "echarts": theirs}


def measured(browser: Browser, path: Path) -> tuple[float, float, float]:
    """Return the milliseconds until ready, of the middle and of the worst frame while zooming."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(path.as_uri())
    ready = page.evaluate(READY)
    boxes = [canvas.bounding_box() for canvas in page.locator("canvas").all()]
    chart = max((box for box in boxes if box), key=lambda box: box["height"])  # not an overview
    page.mouse.click(chart["x"] + 600, min(chart["y"] + chart["height"] / 2, 700))
    before = page.screenshot()
    page.evaluate(WATCH)
    for step in range(24):
        page.mouse.wheel(0, -120 if step < 12 else 120)
        page.wait_for_timeout(30)
        if step == 11:
            assert page.screenshot() != before, "the wheel did nothing"
    frames = sorted(page.evaluate("frames_ms.slice(1)"))
    page.close()
    return ready, median(frames), frames[-1]


if __name__ == "__main__":
    main()
