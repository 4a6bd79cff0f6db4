"""`Chart`: a schedule or a trace as rows on lanes, the form of all Gantt charts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Schedule, Trace, Workload
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.explain import Explanation, explain
from weft.model.explain.quantities import format_seconds, format_share
from weft.model.schedule import Planned
from weft.model.trace import CANCELLED, DONE, LOST

Drawable = Schedule | Trace | Planned
"""Sources of a Gantt chart; a bare schedule needs its problem beside it."""


@dataclass(frozen=True, eq=False)
class Chart:
    """Executions sorted by (lane, start); lanes are devices grouped by node.

    Attributes
    ----------
    job, task, device, start, finish, status, batch, copy : (x,) as in `Trace`
    decided : (x,) when each row was committed, if data moves only then; None when it moves eagerly
    lanes : (p,) device numbers from top to bottom
    outcome : (choices,) which branches were taken; None before anything happened
    pauses : (k, 4) device, from, to and slowdown of the times a device was slower (or, at inf,
        down)
    order : (x,) the row of the schedule or trace behind each row
    source, problem : what the chart is made of
    """

    title: str
    source: Drawable
    problem: Problem | None
    workload: Workload
    job: IntArray
    task: IntArray
    device: IntArray
    start: FloatArray
    finish: FloatArray
    status: IntArray
    batch: IntArray
    copy: BoolArray
    decided: FloatArray | None
    lanes: IntArray
    order: IntArray
    outcome: IntArray | None
    pauses: FloatArray
    given_bound: float | None = None

    @classmethod
    def of(
        cls,
        result: Drawable,
        problem: Problem | None = None,
        *,
        title: str | None = None,
        bound: float | None = None,
    ) -> Chart:
        """Make the chart of a plan, of a schedule with its problem, or of a trace.

        Examples
        --------
        >>> problem = Problem.from_arrays([[2.0], [3.0]], [[0, 1]])
        >>> schedule = Schedule.of(device=[0, 0], start=[0.0, 2.0], finish=[2.0, 5.0])
        >>> Chart.of(schedule, problem).span
        (0.0, 5.0)
        """
        if isinstance(result, Trace):
            made = _of_trace(result, title or result.policy or result.workload.name)
        elif isinstance(result, Planned):
            own = f"{result.problem.name}: {getattr(result, 'planner', 'plan')}"
            made = _of_schedule(result, result.schedule, result.problem, title or own)
        elif not isinstance(result, Schedule):
            raise InvalidInput(
                "a Gantt chart is made of a Schedule, a Plan or a Trace, not of "
                f"{type(result).__name__}"
            )
        elif problem is None:
            raise InvalidInput(
                "a Schedule has no names of tasks; give its problem too: "
                "gantt_html(schedule, problem)"
            )
        else:
            made = _of_schedule(result, result, problem, title or problem.name)
        return made if bound is None else replace(made, given_bound=bound)

    def __len__(self) -> int:
        return len(self.task)

    @cached_property
    def span(self) -> tuple[float, float]:
        """First and last moment worth showing: from the first arrival to the last finish."""
        begin = min(
            float(self.workload.arrival.min(initial=np.inf)), float(self.start.min(initial=np.inf))
        )
        begin = begin if np.isfinite(begin) else 0.0
        return begin, max(begin, float(self.finish.max(initial=begin)))

    @cached_property
    def explanation(self) -> Explanation:
        """The causes of its makespan."""
        found = explain(self.source, self.problem)
        return replace(found, name=found.name or self.title)

    @cached_property
    def bound(self) -> float:
        """The proven lower bound of the makespan; 0 where none is known."""
        if self.given_bound is not None:
            return self.given_bound
        return float(getattr(self.source, "bound", 0.0))

    @cached_property
    def kind(self) -> IntArray:
        """(x,) the kind of each row's task, as a position in `workload.kinds`."""
        position = {name: k for k, name in enumerate(self.workload.kinds)}
        kind = np.zeros(len(self), np.int64)
        template = self.workload.template[self.job]
        for t, problem in enumerate(self.workload.problems):
            mine = template == t
            number = np.array([position[name] for name in problem.workflow.kinds], np.int64)
            kind[mine] = number[problem.workflow.kind[self.task[mine]]]
        return kind

    def task_name(self, row: int) -> str:
        """Return the name of a row's task."""
        return self.workload.problem_of(int(self.job[row])).workflow.task_name(int(self.task[row]))

    @cached_property
    def slots(self) -> tuple[IntArray, IntArray]:
        """(x,) place of each row within its batch, and the size of the batch."""
        if not len(self):
            return np.zeros(0, np.int64), np.ones(0, np.int64)
        begins = np.ones(len(self), bool)
        begins[1:] = (np.diff(self.batch) != 0) | (np.diff(self.device) != 0)
        first = np.flatnonzero(begins)
        size = np.diff(np.append(first, len(self)))
        return np.arange(len(self)) - np.repeat(first, size), np.repeat(size, size)

    def facts(self) -> list[tuple[str, str]]:
        """Return the figures under the title, as (label, value)."""
        begin, end = self.span
        first = self.slots[0] == 0
        busy = float((self.finish - self.start)[first].sum())
        share = busy / ((end - begin) * len(self.lanes)) if end > begin else 0.0
        facts = [
            ("makespan", format_seconds(end - begin)),
            *self._certificate(end - begin),
            (
                "executions" if self.decided is not None or self.outcome is not None else "tasks",
                f"{len(self) - int(self.copy.sum()):,}",
            ),
            ("devices", f"{len(self.lanes):,}"),
            ("busy", format_share(share)),
        ]
        counts = [
            ("jobs", self.workload.jobs if self.workload.jobs > 1 else 0),
            ("copies", int(self.copy.sum())),
            ("lost", int((self.status == LOST).sum())),
            ("cancelled", int((self.status == CANCELLED).sum())),
        ]
        return facts + [(label, f"{count:,}") for label, count in counts if count]

    def _certificate(self, makespan: float) -> list[tuple[str, str]]:
        if self.bound <= 0:
            return []
        gap = format_share(max(0.0, makespan / self.bound - 1.0))
        return [("bound", format_seconds(self.bound)), ("above the bound", gap)]


def _of_schedule(source: Drawable, schedule: Schedule, problem: Problem, title: str) -> Chart:
    schedule.refuse_other_problem(problem)
    rows = len(schedule)
    columns = {
        "task": schedule.task,
        "device": schedule.device,
        "start": schedule.start,
        "finish": schedule.finish,
        "copy": schedule.copy,
    }
    columns |= {
        "job": np.zeros(rows, np.int64),
        "status": np.full(rows, DONE, np.int64),
        "batch": np.arange(rows),
    }
    workload = Workload.of(problem)
    return Chart(
        title,
        source,
        problem,
        workload,
        **_sorted(columns, workload),
        outcome=None,
        pauses=np.zeros((0, 4)),
    )


def _of_trace(trace: Trace, title: str) -> Chart:
    columns = trace.to_arrays()
    if trace.eager:
        del columns["decided"]
    pauses = _pauses(trace)
    return Chart(
        title,
        trace,
        None,
        trace.workload,
        **_sorted(columns, trace.workload),
        outcome=trace.scenario.outcome,
        pauses=pauses,
    )


def _sorted(columns: dict[str, np.ndarray], workload: Workload) -> dict[str, Any]:
    nodes = workload.cluster.nodes
    number = {node: i for i, node in enumerate(dict.fromkeys(nodes))}
    lanes = np.argsort([number[node] for node in nodes], kind="stable")
    lane = np.empty(len(lanes), np.int64)
    lane[lanes] = np.arange(len(lanes))
    # Members of one batch share their start but, if cancelled, not their finish: sorted like this
    # they stay together.
    order = np.lexsort(
        (
            columns["task"],
            columns["job"],
            columns["batch"],
            columns["start"],
            lane[columns["device"]],
        )
    )
    made: dict[str, Any] = {key: column[order] for key, column in columns.items()}
    return {"decided": None, **made, "lanes": lanes, "order": order}


def _pauses(trace: Trace) -> np.ndarray:
    """Return intervals of changed slowdown, up to the next change or the end."""
    scenario, rows = trace.scenario, []
    end = float(trace.finish.max(initial=0.0))
    for d in np.unique(scenario.change_device).tolist():
        mine = scenario.change_device == d
        times, slowdowns = (
            scenario.change_time[mine].tolist(),
            scenario.change_slowdown[mine].tolist(),
        )
        for begin, until, slowdown in zip(times, [*times[1:], end], slowdowns, strict=True):
            if slowdown != 1.0 and min(until, end) > begin:
                rows.append((d, begin, min(until, end), slowdown))
    return np.array(rows, float).reshape(-1, 4)
