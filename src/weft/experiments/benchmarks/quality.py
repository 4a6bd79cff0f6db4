"""Plan quality at equal time limits: gap to the best known makespan.

Graphs come from a folder with `results.json` (name -> best known makespan, `ccr`, `n`) and one file
per graph, or are generated; for these the best known makespan is the best of the run. Schedules
better than the published ones are recorded as JSON, one file per graph.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from weft.errors import InvalidInput
from weft.formats import load
from weft.generators import generate_problem, random_cluster
from weft.model import Problem, ProblemArrays
from weft.model.check import check
from weft.model.columns import FloatArray, IntArray
from weft.planners import Plan, plan
from weft.planners.objective import CompiledObjective, Objective
from weft.planners.planner import EXACT
from weft.planners.search.decoder import Decoder, decode, make_decoder
from weft.sim.kernel.jit import njit
from weft.sim.kernel.order_moves import ANY
from weft.sim.kernel.ranks import upward_rank

BUDGETS = (0.025, 0.1, 1.0, 5.0)
"""Time limits per planner and graph, seconds."""

QUICK = ("heft", "cpop", "peft", "lookahead", "dls", "etf")
"""Planners without a time limit."""

SEARCHES = ("genetic", "anytime", "anytime+copies")


@dataclass(frozen=True, eq=False)
class QualityCase:
    """A graph, its CCR, and the best known makespan without copies."""

    name: str
    problem: Problem
    ccr: float
    best: float = np.inf


@dataclass(frozen=True)
class Score:
    """One planner on one graph with one budget."""

    graph: str
    planner: str
    budget: float
    ccr: float
    tasks: int
    devices: int
    makespan: float
    best: float
    bound: float
    status: str
    seconds: float

    @property
    def gap(self) -> float:
        """Share above the best known makespan; negative if better."""
        return self.makespan / self.best - 1.0


def static_cases(folder: Path) -> list[QualityCase]:
    """Return the graphs of a folder with their published best makespans."""
    file = folder / "results.json"
    if not file.is_file():
        raise InvalidInput(
            f"'{folder}' has no results.json; give the folder of graphs with best known makespans"
        )
    rows = json.loads(file.read_text())
    return [
        QualityCase(
            name, load(folder / f"{name}.json"), float(row.get("ccr") or 1.0), float(row["best"])
        )
        for name, row in rows.items()
    ]


def generated_cases(
    *, tasks: Sequence[int] = (30, 100, 300), devices: int = 6, seed: int = 0
) -> list[QualityCase]:
    """Return layered, tiled and scientific graphs at three CCRs."""
    cases = []
    for n in tasks:
        for ccr in (0.1, 1.0, 5.0):
            for shape in ("layered", "cholesky", "montage"):
                cluster = random_cluster(devices=devices, seed=seed + n)
                problem = generate_problem(shape, cluster, seed=seed + n, ccr=ccr, tasks=n)
                cases.append(
                    QualityCase(f"{shape}_n{problem.n}_P{devices}_ccr{ccr:g}", problem, ccr)
                )
    return cases


def scores(
    cases: Sequence[QualityCase],
    *,
    budgets: Sequence[float] = BUDGETS,
    searches: Sequence[str] = SEARCHES,
    seed: int = 0,
) -> Iterator[Score]:
    """Run every planner on every graph.

    Without a published makespan, the best known is the best of this run without copies.
    """
    for case in cases:
        runs = [(name, 0.0, _run(case, name, None, seed)) for name in QUICK]
        runs += [
            (name, budget, _run(case, name, budget, seed))
            for budget in budgets
            for name in searches
        ]
        found = min(made.makespan for _, _, made in runs if made.schedule.copies == 0)
        best = case.best if case.best < np.inf else found
        for name, budget, made in runs:
            yield Score(
                case.name,
                name,
                budget,
                case.ccr,
                case.problem.n,
                case.problem.p,
                made.makespan,
                best,
                made.bound,
                made.status,
                made.seconds,
            )


def count(
    cases: Sequence[QualityCase],
    *,
    budgets: Sequence[float] = BUDGETS,
    searches: Sequence[str] = SEARCHES,
) -> int:
    """Return the number of scores that there will be."""
    return len(cases) * (len(QUICK) + len(budgets) * len(searches))


def _run(case: QualityCase, name: str, seconds: float | None, seed: int) -> Plan:
    planner, _, extra = name.partition("+")
    options = {"duplicate": True} if extra == "copies" else {}
    made = plan(case.problem, planner, seconds=seconds, seed=seed, **options)
    faults = check(case.problem, made.schedule)
    if faults:
        raise AssertionError(f"{name} made an invalid schedule for {case.name}: {faults[0]}")
    return made


def summary(lines: Iterable[Score], *, by: str = "ccr") -> list[tuple[str, ...]]:
    """Return table rows: planner, seconds, mean gaps, worst, better, proved."""
    lines = list(lines)
    groups = sorted({getattr(s, by) for s in lines})
    rows = [("planner", "seconds", *(f"{by} {g:g}" for g in groups), "worst", "better", "proved")]
    for planner, budget in dict.fromkeys((s.planner, s.budget) for s in lines):
        mine = [s for s in lines if (s.planner, s.budget) == (planner, budget)]
        means = [[s.gap for s in mine if getattr(s, by) == g] for g in groups]
        better, proved = (
            sum(s.gap < -EXACT for s in mine),
            sum(s.status == "optimal" for s in mine),
        )
        gaps = [f"{100 * float(np.mean(m)):.2f} %" if m else "-" for m in means]
        rows.append(
            (
                planner,
                f"{budget:g}" if budget else "-",
                *gaps,
                f"{100 * max(s.gap for s in mine):.1f} %",
                str(better),
                str(proved),
            )
        )
    return rows


def table(rows: Sequence[tuple[str, ...]]) -> str:
    """Return the rows as a Markdown table."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def document(lines: Iterable[Score]) -> list[dict[str, object]]:
    """Return the scores for JSON."""
    return [{**asdict(s), "gap": s.gap} for s in lines]


# -- schedules better than the published ones ---------------------------------


def improve(case: QualityCase, folder: Path, *, seconds: float, seed: int = 0) -> float:
    """Search a graph, record a new best schedule, return the best makespan."""
    known = min(case.best, recorded(case.name, folder))
    made = _run(case, "anytime", seconds, seed)
    if made.makespan >= known * (1 - EXACT):
        return known
    s = made.schedule
    entry = {
        "graph": case.name,
        "makespan": made.makespan,
        "published": case.best,
        "bound": made.bound,
        "device": s.device.tolist(),
        "start": s.start.tolist(),
        "finish": s.finish.tolist(),
    }
    (folder / f"{case.name}.json").write_text(json.dumps(entry, indent=1) + "\n")
    return made.makespan


def recorded(name: str, folder: Path) -> float:
    """Return the recorded makespan of a graph, or infinity."""
    file = folder / f"{name}.json"
    return float(json.loads(file.read_text())["makespan"]) if file.is_file() else np.inf


# -- speed of the decoder ------------------------------------------------------


def decodes_per_second(n: int = 50, p: int = 8, *, repeats: int = 20_000) -> float:
    """Return decoded schedules per processor second, all devices tried per task."""
    problem = generate_problem(
        "layered", random_cluster(devices=p, seed=1), seed=1, ccr=1.0, tasks=n
    )
    order = np.argsort(-upward_rank(problem), kind="stable")
    inputs = (
        problem.arrays,
        order,
        np.full(n, ANY),
        np.zeros((n, 1)),
        Objective.of("makespan").compiled(problem),
        make_decoder(n, p),
    )
    _decode_often(*inputs, 1)
    begun = time.process_time()
    _decode_often(*inputs, repeats)
    return repeats / (time.process_time() - begun)


@njit
def _decode_often(
    a: ProblemArrays,
    order: IntArray,
    choice: IntArray,
    tail: FloatArray,
    objective: CompiledObjective,
    w: Decoder,
    repeats: int,
) -> float:
    total = 0.0
    for _ in range(repeats):
        total += decode(a, objective, order, choice, tail, w)
    return total
