"""Acyclic partitions of a task graph, balanced by work, compiled.

Parts are numbered such that no edge leads to a part of a lower number, so the quotient graph, whose
vertices are the parts, has no cycle. A partition begins as slices of a topological order, each cut
where few data cross. Then tasks move between parts, one at a time, while that reduces the cut: the
data between parts. A task moves only to parts between the last part of its parents and the first
part of its children, which keeps the numbering. The moves are in the manner of Moreira, Popp and
Schulz ("Graph partitioning with acyclicity constraints", 2017); coarsening, as in the multilevel
partitioner of Herrmann et al. (2019), is left out.
"""

from __future__ import annotations

import numpy as np

from weft.model import ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.colocation import find_root
from weft.sim.kernel.jit import njit


def slices(
    a: ProblemArrays, order: IntArray, work: FloatArray, share: FloatArray, tolerance: float
) -> IntArray:
    """Return the part of each task: slices of a topological order.

    The order is cut where few data cross. `share` has the share of each part in all `work`. No part
    has more than `1 + tolerance` times its share, and the work of one task.

    Examples
    --------
    >>> from weft.model import Problem
    >>> chain = Problem.from_arrays([[1.0]] * 4, [[0, 1], [1, 2], [2, 3]], [9.0, 1.0, 9.0])
    >>> slices(chain.arrays, np.arange(4), np.ones(4), np.array([0.4, 0.6]), 0.5).tolist()
    [0, 0, 1, 1]
    """
    done = np.append(0.0, np.cumsum(work[order]))
    crossing = crossing_data(a, order)
    target = np.cumsum(share)[:-1] * done[-1]
    half = 0.5 * tolerance * done[-1] * np.minimum(share[:-1], share[1:])
    first = np.searchsorted(done, target - half)
    last = np.searchsorted(done, target + half, side="right") - 1
    cuts = [_cut(done, crossing, *window) for window in zip(first, last, target, strict=True)]
    part = np.empty(len(order), np.int64)
    part[order] = np.searchsorted(np.array(cuts, np.int64), np.arange(len(order)), side="right")
    return part


def _cut(done: FloatArray, crossing: FloatArray, first: int, last: int, target: float) -> int:
    """Return the place in a window that the least data cross, nearest the target."""
    if first > last:  # one task is larger than the window: cut on its nearer side
        return first if done[first] - target < target - done[last] else last
    place = np.arange(first, last + 1)
    return int(place[np.lexsort((np.abs(done[place] - target), crossing[place]))[0]])


@njit
def crossing_data(a: ProblemArrays, order: IntArray) -> FloatArray:
    """Compute the data (n + 1,) that cross each place of a topological order.

    An edge counts as its bytes and one more, so that places without edges are the least.
    """
    crossing, across, edges = np.zeros(len(order) + 1), 0.0, 0
    for i in range(len(order)):
        t = order[i]
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            across -= 1.0 + a.pred_data[e]
            edges -= 1
        for e in range(a.succ_ptr[t], a.succ_ptr[t + 1]):
            across += 1.0 + a.succ_data[e]
            edges += 1
        if edges == 0:
            across = 0.0  # without the rounding of the sums
        crossing[i + 1] = across
    return crossing


@njit
def components(a: ProblemArrays) -> IntArray:
    """Return the lowest task (n,) connected with each task, in any direction."""
    root = np.arange(len(a.work))
    for t in range(len(root)):
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            u, v = find_root(root, t), find_root(root, a.pred[e])
            root[max(u, v)] = min(u, v)
    for t in range(len(root)):
        root[t] = root[root[t]]  # that of a lower number is known already
    return root


@njit
def refine(
    a: ProblemArrays, work: FloatArray, part: IntArray, most: FloatArray, rounds: int
) -> int:
    """Move tasks to parts that hold more of their data; return the number of moves.

    `most` is the most work of each part. A round visits all tasks in topological order or, every
    other round, in the reverse order. Each task moves to the allowed part with the most data on
    edges with it, if that is more than in its own part; the lowest number among equals. `part` is
    changed in place.
    """
    n, count = len(part), len(most)
    load, near, moves = np.zeros(count), np.zeros(count), 0
    for t in range(n):
        load[part[t]] += work[t]
    for number in range(rounds):
        before = moves
        for i in range(n):
            t = a.order[i if number % 2 == 0 else n - 1 - i]
            own, first, last = part[t], 0, count - 1
            for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
                parent = part[a.pred[e]]
                first = max(first, parent)
                near[parent] += 1.0 + a.pred_data[e]
            for e in range(a.succ_ptr[t], a.succ_ptr[t + 1]):
                child = part[a.succ[e]]
                last = min(last, child)
                near[child] += 1.0 + a.succ_data[e]
            best = own
            for to in range(first, last + 1):
                if near[to] > near[best] and load[to] + work[t] <= most[to]:
                    best = to
            for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
                near[part[a.pred[e]]] = 0.0
            for e in range(a.succ_ptr[t], a.succ_ptr[t + 1]):
                near[part[a.succ[e]]] = 0.0
            if best != own:
                part[t] = best
                load[own] -= work[t]
                load[best] += work[t]
                moves += 1
        if moves == before:
            break
    return moves
