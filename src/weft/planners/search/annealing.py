"""Simulated annealing over orders of tasks and choices of devices, compiled.

A move takes one task to another place in the order, between its parents and its children, or changes its device: to the one where it
finishes first, to that of a neighbour in the graph, or to any. The limit of acceptance is drawn before a move is decoded (the current
value plus an exponential variate times the temperature: the rule of Metropolis et al., 1953, turned round), so that decoding can stop
as soon as it is above.
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
"""Of the moves that change a device: to wherever the task finishes first; to the device of a parent or child. The rest: to any device."""

OTHER_ANY_SHARE = 0.2
"""The first of these where something else than the makespan counts too: to finish first is worth less then."""

REACH = 50
"""How far a task goes in the order, at most."""

CURRENT, BEST = 0, 1


class Chain(NamedTuple):
    """The state of one run; all memory it will ever use."""

    order: IntArray  # (n,) tasks
    place: IntArray  # (n,) of each task in the order
    choice: IntArray  # (n,) device, or ANY
    best_order: IntArray
    best_choice: IntArray
    value: FloatArray  # current, best
    random: np.ndarray  # (1,) uint64


def make_chain(n: int, seed: int) -> Chain:
    """Memory for n tasks; `begin` fills it."""
    order, place, choice, best_order, best_choice = (np.zeros(n, np.int64) for _ in range(5))
    return Chain(
        order,
        place,
        choice,
        best_order,
        best_choice,
        np.full(2, np.inf),
        np.array([seed | 1], np.uint64),
    )


@njit
def draw(random: np.ndarray) -> int:
    """The next 64 random bits (xorshift64, Marsaglia, 2003): small enough to be inlined and the same on every machine."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return x  # type: ignore[no-any-return]  # an unsigned integer, which mypy cannot know


@njit
def below(random: np.ndarray, n: int) -> int:
    """A whole number from 0 to n - 1."""
    return np.int64(((draw(random) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))  # type: ignore[return-value]


@njit
def uniform(random: np.ndarray) -> float:
    """A number from 0 to 1, without 1."""
    return np.float64(draw(random) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


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
    """Start a chain at an order and choices; its best is kept if it is better."""
    c.order[:] = order
    c.choice[:] = choice
    for j in range(len(order)):
        c.place[order[j]] = j
    c.value[CURRENT] = decode(a, goal, c.order, c.choice, tail, w)
    if c.value[CURRENT] < c.value[BEST]:
        keep(c)
    return float(c.value[CURRENT])


@njit
def keep(c: Chain) -> None:
    """The current state is the best so far."""
    c.value[BEST] = c.value[CURRENT]
    c.best_order[:] = c.order
    c.best_choice[:] = c.choice


@njit
def shift(order: IntArray, place: IntArray, here: int, there: int) -> None:
    """Take the task at place `here` to place `there`."""
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
    """A place for a task between its parents and its children, within reach."""
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
    """A choice for a task, with a probability `anywhere` to leave it open; it may be one that cannot run it."""
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
        limit = c.value[CURRENT] * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(c.random))
        t = below(c.random, n)
        here = c.place[t]
        if uniform(c.random) < DEVICE_MOVES:
            old, new = c.choice[t], another_device(a, w.device, t, c.random, anywhere)
            if new == old or (new >= 0 and a.pace[a.row[t], new] == np.inf):
                continue
            c.choice[t] = new
            if new == w.device[t]:  # it is there already
                continue
            value = decode_from(
                a, goal, c.order, c.choice, tail, limit, w, here, here, c.value[CURRENT]
            )
            if value == np.inf:
                c.choice[t] = old
                continue
        else:
            there = another_place(a, c.order, c.place, t, c.random)
            if there == here:
                continue
            shift(c.order, c.place, here, there)
            value = decode_from(
                a,
                goal,
                c.order,
                c.choice,
                tail,
                limit,
                w,
                min(here, there),
                max(here, there),
                c.value[CURRENT],
            )
            if value == np.inf:
                shift(c.order, c.place, there, here)
                continue
        c.value[CURRENT] = value
        if value < c.value[BEST]:
            keep(c)
            if value <= target:
                return
