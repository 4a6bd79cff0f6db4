"""Gap of the planner `anytime` to the best known makespan, by processor time.

The processor time is that of one thread. Print a line per time limit with
``python -m weft.experiments.benchmarks.search FOLDER [--seeds 2] [--seconds 0.025 0.1]``;
the folder holds graphs with best known makespans, as for `weft bench --quality`. With
``--write FILE`` the table goes into a file of the documentation.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.benchmarks.quality import QualityCase, static_cases
from weft.experiments.harness import describe_machine, page_table
from weft.model.check import check
from weft.planners import plan
from weft.planners.search.clock import now, processor_time


def gaps(
    cases: Sequence[QualityCase], *, seconds: float, seeds: int
) -> Iterator[tuple[float, float, float]]:
    """Yield CCR, share above the best known makespan and share of the time limit.

    There is one row per graph and seed.
    """
    for case in cases:
        for seed in range(seeds):
            with processor_time():
                begin = now()
                made = plan(case.problem, "anytime", seconds=seconds, seed=seed, threads=1)
                took = now() - begin
            assert check(case.problem, made.schedule) == []
            yield case.ccr, made.makespan / case.best - 1.0, took / seconds


def row(cases: Sequence[QualityCase], *, seconds: float, seeds: int) -> dict[str, Any]:
    """Return the mean gap per CCR and the largest share of a time limit, in percent."""
    rows = np.array(list(gaps(cases, seconds=seconds, seeds=seeds)))
    found: dict[str, Any] = {"time": f"{1000 * seconds:g} ms"}
    for ccr in np.unique(rows[:, 0]):
        found[f"CCR {ccr:g}"] = 100 * float(rows[rows[:, 0] == ccr, 1].mean())
    return found | {"largest share of the limit": 100 * float(rows[:, 2].max())}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, nargs="+", default=[0.025, 0.1])
    parser.add_argument("--write", type=Path, metavar="FILE")
    args = parser.parse_args()
    cases = static_cases(args.folder)
    for seconds in (0.01, 0.5):  # short and long limits load different kernels
        plan(cases[0].problem, "anytime", seconds=seconds, threads=1)
    rows = []
    for seconds in args.seconds:
        rows.append(row(cases, seconds=seconds, seeds=args.seeds))
        print(rows[-1], flush=True)
    if args.write is not None:
        columns = dict.fromkeys(rows[0], 2) | {"time": None}
        table = page_table(columns, [list(found.values()) for found in rows])
        table["suffix"] = ["", *[" %"] * (len(columns) - 1)]
        document = {
            "measured_with": "python -m weft.experiments.benchmarks.search",
            "provenance": "written by that program",
            "machine": describe_machine(),
            "graphs": len(cases),
            "seeds": args.seeds,
            "tables": {"gaps": table},
        }
        args.write.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
