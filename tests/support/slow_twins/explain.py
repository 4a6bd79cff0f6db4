"""A slow, plain twin of `weft.model.explain`: loops over executions, no columns."""

from __future__ import annotations

from collections import namedtuple
from math import inf, isinf
from typing import Any, NamedTuple

from weft.model import Problem, Schedule, Trace
from weft.model.explain import KINDS, Explanation
from weft.model.network.planned import planned_transfers
from weft.model.trace import DONE
from weft.model.workflow import ALWAYS

ORDER = ("input", "branch", "retry", "device", "capacity", "arrival")


OPTIONAL = {
    "job": 0, "task": 0, "device": 0, "decided": 0.0, "start": 0.0, "finish": 0.0, "status": 0,
    "copy": False,
}  # fmt: skip
"""Columns that a schedule or a trace may lack, and their values then."""

Run = namedtuple(  # noqa: PYI024  # its fields are those of the table
    "Run", ("number", "batch", *OPTIONAL), defaults=OPTIONAL.values()
)
"""One execution."""


class Event(NamedTuple):
    """Something an execution waited for."""

    time: float
    kind: str
    edge: int
    source: Run | None
    sent: float
    ended: float


class SlowExplanation:
    """Events, binding causes and the parts of the critical chain."""

    def __init__(self, result: Schedule | Trace, problem: Problem | None = None) -> None:
        self.trace = result if isinstance(result, Trace) else None
        a: dict[str, Any] = result.to_arrays()
        known = [key for key in Run._fields if key in a]
        self.runs = [
            Run(**{"number": r, "batch": r, **{key: a[key][r].item() for key in known}})
            for r in range(len(result))
        ]
        self.problem = problem
        self.transfers: Any = None if self.trace is None else self.trace.transfers
        if problem is not None and problem.cluster.network is not None and not a["copy"].any():
            columns = (a[key] for key in ("task", "device", "start", "finish"))
            self.transfers = planned_transfers(problem, *columns)
        self.eager = self.trace is None or self.trace.eager

    def problem_of(self, job: int) -> Problem:
        if self.trace is not None:
            return self.trace.workload.problem_of(job)
        assert self.problem is not None
        return self.problem

    def arrival(self, job: int) -> float:
        return 0.0 if self.trace is None else float(self.trace.workload.arrival[job])

    def taken(self, job: int, edge: int) -> bool:
        choices = self.problem_of(job).workflow.choices
        if self.trace is None or choices.edge_choice[edge] == ALWAYS:
            return True
        first = self.trace.workload.first_choice[job]
        outcome = self.trace.scenario.outcome[first + choices.edge_choice[edge]]
        return bool(outcome == choices.edge_branch[edge])

    def parents(self, job: int, task: int) -> list[tuple[int, int]]:
        w = self.problem_of(job).workflow
        return [(e, int(w.src[e])) for e in range(w.m) if w.dst[e] == task]

    def active(self, job: int, task: int) -> bool:
        parents = self.parents(job, task)
        return (
            self.trace is None
            or not parents
            or any(self.active(job, u) and self.taken(job, e) for e, u in parents)
        )

    def done(self, job: int, task: int) -> list[Run]:
        mine = [r for r in self.runs if (r.job, r.task, r.status) == (job, task, 0)]
        return sorted(mine, key=lambda r: (r.finish, r.number))

    def settled(self, job: int, task: int) -> Run | None:
        """Return the execution whose end settles a task."""
        if self.active(job, task):
            return next(iter(self.done(job, task)), None)
        ends = [self.settled(job, u) for _, u in self.parents(job, task)]
        return max((r for r in ends if r is not None), key=lambda r: r.finish, default=None)

    def members(self, run: Run) -> list[Run]:
        return [r for r in self.runs if r.batch == run.batch]

    def place(self, run: Run) -> int:
        order = self.problem_of(run.job).workflow.order.tolist()
        return int(order.index(run.task))

    def before(self, run: Run) -> list[Run]:
        """Return the group that ran before on the device."""
        groups: dict[int, list[Run]] = {}
        for r in self.runs:
            if r.device == run.device:
                groups.setdefault(r.batch, []).append(r)

        def key(group: list[Run]) -> tuple[float, float, tuple[int, int]]:
            end = max(r.finish for r in group)
            return group[0].start, end, min((r.job, self.place(r)) for r in group)

        order = sorted(groups.values(), key=key)
        at = next(i for i, group in enumerate(order) if group[0].batch == run.batch)
        return order[at - 1] if at else []

    def events(self, run: Run) -> list[Event]:
        """List the events of all members of the group."""
        found = []
        for r in self.members(run):
            for e, u in self.parents(r.job, r.task):
                if self.active(r.job, u) and self.taken(r.job, e):
                    arrivals = []
                    for x in self.done(r.job, u):
                        sent = x.finish if self.eager else max(x.finish, r.decided)
                        arrivals.append((self.arrived(e, x, r, sent), x, sent))
                    time, x, sent = min(arrivals, key=lambda a: a[0])
                    found.append(Event(min(time, r.start), "input", e, x, sent, x.finish))
                else:
                    by = self.settled(r.job, u)
                    assert by is not None
                    time = min(by.finish, r.start)
                    found.append(Event(time, "branch", e, by, time, time))
            lost = [
                x
                for x in self.runs
                if (x.job, x.task, x.copy, x.status) == (r.job, r.task, r.copy, 1)
                and x.finish <= r.start
                and x.number != r.number
            ]
            if lost:
                x = max(lost, key=lambda x: x.finish)
                found.append(Event(x.finish, "retry", -1, x, x.finish, x.finish))
            arrival = self.arrival(r.job)
            found.append(Event(arrival, "arrival", -1, None, arrival, arrival))
        group = self.before(run)
        if group:
            x = max(group, key=lambda r: r.finish)
            time = min(x.finish, run.start)
            found.append(Event(time, "device", -1, x, time, time))
        return [*found, *self.capacity_events(run)]

    def arrived(self, edge: int, source: Run, reader: Run, sent: float) -> float:
        """Return when data that was sent is there; on a network from the rows of transfers."""
        for k in range(len(self.transfers) if self.transfers is not None else 0):
            t = self.transfers
            same = (t.job[k], t.edge[k], t.target[k]) == (reader.job, edge, reader.device)
            if same and abs(t.begin[k] - sent) <= 1e-9 * abs(sent):
                return float(t.end[k])
        return sent + self.problem_of(reader.job).transfer(edge, source.device, reader.device)

    def capacity_events(self, run: Run) -> list[Event]:
        """List the last ends on the node before which the group had no room."""
        problem = self.problem_of(run.job)
        if not problem.contended and self.trace is None:
            return []
        if self.trace and not any(p.contended for p in self.trace.workload.problems):
            return []
        node = problem.cluster.nodes[run.device]
        near = [r for r in self.runs if problem.cluster.nodes[r.device] == node]
        room = problem.room[problem.cluster.node_names.index(node)]
        others = [r for r in near if r.batch != run.batch]
        for time in sorted({r.finish for r in others if r.finish <= run.start}, reverse=True):
            running = [r for r in others if r.start < time <= r.finish]
            for c in range(len(room)):
                need = sum(self.need(r, c) for r in self.members(run))
                if need > 0 and sum(self.need(r, c) for r in running) + need > room[c]:
                    freed = [r for r in others if r.finish == time and self.frees(r, run, running)]
                    return [Event(time, "capacity", -1, r, time, time) for r in freed]
        return []

    def need(self, run: Run, capacity: int) -> float:
        return float(self.problem_of(run.job).needs[run.task, capacity])

    def frees(self, ended: Run, run: Run, running: list[Run]) -> bool:
        """Return whether an execution held something that the group was short of."""
        problem = self.problem_of(run.job)
        room = problem.room[problem.cluster.node[run.device]]
        for c in range(len(room)):
            need = sum(self.need(r, c) for r in self.members(run))
            short = need > 0 and sum(self.need(r, c) for r in running) + need > room[c]
            if short and self.need(ended, c) > 0:
                return True
        return False

    def binding(self, run: Run) -> Event:
        return _latest(self.events(run), lambda e: e.time)

    def parts(self) -> dict[str, float]:
        """Return seconds of the chain that compute, move data, and wait."""
        parts = {"computing": 0.0, "moving data": 0.0, "lost work": 0.0, "waiting": 0.0}
        run: Run | None = max(self.runs, key=lambda r: r.finish)
        assert run is not None
        end = run.finish
        while run is not None:
            parts["lost work" if run.status else "computing"] += end - min(run.start, end)
            event = self.binding(run)
            parts["waiting"] += min(run.start, end) - min(event.time, end)
            end, source = min(event.time, end), event.source
            if event.kind == "input":
                sent = min(event.sent, end)
                parts["moving data"] += end - sent
                end = sent
                if not self.eager and event.source and sent > event.source.finish:
                    early = self.trigger(run)
                    parts["waiting"] += end - min(early[0], end)
                    end, source = min(early[0], end), early[1].source
            run = source
        first = 0.0 if self.trace is None else float(self.trace.workload.arrival.min())
        parts["waiting"] += end - first
        return parts

    def trigger(self, run: Run) -> tuple[float, Event]:
        """Return the latest event up to the decision; inputs count when their parent ended."""

        def when(e: Event) -> float:
            return e.ended if e.kind == "input" else e.time

        early = [e for e in self.events(run) if when(e) <= run.decided or e.kind == "arrival"]
        event = _latest(early, when)
        return when(event), event


def _latest(events: list[Event], when: Any) -> Event:
    def key(e: Event) -> tuple[float, int, int, int]:
        return -when(e), ORDER.index(e.kind), e.edge, e.source.number if e.source else -1

    return min(events, key=key)


def slow_alternatives(found: Explanation, row: int) -> dict[str, float]:
    """Return when a task would have ended on each device: a walk over all other executions."""
    t = found.table
    problem = t.workload.problem_of(int(t.job[row]))
    names = enumerate(problem.cluster.names)
    return {name: _finish_on(found, problem, row, d) for d, name in names}


def _finish_on(found: Explanation, problem: Problem, row: int, device: int) -> float:
    t = found.table
    seconds, g = problem.duration(int(t.task[row]), device), t.groups
    if isinf(seconds):
        return inf
    start = _ready_on(found, problem, row, device)
    here = [k for k in range(len(g.end)) if g.device[k] == device and k != t.group[row]]
    for k in sorted(here, key=lambda k: (g.start[k], g.end[k])):
        if start + seconds <= g.start[k]:
            break
        start = max(start, float(g.end[k]))
    return start + seconds


def _ready_on(found: Explanation, problem: Problem, row: int, device: int) -> float:
    t, c = found.table, found.candidates
    ready = float(t.workload.arrival[t.job[row]])
    for k in range(len(c.row)):
        if c.row[k] != row or KINDS[c.kind[k]] not in ("input", "branch"):
            continue
        if KINDS[c.kind[k]] == "branch":
            ready = max(ready, float(c.ended[k]))
            continue
        copies = [
            x
            for x in range(len(t))
            if t.status[x] == DONE and t.instance[x] == t.instance[c.source[k]]
        ]
        arrivals = [
            (t.finish[x] if t.eager else max(t.finish[x], t.decided[row]))
            + problem.transfer(int(c.edge[k]), int(t.device[x]), device)
            for x in copies
        ]
        ready = max(ready, float(min(arrivals)))
    return ready
