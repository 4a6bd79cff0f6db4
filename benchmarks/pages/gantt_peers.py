"""Chart pages in a browser: weft's beside one by Apache ECharts with the same rows.

Rounds alternate, so that the load of the machine meets both. `ready` is the time from the start of
the navigation to the second frame after everything was drawn, `frame` the time between two frames
while a real mouse wheel zooms in and out and a real mouse drags the chart. Frames are counted over
all rounds. ECharts comes from npm:

npm install echarts
python benchmarks/pages/gantt_peers.py --echarts node_modules/echarts/dist/echarts.min.js

With --out the rows are written to a file, such as docs/results/pages.json.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

import weft
from weft.generators import stream_of

READY = """async () => {
  while (!window.drawn && !document.querySelector("section.gantt[data-bars]"))
    await new Promise(requestAnimationFrame);
  await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);
  return performance.now();
}"""
WATCH = """() => {
  window.frames_ms = []; window.watched = true; let last = 0;
  const next = (now) => {
    if (window.watched && last) window.frames_ms.push(now - last);
    last = window.watched ? now : 0; requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}"""
LIMIT = 50.0
"""Milliseconds that no frame should take."""
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
    parser.add_argument("--out", type=Path, help="a file for the rows")
    args = parser.parse_args()
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    flags += ["--disable-renderer-backgrounding"]  # a page that somebody looks at
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=flags)
        rows = []
        for tasks in args.tasks:
            rows.append(compared(browser, Path(folder), tasks, args))
            print(json.dumps(rows[-1]), flush=True)
    if args.out is not None:
        args.out.write_text(json.dumps(as_results(rows), indent=1) + "\n", encoding="utf-8")


def compared(
    browser: Browser, folder: Path, tasks: int, args: argparse.Namespace
) -> dict[str, Any]:
    """Measure both pages in turn; medians over the rounds."""
    pages = written(folder, tasks, args.echarts.resolve())
    found: dict[str, list[tuple[float, list[float]]]] = {name: [] for name in pages}
    for _ in range(args.rounds):
        for name, path in pages.items():
            found[name].append(measured(browser, path))
    row: dict[str, Any] = {"tasks": tasks, "rounds": args.rounds}
    for name, rounds in found.items():
        frames = [frame for _, each in rounds for frame in each]
        row[name] = {
            "ready_ms": round(median(ready for ready, _ in rounds)),
            "median_frame_ms": round(median(frames), 1),
            "worst_frame_ms": round(max(frames), 1),
            "frames": len(frames),
            "frames_above_50_ms": sum(frame > LIMIT for frame in frames),
        }
    return row


def as_results(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the rows as a file of docs/results."""
    names = {"weft": "weft", "echarts": "Apache ECharts"}
    keys = ("ready_ms", "median_frame_ms", "worst_frame_ms", "frames_above_50_ms", "frames")
    table = [
        [f"{row['tasks']:,}", label, *(f"{row[name][key]:,}" for key in keys)]
        for row in rows
        for name, label in names.items()
    ]
    columns = ["tasks", "page", "ready, ms", "median frame, ms", "worst frame, ms"]
    return {
        "measured_with": "python benchmarks/pages/gantt_peers.py",
        "provenance": f"written by the command; Chromium without a GPU, {rows[0]['rounds']} "
        f"rounds, two cores; load average at the end {os.getloadavg()[0]:.1f}",
        "tables": {
            "pages": {
                "columns": [*columns, "frames above 50 ms", "frames"],
                "align": "rlrrrrr",
                "rows": table,
            }
        },
    }


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


def measured(browser: Browser, path: Path) -> tuple[float, list[float]]:
    """Return the milliseconds until ready, and of each frame while zooming and dragging."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(path.as_uri())
    ready = page.evaluate(READY)
    boxes = [canvas.bounding_box() for canvas in page.locator("canvas").all()]
    chart = max((box for box in boxes if box), key=lambda box: box["height"])  # not an overview
    x, y = chart["x"] + 600, min(chart["y"] + chart["height"] / 2, 700)
    page.mouse.click(x, y)
    before = page.screenshot()
    page.evaluate(WATCH)
    zoom(page, -120)
    page.evaluate("window.watched = false")  # a picture of the page stops its frames
    assert page.screenshot() != before, "the wheel did nothing"
    page.evaluate("window.watched = true")
    page.mouse.down()
    for step in range(12):
        page.mouse.move(x + 20 * (step + 1 if step < 6 else 12 - step), y)
        page.wait_for_timeout(30)
    page.mouse.up()
    zoom(page, 120)
    frames = page.evaluate("frames_ms")
    page.close()
    return ready, frames


def zoom(page: Page, delta: float) -> None:
    """Turn a real wheel twelve times."""
    for _ in range(12):
        page.mouse.wheel(0, delta)
        page.wait_for_timeout(30)


if __name__ == "__main__":
    main()
