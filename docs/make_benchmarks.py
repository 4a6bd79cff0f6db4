"""Write tables of docs/results from the files that benchmarks wrote.

    weft bench --out speed.json
    weft bench --quality --graphs FOLDER --out quality.json
    python benchmarks/runtime/run_overhead.py --remote-tasks 1000 --out overhead.json
    python docs/make_benchmarks.py --speed speed.json --quality quality.json \
        --overhead overhead.json --conditions "two cores, idle"

Tables that are not given stay as they are.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

from make_results import main as fill_pages

RESULTS = Path(__file__).parent / "results"


def speed(found: dict[str, Any]) -> dict[str, Any]:
    """Return the table of `weft bench`."""
    rows = [[m["what"], m["result"], m["goal"], m["peer"] or None] for m in found["measures"]]
    return {"columns": ["measure", "weft", "goal", "peer"], "align": "lrrr", "rows": rows}


def quality(found: dict[str, Any]) -> dict[str, Any]:
    """Return the mean gaps of `weft bench --quality`, by CCR."""
    scores = found["scores"]
    ratios = sorted({s["ccr"] for s in scores})
    rows = []
    for planner, budget in dict.fromkeys((s["planner"], s["budget"]) for s in scores):
        mine = [s for s in scores if (s["planner"], s["budget"]) == (planner, budget)]
        gaps = [100 * mean(s["gap"] for s in mine if s["ccr"] == ratio) for ratio in ratios]
        better = sum(s["gap"] < -1e-9 for s in mine)
        proved = sum(s["status"] == "optimal" for s in mine)
        time = f"{1e3 * budget:g} ms" if budget else "-"
        rows.append([f"`{planner}`", time, *gaps, better, proved])
    return {
        "columns": [
            "planner",
            "time",
            *(f"CCR {ratio:g}" for ratio in ratios),
            "better than published",
            "proved",
        ],
        "align": "ll" + "r" * (len(ratios) + 2),
        "decimals": [None, None, *([2] * len(ratios)), 0, 0],
        "suffix": ["", "", *([" %"] * len(ratios)), "", ""],
        "rows": rows,
    }


def overhead(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return milliseconds per task by shape of graph."""
    shapes = list(dict.fromkeys(m["graph"] for m in found))
    rows = []
    for what in dict.fromkeys(m["what"] for m in found):
        by_shape = {m["graph"]: m["ms_per_task"] for m in found if m["what"] == what}
        rows.append([what, *(by_shape.get(shape) for shape in shapes)])
    return {
        "columns": ["ms per task", *shapes],
        "align": "l" + "r" * len(shapes),
        "decimals": [None, *([2] * len(shapes))],
        "rows": rows,
    }


TABLES = {
    "speed": (speed, "speed", "speed"),
    "quality": (quality, "quality", "published"),
    "overhead": (overhead, "runtime", "overhead"),
}
"""Option -> function, file and table."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in TABLES:
        parser.add_argument(f"--{option}", type=Path, help="the file that the benchmark wrote")
    parser.add_argument("--conditions", required=True, help="machine and load, in words")
    args = parser.parse_args()
    for option, (table, name, key) in TABLES.items():
        source = getattr(args, option)
        if source is not None:
            path = RESULTS / f"{name}.json"
            page = json.loads(path.read_text(encoding="utf-8"))
            page["tables"][key] = table(json.loads(source.read_text(encoding="utf-8")))
            page.setdefault("measured", {})[key] = args.conditions
            path.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    fill_pages()


if __name__ == "__main__":
    main()
