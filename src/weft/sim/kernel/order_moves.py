"""Moves of searches over orders and devices, and random numbers, compiled.

Tasks are numbers, and an order never puts a task before a parent. The functions read parents and
children (`pred_ptr`, `pred`, `succ_ptr`, `succ`) of any tuple of arrays that has them: those of a
problem, or those of the tasks that a simulation has left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.model.columns import IntArray
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit_noalloc

ANY = -1
"""The choice of a task that goes to the device of its earliest finish."""

REACH = 50
"""Most places by which a task moves in the order."""

CRITICAL, DIRECT = 0.3, 0.8
"""Share of moves that take a task from the critical path, and the share of these that remove its
wait; the others are as for any task."""

DEVICE_MOVES, TOGETHER = 0.5, 0.3
"""Share of the other moves that change devices, and the share of these that move a task and a
neighbour together; the rest change the order."""

ANY_SHARE, NEIGHBOUR_SHARE = 0.7, 0.15
"""Shares of device moves to the earliest finish and to a neighbour's device; the rest: to any."""


@njit_noalloc
def draw(random: np.ndarray) -> int:
    """Return 64 random bits, equal on all machines: xorshift64 (Marsaglia 2003)."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return x  # type: ignore[no-any-return]  # an unsigned integer, unknown to mypy


@njit_noalloc
def below(random: np.ndarray, n: int) -> int:
    """Draw a whole number from 0 to n - 1."""
    product = (draw(random) >> np.uint64(32)) * np.uint64(n)
    return np.int64(product >> np.uint64(32))  # type: ignore[return-value]  # an int to numba


@njit_noalloc
def uniform(random: np.ndarray) -> float:
    """Draw a number from 0 to below 1."""
    return np.float64(draw(random) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit_noalloc
def shift(order: IntArray, place: IntArray, here: int, there: int) -> tuple[int, int]:
    """Move a task from place `here` to `there`; return the changed range, or NONE."""
    if here == there:
        return NONE, NONE
    t = order[here]
    step = 1 if there > here else -1
    for j in range(here, there, step):
        order[j] = order[j + step]
        place[order[j]] = j
    order[there] = t
    place[t] = there
    return min(here, there), max(here, there)


@njit_noalloc
def another_place(a: Any, order: IntArray, place: IntArray, t: int, random: np.ndarray) -> int:
    """Draw a place for a task between its parents and its children, within reach."""
    here = place[t]
    low, high = max(0, here - REACH), min(len(order) - 1, here + REACH)
    for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
        low = max(low, place[a.pred[e]] + 1)
    for e in range(a.succ_ptr[t], a.succ_ptr[t + 1]):
        high = min(high, place[a.succ[e]] - 1)
    return int(low + below(random, high - low + 1))


@njit_noalloc
def neighbour(a: Any, t: int, random: np.ndarray) -> int:
    """Draw a parent or child of a task; NONE if it has neither."""
    parents, children = a.pred_ptr[t + 1] - a.pred_ptr[t], a.succ_ptr[t + 1] - a.succ_ptr[t]
    if parents + children == 0:
        return NONE
    k = below(random, parents + children)
    return int(a.pred[a.pred_ptr[t] + k] if k < parents else a.succ[a.succ_ptr[t] + k - parents])


@njit_noalloc
def another_device(
    a: Any, device: IntArray, devices: int, t: int, random: np.ndarray, anywhere: float
) -> int:
    """Draw a choice for a task: `ANY` with probability `anywhere`.

    The drawn device may be unable to run the task.
    """
    kind = uniform(random)
    if kind < anywhere:
        return ANY
    if kind < anywhere + NEIGHBOUR_SHARE:
        other = neighbour(a, t, random)
        return ANY if other == NONE else int(device[other])
    return below(random, devices)


@njit_noalloc
def unblock(
    a: Any, place: IntArray, device: IntArray, t: int, wait: int, random: np.ndarray
) -> tuple[int, int, int]:
    """Return a move that removes the wait of a task for another.

    The move is a task, its new device and its new place. The device or the place is NONE; both are
    so if no single move removes the wait.
    """
    if wait == NONE:
        return t, NONE, NONE
    waiting_one = uniform(random) < 0.5
    if device[wait] != device[t]:
        return (t, device[wait], NONE) if waiting_one else (wait, device[t], NONE)
    if place[wait] > place[t]:
        return t, NONE, NONE
    if waiting_one:
        return t, NONE, before_wait(a, place, t, wait)
    return wait, NONE, behind_waiting(a, place, wait, t)


@njit_noalloc
def draw_move(
    a: Any,
    order: IntArray,
    place: IntArray,
    device: IntArray,
    devices: int,
    anywhere: float,
    path: IntArray,
    wait: IntArray,
    length: int,
    group: IntArray,
    random: np.ndarray,
) -> tuple[int, int, int, int]:
    """Draw a move of one or two tasks.

    Returns a task, its new device, its new place, and how many tasks of `group` move. Without a new
    place (NONE) the device changes, perhaps to `ANY`. The first `length` tasks of `path` are the
    critical path, and `wait` has the tasks that these wait for.
    """
    t, new, there, size = below(random, len(order)), NONE, NONE, 1
    if uniform(random) < CRITICAL and length > 0:
        i = below(random, length)
        t = path[i]
        if uniform(random) < DIRECT:
            t, new, there = unblock(a, place, device, t, wait[i], random)
    group[0] = t
    if new == NONE and there == NONE:
        if uniform(random) < DEVICE_MOVES:
            if uniform(random) < TOGETHER:
                group[1] = neighbour(a, t, random)
                size = 1 if group[1] == NONE else 2
            new = another_device(a, device, devices, t, random, anywhere)
        else:
            there = another_place(a, order, place, t, random)
    return t, new, there, size


@njit_noalloc
def before_wait(a: Any, place: IntArray, t: int, wait: int) -> int:
    """Return the place of the task waited for, or the first place behind the parents."""
    there = place[wait]
    for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
        there = max(there, place[a.pred[e]] + 1)
    return int(there)


@njit_noalloc
def behind_waiting(a: Any, place: IntArray, wait: int, t: int) -> int:
    """Return the place of the waiting task, or the last place before the children.

    It is the new place of the task that is waited for; the children are those of that task.
    """
    there = place[t]
    for e in range(a.succ_ptr[wait], a.succ_ptr[wait + 1]):
        there = min(there, place[a.succ[e]] - 1)
    return int(there)
