"""Simulated annealing over orders of tasks and choices of devices, compiled.

A move takes one task to another place in the order, between its parents and its children, or
changes devices: to that of the earliest finish, to that of a neighbour in the graph, or to any. The
acceptance limit is drawn before a move is decoded: the current value plus an exponential variate
times the temperature. This equals the rule of Metropolis et al. (1953), and decoding can stop as
soon as it exceeds the limit.

Some moves follow a critical path of the current schedule: from the last task back to one that
starts at time 0, each waiting either for a task on its device or for data. They take a task from
the path and remove its wait. For data, the task goes to the device of the sender, or the sender to
its device; for a device, the task goes before the task it waits for, or that task behind it
(critical blocks: Grabowski, Nowicki and Zdrzalka 1986). Others put a task and a neighbour in the
graph on one device together, which single moves rarely achieve if transfers are long.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.objective import CompiledObjective
from weft.planners.search.decoder import Decoder, decode, decode_from
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit
from weft.sim.kernel.order_moves import ANY, ANY_SHARE, draw_move, shift, uniform
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import RecordTable

OTHER_ANY_SHARE = 0.2
"""`ANY_SHARE` for objectives other than the makespan: an early finish is worth less for them."""

GROUP = 2
"""Most tasks of a move."""

VALUE = record("current best", "")


class Path(NamedTuple):
    """A critical path, last task first."""

    task: IntArray  # (n,)
    wait: IntArray  # (n,) the task that each one waits for, or NONE
    size: IntArray  # (1,)


def make_path(n: int) -> Path:
    """Make an empty path with memory for n tasks."""
    return Path(np.zeros(n, np.int64), np.full(n, NONE), np.zeros(1, np.int64))


class Chain(NamedTuple):
    """State of one annealing chain, with all its memory."""

    order: IntArray  # (n,) tasks
    place: IntArray  # (n,) the place of each task in the order
    choice: IntArray  # (n,) device, or ANY
    best_order: IntArray
    best_choice: IntArray
    value: RecordTable  # (1,) of the current and of the best state
    random: np.ndarray  # (1,) uint64
    path: Path
    group: IntArray  # (GROUP,) scratch memory: tasks that move together
    old: IntArray  # (GROUP,) their choices before the move


def make_chain(n: int, seed: int) -> Chain:
    """Make the chain of n tasks; `begin` fills it."""
    order, place, choice, best_order, best_choice = (np.zeros(n, np.int64) for _ in range(5))
    value, random = np.full(1, np.inf, VALUE), np.array([seed | 1], np.uint64)
    group, old = np.zeros(GROUP, np.int64), np.zeros(GROUP, np.int64)
    return Chain(
        order, place, choice, best_order, best_choice, value, random, make_path(n), group, old
    )


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
    objective: CompiledObjective,
    tail: FloatArray,
    c: Chain,
    w: Decoder,
    order: IntArray,
    choice: IntArray,
) -> float:
    """Start a chain at an order and choices; its best state stays if it is better."""
    set_state(c, order, choice)
    c.value[0].current = decode(a, objective, c.order, c.choice, tail, w)
    trace_path(a, w, c.path)
    if c.value[0].current < c.value[0].best:
        keep(c)
    return float(c.value[0].current)


@njit
def keep(c: Chain) -> None:
    """Store the current state as the best."""
    c.value[0].best = c.value[0].current
    c.best_order[:] = c.order
    c.best_choice[:] = c.choice


@njit
def trace_path(a: ProblemArrays, w: Decoder, path: Path) -> None:
    """Find a critical path of the schedule in the decoder."""
    t = int(np.argmax(w.finish))
    size = 0
    while t != NONE:
        wait = NONE
        if w.start[t] > 0.0:
            k = w.before[t]
            if k != NONE and w.finish[k] == w.start[t]:
                wait = k
            else:
                for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
                    u = a.pred[e]
                    here, there = w.device[u], w.device[t]
                    if (
                        w.finish[u]
                        + (a.latency[here, there] + a.pred_data[e] * a.per_byte[here, there])
                        == w.start[t]
                    ):
                        wait = u
                        break
        path.task[size], path.wait[size] = t, wait
        size += 1
        # Tasks of no duration may wait for each other at one time: a cycle.
        t = wait if size < len(path.task) else NONE
    path.size[0] = size


@njit
def choose(a: ProblemArrays, c: Chain, w: Decoder, size: int, new: int) -> tuple[int, int]:
    """Set the choice of a group.

    Returns the first and last changed place, or NONE and NONE. Tasks that cannot run on the device
    keep their choice.
    """
    first, last = len(c.order), NONE
    for i in range(size):
        t = c.group[i]
        c.old[i] = c.choice[t]
        if new != ANY and a.per_work[a.row[t], new] == np.inf:
            continue
        c.choice[t] = new
        if new != c.old[i] and new != w.device[t]:  # otherwise it runs there already
            first, last = min(first, c.place[t]), max(last, c.place[t])
    return (first, last) if last != NONE else (NONE, NONE)


@njit
def undo_choices(c: Chain, size: int) -> None:
    """Give a group its former choices."""
    for i in range(size):
        c.choice[c.group[i]] = c.old[i]


@njit
def anneal(
    a: ProblemArrays,
    objective: CompiledObjective,
    tail: FloatArray,
    c: Chain,
    w: Decoder,
    moves: int,
    temperature: float,
    target: float,
) -> None:
    """Try moves at a temperature; stop when the best value meets the target."""
    anywhere = ANY_SHARE if objective.plain else OTHER_ANY_SHARE
    for _ in range(moves):
        now = c.value[0].current
        limit = now * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(c.random))
        path, p = c.path, a.per_work.shape[1]
        t, new, there, size = draw_move(
            a,
            c.order,
            c.place,
            w.device,
            p,
            anywhere,
            path.task,
            path.wait,
            path.size[0],
            c.group,
            c.random,
        )
        here = c.place[t]
        if there != NONE:
            first, last = shift(c.order, c.place, here, there)
        else:
            first, last = choose(a, c, w, size, new)
        if last == NONE:
            continue
        value = decode_from(a, objective, c.order, c.choice, tail, limit, w, first, last, now)
        if value == np.inf:
            if there != NONE:
                shift(c.order, c.place, there, here)
            else:
                undo_choices(c, size)
            continue
        c.value[0].current = value
        if value != now:  # then all tasks were placed, and the chains are complete
            trace_path(a, w, c.path)
        if value < c.value[0].best:
            keep(c)
            if value <= target:
                return
