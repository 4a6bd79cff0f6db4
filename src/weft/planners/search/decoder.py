"""Decoder from an order of tasks and chosen devices to a schedule, compiled.

It places tasks one by one in the given order, each into the earliest gap that fits (Topcuoglu,
Hariri and Wu 2002, section 4.1), on its chosen device or, if none is chosen, on the device with the
earliest finish; the lowest device number wins among equals.

A search decodes many orders that differ little. So the decoder stores the last accepted placement
and starts where the order changed. It stops as soon as the value must exceed the caller's limit, or
once the remaining tasks keep their stored placement.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.objective import CompiledObjective, score
from weft.sim.kernel.gaps import NONE, gap_in_chain, link
from weft.sim.kernel.jit import njit


class Decoder(NamedTuple):
    """All memory of a decoder; each thread needs its own.

    The tasks of a device are a chain: `latest[device]`, then `before[task]`.
    """

    device: IntArray  # (n,) device of each task
    start: FloatArray  # (n,)
    finish: FloatArray  # (n,)
    latest: IntArray  # (p,)
    before: IntArray  # (n,)
    ready: FloatArray  # (p,)
    kept_device: IntArray  # (n,) the stored placement
    kept_start: FloatArray  # (n,)
    kept_finish: FloatArray  # (n,)


def make_decoder(n: int, p: int) -> Decoder:
    """Make a decoder for a problem of n tasks and p devices."""
    device, before, kept_device = (np.zeros(n, np.int64) for _ in range(3))
    start, finish, kept_start, kept_finish = (np.zeros(n) for _ in range(4))
    latest, ready = np.zeros(p, np.int64), np.zeros(p)
    return Decoder(
        device, start, finish, latest, before, ready, kept_device, kept_start, kept_finish
    )


@njit
def decode(
    a: ProblemArrays,
    objective: CompiledObjective,
    order: IntArray,
    choice: IntArray,
    tail: FloatArray,
    w: Decoder,
) -> float:
    """Place all tasks and return the value of the schedule.

    `tail` is (n, p) or (n, 1): the shortest time from a task's finish to the end, 0 if unknown.
    """
    return decode_from(a, objective, order, choice, tail, np.inf, w, 0, NONE, np.inf)


@njit
def decode_from(
    a: ProblemArrays,
    objective: CompiledObjective,
    order: IntArray,
    choice: IntArray,
    tail: FloatArray,
    limit: float,
    w: Decoder,
    first: int,
    last: int,
    current: float,
) -> float:
    """Place the tasks from place `first` on.

    Order and choices are new between `first` and `last`. `current` is the stored value; it is
    returned if the tasks up to `last` keep their places. Returns inf, with the stored placement
    restored, as soon as the value must exceed `limit`. Otherwise stores the new placement.
    """
    # One long function on purpose: a call that passes two tuples of arrays costs as much as placing
    # a task.
    work, row, per_work, latency, per_byte = a.work, a.row, a.per_work, a.latency, a.per_byte
    pred_ptr, pred, pred_data = a.pred_ptr, a.pred, a.pred_data
    on, begin, end, latest, before, ready = w.device, w.start, w.finish, w.latest, w.before, w.ready
    n, p, wide = len(order), per_work.shape[1], tail.shape[1] > 1
    cut = (limit - objective.least) * objective.longest  # a longer makespan has a value above it
    makespan, same = _restore_before(order, first, on, begin, end, latest, before), True
    for j in range(first, n):
        t = order[j]
        fixed, units, costs = choice[t], work[t], per_work[row[t]]
        low, high = (0, p) if fixed < 0 else (fixed, fixed + 1)
        for d in range(low, high):
            ready[d] = 0.0
        for e in range(pred_ptr[t], pred_ptr[t + 1]):
            done, data = end[pred[e]], pred_data[e]
            wait, slow = latency[on[pred[e]]], per_byte[on[pred[e]]]
            for d in range(low, high):
                ready[d] = max(ready[d], done + (wait[d] + data * slow[d]))
        device, start, finish, after = NONE, 0.0, np.inf, NONE
        for d in range(low, high):
            seconds = units * costs[d] if costs[d] < np.inf else np.inf
            if ready[d] + seconds >= finish:
                continue
            soonest, behind = gap_in_chain(latest[d], before, begin, end, ready[d], seconds)
            if soonest + seconds < finish:
                finish, device, start, after = soonest + seconds, d, soonest, behind
        if finish + tail[t, device if wide else 0] > cut:
            _restore(order, first, j, w)
            return np.inf
        link(t, device, after, latest, before)
        same = same and device == w.kept_device[t] and start == w.kept_start[t]
        on[t], begin[t], end[t] = device, start, finish
        makespan = max(makespan, finish)
        if j == last and same:
            return current
    value = makespan if objective.plain else score(objective, makespan, on, begin, end)
    if value > limit:
        _restore(order, first, n, w)
        return np.inf
    for j in range(first, n):
        t = order[j]
        w.kept_device[t], w.kept_start[t], w.kept_finish[t] = on[t], begin[t], end[t]
    return value


@njit
def _restore(order: IntArray, first: int, last: int, w: Decoder) -> None:
    for j in range(first, last):
        t = order[j]
        w.device[t], w.start[t], w.finish[t] = w.kept_device[t], w.kept_start[t], w.kept_finish[t]


@njit
def _restore_before(
    order: IntArray,
    first: int,
    on: IntArray,
    begin: FloatArray,
    end: FloatArray,
    latest: IntArray,
    before: IntArray,
) -> float:
    """Rebuild the chains of the tasks before place `first`; return their last finish."""
    latest[:] = NONE
    makespan = 0.0
    for j in range(first):
        t = order[j]
        after, k = NONE, latest[on[t]]
        while k != NONE and (begin[k] > begin[t] or (begin[k] == begin[t] and end[k] > end[t])):
            after, k = k, before[k]
        link(t, on[t], after, latest, before)
        makespan = max(makespan, end[t])
    return makespan
