"""What-if sliders of a live page: ``python benchmarks/pages/whatif_sliders.py --tasks 1000``.

A server of its own holds a run of so many tasks that goes on. A real browser moves its sliders
with real keys; the page measures each answer from the question to the sentence. Prints one JSON
document, and writes it as a file of docs/results with --out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Page, sync_playwright
from served import served

import weft
from weft.formats.native.weft_json import write_json
from weft.formats.native.weft_schema import encode

LIMIT = 100
"""Milliseconds that an answer should take at most."""

FUNCTIONS = "import time\n\n\ndef nap(*inputs):\n    time.sleep(1.0)\n    return 1\n"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-renderer-backgrounding"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--moves", type=int, default=60)
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument("--out", type=Path, help="a file for the results")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        found = measured(args, Path(place))
    print(json.dumps(found, indent=2))
    if args.out is not None:
        args.out.write_text(json.dumps(as_results(found), indent=1) + "\n", encoding="utf-8")


def measured(args: argparse.Namespace, place: Path) -> dict[str, Any]:
    """Start a server and a run; move the sliders of its page."""
    with served(place, FUNCTIONS, "--devices", str(args.devices)) as server:
        run = submitted(server.url, server.token, args.tasks)
        times = moved(f"{server.url}/runs/{run}#token={server.token}", args.moves)
    return {
        "tasks": args.tasks,
        "devices": args.devices,
        "moves": len(times),
        "median_ms": round(median(times)),
        "worst_ms": max(times),
        "below_100_ms": sum(ms < LIMIT for ms in times),
    }


def submitted(url: str, token: str, tasks: int) -> str:
    """Submit a layered workflow; return the id of its run."""
    workflow = json.loads(write_json(encode(weft.generate("layered", tasks=tasks, seed=1))))
    kinds = dict.fromkeys(workflow.get("kinds") or ["task"])
    body = {"workflow": workflow, "tasks": {kind: {"function": "nap"} for kind in kinds}}
    request = urllib.request.Request(f"{url}/v1/runs", json.dumps(body).encode())
    request.add_header("authorization", f"Bearer {token}")
    with urllib.request.urlopen(request) as answer:
        return str(json.load(answer)["id"])


def moved(address: str, moves: int) -> list[int]:
    """Return the milliseconds of each answer; the first ones, which warm up, are left out."""
    with sync_playwright() as driver:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("#slider-0", timeout=120_000)
        sliders = page.locator(".sliders input").count()
        # One step up to warm up, then up and down: a slider asks nothing at its ends and at zero.
        keys = ["ArrowRight", *["ArrowRight", "ArrowLeft"] * (moves // sliders + 1)]
        times = [answered(page, k % sliders, keys[k // sliders]) for k in range(moves + sliders)]
        browser.close()
    return times[sliders:]


def answered(page: Page, slider: int, key: str) -> int:
    """Move a slider by a key; return the milliseconds until the sentence is there."""
    page.evaluate("delete document.querySelector('.said').dataset.ms")
    page.locator(f"#slider-{slider}").focus()
    page.keyboard.press(key)
    page.wait_for_selector(".said[data-ms]", timeout=60_000)
    return int(page.locator(".said").get_attribute("data-ms") or 0)


def as_results(found: dict[str, Any]) -> dict[str, Any]:
    """Return the figures as a file of docs/results."""
    row = [f"{found['tasks']:,}", found["moves"], found["median_ms"], found["worst_ms"]]
    columns = ["tasks", "moves", "median, ms", "worst, ms", "below 100 ms"]
    return {
        "measured_with": "python benchmarks/pages/whatif_sliders.py",
        "provenance": "written by the command; server and browser on two cores; load average at "
        f"the end {os.getloadavg()[0]:.1f}",
        "tables": {
            "sliders": {
                "columns": columns,
                "align": "rrrrr",
                "rows": [[*map(str, row), str(found["below_100_ms"])]],
            }
        },
    }


if __name__ == "__main__":
    main()
