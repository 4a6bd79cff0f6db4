"""Gains of the planner `amortised` and of its network at equal time limits.

Three sets: graphs with published best makespans (if there is a folder of them), random ones like
them (`published_like`), and random ones of more shapes and sizes. No seed was used for learning or
tuning. The planners take turns on every graph and seed. Time is processor time of one core with one
chain, so other load does not count, or wall-clock time with all cores. Long searches and the lower
bound show how much can be gained at all.

Print the tables with
``python -m weft.experiments.imitation.amortised [folder of graphs] [seeds] [processor|wall]``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.benchmarks.quality import QualityCase, static_cases
from weft.experiments.imitation.published_like import RECIPES, draw_graph
from weft.learn.imitation.amortised.data import draw_problem
from weft.model import Problem
from weft.model.check import check
from weft.planners import plan
from weft.planners.bounds import lower_bound
from weft.planners.imitation.amortised.planner import Amortised
from weft.planners.search.anytime import Anytime
from weft.planners.search.clock import now, processor_time
from weft.report.tables import Column, Columns, table_text

RATIOS = (0.1, 1.0, 5.0)
GOALS = {0.1: 0.022, 1.0: 0.047, 5.0: 0.132}
"""CCR -> share below HEFT that plain annealing reaches in 25 ms; the goal is to exceed it."""

BUDGETS = (0.025, 0.1)
LONG = (1.0, 10.0)
"""Seconds of the searches that show the possible gain at the lowest CCR."""

LONG_GRAPHS = 12
"""Maximal number of graphs per set for long searches; of larger sets, every k-th."""

FRESH_SEED = 900_000
SEARCHES = ("anytime", "moves alone", "amortised")
"""Planners with a time limit. `moves alone` is `amortised` without its network."""


@dataclass(frozen=True)
class AmortisedRun:
    """One contender on one graph with one seed; `seconds` is its limit."""

    graph: str
    ccr: float
    contender: str
    seconds: float | None
    seed: int
    makespan: float
    heft: float
    took: float

    @property
    def below(self) -> float:
        """Share below HEFT's makespan."""
        return 1.0 - self.makespan / self.heft


def published_like_cases(draws: int = 4) -> list[QualityCase]:
    """Return random graphs like the published ones, `draws` per recipe."""
    return [
        QualityCase(f"{recipe.name}-{seed}", draw_graph(recipe, seed), recipe.ccr)
        for recipe in RECIPES
        for seed in range(draws)
    ]


def wide_cases(per_ratio: int = 12) -> list[QualityCase]:
    """Return random graphs of many shapes with 20 to 150 tasks, three CCRs."""
    seeds = [
        (ccr, FRESH_SEED + 1000 * i + k) for i, ccr in enumerate(RATIOS) for k in range(per_ratio)
    ]
    return [
        QualityCase(f"wide-{seed}", draw_problem(seed, ccr=ccr, least=20, most=150), ccr)
        for ccr, seed in seeds
    ]


def compare(
    cases: Sequence[QualityCase],
    *,
    seeds: Sequence[int],
    budgets: Sequence[float] = BUDGETS,
    wall: bool = False,
) -> Iterator[AmortisedRun]:
    """Run all contenders in turns; every schedule is checked."""
    for case in cases:
        heft = plan(case.problem, "heft").makespan
        for seed in seeds:
            yield _run(case, "one pass", None, seed, heft, wall)
            yield from (
                _run(case, name, seconds, seed, heft, wall)
                for seconds in budgets
                for name in SEARCHES
            )


def _run(
    case: QualityCase, name: str, seconds: float | None, seed: int, heft: float, wall: bool
) -> AmortisedRun:
    planner = _planner(name, None if wall else 1)
    with nullcontext() if wall else processor_time():
        begin = now()
        made = plan(case.problem, planner, seconds=seconds, seed=seed)
        took = now() - begin
    if faults := check(case.problem, made.schedule):
        raise AssertionError(f"{name} made an invalid schedule for {case.name}: {faults[0]}")
    return AmortisedRun(case.name, case.ccr, name, seconds, seed, made.makespan, heft, took)


def _planner(name: str, threads: int | None) -> Amortised | Anytime:
    if name == "anytime":
        return Anytime(threads=threads)
    return Amortised(threads=threads, network=name != "moves alone", search=name != "one pass")


def warm_up() -> None:
    """Compile, or read from the cache, before the measurement."""
    problem = Problem.from_arrays([[1.0, 2.0], [2.0, 1.0]], [[0, 1]], 1.0, bandwidth=1.0)
    for name in (*SEARCHES, "one pass"):
        plan(problem, _planner(name, 1), seconds=None if name == "one pass" else 0.01)


# -- tables ------------------------------------------------------------------------------


def table_of(runs: Sequence[AmortisedRun]) -> list[dict[str, Any]]:
    """Return contender, limit, median time, and mean share below HEFT per CCR."""
    rows = []
    for name, seconds in dict.fromkeys((run.contender, run.seconds) for run in runs):
        mine = [run for run in runs if (run.contender, run.seconds) == (name, seconds)]
        below = {
            f"{c:g}": float(np.mean([run.below for run in mine if run.ccr == c])) for c in RATIOS
        }
        rows.append(
            {
                "contender": name,
                "limit": seconds,
                "took": float(np.median([run.took for run in mine])),
                **below,
            }
        )
    return sorted(rows, key=lambda row: row["limit"] or 0.0)


def differences(
    runs: Sequence[AmortisedRun], one: str, other: str, seconds: float
) -> dict[str, Any]:
    """Return mean log(makespan ratio) per CCR and overall, with errors."""
    value = {
        (run.graph, run.seed): np.log(run.makespan)
        for run in runs
        if (run.contender, run.seconds) == (other, seconds)
    }
    by_graph: dict[tuple[float, str], list[float]] = {}
    for run in runs:
        if (run.contender, run.seconds) == (one, seconds):
            by_graph.setdefault((run.ccr, run.graph), []).append(
                float(np.log(run.makespan) - value[run.graph, run.seed])
            )
    row: dict[str, Any] = {"comparison": f"{one} over {other}", "limit": seconds}
    for ccr in (*RATIOS, None):
        means = np.array(
            [np.mean(changes) for (c, _), changes in by_graph.items() if ccr in (None, c)]
        )
        key = "all" if ccr is None else f"{ccr:g}"
        row[key] = float(means.mean())
        row[f"{key} error"] = (
            float(means.std(ddof=1) / np.sqrt(len(means))) if len(means) > 1 else None
        )
    return row


def possible_gain(
    cases: Sequence[QualityCase], *, seconds: Sequence[float] = LONG, ccr: float = 0.1
) -> list[dict[str, Any]]:
    """Return the share below HEFT of long searches at one CCR, and its upper bound."""
    chosen = [case for case in cases if case.ccr == ccr]
    chosen = chosen[:: max(1, math.ceil(len(chosen) / LONG_GRAPHS))]
    heft = {case.name: plan(case.problem, "heft").makespan for case in chosen}
    bound = float(np.mean([1.0 - lower_bound(case.problem) / heft[case.name] for case in chosen]))
    rows = []
    for limit in seconds:
        below = [_run(case, "anytime", limit, 0, heft[case.name], False).below for case in chosen]
        rows.append(
            {
                "contender": "anytime",
                "limit": limit,
                "ccr": ccr,
                "graphs": len(chosen),
                "below": float(np.mean(below)),
            }
        )
    return [
        *rows,
        {
            "contender": "bound of any schedule",
            "limit": None,
            "ccr": ccr,
            "graphs": len(chosen),
            "below": bound,
        },
    ]


def findings(
    folder: Path | None = None,
    *,
    draws: int = 4,
    wide: int = 12,
    seeds: int = 3,
    long: Sequence[float] = LONG,
    wall: bool = False,
) -> dict[str, Any]:
    """Run all sets; return graphs, rows, differences and possible gain of each."""
    sets: dict[str, list[QualityCase]] = (
        {} if folder is None else {"published graphs": static_cases(folder)}
    )
    sets |= {
        "random graphs like them": published_like_cases(draws),
        "random graphs of many shapes": wide_cases(wide),
    }
    warm_up()
    found: dict[str, Any] = {
        "seeds": seeds,
        "clock": "wall clock, all cores" if wall else "processor time, one core",
        "sets": {},
    }
    for name, cases in sets.items():
        runs = list(compare(cases, seeds=range(seeds), wall=wall))
        pairs = (("amortised", "anytime"), ("moves alone", "anytime"), ("amortised", "moves alone"))
        found["sets"][name] = {
            "graphs": len(cases),
            "rows": table_of(runs),
            "differences": [
                differences(runs, one, other, seconds)
                for seconds in BUDGETS
                for one, other in pairs
            ],
            "possible_gain": possible_gain(cases, seconds=long) if long else [],
        }
    return found


def columns() -> Columns:
    """Return the columns of `table_of`."""
    shares = [Column(f"{c:g}", f"below HEFT, CCR {c:g}", unit="%", places=2) for c in RATIOS]
    return [
        Column("contender", "planner"),
        Column("limit", unit="s"),
        Column("took", "took (median)", unit="s"),
        *shares,
    ]


def difference_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return differences as text: mean and standard error in percent."""
    keys = [*(f"{c:g}" for c in RATIOS), "all"]

    def cell(row: Mapping[str, Any], key: str) -> str:
        error = row[f"{key} error"]
        return f"{100 * row[key]:+.2f} %" + ("" if error is None else f" \u00b1 {100 * error:.2f}")

    return [
        {"comparison": row["comparison"], "limit": row["limit"]}
        | {key: cell(row, key) for key in keys}
        for row in rows
    ]


def difference_columns() -> Columns:
    """Return the columns of `difference_rows`."""
    return [
        Column("comparison", "mean of log(makespan)"),
        Column("limit", unit="s"),
        *(Column(f"{c:g}", f"CCR {c:g}") for c in RATIOS),
        "all",
    ]


GAIN_COLUMNS: Columns = [
    Column("contender", "planner"),
    Column("limit", unit="s"),
    "graphs",
    Column("below", "below HEFT, CCR 0.1", unit="%", places=2),
]


def main(folder: str = "", seeds: str = "2", clock: str = "processor") -> None:
    """Print the tables."""
    found = findings(Path(folder) if folder else None, seeds=int(seeds), wall=clock == "wall")
    print(f"{found['clock']}, {seeds} seeds")
    for name, part in found["sets"].items():
        print(f"\n{part['graphs']} {name}\n\n{table_text(part['rows'], columns())}\n")
        print(table_text(difference_rows(part["differences"]), difference_columns()) + "\n")
        print(table_text(part["possible_gain"], GAIN_COLUMNS), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
