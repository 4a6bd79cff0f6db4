"""`compare`: planners and policies on the same problems and scenarios."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.model import Problem, Scenario, Trace, Workload
from weft.model.metrics import trace_metrics
from weft.planners import PLANNERS, Plan, plan
from weft.planners.bounds import lower_bound
from weft.policies import POLICIES, simulate
from weft.registry import closest
from weft.report.page import Dag, Facts, Gantts, PageBlock, Section, Table, Text, write_report
from weft.report.quantities import format_seconds
from weft.report.tables import Column, table_text

Contender = Any
"""The name of a planner or policy, a planner, or whatever `simulate` takes as a policy."""

CompareProgress = Callable[
    [Sequence[tuple[Problem, Contender]]], Iterable[tuple[Problem, Contender]]
]


@dataclass(frozen=True)
class Row:
    """One contender on one problem; means over the scenarios.

    Attributes
    ----------
    kind : planner or policy
    makespan : seconds in the simulator; planned : seconds the plan promised (NaN for a policy)
    slr, speedup, utilisation : see `weft.model.metrics`
    gap : makespan / bound - 1, where the bound is proven for the estimated durations (NaN for
        conditional workflows)
    seconds : time to plan (NaN for a policy)
    refusal : why there are no figures: the unsupported feature
    """

    problem: str
    contender: str
    kind: str
    makespan: float = np.nan
    planned: float = np.nan
    slr: float = np.nan
    speedup: float = np.nan
    gap: float = np.nan
    seconds: float = np.nan
    utilisation: float = np.nan
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
    problems: tuple[Problem, ...] = field(repr=False)
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
            sections=[self._page_section(problem) for problem in self.problems],
        )

    def of(self, problem: str) -> list[Row]:
        """The rows of one problem, best first."""
        return [row for row in self.rows if row.problem == problem]

    def _page_section(self, problem: Problem) -> Section:
        rows = self.of(problem.name)
        blocks: list[PageBlock] = [
            Facts(dict(self._facts(problem))),
            Table([asdict(row) for row in rows], COLUMNS),
        ]
        blocks += [Text(f"{row.contender}: {row.refusal}") for row in rows if row.refusal]
        charts = {
            row.contender: self.traces[problem.name, row.contender]
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
        return Section(problem.name, [*blocks, Dag(problem.workflow, caption="The workflow.")])

    def _facts(self, problem: Problem) -> list[tuple[str, str]]:
        facts = [
            ("tasks", f"{problem.n:,}"),
            ("edges", f"{problem.m:,}"),
            ("devices", f"{problem.p:,}"),
        ]
        if self.bounds[problem.name] > 0:
            facts.append(("bound", format_seconds(self.bounds[problem.name])))
        return facts

    def _section(self, name: str) -> str:
        problem = next(p for p in self.problems if p.name == name)
        head = f"{name}: " + ", ".join(f"{label} {value}" for label, value in self._facts(problem))
        if self.scenarios > 1:
            head += f", scenarios {self.scenarios}"
        rows = [asdict(row) for row in self.of(name)]
        notes = [f"{row.contender}: {row.refusal}" for row in self.of(name) if row.refusal]
        return "\n".join([head, "", table_text(rows, COLUMNS), *notes])


MOST_CHARTS = 12
"""Gantt charts on a page, for each problem."""

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


def compare(
    problems: Problem | Sequence[Problem],
    contenders: Sequence[Contender],
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
    contenders : names of planners and policies (where a name is both, the planner), or objects
    scenarios : futures to draw; further options (noise, bias, slowdowns, failures) say how
        uncertain they are
    seconds : time limit of each plan, for planners that search

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> [(row.contender, row.makespan) for row in compare([problem], ["heft", "round-robin"]).rows]
    [('heft', 5.0), ('round-robin', 8.0)]
    """
    problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
    if scenarios < 1:
        raise InvalidInput(f"scenarios is {scenarios}; it must be 1 or more")
    problems = _with_unique_names(problems)
    chosen = [_contender(c) for c in contenders]
    futures = {
        p.name: [
            Scenario.draw(Workload.of(p), seed=seed + s, **uncertainty) for s in range(scenarios)
        ]
        for p in problems
    }
    bounds = {p.name: 0.0 if p.workflow.conditional else lower_bound(p) for p in problems}
    rows: list[Row] = []
    traces: dict[tuple[str, str], Trace] = {}
    for contender in chosen:
        _warm(contender)
    labels = _labels(chosen)
    for problem, contender in progress([(p, c) for p in problems for c in chosen]):
        label = labels[id(contender)]
        row, trace = _measure(
            problem,
            contender,
            label,
            futures[problem.name],
            bounds[problem.name],
            seconds=seconds,
            seed=seed,
        )
        rows.append(row)
        if trace is not None:
            traces[problem.name, row.contender] = trace
    place = {p.name: i for i, p in enumerate(problems)}
    rows.sort(key=lambda row: (place[row.problem], math.isnan(row.makespan), row.makespan))
    return Comparison(tuple(rows), problems, scenarios, seed, traces, bounds)


def _measure(
    problem: Problem,
    contender: Contender,
    name: str,
    futures: list[Scenario],
    bound: float,
    *,
    seconds: float | None,
    seed: int,
) -> tuple[Row, Trace | None]:
    kind = _kind(contender)
    workload = Workload.of(problem)
    try:
        made = plan(problem, contender, seconds=seconds, seed=seed) if kind == "planner" else None
        decider = made.schedule if made is not None else contender
        traces = [simulate(workload, decider, scenario=future, seed=seed) for future in futures]
    except Unsupported as error:
        return Row(problem.name, name, kind, refusal=str(error)), None
    figures = [trace_metrics(trace) for trace in traces]
    makespan = _mean([f.makespan for f in figures])
    bound = _bound_for(made, bound)
    return Row(
        problem=problem.name,
        contender=name,
        kind=kind,
        makespan=makespan,
        planned=made.makespan if made is not None else np.nan,
        slr=_mean([f.slr for f in figures]),
        speedup=_mean([f.speedup for f in figures]),
        gap=makespan / bound - 1.0 if bound > 0 else np.nan,
        seconds=made.seconds if made is not None else np.nan,
        utilisation=_mean([f.utilisation for f in figures]),
    ), traces[0].named(name)


def _warm(contender: Contender) -> None:
    """Compile a planner, or read it from the cache, before the clock runs."""
    if hasattr(contender, "solve"):
        with suppress(Unsupported):
            plan(
                Problem.from_arrays([[1.0, 1.0], [1.0, 1.0]], [[0, 1]], [1.0]),
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


def _contender(given: Contender) -> Contender:
    if not isinstance(given, str):
        return given
    if given in PLANNERS.names():
        return PLANNERS.create(given)
    if given in POLICIES.names():
        return POLICIES.create(given)
    raise UnknownName(
        "unknown planner or policy "
        f"'{given}'{closest(given, [*PLANNERS.names(), *POLICIES.names()])}"
    )


def _with_unique_names(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    seen: dict[str, int] = {}
    named = []
    for problem in problems:
        seen[problem.name] = seen.get(problem.name, 0) + 1
        again = seen[problem.name]
        named.append(
            problem
            if again == 1
            else replace(
                problem, workflow=replace(problem.workflow, name=f"{problem.name} ({again})")
            )
        )
    return tuple(named)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _mean(values: list[float]) -> float:
    return float(np.mean(values))
