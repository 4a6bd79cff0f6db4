"""Gap to the best known makespan of the planner `anytime` in processor time of one thread.

Print the tables with
``python -m weft.experiments.benchmarks.search FOLDER [seeds] [seconds ...]``;
the folder holds graphs with best known makespans, as for `weft bench --quality`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from weft.experiments.benchmarks.quality import QualityCase, static_cases
from weft.model.check import check
from weft.planners import plan
from weft.planners.search.clock import now, processor_time


def gaps(
    cases: Sequence[QualityCase], *, seconds: float, seeds: int
) -> Iterator[tuple[float, float, float]]:
    """Yield, per graph and seed: CCR, share above the best known makespan, share of the limit."""
    for case in cases:
        for seed in range(seeds):
            with processor_time():
                begin = now()
                made = plan(case.problem, "anytime", seconds=seconds, seed=seed, threads=1)
                took = now() - begin
            assert check(case.problem, made.schedule) == []
            yield case.ccr, made.makespan / case.best - 1.0, took / seconds


def main(folder: str, seeds: str = "2", *limits: str) -> None:
    """Print one line per time limit: mean and median gap per CCR, and the time used."""
    cases = static_cases(Path(folder))
    plan(cases[0].problem, "anytime", seconds=0.01, threads=1)  # load the kernels
    for seconds in map(float, limits or ("0.025", "0.1")):
        rows = np.array(list(gaps(cases, seconds=seconds, seeds=int(seeds))))
        parts = []
        for ccr in np.unique(rows[:, 0]):
            mine = 100 * rows[rows[:, 0] == ccr, 1]
            parts.append(f"CCR {ccr:g}: mean {mine.mean():.2f} median {np.median(mine):.2f} %")
        used = f"time used: median {np.median(rows[:, 2]):.2f}, most {rows[:, 2].max():.2f}"
        print(f"{seconds:g} s  " + "; ".join(parts) + f"; {used}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
