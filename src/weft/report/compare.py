"""`compare`: planners and policies on the same problems and scenarios."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, TypeAlias

import numpy as np

from weft.arguments import positive, valid_seed, whole
from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.formats.loading import load_work
from weft.model import Problem, Scenario, Schedule, Trace, Workload
from weft.model.columns import FloatArray
from weft.model.metrics import TraceMetrics, trace_metrics
from weft.planners import Plan
from weft.planners.bounds import lower_bound
from weft.planners.planner import EXACT, timed_plan
from weft.policies import simulate
from weft.progress import Track
from weft.registry import closest
from weft.report.comparison import OBJECTIVES, Comparison, Row
from weft.report.statistics import Standing, standings
from weft.runtime.deciders.contender import load_contender
from weft.typed import typed

Given: TypeAlias = Problem | Workload | str | PathLike[str]
"""A problem, a workload, or the path of one."""

Compared = Any
"""The name of a planner or policy, a planner, or anything that `simulate` takes as a policy."""

SAMPLED_ROWS = 20_000
"""Executions of a contender that are kept, beyond the trace of its first scenario."""


@typed
def compare(
    problems: Given | Sequence[Given],
    contenders: Compared | Sequence[Compared],
    *,
    scenarios: int = 1,
    seed: int = 0,
    seconds: float | None = None,
    objective: str = "makespan",
    noise: float = 0.0,
    bias: float = 0.0,
    slowdowns: float = 0.0,
    failures: float = 0.0,
    cancellations: float = 0.0,
    track: Track = iter,
) -> Comparison:
    """Run every contender on every problem under the same scenarios.

    Plans are replayed.

    Parameters
    ----------
    problems : a problem, a workload (a stream of jobs), the path of a file that holds one (or a
        workflow with machines), or several of them
    contenders : names of planners and policies (a name that is both means the planner), paths of
        trained policies, planners, policies, plans or schedules; a single one need not be in a list
    scenarios : futures to draw, from noise, bias, slowdowns, failures and cancellations (see
        `Scenario.draw`)
    seconds : time limit of each plan, for planners that search
    objective : what counts: `makespan`, `mean`, `p95` or `p99` of job completion times, or
        `deadline`, the share of jobs in time
    track : goes through the pairs of a workload and a contender, for example `tqdm.tqdm`

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> [(row.contender, row.makespan) for row in compare(problem, ["heft", "round-robin"]).rows]
    [('heft', 5.0), ('round-robin', 8.0)]
    """
    scenarios = whole(scenarios, "scenarios", most=10**6)
    seed, seconds = valid_seed(seed), positive(seconds, "seconds")
    if objective not in OBJECTIVES:
        raise UnknownName(f"unknown objective '{objective}'{closest(objective, OBJECTIVES)}")
    workloads = _workloads(problems, objective)
    chosen = _chosen(contenders)
    drawn = {"noise": noise, "bias": bias, "slowdowns": slowdowns}
    drawn |= {"failures": failures, "cancellations": cancellations}
    futures = {
        w.name: [Scenario.draw(w, seed=seed + s, **drawn) for s in range(scenarios)]
        for w in workloads
    }
    bounds = {w.name: _lower_bound(w) for w in workloads}
    rows: list[Row] = []
    traces: dict[tuple[str, str], Trace] = {}
    samples: dict[tuple[str, str], tuple[Trace, ...]] = {}
    measured: dict[tuple[str, str], FloatArray] = {}
    labels = _labels(_listed(contenders), chosen)
    for workload, contender in track([(w, c) for w in workloads for c in chosen]):
        row, kept, measured[workload.name, labels[id(contender)]] = _measure(
            workload,
            contender,
            labels[id(contender)],
            futures[workload.name],
            bounds[workload.name],
            seconds=seconds,
            seed=seed,
            worth=OBJECTIVES[objective][1],
        )
        rows.append(row)
        if kept:
            traces[workload.name, row.contender] = kept[0]
            samples[workload.name, row.contender] = kept
    if all(row.refusal for row in rows):  # nothing is left to compare
        raise Unsupported(rows[0].refusal)
    rows = _ranked(rows, measured)
    return Comparison(tuple(rows), workloads, scenarios, seed, traces, bounds, samples, objective)


def _listed(given: Any) -> Sequence[Any]:
    """Return a list as it is; put a single object or path into one."""
    return given if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _chosen(contenders: Compared | Sequence[Compared]) -> list[Compared]:
    chosen = [load_contender(c) for c in _listed(contenders)]
    if not chosen:
        raise InvalidInput("contenders is empty; name planners or policies (see: weft list)")
    return chosen


def _workloads(given: Given | Sequence[Given], objective: str) -> tuple[Workload, ...]:
    """Return workloads under distinct names; refuse an objective that needs others."""
    workloads = _with_unique_names([_workload(one) for one in _listed(given)])
    if not workloads:
        raise InvalidInput("problems is empty; give a Problem or a Workload")
    if objective == "deadline" and not any((w.deadline < math.inf).any() for w in workloads):
        raise InvalidInput(
            "the objective is 'deadline', but none of the problems has deadlines; give workloads "
            "with deadlines, or another objective"
        )
    return workloads


def _workload(given: Given) -> Workload:
    if isinstance(given, str | PathLike):
        given = load_work(given)
    if isinstance(given, Workload):
        return given
    if not isinstance(given, Problem):
        raise InvalidInput(
            f"cannot compare on a {type(given).__name__}; give a Problem, a Workload or a path"
        )
    return replace(Workload.of(given), name=given.name)


def _lower_bound(workload: Workload) -> float:
    """Return a bound on the makespan of a single job; 0 where none is known."""
    single = workload.jobs == 1 and not workload.problems[0].workflow.conditional
    return lower_bound(workload.problems[0]) if single and workload.arrival[0] == 0 else 0.0


def _measure(
    workload: Workload,
    contender: Compared,
    name: str,
    futures: list[Scenario],
    bound: float,
    *,
    seconds: float | None,
    seed: int,
    worth: Callable[[TraceMetrics], float],
) -> tuple[Row, tuple[Trace, ...], FloatArray]:
    kind = _kind(contender)
    made: list[Plan] = _given_plan(contender, workload)
    try:
        if kind == "planner":
            made = [timed_plan(p, contender, seconds=seconds, seed=seed) for p in workload.problems]
        decider = [p.schedule for p in made] if kind == "planner" else contender
        traces = [simulate(workload, decider, scenario=future, seed=seed) for future in futures]
    except Unsupported as error:
        return Row(workload.name, name, kind, refusal=str(error)), (), np.zeros(0)
    figures = [trace_metrics(trace) for trace in traces]
    makespan = _mean([f.makespan for f in figures])
    single = made[0] if len(made) == 1 and workload.jobs == 1 else None
    bound = _bound_for(single, bound)
    row = Row(
        problem=workload.name,
        contender=name,
        kind=kind,
        makespan=makespan,
        jct=_mean([float(trace.jct) for trace in traces]),
        jct_p95=_mean([f.jct_p95 for f in figures]),
        jct_p99=_mean([f.jct_p99 for f in figures]),
        in_time=_mean([f.in_time_share for f in figures]),
        planned=single.makespan if single is not None else np.nan,
        slr=_mean([f.slr for f in figures]),
        speedup=_mean([f.speedup for f in figures]),
        gap=_gap(makespan, bound),
        seconds=sum(p.seconds for p in made) if made else np.nan,
        utilisation=_mean([f.utilisation for f in figures]),
        energy=_mean([f.energy for f in figures]),
        cost=_mean([f.cost for f in figures]),
    )
    keep = max(1, SAMPLED_ROWS // max(1, len(traces[0])))
    kept = tuple(trace.named(name) for trace in traces[:keep])
    values = np.array([worth(f) for f in figures])
    if not np.isfinite(values).all():
        raise InvalidInput(
            f"no job of '{workload.name}' ends in scenario {int(np.isfinite(values).argmin())} "
            f"under '{name}': all are cancelled; give fewer cancellations, another seed, or the "
            "objective 'makespan'"
        )
    return row, kept, values


def _ranked(rows: Sequence[Row], measured: dict[tuple[str, str], FloatArray]) -> list[Row]:
    """Add intervals, wins and marks of the best to the rows; sort each problem."""
    found: dict[str, dict[str, Standing]] = {}
    for problem in dict.fromkeys(row.problem for row in rows):
        known = {c: m for (p, c), m in measured.items() if p == problem and len(m)}
        found[problem] = standings(known)
    place = {problem: i for i, problem in enumerate(found)}
    means = {key: float(np.mean(m)) if len(m) else math.inf for key, m in measured.items()}

    def rank(row: Row) -> tuple[int, bool, float, float]:
        mean = means[row.problem, row.contender]
        return place[row.problem], math.isnan(row.makespan), mean, row.makespan

    ranked = [row if row.refusal else _with_standing(row, found[row.problem]) for row in rows]
    return sorted(ranked, key=rank)


def _with_standing(row: Row, found: dict[str, Standing]) -> Row:
    own = found[row.contender]
    best = own.best and len(found) > 1
    return replace(row, low=own.low, high=own.high, wins=own.wins, best=best)


def _gap(makespan: float, bound: float) -> float:
    """Return how far the makespan is above its bound; rounding errors count as 0."""
    if bound <= 0:
        return np.nan
    return 0.0 if abs(makespan / bound - 1.0) < EXACT else makespan / bound - 1.0


def _bound_for(made: Plan | None, bound: float) -> float:
    """Return the bound of a plan: another one with copies, or a better one it proved."""
    if made is None:
        return bound
    return made.bound if made.schedule.copies else max(bound, made.proved)


def _given_plan(contender: Compared, workload: Workload) -> list[Plan]:
    """Return a contender that is a plan of this very problem: its bound holds."""
    own = isinstance(contender, Plan) and contender.problem is workload.problems[0]
    return [contender] if own else []


def _kind(contender: Compared) -> str:
    if isinstance(contender, Plan | Schedule):
        return "plan"
    return "planner" if hasattr(contender, "solve") else "policy"


def _name(contender: Compared) -> str:
    """Return the name of a planner or policy, of a plan's planner, else of the type."""
    if isinstance(contender, Plan):
        return contender.planner
    return str(getattr(contender, "name", type(contender).__name__.lower()))


def _labels(given: Sequence[Any], chosen: Sequence[Compared]) -> dict[int, str]:
    """Return distinct names, by paths for trained policies and by kinds."""
    labels: dict[int, str] = {}
    names = Counter(map(_name, chosen))
    for one, contender in zip(given, chosen, strict=True):
        name = _name(contender)
        path = [str(one)] if names[name] > 1 and isinstance(one, str | PathLike) else []
        choices = (
            *path,
            name,
            f"{name} ({_kind(contender)})",
            *(f"{name} #{i}" for i in range(2, len(chosen) + 2)),
        )
        labels.setdefault(
            id(contender), next(label for label in choices if label not in labels.values())
        )
    return labels


def _with_unique_names(workloads: Sequence[Workload]) -> tuple[Workload, ...]:
    seen: dict[str, int] = {}
    named = []
    for workload in workloads:
        seen[workload.name] = seen.get(workload.name, 0) + 1
        again = seen[workload.name]
        named.append(
            workload if again == 1 else replace(workload, name=f"{workload.name} ({again})")
        )
    return tuple(named)


def _mean(values: list[float]) -> float:
    return float(np.mean(values))
