"""`Comparison`: the result of `compare` as a table, as sentences and as a page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.display import Displayed
from weft.model import Trace, Workload
from weft.model.explain import PARTS, Explanation, compare_explanations, explain
from weft.model.explain.quantities import format_seconds, format_share, list_text
from weft.model.metrics import TraceMetrics
from weft.planners.planner import EXACT
from weft.report.causes.contenders import Answer, ContenderBar, difference_sentences
from weft.report.page import Dag, Facts, Gantts, PageBlock, Section, Table, Text, write_report
from weft.report.tables import Column, table_text

MOST_CHARTS, MOST_DAGS = 12, 4
"""Gantt charts and graphs on a page, per problem or workload."""

COLUMNS = (
    Column("contender"),
    Column("kind"),
    Column("makespan", unit="s", marked="best"),
    Column("speedup", digits=3),
    Column("gap", unit="%", digits=3),
    Column("utilisation", "utilised", unit="%", digits=3),
    Column("seconds", "planned in", unit="s", digits=3),
)

JCT = (
    Column("jct", "mean JCT", unit="s", best="min"),
    Column("jct_p95", "p95 JCT", unit="s", best="min"),
    Column("jct_p99", "p99 JCT", unit="s", best="min"),
)

IN_TIME = Column("in_time", "in time", unit="%", digits=3, best="max")

OBJECTIVES: dict[str, tuple[str, Callable[[TraceMetrics], float]]] = {
    "makespan": ("makespan", lambda found: found.makespan),
    "mean": ("jct", lambda found: found.jct),
    "p95": ("jct_p95", lambda found: found.jct_p95),
    "p99": ("jct_p99", lambda found: found.jct_p99),
    "deadline": ("in_time", lambda found: 1.0 - found.in_time_share),
}
"""Objective -> its column, and the value of a trace, the lower the better."""

ENERGY = Column("energy", unit="J", best="min")

COST = Column("cost", "rent", unit="money", best="min")

SLR = Column("slr", "SLR")

SPREAD = (Column("half", "± 95 %", unit="s", digits=2), Column("wins", "won"))
"""Columns of a comparison over several scenarios."""


@dataclass(frozen=True)
class Row:
    """One contender on one problem; means over the scenarios.

    Attributes
    ----------
    kind : planner, policy or plan
    jct, jct_p95, jct_p99 : job completion time in seconds: mean, 95th and 99th percentile
    in_time : share of the jobs with a deadline that finished by it
    makespan : seconds in the simulator; planned : seconds the plan promised (NaN for a policy)
    slr, speedup, utilisation : see `weft.model.metrics`
    gap : makespan / bound - 1, where the bound is proven for the estimated durations (NaN for
        conditional workflows)
    energy, cost : joules, and money for the rent of all devices, until the last task ends
    seconds : time to plan, without compilation (NaN for a policy)
    low, high : bootstrap interval (95 %) of the mean of the objective, by default the makespan;
        wins : scenarios in which it was the smallest
    best : the smallest mean, or not to be told apart from it in paired comparisons
    refusal : why there are no figures: the unsupported feature
    """

    problem: str
    contender: str
    kind: str
    makespan: float = np.nan
    jct: float = np.nan
    jct_p95: float = np.nan
    jct_p99: float = np.nan
    in_time: float = np.nan
    planned: float = np.nan
    slr: float = np.nan
    speedup: float = np.nan
    gap: float = np.nan
    seconds: float = np.nan
    utilisation: float = np.nan
    low: float = np.nan
    high: float = np.nan
    wins: int | None = None
    best: bool = False
    energy: float = np.nan
    cost: float = np.nan
    refusal: str = ""

    @property
    def half(self) -> float:
        """Half the interval of the mean of the objective."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, eq=False)
class Comparison(Displayed):
    """A table of rows, by problem and makespan; prints as aligned text.

    Attributes
    ----------
    traces : (problem, contender) -> the trace under the first scenario
    samples : (problem, contender) -> traces under the first scenarios, as many as fit
    bounds : problem -> proven lower bound without copies
    """

    rows: tuple[Row, ...]
    workloads: tuple[Workload, ...] = field(repr=False)
    scenarios: int
    seed: int
    traces: dict[tuple[str, str], Trace] = field(repr=False, default_factory=dict)
    bounds: dict[str, float] = field(repr=False, default_factory=dict)
    samples: dict[tuple[str, str], tuple[Trace, ...]] = field(repr=False, default_factory=dict)
    objective: str = "makespan"

    def __str__(self) -> str:
        """The table as text."""
        return "\n\n".join(self._section(name) for name in self.bounds)

    def document(self) -> dict[str, object]:
        """Return the table as plain data; NaN becomes None."""
        rows = [
            {key: None if _is_nan(value) else value for key, value in asdict(row).items()}
            for row in self.rows
        ]
        answers = {w.name: {**self.answer(w).document(), "jobs": w.jobs} for w in self.workloads}
        return {
            "scenarios": self.scenarios,
            "seed": self.seed,
            "objective": self.objective,
            "bounds": self.bounds,
            "rows": rows,
            "answers": answers,
        }

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
        """Return the rows of one problem, best first."""
        return [row for row in self.rows if row.problem == problem]

    def _page_section(self, workload: Workload) -> Section:
        rows = self.of(workload.name)
        blocks: list[PageBlock] = [
            self.answer(workload),
            Facts(dict(self._facts(workload))),
            self.table(workload),
        ]
        blocks += [Text(f"{row.contender}: {row.refusal}") for row in rows if row.refusal]
        charts = {
            row.contender: self.traces[workload.name, row.contender]
            for row in rows
            if not row.refusal
        }
        if charts:
            shown = dict(list(charts.items())[:MOST_CHARTS])
            some = f"the best {len(shown)} of {len(charts)}"
            which = "all contenders" if len(shown) == len(charts) else some
            about = "in the first scenario" if self.scenarios > 1 else "as planned or decided"
            blocks.append(
                Gantts(
                    shown,
                    caption=f"Executions {about}: {which}.",
                    bound=self.bounds[workload.name] if self.scenarios == 1 else None,
                )
            )
        dags = [
            Dag(p.workflow, caption=f"Workflow {p.name}.", template=k)
            for k, p in enumerate(workload.problems[:MOST_DAGS])
        ]
        return Section(workload.name, [*blocks, *dags])

    def answer(self, workload: Workload) -> Answer:
        """Return sentences and bars on one problem: gain of the best, use of time."""
        rows = [row for row in self.of(workload.name) if not row.refusal]
        found = {row.contender: self._explained(workload, row) for row in rows}
        bound = self.bounds[workload.name]
        first = {name: some[0] for name, some in found.items()}
        sentences = [self._headline(workload, rows, bound)] if rows else []
        differences = difference_sentences(first) if len(first) > 1 else []
        if self.scenarios > 1 and differences:  # the figures above are means
            differences[0] = f"In the first scenario, {differences[0]}"
        sentences += differences
        best = next(iter(first.values()), None)
        if self.objective != "makespan":  # the interval is not of the bar's quantity
            rows = [replace(row, low=np.nan, high=np.nan) for row in rows]
        bars = [_bar(row, found[row.contender], best) for row in rows]
        return Answer(bars, bound, sentences, self.scenarios)

    def _headline(self, workload: Workload, rows: Sequence[Row], bound: float) -> str:
        if self.objective == "makespan":
            return _headline(workload, rows, bound)
        value = getattr(rows[0], OBJECTIVES[self.objective][0])
        if self.objective == "deadline":
            found = f"{format_share(value)} of the jobs in time"
        else:
            found = f"{self.objective} completion {format_seconds(value)}"
        return f"{workload.name} on {_devices_text(workload)}: {rows[0].contender}, {found}."

    def table(self, workload: Workload) -> Table:
        """Return the rows of one problem."""
        rows = [_cells(row) for row in self.of(workload.name)]
        return Table(rows, _columns(workload, self.scenarios, self.objective))

    def _explained(self, workload: Workload, row: Row) -> list[Explanation]:
        key = workload.name, row.contender
        traces = self.samples.get(key, (self.traces[key],))
        return [replace(explain(trace), name=row.contender) for trace in traces]

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
        rows = [_cells(row) for row in self.of(name)]
        notes = [f"{row.contender}: {row.refusal}" for row in self.of(name) if row.refusal]
        columns = _columns(workload, self.scenarios, self.objective)
        return "\n".join([head, "", table_text(rows, columns), *notes])


def columns_of(
    *,
    jobs: int,
    scenarios: int,
    energy: bool = False,
    cost: bool = False,
    deadlines: bool = False,
    objective: str = "makespan",
) -> tuple[Column, ...]:
    """Return the columns for a number of jobs and of scenarios."""
    jct = (*(JCT if jobs > 1 else ()), *((IN_TIME,) if deadlines else ()))
    spread = SPREAD if scenarios > 1 else (SLR,)
    money = (*((ENERGY,) if energy else ()), *((COST,) if cost else ()))
    columns = (*COLUMNS[:3], *jct, *spread, *COLUMNS[3:-1], *money, COLUMNS[-1])
    if objective == "makespan":
        return columns
    changes: dict[str, dict[str, Any]] = {"makespan": {"marked": ""}}
    changes[OBJECTIVES[objective][0]] = {"best": None, "marked": "best"}
    if objective == "deadline":
        changes["half"] = {"unit": "%"}
    return tuple(replace(c, **changes.get(c.key, {})) for c in columns)


def _columns(workload: Workload, scenarios: int, objective: str) -> tuple[Column, ...]:
    """Return the columns; energy and cost only where devices have power and prices."""
    cluster = workload.cluster
    return columns_of(
        jobs=workload.jobs,
        scenarios=scenarios,
        energy=bool(cluster.power.any() or cluster.idle_power.any()),
        cost=bool(cluster.price.any()),
        deadlines=bool(np.isfinite(workload.deadline).any()),
        objective=objective,
    )


def _cells(row: Row) -> dict[str, Any]:
    return {**asdict(row), "half": row.half}


def _headline(workload: Workload, rows: Sequence[Row], bound: float) -> str:
    """Name the best contenders, their makespan and their distance to the bound."""
    best = [row for row in rows if row.best] or list(rows[:1])
    names = list_text([row.contender for row in best[:4]])
    if len(best) > 4:
        names += f" and {len(best) - 4} more"
    where = f"{workload.name} on {_devices_text(workload)}"
    text = f"{where}: {names}, {format_seconds(rows[0].makespan)}"
    if len(best) > 1 and best[-1].makespan > rows[0].makespan * (1 + EXACT):
        text = f"{where}: {names} cannot be told apart, {format_seconds(rows[0].makespan)}"
        text += f" to {format_seconds(best[-1].makespan)}"
    gap = rows[0].gap
    if bound > 0 and not math.isnan(gap) and gap >= 0:
        text += ", optimal" if gap == 0 else f", at most {format_share(gap)} above the optimum"
    return f"{text}."


def _devices_text(workload: Workload) -> str:
    """Count the devices by kind, if they have few kinds."""
    count = Counter(workload.cluster.kinds)
    if len(count) > 4 or set(count) <= {"device", *workload.cluster.names}:
        return f"{workload.cluster.p} devices"
    return ", ".join(f"{n} {kind}" for kind, n in count.items())


def _bar(row: Row, found: Sequence[Explanation], best: Explanation | None) -> ContenderBar:
    total = sum(one.makespan for one in found) or 1.0
    parts = {part: row.makespan * sum(one.parts[part] for one in found) / total for part in PARTS}
    about = found[0].sentence
    if best is not None and best.name != row.contender:
        about = compare_explanations(best, found[0]).sentence
    return ContenderBar(
        row.contender, row.makespan, parts, row.low, row.high, row.wins, row.best, about
    )


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)
