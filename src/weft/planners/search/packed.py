"""Search for plans on nodes whose tasks share capacities.

Chains anneal orders and pools (`weft.planners.packing.annealing`). From time to time the schedule
is packed from its end and again from its beginning, which closes gaps.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import numpy as np

from weft.model import Problem, Schedule
from weft.model.columns import IntArray
from weft.planners.bounds import device_tails
from weft.planners.objective import Objective
from weft.planners.packing.annealing import (
    PackingDecoder,
    anneal_packed,
    begin_packed,
    make_packing_decoder,
)
from weft.planners.packing.pools import each_alone, make_pools, pool_of_devices
from weft.planners.packing.serial import (
    ForwardBackward,
    PackedRows,
    as_schedule,
    back_and_forth,
    devices_and_order,
    length_of,
    order_of,
    pack_in_order,
)
from weft.planners.search.annealing import make_chain
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import make_decoder
from weft.planners.search.team import (
    MAKESPAN,
    REFINING_FACTOR,
    SHORT_SHARE,
    SearchState,
    Team,
    Worker,
)
from weft.progress import Progress, silent
from weft.rng import generator

DEFAULT_MOVES, DEFAULT_CELLS = 60_000, 20_000_000
"""Most moves, and most moves x tasks x pools, of a search without any limit."""

CHAINS, MOVE_SHARE = 4, 0.02
"""Chains of a search without a time limit; the largest expected share of the time for one move."""


@dataclass
class PackingWorker(Worker):
    """A worker for schedules on nodes with capacities; choices are pools."""

    pool: IntArray = field(kw_only=True)
    directions: ForwardBackward = field(kw_only=True)
    packing: PackingDecoder = field(kw_only=True)

    def begin(self, order: IntArray, choice: IntArray) -> None:
        """Start a run at this state; the best state so far stays."""
        begin_packed(self.packing, self.chain, order, choice)

    def copy_state(self, other: Worker) -> None:
        """Continue from the state of another worker."""
        self.begin(other.chain.order, other.chain.choice)

    def anneal(self, count: int, share: float, target: float) -> None:
        """Try moves at the temperature for a share of the run, then close gaps."""
        anneal_packed(self.packing, self.chain, count, self.temperature(share), target)
        if self.objective.plain and count > self.problem.n:
            self._close_gaps()

    def _close_gaps(self) -> None:
        """Pack the current schedule from its end and from its beginning while that helps."""
        rows = self._rows()
        length = before = float(self.chain.value[0]["current"])
        while length_of(other := back_and_forth(self.directions, rows)) < length:
            rows, length = other, length_of(other)
        if length < before:
            self.begin(order_of(self.problem, rows[1]), rows[0])

    def schedule(self) -> Schedule:
        """Return the best schedule so far."""
        self.begin(self.chain.best_order.copy(), self.chain.best_choice.copy())
        return as_schedule(self.problem, self.pool, *self._rows())

    def _rows(self) -> PackedRows:
        """Return the stored placement; seconds are computed again, to the last bit."""
        a, w = self.problem.arrays, self.packing
        device = self.directions.pools.first[w.kept_pool]
        return w.kept_pool.copy(), w.kept_start.copy(), a.work * a.per_work[a.row, device]


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
    directions, unused = ForwardBackward.of(problem, pools), make_decoder(0, 0)
    compiled, value = objective.compiled(problem), objective.value(problem, schedule)
    workers = []
    for s in generator(seed, "packed").integers(1, 2**63, chains).tolist():
        chain, packing = (
            make_chain(problem.n, s),
            make_packing_decoder(problem, pools, compiled, tail),
        )
        worker = PackingWorker(
            problem,
            tail,
            chain,
            compiled,
            unused,
            value,
            pool=pool,
            directions=directions,
            packing=packing,
        )
        workers.append(worker)
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
    progress: Progress[SearchState] = silent

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
                worker.scale *= REFINING_FACTOR
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
        cells = self.problem.n * len(first.directions.pools.first)
        return self.moves or max(2 * CHAINS, min(DEFAULT_MOVES, DEFAULT_CELLS // cells))

    def _best(self, found: list[Schedule]) -> Schedule:
        if self.objective.plain:
            return min(found, key=lambda s: s.makespan)
        return min(found, key=lambda s: self.objective.value(self.problem, s))

    def _passes(self, schedule: Schedule) -> Schedule:
        """Pack a large schedule from both ends while that helps and there is time."""
        pool = each_alone(self.problem, pool_of_devices(self.problem))
        directions = ForwardBackward.of(self.problem, make_pools(self.problem, pool))
        device, order = devices_and_order(self.problem, schedule)
        begun = self.clock.elapsed()
        best = pack_in_order(directions.arrays, directions.pools, order, pool[device])
        while self.clock.left() > 3.0 * (self.clock.elapsed() - begun):
            begun = self.clock.elapsed()
            other = back_and_forth(directions, best)
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
    """Search for a better schedule within capacities, beginning with a valid one."""
    return PackedSearch(problem, Clock(seconds), objective, seed).improved(schedule)
