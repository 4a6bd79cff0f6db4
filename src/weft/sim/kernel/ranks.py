"""Longest paths over a task graph, compiled: the ranks of planners and rules.

Upward and downward rank: Topcuoglu, Hariri and Wu (2002), equations 2 to 4.
"""

from __future__ import annotations

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray
from weft.sim.kernel.jit import njit


def mean_durations(problem: Problem) -> FloatArray:
    """Return the mean seconds (n,) of each task over the devices that can run it."""
    return problem.work * problem.mean_per_work[problem.row]


def mean_transfer(problem: Problem, *, self_pairs: bool = False) -> tuple[float, float]:
    """Return mean (latency, seconds per byte) over pairs of different devices.

    With `self_pairs` the free pairs of a device with itself count too: over unordered pairs,
    sum / (p (p + 1) / 2), as SAGA does.
    """
    p = problem.p
    pairs = p * (p - 1)
    if pairs == 0:
        return 0.0, 0.0
    latency, per_byte = float(problem.cluster.latency.sum()), float(problem.cluster.per_byte.sum())
    if self_pairs:
        return latency / 2 / (p * (p + 1) / 2), per_byte / 2 / (p * (p + 1) / 2)
    return latency / pairs, per_byte / pairs


def upward_rank(problem: Problem, *, self_pairs: bool = False) -> FloatArray:
    """Return the longest mean time (n,) from the start of each task to the end.

    Mean transfers are included.

    Examples
    --------
    >>> p = Problem.from_arrays([[2.0, 4.0], [1.0, 1.0]], [[0, 1]], [6.0], bandwidth=2.0)
    >>> upward_rank(p).tolist()  # 1; 3 + 6 / 2 + 1
    [7.0, 1.0]
    """
    latency, per_byte = mean_transfer(problem, self_pairs=self_pairs)
    return _upward(problem.arrays, mean_durations(problem), latency, per_byte)


def downward_rank(problem: Problem) -> FloatArray:
    """Return the longest mean time (n,) from the workflow's start to each task's."""
    latency, per_byte = mean_transfer(problem)
    return _downward(problem.arrays, mean_durations(problem), latency, per_byte)


@njit
def _upward(a: ProblemArrays, cost: FloatArray, latency: float, per_byte: float) -> FloatArray:
    rank = np.zeros(len(cost))
    for i in range(len(cost) - 1, -1, -1):
        u = a.order[i]
        best = 0.0
        for e in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
            best = max(best, latency + a.succ_data[e] * per_byte + rank[a.succ[e]])
        rank[u] = cost[u] + best
    return rank


@njit
def _downward(a: ProblemArrays, cost: FloatArray, latency: float, per_byte: float) -> FloatArray:
    rank = np.zeros(len(cost))
    for u in a.order:
        for e in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
            v = a.succ[e]
            rank[v] = max(rank[v], rank[u] + cost[u] + (latency + a.succ_data[e] * per_byte))
    return rank
