"""What `amortised` gains: HEFT, `anytime` and `amortised` on the same graphs with the same wall clock, side by side in one run.

The planners take turns on every graph and seed, so that whatever else the machine does hits all of them alike. Fresh graphs are drawn from
seeds that nothing was learned from or tuned on. ``python -m weft.experiments.amortised [folder of graphs] [seeds]`` prints the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.quality import Case, static_cases, table
from weft.learn.amortised_data import draw_problem
from weft.model.check import check
from weft.planners import plan

CONTENDERS: dict[str, tuple[str, float | None, dict[str, Any]]] = {
    "heft": ("heft", None, {}),
    "amortised, one pass": ("amortised", None, {"search": False}),
    "anytime 25 ms": ("anytime", 0.025, {}),
    "amortised 25 ms": ("amortised", 0.025, {}),
    "anytime 100 ms": ("anytime", 0.1, {}),
    "amortised 100 ms": ("amortised", 0.1, {}),
}
"""Name -> planner, seconds and options."""

FRESH_SEED = 900_000


@dataclass(frozen=True)
class Run:
    """One contender on one graph with one seed."""

    graph: str
    ccr: float
    contender: str
    seed: int
    makespan: float
    seconds: float
    best: float


def fresh_cases(per_ratio: int = 12) -> list[Case]:
    """Graphs of 20 to 150 tasks on 3 to 32 devices at three ratios of communication; the best known is the best of the run."""
    ratios = (0.1, 1.0, 5.0)
    seeds = [(ccr, FRESH_SEED + 1000 * i + k) for i, ccr in enumerate(ratios) for k in range(per_ratio)]
    return [Case(f"fresh-{seed}", draw_problem(seed, ccr=ccr, least=20, most=150), ccr) for ccr, seed in seeds]


def compare(cases: Sequence[Case], *, seeds: Sequence[int] = (0, 1)) -> Iterator[Run]:
    """Run all contenders in turn; every schedule is checked."""
    for case in cases:
        runs = []
        for seed in seeds:
            for name, (planner, seconds, options) in CONTENDERS.items():
                made = plan(case.problem, planner, seconds=seconds, seed=seed, **options)
                faults = check(case.problem, made.schedule)
                if faults:
                    raise AssertionError(f"{name} made an invalid schedule for {case.name}: {faults[0]}")
                runs.append((name, seed, made.makespan, made.seconds))
        best = min([case.best, *(makespan for _, _, makespan, _ in runs)]) if case.best == np.inf else case.best
        yield from (Run(case.name, case.ccr, name, seed, makespan, took, best) for name, seed, makespan, took in runs)


def summary(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Rows: contender, median milliseconds, and by ratio the mean gap to the best known and the mean change against HEFT."""
    ratios = sorted({run.ccr for run in runs})
    heft = {(run.graph, run.seed): run.makespan for run in runs if run.contender == "heft"}
    rows: list[tuple[str, ...]] = [("planner", "median ms", *(f"CCR {c:g}: gap / below HEFT" for c in ratios))]
    for name in CONTENDERS:
        mine = [run for run in runs if run.contender == name]
        cells = []
        for ccr in ratios:
            group = [run for run in mine if run.ccr == ccr]
            gap = np.mean([run.makespan / run.best - 1 for run in group])
            below = np.mean([1 - run.makespan / heft[run.graph, run.seed] for run in group])
            cells.append(f"{100 * gap:.2f} % / {100 * below:.2f} %")
        rows.append((name, f"{1e3 * float(np.median([run.seconds for run in mine])):.1f}", *cells))
    return rows


def differences(runs: Sequence[Run], budget: str) -> list[tuple[str, ...]]:
    """Rows: mean of log(amortised / anytime) by ratio over graphs, with its standard error, in percent."""
    rows: list[tuple[str, ...]] = [("CCR", f"amortised / anytime, {budget}", "standard error", "graphs")]
    value = {(run.graph, run.seed, run.contender): run.makespan for run in runs}
    for ccr in [*sorted({run.ccr for run in runs}), None]:
        by_graph: dict[str, list[float]] = {}
        for run in runs:
            if run.contender == f"amortised {budget}" and (ccr is None or run.ccr == ccr):
                change = np.log(run.makespan / value[run.graph, run.seed, f"anytime {budget}"])
                by_graph.setdefault(run.graph, []).append(100 * float(change))
        means = np.array([np.mean(changes) for changes in by_graph.values()])
        error = float(means.std(ddof=1)) / np.sqrt(len(means)) if len(means) > 1 else 0.0
        rows.append(("all" if ccr is None else f"{ccr:g}", f"{means.mean():+.2f} %", f"{error:.2f} %", str(len(means))))
    return rows


def main(folder: str = "", seeds: str = "2") -> None:
    """Print the tables."""
    for cases in ([static_cases(Path(folder))] if folder else []) + [fresh_cases()]:
        runs = list(compare(cases, seeds=range(int(seeds))))
        for rows in (summary(runs), differences(runs, "25 ms"), differences(runs, "100 ms")):
            print(table(rows) + "\n", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
