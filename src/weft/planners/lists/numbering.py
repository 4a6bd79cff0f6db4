"""Problems in another numbering of tasks and devices.

Values that are read together are then close in memory.
"""

from __future__ import annotations

import numpy as np

from weft.model import ProblemArrays
from weft.model.columns import FloatArray, IntArray, frozen
from weft.sim.kernel.jit import njit


def by_per_work(a: ProblemArrays, number: IntArray) -> ProblemArrays:
    """Return the problem with its devices in the order of `number`.

    In that order, devices of about the same speed are in a block.
    """
    pair = np.ix_(number, number)
    views = a.per_work[:, number], a.latency[pair], a.per_byte[pair]
    per_work, latency, per_byte = (frozen(np.ascontiguousarray(view)) for view in views)
    return a._replace(per_work=per_work, latency=latency, per_byte=per_byte)


def renumbered(a: ProblemArrays, order: IntArray) -> ProblemArrays:
    """Return costs and parents of tasks that are numbered by their place in the order."""
    work, row, ptr, pred, data = (frozen(x) for x in _renumber(a, order))  # one signature
    return a._replace(work=work, row=row, pred_ptr=ptr, pred=pred, pred_data=data)


@njit
def _renumber(
    a: ProblemArrays, order: IntArray
) -> tuple[FloatArray, IntArray, IntArray, IntArray, FloatArray]:
    n, place = len(order), np.empty(len(order), np.int64)
    for i in range(n):
        place[order[i]] = i
    work, row, ptr = np.empty(n), np.empty(n, np.int64), np.zeros(n + 1, np.int64)
    pred, data, k = np.empty(len(a.pred), np.int64), np.empty(len(a.pred)), 0
    for i in range(n):
        t = order[i]
        work[i], row[i] = a.work[t], a.row[t]
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            pred[k], data[k] = place[a.pred[e]], a.pred_data[e]
            k += 1
        ptr[i + 1] = k
    return work, row, ptr, pred, data
