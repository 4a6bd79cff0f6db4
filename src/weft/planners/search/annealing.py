"""Simulated annealing over orders of tasks and choices of devices, compiled.

A move takes one task to another place in the order, between its parents and its children, or
changes its device: to the device of its earliest finish, to that of a neighbour in the graph, or to
any. The acceptance limit is drawn before a move is decoded: the current value plus an exponential
variate times the temperature. This equals the rule of Metropolis et al. (1953), and decoding can
stop as soon as it exceeds the limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.objective import Goal
from weft.planners.search.decoder import ANY, Decoder, decode, decode_from
from weft.sim.kernel.jit import njit

DEVICE_MOVES = 0.5
"""Share of moves that change a device; the others change the order."""

ANY_SHARE, NEIGHBOUR_SHARE = 0.7, 0.15
"""Shares of device moves to the earliest finish and to a neighbour's device; the rest: to any."""

OTHER_ANY_SHARE = 0.2
"""`ANY_SHARE` for objectives other than the makespan: an early finish is worth less for them."""

REACH = 50
"""Most places that a task moves in the order."""

CURRENT, BEST = 0, 1


class Chain(NamedTuple):
    """State of one annealing chain, with all its memory."""

    order: IntArray  # (n,) tasks
    place: IntArray  # (n,) of each task in the order
    choice: IntArray  # (n,) device, or ANY
    best_order: IntArray
    best_choice: IntArray
    value: FloatArray  # current, best
    random: np.ndarray  # (1,) uint64


def make_chain(n: int, seed: int) -> Chain:
    """Make the chain of n tasks; `begin` fills it."""
    order, place, choice, best_order, best_choice = (np.zeros(n, np.int64) for _ in range(5))
    value, random = np.full(2, np.inf), np.array([seed | 1], np.uint64)
    return Chain(order, place, choice, best_order, best_choice, value, random)


@njit
def draw(random: np.ndarray) -> int:
    """Return the next 64 random bits (xorshift64, Marsaglia 2003), the same on every machine."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return x  # type: ignore[no-any-return]  # an unsigned integer, unknown to mypy


@njit
def below(random: np.ndarray, n: int) -> int:
    """Draw a whole number from 0 to n - 1."""
    product = (draw(random) >> np.uint64(32)) * np.uint64(n)
    return np.int64(product >> np.uint64(32))  # type: ignore[return-value]


@njit
def uniform(random: np.ndarray) -> float:
    """Draw a number from 0 to below 1."""
    return np.float64(draw(random) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit
def set_state(c: Chain, order: IntArray, choice: IntArray) -> None:
    """Set the current order and choices of a chain."""
    c.order[:] = order
    c.choice[:] = choice
    for j in range(len(order)):
        c.place[order[j]] = j


@njit
def begin(
    a: ProblemArrays,
    goal: Goal,
    tail: FloatArray,
    c: Chain,
    w: Decoder,
    order: IntArray,
    choice: IntArray,
) -> float:
    """Start a chain at an order and choices; its best state stays if it is better."""
    set_state(c, order, choice)
    c.value[CURRENT] = decode(a, goal, c.order, c.choice, tail, w)
    if c.value[CURRENT] < c.value[BEST]:
        keep(c)
    return float(c.value[CURRENT])


@njit
def keep(c: Chain) -> None:
    """Store the current state as the best."""
    c.value[BEST] = c.value[CURRENT]
    c.best_order[:] = c.order
    c.best_choice[:] = c.choice


@njit
def shift(order: IntArray, place: IntArray, here: int, there: int) -> None:
    """Move the task at place `here` to place `there`."""
    t = order[here]
    step = 1 if there > here else -1
    for j in range(here, there, step):
        order[j] = order[j + step]
        place[order[j]] = j
    order[there] = t
    place[t] = there


@njit
def another_place(
    a: ProblemArrays, order: IntArray, place: IntArray, t: int, random: np.ndarray
) -> int:
    """Draw a place for a task between its parents and its children, within reach."""
    here = place[t]
    low, high = max(0, here - REACH), min(len(order) - 1, here + REACH)
    for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
        low = max(low, place[a.pred[e]] + 1)
    for e in range(a.succ_ptr[t], a.succ_ptr[t + 1]):
        high = min(high, place[a.succ[e]] - 1)
    return int(low + below(random, high - low + 1))


@njit
def another_device(
    a: ProblemArrays, device: IntArray, t: int, random: np.ndarray, anywhere: float
) -> int:
    """Draw a choice for a task: `ANY` with probability `anywhere`; the device may be unable."""
    kind = uniform(random)
    parents, children = a.pred_ptr[t + 1] - a.pred_ptr[t], a.succ_ptr[t + 1] - a.succ_ptr[t]
    if kind < anywhere or (kind < anywhere + NEIGHBOUR_SHARE and parents + children == 0):
        return ANY
    if kind < anywhere + NEIGHBOUR_SHARE:
        k = below(random, parents + children)
        return int(
            device[a.pred[a.pred_ptr[t] + k]]
            if k < parents
            else device[a.succ[a.succ_ptr[t] + k - parents]]
        )
    return below(random, a.pace.shape[1])


@njit
def anneal(
    a: ProblemArrays,
    goal: Goal,
    tail: FloatArray,
    c: Chain,
    w: Decoder,
    moves: int,
    temperature: float,
    target: float,
) -> None:
    """Try a number of moves at a temperature; stop when the best value meets the target."""
    n, anywhere = len(c.order), ANY_SHARE if goal.plain else OTHER_ANY_SHARE
    for _ in range(moves):
        now = c.value[CURRENT]
        limit = now * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(c.random))
        t = below(c.random, n)
        here = there = c.place[t]
        old = c.choice[t]
        if uniform(c.random) < DEVICE_MOVES:
            new = another_device(a, w.device, t, c.random, anywhere)
            if new == old or (new >= 0 and a.pace[a.row[t], new] == np.inf):
                continue
            c.choice[t] = new
            if new == w.device[t]:  # the task runs there already
                continue
        else:
            there = another_place(a, c.order, c.place, t, c.random)
            if there == here:
                continue
            shift(c.order, c.place, here, there)
        first, last = min(here, there), max(here, there)
        value = decode_from(a, goal, c.order, c.choice, tail, limit, w, first, last, now)
        if value == np.inf:
            c.choice[t] = old
            if there != here:
                shift(c.order, c.place, there, here)
            continue
        c.value[CURRENT] = value
        if value < c.value[BEST]:
            keep(c)
            if value <= target:
                return
