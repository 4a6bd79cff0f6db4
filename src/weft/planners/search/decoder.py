"""From an order of tasks and, for some of them, a device, to a schedule: insertion-based earliest finish time, compiled.

Tasks are placed one by one in the given order, each into the earliest gap that fits (Topcuoglu, Hariri and Wu, 2002), on its chosen
device or, where none is chosen, on the device where it finishes first; the lower device number wins among equals.

A search decodes the same order again and again with small changes. So the decoder keeps the last accepted placement, begins where
the order changed, gives up as soon as the schedule must become longer than the caller can accept, and stops where it meets the kept one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.objective import Goal, score
from weft.sim.kernel.gaps import NONE, gap_in_chain, link
from weft.sim.kernel.jit import njit

ANY = -1
"""The choice of a task that goes where it finishes first."""


class Decoder(NamedTuple):
    """All memory that decoding needs: one for each thread. The tasks of a device are a chain: `latest[device]`, then `before[task]`."""

    device: IntArray  # (n,) where each task went
    start: FloatArray  # (n,)
    finish: FloatArray  # (n,)
    latest: IntArray  # (p,)
    before: IntArray  # (n,)
    ready: FloatArray  # (p,)
    kept_device: IntArray  # (n,) the placement to go back to
    kept_start: FloatArray  # (n,)
    kept_finish: FloatArray  # (n,)


def make_decoder(n: int, p: int) -> Decoder:
    """Room for a problem of n tasks and p devices."""
    integers = [np.zeros(n, np.int64) for _ in range(3)]
    floats = [np.zeros(n) for _ in range(4)]
    latest, ready = np.zeros(p, np.int64), np.zeros(p)
    return Decoder(
        integers[0],
        floats[0],
        floats[1],
        latest,
        integers[1],
        ready,
        integers[2],
        floats[2],
        floats[3],
    )


@njit
def decode(
    a: ProblemArrays, goal: Goal, order: IntArray, choice: IntArray, tail: FloatArray, w: Decoder
) -> float:
    """Place all tasks; returns the value of the schedule: its makespan, unless the goal is another.

    `tail` is (n, p) or (n, 1): the shortest time from a task's finish to the end, 0 if not known.
    """
    return decode_from(a, goal, order, choice, tail, np.inf, w, 0, NONE, np.inf)


@njit
def decode_from(
    a: ProblemArrays,
    goal: Goal,
    order: IntArray,
    choice: IntArray,
    tail: FloatArray,
    limit: float,
    w: Decoder,
    first: int,
    last: int,
    current: float,
) -> float:
    """Place the tasks from place `first` on, where the order or the choices differ from the kept ones between `first` and `last`.

    `current` is the kept value: it is the answer again when the tasks up to `last` go where they were. Returns inf, with the kept
    placement in force again, as soon as the value is known to be above `limit`; otherwise the new placement is kept.
    """
    # One long function on purpose: a call that hands over two tuples of arrays costs as much as placing a task.
    work, row, pace, latency, per_byte = a.work, a.row, a.pace, a.latency, a.per_byte
    pred_ptr, pred, pred_data = a.pred_ptr, a.pred, a.pred_data
    on, begin, end, latest, before, ready = w.device, w.start, w.finish, w.latest, w.before, w.ready
    n, p, wide = len(order), pace.shape[1], tail.shape[1] > 1
    cut = limit * goal.longest  # no makespan above this can have a value within the limit
    makespan, same = _enter_kept(order, first, on, begin, end, latest, before), True
    for j in range(first, n):
        t = order[j]
        fixed, units, costs = choice[t], work[t], pace[row[t]]
        low, high = (0, p) if fixed < 0 else (fixed, fixed + 1)
        for d in range(low, high):
            ready[d] = 0.0
        for e in range(pred_ptr[t], pred_ptr[t + 1]):
            done, data = end[pred[e]], pred_data[e]
            wait, slow = latency[on[pred[e]]], per_byte[on[pred[e]]]
            for d in range(low, high):
                ready[d] = max(ready[d], done + (wait[d] + data * slow[d]))
        finish, device, start, after = np.inf, NONE, 0.0, NONE
        for d in range(low, high):
            seconds = units * costs[d] if costs[d] < np.inf else np.inf
            if ready[d] + seconds >= finish:
                continue
            soonest, behind = gap_in_chain(latest[d], before, begin, end, ready[d], seconds)
            if soonest + seconds < finish:
                finish, device, start, after = soonest + seconds, d, soonest, behind
        if finish + tail[t, device if wide else 0] > cut:
            _go_back(order, first, j, w)
            return np.inf
        link(t, device, after, latest, before)
        same = same and device == w.kept_device[t] and start == w.kept_start[t]
        on[t], begin[t], end[t] = device, start, finish
        makespan = max(makespan, finish)
        if j == last and same:
            return current
    value = makespan if goal.plain else score(goal, makespan, on, begin, end)
    if value > limit:
        _go_back(order, first, n, w)
        return np.inf
    for j in range(first, n):
        t = order[j]
        w.kept_device[t], w.kept_start[t], w.kept_finish[t] = on[t], begin[t], end[t]
    return value


@njit
def _go_back(order: IntArray, first: int, last: int, w: Decoder) -> None:
    for j in range(first, last):
        t = order[j]
        w.device[t], w.start[t], w.finish[t] = w.kept_device[t], w.kept_start[t], w.kept_finish[t]


@njit
def _enter_kept(
    order: IntArray,
    first: int,
    on: IntArray,
    begin: FloatArray,
    end: FloatArray,
    latest: IntArray,
    before: IntArray,
) -> float:
    """Put the tasks before place `first` on their devices again; returns when the last of them ends."""
    latest[:] = NONE
    makespan = 0.0
    for j in range(first):
        t = order[j]
        after, k = NONE, latest[on[t]]
        while k != NONE and (begin[k] > begin[t] or (begin[k] == begin[t] and end[k] > end[t])):
            after, k = k, before[k]
        before[t] = k
        if after == NONE:
            latest[on[t]] = t
        else:
            before[after] = t
        makespan = max(makespan, end[t])
    return makespan
