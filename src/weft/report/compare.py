"""`compare`: planners and policies on the same problems and scenarios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput, Unsupported
from weft.model import Problem, Scenario, Trace, Workload
from weft.model.metrics import trace_metrics
from weft.planners import Plan, plan
from weft.planners.bounds import lower_bound
from weft.planners.planner import EXACT
from weft.policies import simulate
from weft.registry import reject_unknown
from weft.report.page import Dag, Facts, Gantts, PageBlock, Section, Table, Text, write_report
from weft.report.quantities import format_seconds
from weft.report.tables import Column, table_text
from weft.runtime.deciders.contender import load_contender

Contender = Any
"""The name of a planner or policy, a planner, or whatever `simulate` takes as a policy."""

CompareProgress = Callable[
    [Sequence[tuple[Workload, Contender]]], Iterable[tuple[Workload, Contender]]
]


@dataclass(frozen=True)
class Row:
    """One contender on one problem; means over the scenarios.

    Attributes
    ----------
    kind : planner or policy
    jct : mean job completion time in seconds
    makespan : seconds in the simulator; planned : seconds the plan promised (NaN for a policy)
    slr, speedup, utilisation : see `weft.model.metrics`
    gap : makespan / bound - 1, where the bound is proven for the estimated durations (NaN for
        conditional workflows)
    energy, cost : joules, and money for the rent of all devices, until the last task ends
    seconds : time to plan (NaN for a policy)
    refusal : why there are no figures: the unsupported feature
    """

    problem: str
    contender: str
    kind: str
    makespan: float = np.nan
    jct: float = np.nan
    planned: float = np.nan
    slr: float = np.nan
    speedup: float = np.nan
    gap: float = np.nan
    seconds: float = np.nan
    utilisation: float = np.nan
    energy: float = np.nan
    cost: float = np.nan
    refusal: str = ""


@dataclass(frozen=True, eq=False)
class Comparison:
    """A table of rows, by problem and makespan; prints as aligned text.

    Attributes
    ----------
    traces : (problem, contender) -> the trace under the first scenario
    bounds : problem -> proven lower bound without copies
    """

    rows: tuple[Row, ...]
    workloads: tuple[Workload, ...] = field(repr=False)
    scenarios: int
    seed: int
    traces: dict[tuple[str, str], Trace] = field(repr=False, default_factory=dict)
    bounds: dict[str, float] = field(repr=False, default_factory=dict)

    def __str__(self) -> str:
        """The table as text."""
        return "\n\n".join(self._section(name) for name in self.bounds)

    def document(self) -> dict[str, object]:
        """The table as plain data; NaN becomes None."""
        rows = [
            {key: None if _is_nan(value) else value for key, value in asdict(row).items()}
            for row in self.rows
        ]
        return {"scenarios": self.scenarios, "seed": self.seed, "bounds": self.bounds, "rows": rows}

    def to_html(self, path: str | Path) -> None:
        """Write a self-contained page: the table, the DAGs and the Gantt charts."""
        several = f", mean of {self.scenarios} drawn futures" if self.scenarios > 1 else ""
        write_report(
            path,
            title="Comparison of planners and policies",
            lead="Every contender in the same simulator on the same scenarios (seed "
            f"{self.seed}{several}).",
            sections=[self._page_section(workload) for workload in self.workloads],
        )

    def of(self, problem: str) -> list[Row]:
        """The rows of one problem, best first."""
        return [row for row in self.rows if row.problem == problem]

    def _page_section(self, workload: Workload) -> Section:
        rows = self.of(workload.name)
        blocks: list[PageBlock] = [
            Facts(dict(self._facts(workload))),
            Table([asdict(row) for row in rows], _columns(workload)),
        ]
        blocks += [Text(f"{row.contender}: {row.refusal}") for row in rows if row.refusal]
        charts = {
            row.contender: self.traces[workload.name, row.contender]
            for row in rows
            if not row.refusal
        }
        if charts:
            shown = dict(list(charts.items())[:MOST_CHARTS])
            which = (
                "all contenders"
                if len(shown) == len(charts)
                else f"the best {len(shown)} of {len(charts)}"
            )
            blocks.append(Gantts(shown, caption=f"Traces in the first scenario: {which}."))
        dags = [
            Dag(p.workflow, caption=f"Workflow {p.name}.") for p in workload.problems[:MOST_DAGS]
        ]
        return Section(workload.name, [*blocks, *dags])

    def _facts(self, workload: Workload) -> list[tuple[str, str]]:
        facts = [("jobs", f"{workload.jobs:,}")] if workload.jobs > 1 else []
        facts += [
            ("tasks", f"{workload.instances:,}"),
            ("edges", f"{sum(workload.problems[t].m for t in workload.template):,}"),
            ("devices", f"{workload.cluster.p:,}"),
        ]
        if self.bounds[workload.name] > 0:
            facts.append(("bound", format_seconds(self.bounds[workload.name])))
        return facts

    def _section(self, name: str) -> str:
        workload = next(w for w in self.workloads if w.name == name)
        head = f"{name}: " + ", ".join(f"{label} {value}" for label, value in self._facts(workload))
        if self.scenarios > 1:
            head += f", scenarios {self.scenarios}"
        rows = [asdict(row) for row in self.of(name)]
        notes = [f"{row.contender}: {row.refusal}" for row in self.of(name) if row.refusal]
        return "\n".join([head, "", table_text(rows, _columns(workload)), *notes])


MOST_CHARTS, MOST_DAGS = 12, 4
"""Gantt charts and graphs on a page, per problem or workload."""

COLUMNS = (
    Column("contender"),
    Column("kind"),
    Column("makespan", unit="s", best="min"),
    Column("slr", "SLR"),
    Column("speedup", digits=3),
    Column("gap", unit="%", digits=3),
    Column("utilisation", "utilised", unit="%", digits=3),
    Column("seconds", "planned in", unit="s", digits=3),
)

JCT = Column("jct", "mean JCT", unit="s", best="min")
ENERGY = Column("energy", unit="J", best="min")
COST = Column("cost", "rent", unit="money", best="min")


def _columns(workload: Workload) -> tuple[Column, ...]:
    """Return the columns; energy and cost only where devices have power and prices."""
    cluster = workload.cluster
    jct = (JCT,) if workload.jobs > 1 else ()
    energy = (ENERGY,) if cluster.power.any() or cluster.idle_power.any() else ()
    cost = (COST,) if cluster.price.any() else ()
    return (*COLUMNS[:3], *jct, *COLUMNS[3:-1], *energy, *cost, COLUMNS[-1])


def compare(
    problems: Problem | Workload | Sequence[Problem | Workload],
    contenders: Contender | Sequence[Contender],
    *,
    scenarios: int = 1,
    seed: int = 0,
    seconds: float | None = None,
    progress: CompareProgress = lambda pairs: pairs,
    **uncertainty: float,
) -> Comparison:
    """Run every contender on every problem under the same scenarios; plans are replayed.

    Parameters
    ----------
    problems : a problem, a workload (a stream of jobs), or several of them
    contenders : names of planners and policies (a name that is both means the planner), paths of
        trained policies, or objects; a single one need not be in a list
    scenarios : futures to draw; noise, bias, slowdowns, failures and cancellations say how
        uncertain they are
    seconds : time limit of each plan, for planners that search

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> [(row.contender, row.makespan) for row in compare(problem, ["heft", "round-robin"]).rows]
    [('heft', 5.0), ('round-robin', 8.0)]
    """
    if scenarios < 1:
        raise InvalidInput(f"scenarios is {scenarios}; it must be 1 or more")
    reject_unknown(uncertainty, UNCERTAINTY, "compare")
    workloads = _with_unique_names([_workload(given) for given in _listed(problems)])
    several = isinstance(contenders, Sequence) and not isinstance(contenders, str)
    chosen = [load_contender(c) for c in (contenders if several else [contenders])]
    futures = {
        w.name: [Scenario.draw(w, seed=seed + s, **uncertainty) for s in range(scenarios)]
        for w in workloads
    }
    bounds = {w.name: _lower_bound(w) for w in workloads}
    rows: list[Row] = []
    traces: dict[tuple[str, str], Trace] = {}
    for contender in chosen:
        _warm(contender)
    labels = _labels(chosen)
    for workload, contender in progress([(w, c) for w in workloads for c in chosen]):
        row, trace = _measure(
            workload,
            contender,
            labels[id(contender)],
            futures[workload.name],
            bounds[workload.name],
            seconds=seconds,
            seed=seed,
        )
        rows.append(row)
        if trace is not None:
            traces[workload.name, row.contender] = trace
    place = {w.name: i for i, w in enumerate(workloads)}
    rows.sort(key=lambda row: (place[row.problem], math.isnan(row.makespan), row.makespan))
    return Comparison(tuple(rows), workloads, scenarios, seed, traces, bounds)


UNCERTAINTY = ("noise", "bias", "slowdowns", "failures", "cancellations")


def _listed(given: Problem | Workload | Sequence[Problem | Workload]) -> list[Problem | Workload]:
    return list(given) if isinstance(given, Sequence) else [given]


def _workload(given: Problem | Workload) -> Workload:
    if isinstance(given, Workload):
        return given
    if not isinstance(given, Problem):
        raise InvalidInput(
            f"cannot compare on a {type(given).__name__}; give a Problem or Workload"
        )
    return replace(Workload.of(given), name=given.name)


def _lower_bound(workload: Workload) -> float:
    """Return a bound on the makespan of a single job; 0 where none is known."""
    single = workload.jobs == 1 and not workload.problems[0].workflow.conditional
    return lower_bound(workload.problems[0]) if single and workload.arrival[0] == 0 else 0.0


def _measure(
    workload: Workload,
    contender: Contender,
    name: str,
    futures: list[Scenario],
    bound: float,
    *,
    seconds: float | None,
    seed: int,
) -> tuple[Row, Trace | None]:
    kind = _kind(contender)
    made: list[Plan] = []
    try:
        if kind == "planner":
            made = [plan(p, contender, seconds=seconds, seed=seed) for p in workload.problems]
        decider = [p.schedule for p in made] or contender
        traces = [simulate(workload, decider, scenario=future, seed=seed) for future in futures]
    except Unsupported as error:
        return Row(workload.name, name, kind, refusal=str(error)), None
    figures = [trace_metrics(trace) for trace in traces]
    makespan = _mean([f.makespan for f in figures])
    single = made[0] if len(made) == 1 and workload.jobs == 1 else None
    bound = _bound_for(single, bound)
    return Row(
        problem=workload.name,
        contender=name,
        kind=kind,
        makespan=makespan,
        jct=_mean([float(trace.jct) for trace in traces]),
        planned=single.makespan if single is not None else np.nan,
        slr=_mean([f.slr for f in figures]),
        speedup=_mean([f.speedup for f in figures]),
        gap=_gap(makespan, bound),
        seconds=sum(p.seconds for p in made) if made else np.nan,
        utilisation=_mean([f.utilisation for f in figures]),
        energy=_mean([f.energy for f in figures]),
        cost=_mean([f.cost for f in figures]),
    ), traces[0].named(name)


def _gap(makespan: float, bound: float) -> float:
    """Return how far the makespan is above its bound; rounding errors count as 0."""
    if bound <= 0:
        return np.nan
    return 0.0 if abs(makespan / bound - 1.0) < EXACT else makespan / bound - 1.0


def _warm(contender: Contender) -> None:
    """Compile a planner, or read it from the cache, before the clock runs."""
    if hasattr(contender, "solve"):
        with suppress(Unsupported):
            plan(
                Problem.from_arrays([[1.0, 1.0], [1.0, 1.0]], [[0, 1]], [1.0], bandwidth=1.0),
                contender,
                seconds=0.01,
            )


def _bound_for(made: Plan | None, bound: float) -> float:
    """Return the bound of a plan: another one with copies, or a better one it proved."""
    if made is None:
        return bound
    return made.bound if made.schedule.copies else max(bound, made.proved)


def _kind(contender: Contender) -> str:
    return "planner" if hasattr(contender, "solve") else "policy"


def _labels(chosen: Sequence[Contender]) -> dict[int, str]:
    """Names that tell contenders apart: there is a planner `heft` and a policy `heft`."""
    labels: dict[int, str] = {}
    for contender in chosen:
        name = str(getattr(contender, "name", contender))
        choices = (
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


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _mean(values: list[float]) -> float:
    return float(np.mean(values))
