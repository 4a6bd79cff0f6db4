"""Binding causes: for each execution, the latest event it waited for.

Causes are found per *group*: one execution, or a batch that ran together. All columns are numpy
arrays; `explanation.py` follows them and writes sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from weft.model.columns import BoolArray, FloatArray, IntArray, offsets
from weft.model.network.planned import planned_transfers
from weft.model.network.transfers import Transfers
from weft.model.oracle.consequences import active_instances, settled_times, taken_edges, templates
from weft.model.oracle.violation import expand
from weft.model.problem import Problem
from weft.model.scenario import Scenario
from weft.model.schedule import Schedule
from weft.model.trace import DONE, LOST, Trace, TraceColumns
from weft.model.workload import Workload

KINDS = ("input", "branch", "retry", "device", "capacity", "arrival", "decision")
INPUT, BRANCH, RETRY, DEVICE, CAPACITY, ARRIVAL, DECISION = range(7)
"""Kinds of causes: data of a parent, the outcome of a choice, a lost attempt of the same task, the
previous execution on the device, room on the node, the arrival of the job, the decision to run it.
Of causes at the same time, the first one of this list binds."""


@dataclass(frozen=True, eq=False)
class ExecutionTable(TraceColumns):
    """The executions of a trace, or of a plan as one job that arrives at time 0."""

    workload: Workload
    scenario: Scenario | None  # None: a plan, which holds all branches
    eager: bool
    group: IntArray  # (x,) number of the batch each execution belongs to, from 0
    transfers: Transfers | None = None  # on a network

    @classmethod
    def of_schedule(cls, problem: Problem, schedule: Schedule) -> ExecutionTable:
        """Take the rows of a schedule."""
        schedule.refuse_other_problem(problem)
        rows = len(schedule)
        zero = np.zeros(rows, np.int64)
        columns = (schedule.task, schedule.device, schedule.start, schedule.finish)
        shared = problem.cluster.network is not None and not schedule.copies
        return cls(
            workload=Workload.of(problem),
            scenario=None,
            eager=True,
            job=zero,
            task=schedule.task,
            device=schedule.device,
            decided=np.zeros(rows),
            start=schedule.start,
            finish=schedule.finish,
            status=zero,
            copy=schedule.copy,
            group=np.arange(rows),
            transfers=planned_transfers(problem, *columns) if shared else None,
        )

    @classmethod
    def of_trace(cls, trace: Trace) -> ExecutionTable:
        """Take the rows of a trace."""
        _, group = np.unique(trace.batch, return_inverse=True)
        return cls(
            workload=trace.workload,
            scenario=trace.scenario,
            eager=trace.eager,
            **{key: getattr(trace, key) for key in trace.columns() if key != "batch"},
            group=group.reshape(-1).astype(np.int64),
            transfers=trace.transfers,
        )

    def __len__(self) -> int:
        return len(self.task)

    def arrivals(
        self, problem: Problem, edge: IntArray, source: IntArray, reader: IntArray, sent: FloatArray
    ) -> FloatArray:
        """Return when the data of edges, sent by some rows, arrives at other rows."""
        c, a, b = problem.cluster, self.device[source], self.device[reader]
        moved = c.latency[a, b] + problem.workflow.data[edge] * c.per_byte[a, b]
        arrived: FloatArray = sent + moved
        if self.transfers is not None:
            found = self.transfers.arrivals(self.job[reader], edge, b, sent)
            arrived = np.where(np.isnan(found), arrived, found)
        return arrived

    @property
    def origin(self) -> float:
        """The first arrival, from which the makespan counts."""
        return float(self.workload.arrival.min()) if self.workload.jobs else 0.0

    @property
    def end(self) -> float:
        """The last finish."""
        return float(self.finish.max()) if len(self) else self.origin

    @cached_property
    def instance(self) -> IntArray:
        """(x,) the instance of each execution."""
        return self.workload.first_instance[self.job] + self.task

    @cached_property
    def place(self) -> IntArray:
        """(x,) place of each task in the topological order of its job."""
        place = np.zeros(len(self), np.int64)
        for here, problem in self.by_problem():
            place[here] = problem.workflow.place[self.task[here]]
        return place

    def by_problem(self) -> Iterator[tuple[IntArray, Problem]]:
        """Yield each problem with the rows of its jobs."""
        return self.workload.by_problem(self.job)

    @cached_property
    def groups(self) -> GroupTable:
        """The groups, and their order on the devices."""
        return GroupTable.of(self)

    @cached_property
    def done(self) -> tuple[IntArray, IntArray]:
        """Offsets of instances, and the finished rows sorted by (instance, finish)."""
        rows = np.flatnonzero(self.status == DONE)
        rows = rows[np.lexsort((rows, self.finish[rows], self.instance[rows]))]
        count = np.bincount(self.instance[rows], minlength=self.workload.instances)
        return offsets(count), rows


class GroupTable(NamedTuple):
    """Executions that ran together, and their neighbours on the device (-1: none)."""

    start: FloatArray
    end: FloatArray
    device: IntArray
    last: IntArray  # the row that ended last
    previous: IntArray
    following: IntArray

    @classmethod
    def of(cls, table: ExecutionTable) -> GroupTable:
        """Gather the rows of each group."""
        rows = np.lexsort((table.place, table.job, table.group))
        group, head = np.unique(table.group[rows], return_index=True)
        first = rows[head]
        by_end = np.lexsort((-np.arange(len(table)), table.finish, table.group))
        tail = np.searchsorted(table.group[by_end], group, side="right") - 1
        last = by_end[tail]
        start, end, device = table.start[first], table.finish[last], table.device[first]
        order = np.lexsort((table.place[first], table.job[first], end, start, device))
        previous, following = np.full(len(group), -1), np.full(len(group), -1)
        same = device[order[1:]] == device[order[:-1]]
        previous[order[1:][same]] = order[:-1][same]
        following[order[:-1][same]] = order[1:][same]
        return cls(start, end, device, last, previous, following)


class CauseTable(NamedTuple):
    """Events before the starts of groups: all of them, or the binding one of each."""

    group: IntArray
    kind: IntArray
    time: FloatArray  # when the event allowed the start; never after the start
    ended: FloatArray  # when the execution behind the event ended
    sent: FloatArray  # when the data of that execution began to move
    row: IntArray  # the member of the group that waited
    source: IntArray  # the execution behind the event; -1: none
    edge: IntArray  # edge of the member's problem; -1: none
    moved: FloatArray  # bytes that came from another device

    def take(self, chosen: IntArray) -> CauseTable:
        """Return these rows."""
        columns: Any = [column[chosen] for column in self]
        return CauseTable(*columns)


def candidate_causes(table: ExecutionTable, *others: CauseTable) -> CauseTable:
    """List all events that each group waited for, except decisions, and `others`."""
    found = [*_inputs(table), _retries(table), _devices(table), _arrivals(table), *others]
    columns: Any = [np.concatenate(column) for column in zip(*found, strict=True)]
    return CauseTable(*columns)


def binding_causes(candidates: CauseTable) -> CauseTable:
    """Choose the latest event of each group; ties by kind, then edge, then execution."""
    return _latest(candidates, candidates.time)


def triggers(table: ExecutionTable, candidates: CauseTable) -> CauseTable:
    """Choose the latest event before each decision, for data that moves at decisions.

    For an input, the end of the parent counts, not the arrival of its data.
    """
    when = np.where(candidates.kind == INPUT, candidates.ended, candidates.time)
    early = np.flatnonzero((when <= table.decided[candidates.row]) | (candidates.kind == ARRIVAL))
    return _latest(candidates.take(early), when[early])


def _latest(candidates: CauseTable, when: FloatArray) -> CauseTable:
    c = candidates
    order = np.lexsort((c.row, c.source, c.edge, c.kind, -when, c.group))
    _, head = np.unique(c.group[order], return_index=True)
    return c._replace(time=when).take(order[head])


def _inputs(table: ExecutionTable) -> list[CauseTable]:
    found = []
    if table.scenario is not None:
        active = active_instances(table.workload, table.scenario)
        settler = _settlers(table, active)
    for here, problem in table.by_problem():
        w = problem.workflow
        at, position = expand(w.pred_ptr, table.task[here])
        row, edge = here[at], w.pred_edge[position]
        parent = table.workload.first_instance[table.job[row]] + w.src[edge]
        if table.scenario is not None:
            taken = active[parent] & taken_edges(
                table.workload, table.scenario, problem, table.job[row], edge
            )
            found.append(_outcomes(table, row[~taken], edge[~taken], settler[parent[~taken]]))
            row, edge, parent = row[taken], edge[taken], parent[taken]
        found.append(_arrivals_of_data(table, problem, row, edge, parent))
    return found


def _arrivals_of_data(
    table: ExecutionTable, problem: Problem, row: IntArray, edge: IntArray, parent: IntArray
) -> CauseTable:
    """List each edge's first arrival over the executions of its parent."""
    ptr, rows = table.done
    data = problem.workflow.data
    link, x = expand(ptr, parent)
    source, reader = rows[x], row[link]
    here, there = table.device[source], table.device[reader]
    ended = table.finish[source]
    sent = ended if table.eager else np.maximum(ended, table.decided[reader])
    arrived = table.arrivals(problem, edge[link], source, reader, sent)
    order = np.lexsort((x, arrived, link))
    _, head = np.unique(link[order], return_index=True)
    k = order[head]
    return CauseTable(
        group=table.group[reader[k]],
        kind=np.full(len(k), INPUT),
        time=np.minimum(arrived[k], table.start[reader[k]]),
        ended=ended[k],
        sent=sent[k],
        row=reader[k],
        source=source[k],
        edge=edge[link[k]],
        moved=np.where(here == there, 0.0, data[edge[link]])[k],
    )


def _outcomes(
    table: ExecutionTable, row: IntArray, edge: IntArray, settler: IntArray
) -> CauseTable:
    """List edges of branches that are not taken: a task waits until they are decided."""
    ptr, rows = table.done
    known = ptr[settler + 1] > ptr[settler]
    source = rows[ptr[settler[known]]]
    return events(table, BRANCH, row[known], source, table.finish[source], edge[known])


def _settlers(table: ExecutionTable, active: BoolArray) -> IntArray:
    """Return (instances,) the instance whose end decides each instance.

    That is the instance itself or, if it is skipped, the instance whose end shows that.
    """
    workload = table.workload
    ptr, rows = table.done
    first = np.full(workload.instances, np.inf)
    has = ptr[1:] > ptr[:-1]
    first[has] = table.finish[rows[ptr[:-1][has]]]
    settled, settler = settled_times(workload, active, first), np.arange(workload.instances)
    for problem, begin, _ in templates(workload):
        w = problem.workflow
        if not w.conditional:
            continue
        block = begin[:, None] + np.arange(w.n)
        when, who, jobs = settled[block], settler[block], np.arange(len(begin))
        for task in w.order.tolist():
            parents = w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]]
            if len(parents):
                last = parents[when[:, parents].argmax(axis=1)]
                who[:, task] = np.where(active[block[:, task]], who[:, task], who[jobs, last])
        settler[block] = who
    return settler


def _retries(table: ExecutionTable) -> CauseTable:
    """List the last lost attempt before each later execution of the same task."""
    lost_before: dict[tuple[int, bool], int] = {}
    row, source = [], []
    cut = set(table.instance[table.status == LOST].tolist())
    order = np.lexsort((np.arange(len(table)), table.finish, table.start))
    for r in order[np.isin(table.instance[order], list(cut))].tolist():
        key = (int(table.instance[r]), bool(table.copy[r]))
        before = lost_before.get(key)
        if before is not None and table.finish[before] <= table.start[r]:
            row.append(r)
            source.append(before)
        if table.status[r] == LOST:
            lost_before[key] = r
    rows, sources = np.array(row, np.int64), np.array(source, np.int64)
    return events(table, RETRY, rows, sources, table.finish[sources])


def _devices(table: ExecutionTable) -> CauseTable:
    g = table.groups
    rows = np.flatnonzero(g.previous[table.group] >= 0)
    before = g.previous[table.group[rows]]
    return events(table, DEVICE, rows, g.last[before], g.end[before])


def _arrivals(table: ExecutionTable) -> CauseTable:
    rows = np.arange(len(table))
    return events(table, ARRIVAL, rows, np.full(len(rows), -1), table.workload.arrival[table.job])


def events(
    table: ExecutionTable,
    kind: int,
    row: IntArray,
    source: IntArray,
    time: FloatArray,
    edge: IntArray | None = None,
) -> CauseTable:
    """Return events of one kind: executions `source` that ended before a start."""
    time = np.minimum(time, table.start[row])
    none = np.full(len(row), -1)
    return CauseTable(
        group=table.group[row],
        kind=np.full(len(row), kind),
        time=time,
        ended=time,
        sent=time,
        row=row,
        source=source,
        edge=none if edge is None else edge,
        moved=np.zeros(len(row)),
    )
