"""All assignments of devices to the tasks of a small problem, compiled.

For each assignment tasks are decoded in the order of their longest remaining path, with the
durations and transfers of that assignment. This proves nothing, since another order may be shorter.
But unlike a search by single moves, it also finds an optimum that can only be reached through long
schedules.
"""

from __future__ import annotations

import numpy as np

from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.objective import CompiledObjective, Objective
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import Decoder, decode_from, make_decoder
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit

MOST, MOST_TASKS = 20_000, 16
"""Most assignments that are tried, and most tasks."""

STEP = 500
"""Assignments between two looks at the clock: about a millisecond."""

SHARE = 0.4
"""Share of the time after which the enumeration stops."""


def best_assignment(problem: Problem, objective: Objective, clock: Clock) -> Schedule | None:
    """Return the best schedule over all assignments; None: too many, or no time."""
    if problem.n > MOST_TASKS or problem.p**problem.n > MOST:
        return None
    count = problem.p**problem.n
    w, kept = make_decoder(problem.n, problem.p), make_decoder(problem.n, problem.p)
    compiled, best, first = objective.compiled(problem), np.inf, 0
    while first < count and clock.share() < SHARE:
        best = try_assignments(problem.arrays, compiled, first, STEP, best, w, kept)
        first += STEP
    if best == np.inf:
        return None
    return Schedule.of(device=kept.device, start=kept.start, finish=kept.finish)


@njit
def try_assignments(
    a: ProblemArrays,
    objective: CompiledObjective,
    first: int,
    count: int,
    best: float,
    w: Decoder,
    kept: Decoder,
) -> float:
    """Decode assignments `first` to `first + count - 1`; keep the best in `kept`.

    Returns the best value, `best` if none is better. The number of an assignment has one digit per
    task to the base of the number of devices; numbers beyond the last one repeat the first ones.
    """
    n, p = len(a.work), a.per_work.shape[1]
    device, rank, tail = np.zeros(n, np.int64), np.zeros(n), np.zeros((n, 1))
    for number in range(first, first + count):
        able, rest = True, number
        for t in range(n):
            device[t] = rest % p
            rest //= p
            able = able and a.per_work[a.row[t], device[t]] < np.inf
        if not able:
            continue
        _rank(a, device, rank)
        order = _by_rank(a.order, rank)
        value = decode_from(a, objective, order, device, tail, best, w, 0, NONE, np.inf)
        if value < best:
            best = value
            kept.device[:] = w.device
            kept.start[:] = w.start
            kept.finish[:] = w.finish
    return best


@njit
def _rank(a: ProblemArrays, device: IntArray, rank: FloatArray) -> None:
    """Fill in the longest path from each task's start to the end, on given devices."""
    for i in range(len(rank) - 1, -1, -1):
        u = a.order[i]
        longest, here = 0.0, device[u]
        for e in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
            v = a.succ[e]
            there = device[v]
            send = a.latency[here, there] + a.succ_data[e] * a.per_byte[here, there]
            longest = max(longest, send + rank[v])
        rank[u] = a.work[u] * a.per_work[a.row[u], here] + longest


@njit
def _by_rank(order: IntArray, rank: FloatArray) -> IntArray:
    """Sort a topological order by falling rank; equal ranks keep their order."""
    made = order.copy()
    for i in range(1, len(made)):
        t, k = made[i], i
        while k > 0 and rank[made[k - 1]] < rank[t]:
            made[k] = made[k - 1]
            k -= 1
        made[k] = t
    return made
