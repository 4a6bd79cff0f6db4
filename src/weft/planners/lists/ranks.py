"""Ranks of list planners by name, and the order of tasks that a rank gives."""

from __future__ import annotations

import heapq

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.lists.peft import optimistic_rank
from weft.registry import Registry
from weft.rng import generator
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import downward_rank, upward_rank

RANKS: Registry[FloatArray] = Registry("rank")
"""Name -> function of (problem, seed): one number per task; the largest comes first."""


@RANKS.register("upward")
def _upward(problem: Problem, _seed: int) -> FloatArray:
    return upward_rank(problem)


@RANKS.register("upward-saga")
def _upward_saga(problem: Problem, _seed: int) -> FloatArray:
    """Upward rank with SAGA's mean transfer.

    It counts a device's transfers to itself.
    """
    return upward_rank(problem, self_pairs=True)


@RANKS.register("downward")
def _downward(problem: Problem, _seed: int) -> FloatArray:
    """Earliest possible start first."""
    return -downward_rank(problem)


@RANKS.register("cpop")
def _cpop(problem: Problem, _seed: int) -> FloatArray:
    """Longest path through a task: CPOP's priority.

    Topcuoglu et al. (2002), section 4.2.
    """
    return upward_rank(problem) + downward_rank(problem)


@RANKS.register("optimistic")
def _optimistic(problem: Problem, _seed: int) -> FloatArray:
    """Mean optimistic cost: PEFT's rank (Arabnejad and Barbosa 2014, equation 4)."""
    return optimistic_rank(problem)


@RANKS.register("level")
def _level(problem: Problem, _seed: int) -> FloatArray:
    """Lowest level (edges from an entry) first."""
    return -problem.workflow.level.astype(np.float64)


@RANKS.register("fifo")
def _fifo(problem: Problem, _seed: int) -> FloatArray:
    """Lowest task number first among the tasks whose parents are placed."""
    return np.zeros(problem.n)


@RANKS.register("random")
def _random(problem: Problem, seed: int) -> FloatArray:
    return generator(seed, "rank").random(problem.n)


def rank_order(problem: Problem, rank: FloatArray) -> IntArray:
    """Order tasks by rank, parents before children; the lowest number among equals.

    Examples
    --------
    >>> chain = Problem.from_arrays([[0.0], [1.0], [2.0]], [[2, 0]])
    >>> rank_order(chain, np.array([9.0, 3.0, 3.0])).tolist()  # task 0 must wait for its parent
    [1, 2, 0]
    """
    order = np.argsort(-rank, kind="stable")
    place = np.empty(problem.n, np.int64)
    place[order] = np.arange(problem.n)
    if bool((place[problem.workflow.src] < place[problem.workflow.dst]).all()):
        return order  # parents already come first
    return order_of_free(problem.arrays, order, place)


@njit
def order_of_free(a: ProblemArrays, order: IntArray, place: IntArray) -> IntArray:
    """Take the first free task of `order` again and again; `place` is its inverse."""
    n = len(order)
    waiting = a.pred_ptr[1:] - a.pred_ptr[:-1]
    free = [place[t] for t in range(n) if waiting[t] == 0]
    heapq.heapify(free)
    result = np.empty(n, np.int64)
    for i in range(n):
        task = order[heapq.heappop(free)]
        result[i] = task
        for e in range(a.succ_ptr[task], a.succ_ptr[task + 1]):
            waiting[a.succ[e]] -= 1
            if waiting[a.succ[e]] == 0:
                heapq.heappush(free, place[a.succ[e]])
    return result
