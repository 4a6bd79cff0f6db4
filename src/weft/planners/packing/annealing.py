"""Annealing over orders and pools, for nodes with shared capacities, compiled.

The decoder places tasks one by one in the given order, each at the earliest time at which its pool
has a free device and its node has room. It stores the last accepted placement, starts where the
order changed and stops as soon as the value must exceed the limit.

Some moves follow a critical path: from the last task back to one that starts at time 0. Each task
on it waits for data, or for capacity that another task of its node frees.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.objective import CompiledObjective, score
from weft.planners.packing.pools import Pools
from weft.planners.packing.profile import Profile, clear_profile, earliest_fit, empty_profile, use
from weft.planners.search.annealing import Chain, Path, keep, set_state
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit
from weft.sim.kernel.order_moves import (
    ANY,
    NEIGHBOUR_SHARE,
    another_place,
    before_wait,
    behind_waiting,
    below,
    neighbour,
    shift,
    uniform,
)

CRITICAL, DIRECT = 0.4, 0.8
"""Share of moves that take a task from the critical path, and the share of these that remove its
wait; the others are as for any task."""

POOL_MOVES, ANY_SHARE = 0.4, 0.6
"""Share of the other moves that change pools; share of these that go to the earliest finish."""

KEEP = -2
"""No new choice."""


class PackingDecoder(NamedTuple):
    """The problem of a decoder and all its memory; each thread needs its own."""

    a: ProblemArrays
    pools: Pools
    objective: CompiledObjective
    tail: FloatArray  # (n, pools) or (n, 1): the shortest time from a finish to the end

    pool: IntArray  # (n,) the placement that is being made
    start: FloatArray  # (n,)
    finish: FloatArray  # (n,)
    kept_pool: IntArray  # (n,) the stored placement
    kept_start: FloatArray  # (n,)
    kept_finish: FloatArray  # (n,)
    ready: FloatArray  # (pools,)
    profile: Profile


def make_packing_decoder(
    problem: Problem, pools: Pools, objective: CompiledObjective, tail: FloatArray
) -> PackingDecoder:
    """Make the decoder of a problem."""
    n = problem.n
    return PackingDecoder(
        problem.arrays,
        pools,
        objective,
        tail,
        pool=np.zeros(n, np.int64),
        start=np.zeros(n),
        finish=np.zeros(n),
        kept_pool=np.zeros(n, np.int64),
        kept_start=np.zeros(n),
        kept_finish=np.zeros(n),
        ready=np.zeros(len(pools.first)),
        profile=empty_profile(pools.room, n),
    )


@njit
def decode_packed(
    w: PackingDecoder, c: Chain, limit: float, first: int, last: int, current: float
) -> float:
    """Place the tasks of a chain in pools.

    `weft.planners.search.decoder.decode_from` does the same for devices.
    """
    a, pools, objective, tail, order, choice = w.a, w.pools, w.objective, w.tail, c.order, c.choice
    n, count, wide = len(order), len(pools.first), tail.shape[1] > 1
    cut = (limit - objective.least) * objective.longest  # a longer makespan has a value above it
    makespan, same, ready = 0.0, True, w.ready
    clear_profile(w.profile)
    for j in range(first):
        t = order[j]
        w.pool[t], w.start[t], w.finish[t] = w.kept_pool[t], w.kept_start[t], w.kept_finish[t]
        use(w.profile, pools, w.pool[t], t, w.start[t], w.finish[t])
        makespan = max(makespan, w.finish[t])
    for j in range(first, n):
        t = order[j]
        low, high = (0, count) if choice[t] < 0 else (choice[t], choice[t] + 1)
        for k in range(low, high):
            ready[k] = 0.0
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            source, sent, data = w.pool[a.pred[e]], w.finish[a.pred[e]], a.pred_data[e]
            for k in range(low, high):
                moved = pools.latency[source, k] + data * pools.per_byte[source, k]
                ready[k] = max(ready[k], sent + moved)
        pool, start, finish = NONE, 0.0, np.inf
        for k in range(low, high):
            per_work = a.per_work[a.row[t], pools.first[k]]
            seconds = a.work[t] * per_work if per_work < np.inf else np.inf
            if ready[k] + seconds >= finish:
                continue
            begin = earliest_fit(w.profile, pools, k, t, ready[k], seconds, finish)
            if begin + seconds < finish:
                pool, start, finish = k, begin, begin + seconds
        if finish + tail[t, pool if wide else 0] > cut:
            return np.inf
        same = same and pool == w.kept_pool[t] and start == w.kept_start[t]
        w.pool[t], w.start[t], w.finish[t] = pool, start, finish
        makespan = max(makespan, finish)
        if j == last and same:
            return current
        use(w.profile, pools, pool, t, start, finish)
    value = makespan
    if not objective.plain:
        value = score(objective, makespan, pools.first[w.pool], w.start, w.finish)
    if value > limit:
        return np.inf
    for j in range(first, n):
        t = order[j]
        w.kept_pool[t], w.kept_start[t], w.kept_finish[t] = w.pool[t], w.start[t], w.finish[t]
    return value


@njit
def begin_packed(w: PackingDecoder, c: Chain, order: IntArray, choice: IntArray) -> float:
    """Start a chain at an order and choices; its best state stays if it is better."""
    set_state(c, order, choice)
    value = decode_packed(w, c, np.inf, 0, NONE, np.inf)
    c.value[0].current = value
    _trace_path(w, c.path, c.random)
    if value < c.value[0].best:
        keep(c)
    return value


@njit
def _trace_path(w: PackingDecoder, path: Path, random: np.ndarray) -> None:
    """Find a critical path of the stored schedule; among equal waits, one is drawn."""
    a, pools = w.a, w.pools
    t, size = int(np.argmax(w.kept_finish)), 0
    while t != NONE:
        wait, begin = NONE, w.kept_start[t]
        if begin > 0.0:
            for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
                u = a.pred[e]
                here, there = w.kept_pool[u], w.kept_pool[t]
                moved = pools.latency[here, there] + a.pred_data[e] * pools.per_byte[here, there]
                if w.kept_finish[u] + moved == begin:
                    wait = u
                    break
            if wait == NONE:
                found, node = 0, pools.node[w.kept_pool[t]]
                for k in range(len(w.kept_finish)):
                    if w.kept_finish[k] == begin and pools.node[w.kept_pool[k]] == node and k != t:
                        found += 1
                        if below(random, found) == 0:
                            wait = k
        path.task[size], path.wait[size] = t, wait
        size += 1
        # Tasks of no duration may wait for each other at one time: a cycle.
        t = wait if size < len(path.task) else NONE
    path.size[0] = size


@njit
def _another_pool(w: PackingDecoder, t: int, random: np.ndarray, old: int) -> int:
    """Draw a choice for a task: the earliest finish, the pool of a neighbour, or any."""
    a, pools, kind, new = w.a, w.pools, uniform(random), ANY
    if kind < ANY_SHARE and old != ANY:
        return ANY
    if kind < ANY_SHARE + NEIGHBOUR_SHARE:
        other = neighbour(a, t, random)
        new = ANY if other == NONE else w.kept_pool[other]
    else:
        new = below(random, len(pools.first))
    if new != ANY and a.per_work[a.row[t], pools.first[new]] == np.inf:
        return old
    return int(new)


@njit
def _unblock(w: PackingDecoder, c: Chain, i: int, many: bool) -> tuple[int, int, int]:
    """Return a move that removes the i-th wait of the critical path.

    The move is a task, its new pool and its new place. The pool may be KEEP, or the place NONE;
    both are so if no single move removes the wait.
    """
    t, wait = c.path.task[i], c.path.wait[i]
    if wait == NONE:
        return t, KEEP, NONE
    waiting_one = uniform(c.random) < 0.5
    if many and w.kept_pool[wait] != w.kept_pool[t] and uniform(c.random) < 0.5:
        return (t, w.kept_pool[wait], NONE) if waiting_one else (wait, w.kept_pool[t], NONE)
    if c.place[wait] > c.place[t]:
        return t, KEEP, NONE
    if waiting_one:
        return t, KEEP, before_wait(w.a, c.place, t, wait)
    return wait, KEEP, behind_waiting(w.a, c.place, wait, t)


@njit
def _choose_pool(w: PackingDecoder, c: Chain, t: int, new: int) -> int:
    """Set the choice of a task; return its place, or NONE if that changes nothing."""
    if new == c.choice[t] or (new >= 0 and w.a.per_work[w.a.row[t], w.pools.first[new]] == np.inf):
        return NONE
    c.choice[t] = new
    return NONE if new == w.kept_pool[t] else int(c.place[t])  # it may run there already


@njit
def anneal_packed(
    w: PackingDecoder, c: Chain, moves: int, temperature: float, target: float
) -> None:
    """Try moves at a temperature; stop when the best value meets the target."""
    n, many = len(c.order), len(w.pools.first) > 1
    for _ in range(moves):
        now = c.value[0].current
        limit = now * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(c.random))
        t, new, there = below(c.random, n), KEEP, NONE
        if uniform(c.random) < CRITICAL:
            i = below(c.random, c.path.size[0])
            t = c.path.task[i]
            if uniform(c.random) < DIRECT:
                t, new, there = _unblock(w, c, i, many)
        here, old = c.place[t], c.choice[t]
        if new == KEEP and there == NONE:
            if many and uniform(c.random) < POOL_MOVES:
                new = _another_pool(w, t, c.random, old)
            else:
                there = another_place(w.a, c.order, c.place, t, c.random)
        if there != NONE:
            first, last = shift(c.order, c.place, here, there)
        else:
            first = last = _choose_pool(w, c, t, new)
        if last == NONE:
            continue
        value = decode_packed(w, c, limit, first, last, now)
        if value == np.inf:
            c.choice[t] = old
            if there != NONE:
                shift(c.order, c.place, there, here)
            continue
        c.value[0].current = value
        if value != now:  # then all tasks were placed
            _trace_path(w, c.path, c.random)
        if value < c.value[0].best:
            keep(c)
            if value <= target:
                return
