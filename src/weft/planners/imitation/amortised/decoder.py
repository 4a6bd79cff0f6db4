"""The decoder of `amortised`: that of the search, with a handicap by task and device. A task goes where finish + handicap is least."""

from __future__ import annotations

import numpy as np

from weft.model import ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.search.decoder import NONE, Decoder, _enter_kept, _go_back
from weft.sim.kernel.jit import njit


@njit
def place_all(
    a: ProblemArrays,
    order: IntArray,
    choice: IntArray,
    tail: FloatArray,
    handicap: FloatArray,
    limit: float,
    w: Decoder,
    first: int,
    last: int,
    current: float,
) -> float:
    """Place the tasks from place `first` on; the arguments and the answer are those of `decode_from`."""
    work, row, pace, latency, per_byte = a.work, a.row, a.pace, a.latency, a.per_byte
    pred_ptr, pred, pred_data = a.pred_ptr, a.pred, a.pred_data
    on, begin, end, latest, before, ready = w.device, w.start, w.finish, w.latest, w.before, w.ready
    n, p, wide = len(order), pace.shape[1], tail.shape[1] > 1
    makespan, same = _enter_kept(order, first, on, begin, end, latest, before), True
    for j in range(first, n):
        t = order[j]
        fixed, units, costs, extra = choice[t], work[t], pace[row[t]], handicap[t]
        low, high = (0, p) if fixed < 0 else (fixed, fixed + 1)
        for d in range(low, high):
            ready[d] = 0.0
        for e in range(pred_ptr[t], pred_ptr[t + 1]):
            done, data = end[pred[e]], pred_data[e]
            wait, slow = latency[on[pred[e]]], per_byte[on[pred[e]]]
            for d in range(low, high):
                ready[d] = max(ready[d], done + (wait[d] + data * slow[d]))
        least, finish, device, start, after = np.inf, np.inf, NONE, 0.0, NONE
        for d in range(low, high):
            seconds = units * costs[d] if costs[d] < np.inf else np.inf
            if ready[d] + seconds + extra[d] >= least:
                continue
            soonest, behind, k = ready[d], NONE, latest[d]
            if k != NONE and end[k] > ready[d]:
                soonest = end[k]
                while k != NONE and end[k] > ready[d]:
                    earlier = before[k]
                    gap = end[earlier] if earlier != NONE and end[earlier] > ready[d] else ready[d]
                    if gap + seconds <= begin[k]:
                        soonest, behind = gap, k
                    k = earlier
            if soonest + seconds + extra[d] < least:
                least, finish, device, start, after = (
                    soonest + seconds + extra[d],
                    soonest + seconds,
                    d,
                    soonest,
                    behind,
                )
        if finish + tail[t, device if wide else 0] > limit:
            _go_back(order, first, j, w)
            return np.inf
        if after == NONE:
            before[t] = latest[device]
            latest[device] = t
        else:
            before[t] = before[after]
            before[after] = t
        same = same and device == w.kept_device[t] and start == w.kept_start[t]
        on[t], begin[t], end[t] = device, start, finish
        makespan = max(makespan, finish)
        if j == last and same:
            return current
    if makespan > limit:
        _go_back(order, first, n, w)
        return np.inf
    for j in range(first, n):
        t = order[j]
        w.kept_device[t], w.kept_start[t], w.kept_finish[t] = on[t], begin[t], end[t]
    return makespan
