"""Search over orders and choices of devices for the tasks that are left; compiled.

The moves are those of the planner `anytime`: a task goes to another place in the order, or to
another device: that of the earliest finish, that of a neighbour in the graph, or any; and moves
that remove a wait of the critical path. A plan is judged by its mean value over the sampled
futures of `residual`. The work is counted in placements of tasks, not in seconds, so that the same
seed gives the same decisions on every machine.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.policies.search.residual import Residual
from weft.sim.kernel.gaps import NONE, gap_in_chain, link
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.order_moves import (
    another_place,
    before_wait,
    behind_waiting,
    below,
    neighbour,
    shift,
    uniform,
)

ANY, NO_DEVICE = -1, -2
"""The choice of a task that goes to the device of its earliest finish; no choice."""
CRITICAL, DIRECT = 0.3, 0.8
"""Share of moves on the critical path, and the share of these that remove a wait."""
DEVICE_MOVES, TOGETHER = 0.5, 0.3
"""Share of the other moves that change devices, and the share of these that move a neighbour too.
"""
ANY_SHARE, NEIGHBOUR_SHARE = 0.7, 0.15
"""Shares of device moves to the earliest finish and to a neighbour's device; the rest: to any."""

WORK_PER_PAIR = 100
"""Placements per pair of tasks after which a search ends: few tasks have few plans."""


class PlanChain(NamedTuple):
    """The plan under search, its times in each future, and the best plan."""

    order: IntArray  # (tasks,)
    place: IntArray  # (tasks,)
    choice: IntArray  # (tasks,) device, or ANY
    best_order: IntArray
    best_choice: IntArray
    device: IntArray  # (K, tasks)
    start: FloatArray  # (K, tasks)
    finish: FloatArray  # (K, tasks)
    kept_device: IntArray  # (K, tasks) the accepted times
    kept_start: FloatArray
    kept_finish: FloatArray
    before: IntArray  # (K, tasks) the task before on the same device, or NONE
    latest: IntArray  # (K, p) the last task of each device
    ready: FloatArray  # (p,) storage
    ends: FloatArray  # (jobs,) storage
    path: IntArray  # (tasks,) critical path, the last task first
    wait: IntArray  # (tasks,) the task that each one waits for, or NONE
    group: IntArray  # (2,) tasks that move together
    old: IntArray  # (2,) their choices
    figures: FloatArray  # (4,) see below


VALUE, BEST, WORK, PATH = range(4)
"""Figures: value of the plan and of the best; placements so far; tasks on the path."""


def make_search_chain(tasks: int, jobs: int, p: int, futures: int) -> PlanChain:
    """Allocate the memory of a search."""

    def integers(*shape: int) -> IntArray:
        return np.zeros(shape, np.int64)

    def floats(*shape: int) -> FloatArray:
        return np.zeros(shape)

    n, k = tasks, futures
    return PlanChain(
        order=integers(n),
        place=integers(n),
        choice=integers(n),
        best_order=integers(n),
        best_choice=integers(n),
        device=integers(k, n),
        start=floats(k, n),
        finish=floats(k, n),
        kept_device=integers(k, n),
        kept_start=floats(k, n),
        kept_finish=floats(k, n),
        before=integers(k, n),
        latest=integers(k, p),
        ready=floats(p),
        ends=floats(jobs + 1),
        path=integers(n),
        wait=integers(n),
        group=integers(2),
        old=integers(2),
        figures=floats(4),
    )


@njit_noalloc
def place_from(
    left: Residual, grid: FloatArray, c: PlanChain, k: int, first: int, limit: float
) -> float:
    """Place the tasks of a future from a place in the order on.

    Return the value: the sum over jobs of the time until their end. Return inf as soon as it must
    exceed the limit.
    """
    n, p = left.size[0].tasks, left.free.shape[1]
    on, begin, end = c.device[k], c.start[k], c.finish[k]
    before, latest, ready, ends = c.before[k], c.latest[k], c.ready, c.ends
    free, tail, factor = left.free[k], left.tail[k], left.factor[k]
    value = 0.0
    for j in range(left.size[0].jobs):
        ends[j] = left.size[0].now
    for d in range(p):
        latest[d] = NONE
    for at in range(first):
        t = c.order[at]
        after, other = NONE, latest[on[t]]
        while other != NONE and (
            begin[other] > begin[t] or (begin[other] == begin[t] and end[other] > end[t])
        ):
            after, other = other, before[other]
        link(t, on[t], after, latest, before)
        if end[t] + tail[t] > ends[left.job[t]]:
            value += end[t] + tail[t] - ends[left.job[t]]
            ends[left.job[t]] = end[t] + tail[t]
    for at in range(first, n):
        t = c.order[at]
        fixed = c.choice[t]
        low, high = (0, p) if fixed < 0 else (fixed, fixed + 1)
        for d in range(low, high):
            ready[d] = max(left.arrival[k, t, d], free[d])
        for e in range(left.pred_ptr[t], left.pred_ptr[t + 1]):
            u, data = left.pred[e], left.pred_data[e]
            done, wait, slow = end[u], grid[on[u]], grid[p + on[u]]
            for d in range(low, high):
                ready[d] = max(ready[d], done + (wait[d] + data * slow[d]))
        device, start, finish, behind = NONE, 0.0, np.inf, NONE
        for d in range(low, high):
            seconds = left.seconds[t, d] * factor[t]
            if ready[d] + seconds >= finish:
                continue
            soonest, after = gap_in_chain(latest[d], before, begin, end, ready[d], seconds)
            if soonest + seconds < finish:
                finish, device, start, behind = soonest + seconds, d, soonest, after
        c.figures[WORK] += 1.0 if fixed >= 0 else 0.5 * p
        if device == NONE:
            return np.inf
        if finish + tail[t] > ends[left.job[t]]:
            value += finish + tail[t] - ends[left.job[t]]
            ends[left.job[t]] = finish + tail[t]
            if value > limit:
                return np.inf
        link(t, device, behind, latest, before)
        on[t], begin[t], end[t] = device, start, finish
    return value


@njit_noalloc
def evaluate(left: Residual, grid: FloatArray, c: PlanChain, first: int, limit: float) -> float:
    """Return the mean value over the futures, inf as soon as it must exceed the limit."""
    futures, total = left.size[0].futures, 0.0
    for k in range(futures):
        total += place_from(left, grid, c, k, first, limit * futures - total)
        if total == np.inf:
            break
    return float(total / futures)


@njit_inline
def accept(left: Residual, c: PlanChain, first: int) -> None:
    """Keep the times of all futures from a place in the order on."""
    for k in range(left.size[0].futures):
        for at in range(first, left.size[0].tasks):
            t = c.order[at]
            c.kept_device[k, t] = c.device[k, t]
            c.kept_start[k, t] = c.start[k, t]
            c.kept_finish[k, t] = c.finish[k, t]


@njit_inline
def _reject(left: Residual, c: PlanChain, first: int) -> None:
    for k in range(left.size[0].futures):
        for at in range(first, left.size[0].tasks):
            t = c.order[at]
            c.device[k, t] = c.kept_device[k, t]
            c.start[k, t] = c.kept_start[k, t]
            c.finish[k, t] = c.kept_finish[k, t]


@njit_inline
def keep_best(left: Residual, c: PlanChain) -> None:
    """Store the plan as the best."""
    c.figures[BEST] = c.figures[VALUE]
    for at in range(left.size[0].tasks):
        c.best_order[at] = c.order[at]
        c.best_choice[at] = c.choice[at]


@njit_noalloc
def trace_path(left: Residual, grid: FloatArray, c: PlanChain, k: int) -> None:
    """Find a critical path of the plan in one future."""
    n, p = left.size[0].tasks, left.free.shape[1]
    t, size = 0, 0
    for other in range(n):
        if c.finish[k, other] + left.tail[k, other] > c.finish[k, t] + left.tail[k, t]:
            t = other
    while t != NONE:
        wait, start, here = NONE, c.start[k, t], c.device[k, t]
        other = c.before[k, t]
        if other != NONE and c.finish[k, other] == start:
            wait = other
        else:
            for e in range(left.pred_ptr[t], left.pred_ptr[t + 1]):
                u = left.pred[e]
                origin = c.device[k, u]
                seconds = grid[origin, here] + left.pred_data[e] * grid[p + origin, here]
                if c.finish[k, u] + seconds == start:
                    wait = u
                    break
        c.path[size], c.wait[size] = t, wait
        size += 1
        t = wait if size < n else NONE
    c.figures[PATH] = size


@njit_noalloc
def begin_search(left: Residual, grid: FloatArray, c: PlanChain) -> float:
    """Time the plan in `order` and `choice`; return its value."""
    for at in range(left.size[0].tasks):
        c.place[c.order[at]] = at
    c.figures[VALUE] = evaluate(left, grid, c, 0, np.inf)
    if c.figures[VALUE] < np.inf:
        accept(left, c, 0)
        trace_path(left, grid, c, 0)
    return float(c.figures[VALUE])


@njit_noalloc
def _unblock(left: Residual, c: PlanChain, i: int) -> tuple[int, int, int]:
    """Return task, new device and new place that remove the i-th wait of the path, or NONE."""
    t, wait = c.path[i], c.wait[i]
    if wait == NONE:
        return t, NONE, NONE
    waiting_one = uniform(left.random) < 0.5
    if c.device[0, wait] != c.device[0, t]:
        return (t, c.device[0, wait], NONE) if waiting_one else (wait, c.device[0, t], NONE)
    if c.place[wait] > c.place[t]:
        return t, NONE, NONE
    if waiting_one:
        return t, NONE, before_wait(left, c.place, t, wait)
    return wait, NONE, behind_waiting(left, c.place, wait, t)


@njit_noalloc
def _another_device(left: Residual, c: PlanChain, t: int) -> int:
    kind = uniform(left.random)
    if kind < ANY_SHARE:
        return ANY
    if kind < ANY_SHARE + NEIGHBOUR_SHARE:
        other = neighbour(left, t, left.random)
        return ANY if other == NONE else int(c.device[0, other])
    return below(left.random, left.free.shape[1])


@njit_noalloc
def _choose(left: Residual, c: PlanChain, size: int, new: int) -> int:
    """Set the choice of a group; return the first changed place, or NONE."""
    first = NONE
    for i in range(size):
        t = c.group[i]
        c.old[i] = c.choice[t]
        if new != ANY and left.seconds[t, new] == np.inf:
            continue
        c.choice[t] = new
        if new != c.old[i] and (first == NONE or c.place[t] < first):
            first = c.place[t]
    return first


@njit_noalloc
def _draw_move(left: Residual, c: PlanChain, order: IntArray) -> tuple[int, int, int, int]:
    """Draw a task, its new device or place (else NO_DEVICE, NONE), and the tasks that move."""
    t, new, there, size = below(left.random, len(order)), NO_DEVICE, NONE, 1
    if uniform(left.random) < CRITICAL and c.figures[PATH] > 0:
        i = below(left.random, int(c.figures[PATH]))
        t = c.path[i]
        if uniform(left.random) < DIRECT:
            t, device, there = _unblock(left, c, i)
            new = device if device != NONE else NO_DEVICE
    c.group[0] = t
    if new == NO_DEVICE and there == NONE:
        if uniform(left.random) < DEVICE_MOVES:
            if uniform(left.random) < TOGETHER:
                c.group[1] = neighbour(left, t, left.random)
                size = 1 if c.group[1] == NONE else 2
            new = _another_device(left, c, t)
        else:
            there = another_place(left, order, c.place, t, left.random)
    return t, new, there, size


@njit_noalloc
def anneal(left: Residual, grid: FloatArray, c: PlanChain, work: float, warmth: float) -> None:
    """Try moves until so many tasks were placed; accept worse plans by `warmth` x value."""
    n, begun = left.size[0].tasks, c.figures[WORK]
    order, work = c.order[:n], min(work, float(WORK_PER_PAIR * n * n))
    while c.figures[WORK] - begun < work:
        c.figures[WORK] += 1.0  # a move that changes nothing counts too
        spent, now = (c.figures[WORK] - begun) / work, c.figures[VALUE]
        temperature = warmth * max(1.0 - spent, 0.0) * now
        limit = now * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(left.random))
        t, new, there, size = _draw_move(left, c, order)
        here = c.place[t]
        if there != NONE:
            if there == here:
                continue
            shift(order, c.place, here, there)
            first = min(here, there)
        else:
            first = _choose(left, c, size, new)
            if first == NONE:
                continue
        value = evaluate(left, grid, c, first, limit)
        if value > limit:
            if there != NONE:
                shift(order, c.place, there, here)
            else:
                for i in range(size):
                    c.choice[c.group[i]] = c.old[i]
            _reject(left, c, first)
            continue
        accept(left, c, first)
        c.figures[VALUE] = value
        if value != now:
            trace_path(left, grid, c, 0)
        if value < c.figures[BEST]:
            keep_best(left, c)
