"""Expected times of the parts of a search, from the time that HEFT took.

A search looks at the clock between its parts, so a part that takes too long must not begin. HEFT
takes about (tasks + edges) x devices steps and a call; other parts are counted in the same steps.
The factors were measured on graphs of 50 to 20,000 tasks on 1 to 188 devices and are rounded up.
"""

from __future__ import annotations

import numpy as np

from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.bounds import PAIR_LIMIT, chain_tails, device_tails, lower_bound, path_bound
from weft.planners.search.clock import Clock
from weft.sim.kernel.jit import njit

BOUND_CELLS = 2_000_000
"""Most tasks x devices for a bound before the search, which stops when it meets the bound."""

CALL_STEPS = 40_000
"""Steps that take as long as a call of a planner."""

BOUND_SHARE, TAIL_SHARE, MOVE_SHARE = 0.1, 0.1, 0.02
"""Largest expected shares of the time for the bound, for tails by device, and for one move."""


def affordable_bound(problem: Problem, clock: Clock, heft: float, *, copies: bool) -> float:
    """Return the best lower bound for which there is time."""
    if problem.n * problem.p > BOUND_CELLS:
        return 0.0
    steps = problem.n * min(problem.n, max(16, 20_000_000 // problem.n)) / 50
    steps += min(300 * len(problem.per_work) * problem.p, 40_000_000)
    steps += 2 * _tail_steps(problem)
    if fits(clock, step_seconds(problem, heft) * steps, BOUND_SHARE):
        return lower_bound(problem, copies=copies)
    return path_bound(problem)


def affordable_tails(problem: Problem, clock: Clock, heft: float) -> FloatArray:
    """Return the tails by device if there is time, else those without transfers."""
    if fits(clock, step_seconds(problem, heft) * _tail_steps(problem), TAIL_SHARE):
        return device_tails(problem)
    return chain_tails(problem)


def can_anneal(problem: Problem, schedule: Schedule, clock: Clock, heft: float) -> bool:
    """Return whether one move (at most one decoding) takes a small share of the time."""
    walked = walked_tasks(problem.arrays, schedule.device, schedule.start, schedule.finish)
    steps = 2.0 * (problem.n + problem.m + walked) * problem.p
    return fits(clock, step_seconds(problem, heft) * steps, MOVE_SHARE)


def step_seconds(problem: Problem, heft: float) -> float:
    """Return the seconds of a step, from the seconds that HEFT took."""
    return heft / ((problem.n + problem.m) * problem.p + CALL_STEPS)


def fits(clock: Clock, seconds: float, share: float) -> bool:
    """Return whether seconds are below a share of the limit and half of the time left."""
    return clock.seconds is None or seconds < min(share * clock.seconds, 0.5 * clock.left())


def _tail_steps(problem: Problem) -> float:
    pairs = problem.m * problem.p * problem.p
    one = 2.0 * (problem.n + problem.m) * problem.p
    return one + (0.8 * pairs if pairs <= PAIR_LIMIT else 0.0)


@njit
def walked_tasks(a: ProblemArrays, device: IntArray, start: FloatArray, finish: FloatArray) -> int:
    """Count the tasks over which the decoder walks back to find gaps.

    It places the tasks in order of start on these devices, and walks from the end of the device
    back to the arrival of the inputs.
    """
    n, p = len(start), a.per_work.shape[1]
    order = np.argsort(start)
    size = np.zeros(p + 1, np.int64)
    for t in range(n):
        size[device[t] + 1] += 1
    first = np.cumsum(size)
    ends, count, walked = np.empty(n), np.zeros(p, np.int64), 0
    for t in order:
        d, ready = device[t], 0.0
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            u = a.pred[e]
            send = a.latency[device[u], d] + a.pred_data[e] * a.per_byte[device[u], d]
            ready = max(ready, finish[u] + send)
        mine = ends[first[d] : first[d] + count[d]]
        walked += count[d] - np.searchsorted(mine, ready, side="right")
        ends[first[d] + count[d]] = finish[t]
        count[d] += 1
    return walked
