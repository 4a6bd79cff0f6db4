"""Placement with lookahead, compiled (Bittencourt, Sakellariou and Madeira 2010)."""

from __future__ import annotations

import numpy as np

from weft.model import ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.lists.heft import earliest_finish
from weft.planners.lists.insertion import Rows, arrivals, durations_of, empty_plan, place
from weft.sim.kernel.gaps import Timeline, earliest_start
from weft.sim.kernel.jit import njit


@njit
def insert_looking_ahead(a: ProblemArrays, order: IntArray) -> Rows:
    """Place each task, in order, where its children can finish first.

    Each child has an earliest finish over all devices; the cost of a device is the latest of these.
    Among equal costs the task's own finish decides. Parents of the children count only if they are
    placed.
    """
    n, p = len(a.work), a.per_work.shape[1]
    rows, timeline, ready, seconds = empty_plan(a)
    children = (a.succ_ptr[1:] - a.succ_ptr[:-1]).max() if n else 0
    child_ready, child_seconds = np.empty((children, p)), np.empty((children, p))
    for task in order:
        arrivals(a, task, rows, ready)
        durations_of(a, task, seconds)
        for e in range(a.succ_ptr[task], a.succ_ptr[task + 1]):
            arrivals(a, a.succ[e], rows, child_ready[e - a.succ_ptr[task]])
            durations_of(a, a.succ[e], child_seconds[e - a.succ_ptr[task]])
        if a.succ_ptr[task] == a.succ_ptr[task + 1]:
            device, start = earliest_finish(timeline, ready, seconds)
        else:
            device, start = _best_for_children(
                a, task, timeline, ready, seconds, child_ready, child_seconds
            )
        place(timeline, rows, task, device, start, seconds[device])
    return rows


@njit
def _best_for_children(
    a: ProblemArrays,
    task: int,
    timeline: Timeline,
    ready: FloatArray,
    seconds: FloatArray,
    child_ready: FloatArray,
    child_seconds: FloatArray,
) -> tuple[int, float]:
    best, own, device, start = np.inf, np.inf, -1, 0.0
    for d in range(len(ready)):
        if seconds[d] < np.inf:
            begin = earliest_start(timeline, d, ready[d], seconds[d], np.inf)
            finish = begin + seconds[d]
            last = _last_child(a, task, d, finish, timeline, child_ready, child_seconds, best)
            if last < best or (last == best and finish < own):
                best, own, device, start = last, finish, d, begin
    return device, start


@njit
def _last_child(
    a: ProblemArrays,
    task: int,
    device: int,
    finish: float,
    timeline: Timeline,
    child_ready: FloatArray,
    child_seconds: FloatArray,
    limit: float,
) -> float:
    """Return the latest of the children's earliest finishes; inf above `limit`.

    The task runs on `device` until `finish`. The timeline need not contain it: a child on the same
    device starts after it anyway.
    """
    latest = 0.0
    ready = np.empty(child_ready.shape[1])
    for e in range(a.succ_ptr[task], a.succ_ptr[task + 1]):
        k = e - a.succ_ptr[task]
        for q in range(len(ready)):
            ready[q] = max(
                child_ready[k, q],
                finish + (a.latency[device, q] + a.succ_data[e] * a.per_byte[device, q]),
            )
        where, begin = earliest_finish(timeline, ready, child_seconds[k])
        latest = max(latest, begin + child_seconds[k, where])
        if latest > limit:
            return np.inf
    return latest
