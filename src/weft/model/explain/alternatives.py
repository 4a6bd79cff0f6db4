"""When tasks would have ended on other devices, all other executions unchanged."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.model.explain.causes import BRANCH, INPUT, CauseTable, ExecutionTable
from weft.model.problem import Problem


class Bookings(NamedTuple):
    """The groups of a device, in order of their starts."""

    group: IntArray
    start: FloatArray
    ended: FloatArray  # (groups + 1,) the last end before each start; then the last end of all

    @classmethod
    def of(cls, group: IntArray, start: FloatArray, end: FloatArray) -> Bookings:
        """Select groups of one device."""
        return cls(group, start[group], np.maximum.accumulate(np.append(-np.inf, end[group])))

    def earliest(self, ready: float, seconds: float) -> float:
        """Return the first time from `ready` on at which the device is idle for `seconds`."""
        first = int(np.searchsorted(self.start, ready))  # earlier gaps end before `ready`
        ended = np.maximum(self.ended[first:], ready)
        free = np.flatnonzero(ended[:-1] + seconds <= self.start[first:])
        return float(ended[free[0] if len(free) else -1])


class Alternatives:
    """Lookup of the bookings of all devices and the inputs of all executions."""

    def __init__(self, table: ExecutionTable, candidates: CauseTable) -> None:
        self.table, self.candidates = table, candidates
        g, c = table.groups, candidates
        order = np.lexsort((g.end, g.start, g.device))
        cut = np.searchsorted(g.device[order], np.arange(table.workload.cluster.p + 1)).tolist()
        self._bookings = [Bookings.of(order[a:b], g.start, g.end) for a, b in pairwise(cut)]
        waits = np.flatnonzero((c.kind == INPUT) | (c.kind == BRANCH))
        self._waits = waits[np.argsort(c.row[waits], kind="stable")]
        self._first = np.searchsorted(c.row[self._waits], np.arange(len(table) + 1))

    def finishes(self, row: int) -> list[float]:
        """Return when the task of a row would have ended on each device; inf: never."""
        t = self.table
        problem, task = t.workload.problem_of(int(t.job[row])), int(t.task[row])
        found = []
        for device, ready in enumerate(self._ready(problem, row).tolist()):
            seconds = problem.duration(task, device)
            if np.isinf(seconds):
                found.append(np.inf)
                continue
            bookings = self._bookings[device]
            if device == t.device[row]:
                others = bookings.group[bookings.group != t.group[row]]
                bookings = Bookings.of(others, t.groups.start, t.groups.end)
            found.append(bookings.earliest(ready, seconds) + seconds)
        return found

    def _ready(self, problem: Problem, row: int) -> FloatArray:
        """Return (p,) when all inputs of a row would be on each device."""
        t, c, cluster = self.table, self.candidates, problem.cluster
        ptr, rows = t.done
        ready = np.full(cluster.p, t.workload.arrival[t.job[row]])
        for k in self._waits[self._first[row] : self._first[row + 1]].tolist():
            if c.kind[k] == BRANCH:
                ready = np.maximum(ready, c.ended[k])
                continue
            i = t.instance[c.source[k]]
            sources = rows[ptr[i] : ptr[i + 1]]
            sent = t.finish[sources] if t.eager else np.maximum(t.finish[sources], t.decided[row])
            data, devices = problem.workflow.data[c.edge[k]], t.device[sources]
            moved = cluster.latency[devices] + data * cluster.per_byte[devices]
            ready = np.maximum(ready, (sent[:, None] + moved).min(axis=0))
        return ready
