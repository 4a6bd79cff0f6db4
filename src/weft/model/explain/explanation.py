"""`Explanation`: causes, critical chain, slack and idle times, also as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum

import numpy as np

from weft.display import Printed
from weft.errors import InvalidInput, UnknownName
from weft.model.columns import FloatArray, IntArray
from weft.model.explain.alternatives import Alternatives
from weft.model.explain.capacity import capacity_waits, node_uses, short_names
from weft.model.explain.causes import (
    ARRIVAL,
    BRANCH,
    CAPACITY,
    DECISION,
    DEVICE,
    INPUT,
    KINDS,
    RETRY,
    CauseTable,
    ExecutionTable,
    binding_causes,
    candidate_causes,
)
from weft.model.explain.chain import (
    COMPUTING,
    LOST_WORK,
    MOVING,
    PARTS,
    Segment,
    down_times,
    follow_chain,
)
from weft.model.explain.quantities import format_bytes, format_seconds, list_text, share_text
from weft.model.oracle.violation import exceeds
from weft.model.problem import Problem
from weft.model.schedule import Planned, Schedule
from weft.model.trace import Trace
from weft.registry import closest
from weft.typed import typed


@dataclass(frozen=True)
class IdleGap:
    """A time in which a device runs nothing; `task` runs next, or is empty."""

    device: str
    start: float
    finish: float
    reason: str
    task: str


@dataclass(frozen=True, eq=False)
class Explanation(Printed):
    """Causes, critical chain and idle times; numbers are rows of the plan or trace.

    Attributes
    ----------
    name : of the planner or policy; may be empty
    table : the executions
    candidates, causes : all events before each start, and the binding one of each group
    """

    name: str
    table: ExecutionTable
    candidates: CauseTable
    causes: CauseTable

    @property
    def makespan(self) -> float:
        """From the first arrival (time 0 for a plan) to the last finish."""
        return self.table.end - self.table.origin if len(self.table) else 0.0

    @cached_property
    def kind(self) -> IntArray:
        """(x,) kind of each execution's binding cause, a number of `KINDS`."""
        t, known = self.table, self.causes.time[self.table.group]
        late = exceeds(t.start, known)
        down = np.array([self._down(r) for r in np.flatnonzero(late).tolist()]) > 0
        kind = self.causes.kind[t.group].copy()
        kind[late] = np.where(down, DEVICE, DECISION)
        return kind

    def _down(self, row: int) -> float:
        """Return the seconds the device was down between the last event and the start."""
        t = self.table
        ready = max(float(self.causes.time[t.group[row]]), float(t.decided[row]))
        return fsum(b - a for a, b in down_times(t, int(t.device[row]), ready, t.start[row]))

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The pieces of the critical chain, in order from the origin to the last finish.

        It follows binding causes from the execution that ends last back to an arrival.
        """
        found = [
            s
            for s in follow_chain(self.table, self.candidates, self.causes)
            if s.seconds > 0 or s.part in {COMPUTING, LOST_WORK}
        ]
        return tuple(reversed(found))

    @cached_property
    def chain(self) -> tuple[int, ...]:
        """The executions of the critical chain, in order of time."""
        return tuple(dict.fromkeys(s.row for s in self.segments))

    @cached_property
    def parts(self) -> dict[str, float]:
        """Seconds of the critical chain by part; they sum to the makespan."""
        return {p: fsum(s.seconds for s in self.segments if s.part == p) for p in PARTS}

    @cached_property
    def slack(self) -> FloatArray | None:
        """(rows,) seconds by which each row could end later without a later makespan.

        Only plans have slack. Order on devices and the source of each input stay as planned, and so
        does the order of executions on nodes whose capacities they share.
        """
        t = self.table
        if t.scenario is not None:
            return None
        latest = np.full(len(t), t.end)
        inputs = self.candidates.take(np.flatnonzero(self.candidates.kind == INPUT))
        inputs = inputs.take(np.argsort(inputs.row, kind="stable"))
        begin = np.searchsorted(inputs.row, np.arange(len(t) + 1))
        problem = t.workload.problems[0]
        arrival = t.arrivals(problem, inputs.edge, inputs.source, inputs.row, inputs.sent)
        later = _started_later(self.table)
        for r in np.lexsort((t.place, t.start, t.finish))[::-1].tolist():
            latest[r] = min([latest[r], *(latest[b] - t.finish[b] + t.start[b] for b in later[r])])
            start = latest[r] - (t.finish[r] - t.start[r])
            before = t.groups.previous[r]
            if before >= 0:
                latest[before] = min(latest[before], start)
            for k in range(begin[r], begin[r + 1]):
                source = inputs.source[k]
                latest[source] = min(latest[source], start - (arrival[k] - inputs.sent[k]))
        return np.maximum(latest - t.finish, 0.0)

    @cached_property
    def idle(self) -> tuple[IdleGap, ...]:
        """Times in which devices run nothing, by device and time, each with its reason.

        A gap has the reason of the execution that follows: "before its first task", or one of
        `KINDS`; "no work" follows the last execution.
        """
        return tuple(_idle_gaps(self))

    def alternatives(self, row: int) -> dict[str, float]:
        """Return when the task would have ended on each device, by the expected durations.

        All other executions stay where they are. The task starts when its inputs have arrived and
        the device is idle for its whole duration; inf: the device cannot run it.
        """
        names = self.table.workload.cluster.names
        return dict(zip(names, self._alternatives.finishes(row), strict=True))

    @cached_property
    def _alternatives(self) -> Alternatives:
        return Alternatives(self.table, self.candidates)

    # -- words -----------------------------------------------------------------

    def task_name(self, row: int) -> str:
        """Return the name of a row's task, with its job if there are several, and "copy"."""
        t = self.table
        job = int(t.job[row])
        name = t.workload.problem_of(job).workflow.task_name(int(t.task[row]))
        name += f" of job {job}" if t.workload.jobs > 1 else ""
        return f"{name} (copy)" if t.copy[row] else name

    def device_name(self, row: int) -> str:
        """Return the name of a row's device."""
        return self.table.workload.cluster.names[int(self.table.device[row])]

    def rows_of(self, task: str) -> list[int]:
        """Return the executions of a task, by name; refuse unknown names."""
        problems = self.table.workload.problems
        names = [[p.workflow.task_name(i) for i in range(p.n)] for p in problems]
        known = list(dict.fromkeys(name for one in names for name in one))
        if task not in known:
            raise UnknownName(f"unknown task '{task}'{closest(task, known)}")
        t = self.table
        return [
            r
            for r in range(len(t))
            if names[int(t.workload.template[t.job[r]])][int(t.task[r])] == task
        ]

    def because(self, row: int) -> str:
        """Return why an execution starts when it does, as a clause."""
        t, g = self.table, int(self.table.group[row])
        kind = int(self.kind[row])
        if kind == DECISION:
            gap = format_seconds(float(t.start[row] - self.causes.time[g]))
            if t.scenario is None:
                return f"the plan starts it {gap} later than its inputs and its device allow"
            return f"it is decided or dispatched {gap} after {self._event(g)}"
        if kind == DEVICE and self.causes.time[g] < t.start[row] and self._down(row) > 0:
            return f"{self.device_name(row)} is down for {format_seconds(self._down(row))}"
        return self._event(g)

    def _event(self, group: int) -> str:
        c = self.causes
        source, kind = int(c.source[group]), int(c.kind[group])
        if kind == ARRIVAL:
            return "its job arrives" if self.table.scenario is not None else "the plan begins"
        name = f"{self.task_name(source)} on {self.device_name(source)}"
        if kind == INPUT and c.moved[group] > 0:
            wait = format_seconds(float(c.time[group] - c.sent[group]))
            return f"{format_bytes(float(c.moved[group]))} from {name} arrive after {wait}"
        if kind == CAPACITY:
            what = short_names(self.table, group, float(c.ended[group]))
            return f"it waited for {what}, until {name} ends"
        texts = {
            INPUT: f"its parent {name} ends",
            BRANCH: f"{name} ends and decides a branch",
            RETRY: f"the attempt on {self.device_name(source)} is lost",
            DEVICE: f"the previous task {name} ends",
        }
        return texts[kind]

    def task_sentence(self, row: int) -> str:
        """Return one sentence about an execution."""
        t = self.table
        text = (
            f"{self.task_name(row)} starts on {self.device_name(row)} at "
            f"{format_seconds(float(t.start[row]))}: {self.because(row)}"
        )
        before = int(t.groups.previous[t.group[row]])
        free = t.groups.end[before] if before >= 0 else t.origin
        if self.kind[row] != DEVICE and t.start[row] > free:
            text += f"; {self.device_name(row)} is free from {format_seconds(float(free))}"
        return f"{text}."

    @cached_property
    def sentence(self) -> str:
        """The result in words: makespan, where the time goes, and the longest transfer."""
        who = self.name or ("the plan" if self.table.scenario is None else "the run")
        if not len(self.table):
            return f"{who} runs nothing."
        shares = [
            f"{format_seconds(s)} ({share_text(s, self.makespan)}) {part}"
            for part, s in self.parts.items()
            if s >= 0.005 * self.makespan > 0
        ]
        count = len(self.chain)
        text = f"{who} takes {format_seconds(self.makespan)}"
        if shares:
            text += f": {list_text(shares)} on a critical chain of {count} task{'s' * (count != 1)}"
        longest = max(self.transfers().items(), key=lambda item: item[1], default=None)
        if longest is not None and longest[1] > 0.05 * self.makespan:
            text += f"; the longest transfer is {self.transfer_text(longest[0])}, "
            text += format_seconds(longest[1])
        return f"{text}."

    def __str__(self) -> str:
        return self.sentence

    def transfers(self) -> dict[tuple[int, int, int], float]:
        """Return the seconds of each transfer on the chain, by (job, edge, reading task)."""
        t, found = self.table, {}
        for s in self.segments:
            if s.part == MOVING and s.seconds > 0:
                g = int(t.group[s.row])
                reader = int(self.causes.row[g])
                found[int(t.job[reader]), int(self.causes.edge[g]), int(t.task[reader])] = s.seconds
        return found

    def transfer_text(self, key: tuple[int, int, int]) -> str:
        """Name the data of a transfer and its two tasks."""
        job, edge, task = key
        w = self.table.workload.problem_of(job).workflow
        names = f"from {w.task_name(int(w.src[edge]))} to {w.task_name(task)}"
        return f"{format_bytes(float(w.data[edge]))} {names}"

    def as_dict(self) -> dict[str, object]:
        """Return the findings as plain data, for JSON."""
        return {
            "name": self.name,
            "sentence": self.sentence,
            "makespan": self.makespan,
            "parts": self.parts,
            "chain": [self.row_dict(r) for r in self.chain],
            "idle": [vars(gap) for gap in self.idle],
        }

    def row_dict(self, row: int) -> dict[str, object]:
        """Return one execution and its cause as plain data."""
        t = self.table
        return {
            "task": self.task_name(row),
            "device": self.device_name(row),
            "start": float(t.start[row]),
            "finish": float(t.finish[row]),
            "cause": KINDS[self.kind[row]],
            "because": self.because(row),
            "slack": None if self.slack is None else float(self.slack[row]),
        }


@typed
def explain(result: Planned | Schedule | Trace, problem: Problem | None = None) -> Explanation:
    """Explain a plan or trace: causes of starts, critical chain, slack, idle times.

    The binding cause of an execution is the latest of: its job arrived, its device was free, each
    input arrived, its node had room, a lost attempt ended, it was decided. Transfers take the time
    of the model. So they do in real runs, but end there at the start of their reader at the latest.

    Parameters
    ----------
    result : a plan, a trace, or a schedule with its `problem`
    problem : the problem of a schedule; plans and traces contain theirs

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 9.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> moved = Schedule.of(device=[1, 0], start=[0.0, 3.0], finish=[1.0, 6.0])
    >>> found = explain(moved, problem)
    >>> found.parts["computing"], found.parts["moving data"]
    (4.0, 2.0)
    >>> found.task_sentence(1)
    't1 starts on d0 at 3 s: 10 B from t0 on d1 arrive after 2 s; d0 is free from 0 s.'
    """
    if isinstance(result, Trace):
        _refuse_other(problem, result.workload.problems, "trace")
        name, table = result.policy, ExecutionTable.of_trace(result)
    elif isinstance(result, Planned):
        _refuse_other(problem, (result.problem,), "plan")
        name = str(getattr(result, "planner", ""))
        table = ExecutionTable.of_schedule(result.problem, result.schedule)
    elif not isinstance(result, Schedule):
        raise InvalidInput(
            f"cannot explain a {type(result).__name__}; give a Plan, a Trace or a Schedule"
        )
    elif problem is None:
        raise InvalidInput("a schedule is explained with its problem; add problem=")
    else:
        name, table = "", ExecutionTable.of_schedule(problem, result)
    candidates = candidate_causes(table, capacity_waits(table))
    return Explanation(name, table, candidates, binding_causes(candidates))


def _refuse_other(problem: Problem | None, own: Sequence[Problem], what: str) -> None:
    """Refuse a problem beside a result that has another one of its own."""
    if problem is not None and not any(problem is known for known in own):
        raise InvalidInput(
            f"the {what} has its own problem, which is not '{problem.name}'; leave problem out"
        )


def _started_later(t: ExecutionTable) -> list[list[int]]:
    """Return, per row, the later rows of its node that share a capacity with it."""
    later: list[list[int]] = [[] for _ in range(len(t))]
    for use in node_uses(t):
        for k, row in enumerate(use.rows.tolist()):
            shares = ((use.need > 0) & (use.need[k] > 0)).any(axis=1)
            later[row] = use.rows[shares & (use.start >= use.finish[k])].tolist()
    return later


def _idle_gaps(found: Explanation) -> Iterator[IdleGap]:
    t, g = found.table, found.table.groups
    for d, device in enumerate(t.workload.cluster.names):
        here = np.flatnonzero(g.device == d)
        free, first = t.origin, True
        for k in here[np.lexsort((g.end[here], g.start[here]))].tolist():
            start, row = float(g.start[k]), int(found.causes.row[k])
            if start > free:
                reason = "before its first task" if first else KINDS[found.kind[row]]
                yield IdleGap(device, free, start, reason, found.task_name(row))
            free, first = max(free, float(g.end[k])), False
        if t.end > free:
            yield IdleGap(device, free, t.end, "no work", "")
