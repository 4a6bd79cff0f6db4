"""Steps that list planners share, compiled, and placement at the end of a device.

`append_in_order` is MCT, MET and OLB (Maheswaran et al. 1999, section 3).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.gaps import Timeline, idle_timeline, occupy
from weft.sim.kernel.jit import njit

ANYWHERE = -1
"""The pin of a task that may go to any device."""

MCT, MET, OLB = range(3)
"""Best device: earliest finish, shortest duration, earliest end of its queue."""


class Rows(NamedTuple):
    """Device, start and finish of each task, while a planner fills them in."""

    device: IntArray
    start: FloatArray
    finish: FloatArray


def as_schedule(rows: Rows) -> Schedule:
    """Make a schedule of the rows that a kernel filled in."""
    return Schedule.of(device=rows.device, start=rows.start, finish=rows.finish)


@njit
def empty_rows(n: int) -> Rows:
    """Make rows of n tasks that are not placed yet."""
    return Rows(np.full(n, -1), np.empty(n), np.empty(n))


@njit
def empty_plan(a: ProblemArrays) -> tuple[Rows, Timeline, FloatArray, FloatArray]:
    """Return empty rows, an idle timeline, and room for `arrivals` and `durations_of`."""
    n, p = len(a.work), a.per_work.shape[1]
    return empty_rows(n), idle_timeline(p, n), np.empty(p), np.empty(p)


@njit
def arrivals(a: ProblemArrays, task: int, rows: Rows, ready: FloatArray) -> None:
    """Fill `ready` with the time at which all inputs of a task are on each device.

    Parents that are not placed yet do not count.
    """
    ready[:] = 0.0
    for i in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
        parent = a.pred[i]
        source = rows.device[parent]
        if source >= 0:
            send(a, source, rows.finish[parent], a.pred_data[i], ready)


@njit
def send(a: ProblemArrays, source: int, sent: float, data: float, ready: FloatArray) -> None:
    """Raise `ready` to the arrival, on each device, of data sent from a device."""
    latency, per_byte = a.latency[source], a.per_byte[source]
    for d in range(len(ready)):
        arrival = sent + (latency[d] + data * per_byte[d])
        ready[d] = max(ready[d], arrival)


@njit
def durations_of(a: ProblemArrays, task: int, seconds: FloatArray) -> None:
    """Fill `seconds` with a task's duration on each device; inf: it cannot run there."""
    work, per_work = a.work[task], a.per_work[a.row[task]]
    for d in range(len(seconds)):
        seconds[d] = work * per_work[d] if per_work[d] < np.inf else np.inf


@njit
def place(
    timeline: Timeline, rows: Rows, task: int, device: int, start: float, duration: float
) -> None:
    """Add a task to the plan."""
    rows.device[task], rows.start[task], rows.finish[task] = device, start, start + duration
    occupy(timeline, device, start, start + duration)


@njit
def append_in_order(a: ProblemArrays, order: IntArray, rule: int) -> Rows:
    """Place each task, in order, at the end of its device by `MCT`, `MET` or `OLB`."""
    n, p = len(a.work), a.per_work.shape[1]
    rows, queue_end = empty_rows(n), np.zeros(p)
    ready, seconds = np.empty(p), np.empty(p)
    for task in order:
        arrivals(a, task, rows, ready)
        durations_of(a, task, seconds)
        best, device = np.inf, -1
        for d in range(p):
            if seconds[d] < np.inf:
                value = max(ready[d], queue_end[d]) + seconds[d]
                if rule == MET:
                    value = seconds[d]
                elif rule == OLB:
                    value = queue_end[d]
                if value < best:
                    best, device = value, d
        rows.device[task], rows.start[task] = device, max(ready[device], queue_end[device])
        rows.finish[task] = rows.start[task] + seconds[device]
        queue_end[device] = rows.finish[task]
    return rows
