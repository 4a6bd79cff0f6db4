"""Annealing over plans for nodes whose tasks share capacities, compiled.

The decoder places tasks one by one in the given order, each at the earliest time at which its pool
has a free device and its node has room (see `weft.planners.packing`). It stores the last accepted
placement, starts where the order changed and stops as soon as the value must exceed the limit.

Some moves follow a critical path: from the last task back to one that starts at time 0, each
waiting for data or for what another task of its node gives back. From time to time the schedule is
packed from its end and again from its beginning, which closes gaps.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.bounds import device_tails
from weft.planners.objective import Goal, Objective, score
from weft.planners.packing.pools import Pools, each_alone, make_pools, pool_of_devices
from weft.planners.packing.profile import Profile, clear_profile, earliest_fit, empty_profile, use
from weft.planners.packing.serial import (
    Packed,
    Turned,
    as_schedule,
    back_and_forth,
    devices_and_order,
    length_of,
    order_of,
    pack_in_order,
)
from weft.planners.search.annealing import BEST, CURRENT, Chain, Path, keep, make_chain, set_state
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import make_decoder
from weft.planners.search.team import MAKESPAN, REFINING_HEAT, SHORT_SHARE, Progress, Team, Worker
from weft.rng import generator
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit
from weft.sim.order_moves import (
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
"""Share of the other moves that change pools, and of these the moves to the earliest finish."""

DEFAULT_MOVES, DEFAULT_CELLS = 60_000, 20_000_000
"""Most moves, and most moves x tasks x pools, of a search without any limit."""

CHAINS, MOVE_SHARE = 4, 0.02
"""Chains of a search without a time limit; the largest expected share of the time for one move."""


KEEP = -2
"""No new choice."""


class PackingDecoder(NamedTuple):
    """All memory of the decoder; each thread needs its own."""

    pool: IntArray  # (n,) the placement that is being made
    start: FloatArray  # (n,)
    finish: FloatArray  # (n,)
    kept_pool: IntArray  # (n,) the stored placement
    kept_start: FloatArray  # (n,)
    kept_finish: FloatArray  # (n,)
    ready: FloatArray  # (pools,)
    profile: Profile


def make_packing_decoder(n: int, pools: Pools) -> PackingDecoder:
    """Make a decoder for a problem of n tasks."""
    pool, kept_pool = np.zeros(n, np.int64), np.zeros(n, np.int64)
    times = [np.zeros(n) for _ in range(4)]
    return PackingDecoder(
        pool,
        times[0],
        times[1],
        kept_pool,
        times[2],
        times[3],
        np.zeros(len(pools.first)),
        empty_profile(pools.room, n),
    )


@njit
def decode_packed(
    a: ProblemArrays,
    pools: Pools,
    goal: Goal,
    order: IntArray,
    choice: IntArray,
    tail: FloatArray,
    limit: float,
    w: PackingDecoder,
    first: int,
    last: int,
    current: float,
) -> float:
    """Place the tasks from place `first` on; order and choices are new between `first` and `last`.

    `current` is the stored value; it is returned if the tasks up to `last` keep their places.
    Returns inf, with the stored placement unchanged, as soon as the value must exceed `limit`.
    Otherwise stores the new placement.
    """
    n, count, wide = len(order), len(pools.first), tail.shape[1] > 1
    cut = (limit - goal.least) * goal.longest  # a longer makespan has a value above it
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
            pace = a.pace[a.row[t], pools.first[k]]
            seconds = a.work[t] * pace if pace < np.inf else np.inf
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
    if not goal.plain:
        value = score(goal, makespan, pools.first[w.pool], w.start, w.finish)
    if value > limit:
        return np.inf
    for j in range(first, n):
        t = order[j]
        w.kept_pool[t], w.kept_start[t], w.kept_finish[t] = w.pool[t], w.start[t], w.finish[t]
    return value


@njit
def begin_packed(
    a: ProblemArrays,
    pools: Pools,
    goal: Goal,
    tail: FloatArray,
    c: Chain,
    w: PackingDecoder,
    order: IntArray,
    choice: IntArray,
) -> float:
    """Start a chain at an order and choices; its best state stays if it is better."""
    set_state(c, order, choice)
    value = decode_packed(a, pools, goal, c.order, c.choice, tail, np.inf, w, 0, NONE, np.inf)
    c.value[CURRENT] = value
    _trace_path(a, pools, w, c.path, c.random)
    if value < c.value[BEST]:
        keep(c)
    return value


@njit
def _trace_path(
    a: ProblemArrays, pools: Pools, w: PackingDecoder, path: Path, random: np.ndarray
) -> None:
    """Find a critical path of the stored schedule; among tasks that end in time, draw one."""
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
        # Tasks of no duration may wait for one another at the same time.
        t = wait if size < len(path.task) else NONE
    path.size[0] = size


@njit
def _another_pool(
    a: ProblemArrays, pools: Pools, w: PackingDecoder, t: int, random: np.ndarray, old: int
) -> int:
    """Draw a choice for a task: the earliest finish, the pool of a neighbour, or any."""
    kind, new = uniform(random), ANY
    if kind < ANY_SHARE and old != ANY:
        return ANY
    if kind < ANY_SHARE + NEIGHBOUR_SHARE:
        other = neighbour(a, t, random)
        new = ANY if other == NONE else w.kept_pool[other]
    else:
        new = below(random, len(pools.first))
    if new != ANY and a.pace[a.row[t], pools.first[new]] == np.inf:
        return old
    return int(new)


@njit
def _unblock(
    a: ProblemArrays, c: Chain, w: PackingDecoder, i: int, many: bool
) -> tuple[int, int, int]:
    """Return the task, new pool and new place that remove the i-th wait of the critical path.

    A pool is KEEP or a place NONE; both are if the wait cannot be removed by one move.
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
        return t, KEEP, before_wait(a, c.place, t, wait)
    return wait, KEEP, behind_waiting(a, c.place, wait, t)


@njit
def anneal_packed(
    a: ProblemArrays,
    pools: Pools,
    goal: Goal,
    tail: FloatArray,
    c: Chain,
    w: PackingDecoder,
    moves: int,
    temperature: float,
    target: float,
) -> None:
    """Try a number of moves at a temperature; stop when the best value meets the target."""
    n, many = len(c.order), len(pools.first) > 1
    for _ in range(moves):
        now = c.value[CURRENT]
        limit = now * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(c.random))
        t, new, there = below(c.random, n), KEEP, NONE
        if uniform(c.random) < CRITICAL:
            i = below(c.random, c.path.size[0])
            t = c.path.task[i]
            if uniform(c.random) < DIRECT:
                t, new, there = _unblock(a, c, w, i, many)
        old = c.choice[t]
        if new == KEEP and there == NONE:
            if many and uniform(c.random) < POOL_MOVES:
                new = _another_pool(a, pools, w, t, c.random, old)
            else:
                there = another_place(a, c.order, c.place, t, c.random)
        here = c.place[t]
        if there != NONE:
            if there == here:
                continue
            shift(c.order, c.place, here, there)
            first, last = min(here, there), max(here, there)
        else:
            if new == old or (new >= 0 and a.pace[a.row[t], pools.first[new]] == np.inf):
                continue
            c.choice[t] = new
            if new == w.kept_pool[t]:  # it runs there already
                continue
            first = last = here
        value = decode_packed(a, pools, goal, c.order, c.choice, tail, limit, w, first, last, now)
        if value == np.inf:
            c.choice[t] = old
            if there != NONE:
                shift(c.order, c.place, there, here)
            continue
        c.value[CURRENT] = value
        if value != now:  # then all tasks were placed
            _trace_path(a, pools, w, c.path, c.random)
        if value < c.value[BEST]:
            keep(c)
            if value <= target:
                return


@dataclass
class PackingWorker(Worker):
    """A worker for schedules on nodes with capacities; choices are pools."""

    pool: IntArray = field(kw_only=True)
    turned: Turned = field(kw_only=True)
    packing: PackingDecoder = field(kw_only=True)

    def begin(self, order: IntArray, choice: IntArray) -> None:
        """Start a run at this state; the best state so far stays."""
        begin_packed(
            self.problem.arrays, self.turned.pools, self.goal, self.tail, self.chain, self.packing,
            order, choice,
        )  # fmt: skip

    def copy_state(self, other: Worker) -> None:
        """Continue from the state of another worker."""
        self.begin(other.chain.order, other.chain.choice)

    def anneal(self, count: int, share: float, target: float) -> None:
        """Try a number of moves at the temperature for a share of the run, then close gaps."""
        anneal_packed(
            self.problem.arrays, self.turned.pools, self.goal, self.tail, self.chain, self.packing,
            count, self.temperature(share), target,
        )  # fmt: skip
        if self.goal.plain and count > self.problem.n:
            self._close_gaps()

    def _close_gaps(self) -> None:
        """Pack the current schedule from its end and from its beginning while that helps."""
        rows = self._rows()
        length = before = float(self.chain.value[CURRENT])
        while length_of(other := back_and_forth(self.turned, rows)) < length:
            rows, length = other, length_of(other)
        if length < before:
            self.begin(order_of(self.problem, rows[1]), rows[0])

    def schedule(self) -> Schedule:
        """Return the best schedule so far."""
        self.begin(self.chain.best_order.copy(), self.chain.best_choice.copy())
        return as_schedule(self.problem, self.pool, *self._rows())

    def _rows(self) -> Packed:
        """Return the stored placement; seconds are computed again, to the last bit."""
        a, w = self.problem.arrays, self.packing
        device = self.turned.pools.first[w.kept_pool]
        return w.kept_pool.copy(), w.kept_start.copy(), a.work * a.pace[a.row, device]


def packing_team(
    problem: Problem, objective: Objective, schedule: Schedule, *, chains: int, seed: int
) -> Team:
    """Make a team that starts at a schedule that respects the capacities."""
    pool = each_alone(problem, pool_of_devices(problem))
    if not objective.plain:  # power and prices may differ within a pool
        pool = np.arange(problem.p)
    pools = make_pools(problem, pool)
    tail = device_tails(problem)
    if tail.shape[1] > 1:
        tail = np.ascontiguousarray(tail[:, pools.first])
    device, order = devices_and_order(problem, schedule)
    turned, unused = Turned.of(problem, pools), make_decoder(0, 0)
    workers = [
        PackingWorker(
            problem,
            tail,
            make_chain(problem.n, s),
            objective.goal(problem),
            unused,
            objective.value(problem, schedule),
            pool=pool,
            turned=turned,
            packing=make_packing_decoder(problem.n, pools),
        )
        for s in generator(seed, "packed").integers(1, 2**63, chains).tolist()
    ]
    return Team.starting(workers, order, pool[device])


@dataclass(frozen=True)
class PackedSearch:
    """A search for a good schedule on nodes with capacities.

    `moves` and `chains` replace the defaults; without a time limit the result is the same on every
    machine.
    """

    problem: Problem
    clock: Clock
    objective: Objective = MAKESPAN
    seed: int = 0
    moves: int | None = None
    chains: int | None = None
    target: float = 0.0
    progress: Progress = field(default=lambda _share, _value: None)

    def improved(self, schedule: Schedule) -> Schedule:
        """Return the best schedule found, beginning with a valid one; never a worse one."""
        if self.problem.n == 0 or self.clock.left() <= 0.0:
            return schedule
        begun = self.clock.elapsed()
        team = self._team(MAKESPAN, schedule)
        if self.clock.seconds is not None and (
            self.clock.elapsed() - begun > MOVE_SHARE * self.clock.seconds * len(team.workers)
        ):
            return self._best([schedule, self._passes(schedule)])
        until = 1.0 if self.objective.plain else SHORT_SHARE
        team.search(self.clock, self._moves(team), self.target, self.progress, until=until)
        found = [schedule, team.schedule()]
        if not self.objective.plain:
            team = self._team(self.objective, self._best(found))
            for worker in team.workers:
                worker.scale *= REFINING_HEAT
            team.search(self.clock, self._moves(team), 0.0, self.progress)
            found.append(team.schedule())
        return self._best(found)

    def _team(self, objective: Objective, schedule: Schedule) -> Team:
        own = CHAINS if self.clock.seconds is None else os.cpu_count() or 1
        chains = self.chains or own
        return packing_team(self.problem, objective, schedule, chains=chains, seed=self.seed)

    def _moves(self, team: Team) -> int:
        first = team.workers[0]
        assert isinstance(first, PackingWorker)
        cells = self.problem.n * len(first.turned.pools.first)
        return self.moves or max(2 * CHAINS, min(DEFAULT_MOVES, DEFAULT_CELLS // cells))

    def _best(self, found: list[Schedule]) -> Schedule:
        if self.objective.plain:
            return min(found, key=lambda s: s.makespan)
        return min(found, key=lambda s: self.objective.value(self.problem, s))

    def _passes(self, schedule: Schedule) -> Schedule:
        """Pack a large schedule from both ends while that helps and there is time."""
        pool = each_alone(self.problem, pool_of_devices(self.problem))
        turned = Turned.of(self.problem, make_pools(self.problem, pool))
        device, order = devices_and_order(self.problem, schedule)
        begun = self.clock.elapsed()
        best = pack_in_order(turned.arrays, turned.pools, order, pool[device])
        while self.clock.left() > 3.0 * (self.clock.elapsed() - begun):
            begun = self.clock.elapsed()
            other = back_and_forth(turned, best)
            if length_of(other) >= length_of(best):
                break
            best = other
        return as_schedule(self.problem, pool, *best)


def improve(
    problem: Problem,
    schedule: Schedule,
    *,
    seconds: float | None = None,
    seed: int = 0,
    objective: Objective = MAKESPAN,
) -> Schedule:
    """Search for a better schedule that respects capacities, beginning with a valid one."""
    return PackedSearch(problem, Clock(seconds), objective, seed).improved(schedule)
