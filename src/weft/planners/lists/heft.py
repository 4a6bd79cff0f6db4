"""HEFT, compiled: heterogeneous earliest finish time.

Topcuoglu, Hariri and Wu (2002), section 4.1. Tasks are taken by decreasing upward rank: the longest
path to the end, with mean durations and mean transfers (`sim/kernel/ranks.py`). Each goes to the
device on which it finishes first, in an idle gap if it fits into one. `placements` combines this
loop with other ranks and with pinned devices.
"""

from __future__ import annotations

import numpy as np

from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.lists.insertion import (
    ANYWHERE,
    Rows,
    arrivals,
    as_schedule,
    durations_of,
    empty_plan,
    place,
)
from weft.planners.lists.ranks import rank_order
from weft.sim.kernel.gaps import Timeline, earliest_start, free_from
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import upward_rank


def heft(problem: Problem) -> Schedule:
    """Plan a problem by HEFT; `weft.plan(problem, "heft")` adds checks and the bound.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> heft(problem).makespan  # 1 s and 4 s on the second device; a move costs 2 s
    5.0
    """
    order = rank_order(problem, upward_rank(problem))
    return as_schedule(insert_in_order(problem.arrays, order, no_pins(problem)))


def no_pins(problem: Problem) -> IntArray:
    """Leave the device of every task open."""
    return np.full(problem.n, ANYWHERE)


@njit
def earliest_finish(
    timeline: Timeline, ready: FloatArray, seconds: FloatArray
) -> tuple[int, float]:
    """Return (device, start) of the earliest finish; among equals the lowest number."""
    best, device, start = np.inf, -1, 0.0
    for d in range(len(ready)):  # the finish at the end of a device bounds most searches
        begin = max(ready[d], free_from(timeline, d))
        if begin + seconds[d] < best:
            best, device, start = begin + seconds[d], d, begin
    for d in range(len(ready)):
        bound = ready[d] + seconds[d]
        if bound < best or (bound == best and d < device):
            begin = earliest_start(timeline, d, ready[d], seconds[d], best)
            finish = begin + seconds[d]
            if finish < best or (finish == best and d < device):
                best, device, start = finish, d, begin
    return device, start


@njit
def insert_in_order(a: ProblemArrays, order: IntArray, pin: IntArray) -> Rows:
    """Place each task, in order, on its pinned device or at its earliest finish."""
    rows, timeline, ready, seconds = empty_plan(a)
    for task in order:
        arrivals(a, task, rows, ready)
        durations_of(a, task, seconds)
        if pin[task] == ANYWHERE:
            device, start = earliest_finish(timeline, ready, seconds)
        else:
            device = pin[task]
            start = earliest_start(timeline, device, ready[device], seconds[device], np.inf)
        place(timeline, rows, task, device, start, seconds[device])
    return rows
