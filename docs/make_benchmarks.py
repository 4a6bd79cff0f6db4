"""Write tables of docs/results from the files that benchmarks wrote.

    weft bench --out speed.json
    weft bench --conditional --quick --out conditional.json
    weft bench --quality --graphs FOLDER --out published.json
    weft bench --quality --quick --out generated.json
    python benchmarks/runtime/run_overhead.py --only local --out local.json
    python benchmarks/runtime/run_overhead.py --only dask --remote-tasks 300 --out dask.json
    python benchmarks/runtime/cluster_cholesky.py --backend dask --out dask.json
    python benchmarks/runtime/cluster_cholesky.py --backend ray --out ray.json
    python docs/make_benchmarks.py --speed speed.json --overhead local.json dask.json ... \
        --conditions "two cores, idle"

Tables that are not given stay as they are; several files of one benchmark make one table.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

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
    columns = ["planner", "time", *(f"CCR {ratio:g}" for ratio in ratios)]
    return {
        "columns": [*columns, "better than the best known", "proved"],
        "align": "ll" + "r" * (len(ratios) + 2),
        "decimals": [None, None, *([2] * len(ratios)), 0, 0],
        "suffix": ["", "", *([" %"] * len(ratios)), "", ""],
        "rows": sorted(rows, key=lambda row: row[0]),
    }


def overhead(found: dict[str, Any]) -> dict[str, Any]:
    """Return milliseconds per task by shape of graph."""
    measured = found["rows"]
    shapes = list(dict.fromkeys(m["graph"] for m in measured))
    rows = []
    for what in dict.fromkeys(m["what"] for m in measured):
        mine = [m for m in measured if m["what"] == what]
        by_shape = {m["graph"]: m["ms_per_task"] for m in mine}
        rows.append([what, mine[0]["tasks"], *(by_shape.get(shape) for shape in shapes)])
    return {
        "columns": ["ms per task", "tasks", *shapes],
        "align": "lr" + "r" * len(shapes),
        "decimals": [None, 0, *([2] * len(shapes))],
        "rows": rows,
    }


def cluster(found: dict[str, Any]) -> dict[str, Any]:
    """Return the seconds of a cluster's own scheduling, and how many times as quick weft is."""
    measured = found["rows"]
    title, ways = measured[0]["backend"], list(measured[0]["weft"])
    return {
        "columns": ["devices", "tile", "rounds", "load", f"{title} alone", *ways],
        "align": "lrrrr" + "r" * len(ways),
        "decimals": [None, 0, 0, 0, 3, *([2] * len(ways))],
        "suffix": ["", "", "", "", " s", *([" x"] * len(ways))],
        "rows": [
            [row["devices"], row["size"], row["rounds"], row["load"], row["own"]]
            + [row["own"] / row["weft"][way] for way in ways]
            for row in measured
        ],
    }


def read_all(paths: list[Path]) -> tuple[dict[str, Any], list[str]]:
    """Return the content of the first file with the rows of all, and where each comes from."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    found = documents[0]
    if "rows" in found:
        found["rows"] = [row for document in documents for row in document["rows"]]
    known = [d for d in documents if "provenance" in d]
    return found, [f"{d['measured_with']}: {d['provenance']}" for d in known]


class Source(NamedTuple):
    """A table: its function, its file and name, and the command that measures it."""

    table: Callable[[Any], dict[str, Any]]
    file: str
    name: str
    command: str


CLUSTER = "benchmarks/runtime/cluster_cholesky.py --backend"
SOURCES = {
    "speed": Source(speed, "speed", "speed", "weft bench"),
    "conditional": Source(speed, "conditional_speed", "speed", "weft bench --conditional --quick"),
    "published": Source(quality, "quality", "published", "weft bench --quality --graphs FOLDER"),
    "generated": Source(quality, "quality", "generated", "weft bench --quality --quick"),
    "overhead": Source(overhead, "runtime", "overhead", "benchmarks/runtime/run_overhead.py"),
    "dask": Source(cluster, "runtime", "dask", f"{CLUSTER} dask"),
    "ray": Source(cluster, "runtime", "ray", f"{CLUSTER} ray"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for option in SOURCES:
        text = "the files that the benchmark wrote"
        parser.add_argument(f"--{option}", type=Path, nargs="+", metavar="FILE", help=text)
    parser.add_argument("--conditions", required=True, help="machine and load, in words")
    args = parser.parse_args()
    for option, source in SOURCES.items():
        given = getattr(args, option)
        if given is not None:
            path = RESULTS / f"{source.file}.json"
            page = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            found, origin = read_all(given)
            page.setdefault("tables", {})[source.name] = source.table(found)
            page.setdefault("measured", {})[source.name] = [*origin, args.conditions]
            commands = [s.command for s in SOURCES.values() if s.file == source.file]
            page["measured_with"] = ", ".join(commands)
            by_hand = page.get("transcribed", {})
            by_hand.pop(source.name, None)  # the table is measured now
            page["provenance"] = "written by docs/make_benchmarks.py" + (
                f"; transcribed from earlier pages: {', '.join(by_hand)}" if by_hand else ""
            )
            path.write_text(json.dumps(page, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    fill_pages()


if __name__ == "__main__":
    main()
