"""PEFT, compiled: earliest finish plus optimistic cost.

Arabnejad and Barbosa (2014), section 4.
"""

from __future__ import annotations

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.lists.insertion import Rows, arrivals, durations_of, empty_plan, place
from weft.sim.kernel.gaps import earliest_start
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import mean_transfer


def optimistic_costs(problem: Problem) -> FloatArray:
    """Compute the optimistic cost table (n, p).

    Its values are seconds from a task's end to the workflow's end. Each descendant runs on the
    device that suits this path best.

    Examples
    --------
    >>> p = Problem.from_arrays([[2.0, 4.0], [3.0, 1.0]], [[0, 1]], [1.0], bandwidth=1.0)
    >>> optimistic_costs(p).tolist()  # from device 0: min(3, 1 + 1)
    [[2.0, 1.0], [0.0, 0.0]]
    """
    latency, per_byte = mean_transfer(problem)
    return _costs(problem.arrays, latency, per_byte)


def optimistic_rank(problem: Problem) -> FloatArray:
    """Average the optimistic cost over the devices able to run a task: (n,) seconds."""
    return _means(problem.arrays, optimistic_costs(problem))


def insert_optimistically(problem: Problem, order: IntArray) -> Rows:
    """Place tasks, in order, at the least finish + optimistic cost, with insertion."""
    return _insert(problem.arrays, order, optimistic_costs(problem))


@njit
def _costs(a: ProblemArrays, latency: float, per_byte: float) -> FloatArray:
    n, p = len(a.work), a.per_work.shape[1]
    cost, seconds = np.zeros((n, p)), np.empty(p)
    for i in range(n - 1, -1, -1):
        child = a.order[i]
        durations_of(a, child, seconds)
        seconds += cost[child]
        cheapest = seconds.min()
        for e in range(a.pred_ptr[child], a.pred_ptr[child + 1]):
            above = cost[a.pred[e]]
            moved = cheapest + (latency + a.pred_data[e] * per_byte)
            # Staying costs no transfer, so `moved` need not exclude the same device.
            for d in range(p):
                above[d] = max(above[d], min(seconds[d], moved))
    return cost


@njit
def _means(a: ProblemArrays, cost: FloatArray) -> FloatArray:
    n, p = cost.shape
    mean = np.empty(n)
    for task in range(n):
        total, able = 0.0, 0
        for d in range(p):
            if a.per_work[a.row[task], d] < np.inf:
                total += cost[task, d]
                able += 1
        mean[task] = total / able
    return mean


@njit
def _insert(a: ProblemArrays, order: IntArray, cost: FloatArray) -> Rows:
    rows, timeline, ready, seconds = empty_plan(a)
    for task in order:
        arrivals(a, task, rows, ready)
        durations_of(a, task, seconds)
        best, device, start = np.inf, -1, 0.0
        for d in range(len(ready)):
            if ready[d] + seconds[d] + cost[task, d] < best:
                begin = earliest_start(timeline, d, ready[d], seconds[d], np.inf)
                if begin + seconds[d] + cost[task, d] < best:
                    best, device, start = begin + seconds[d] + cost[task, d], d, begin
        place(timeline, rows, task, device, start, seconds[device])
    return rows
