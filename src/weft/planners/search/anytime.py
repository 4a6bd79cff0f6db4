"""The planner `anytime`: the best quick plan, improved by annealing.

It uses all cores.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import field
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import whole
from weft.errors import InvalidInput, Unsupported
from weft.model import Cluster, Device, Links, Problem, Schedule, Workflow
from weft.planners.lists.ranks import rank_order
from weft.planners.objective import Objective, Prices
from weft.planners.packing import pack
from weft.planners.planner import (
    EXACT,
    PLANNERS,
    QUICK,
    Plan,
    Solution,
    objective_of,
    refuse_choices,
)
from weft.planners.search.clock import Clock
from weft.planners.search.effort import affordable_bound, affordable_tails, can_anneal, fits
from weft.planners.search.forward_backward import pass_until_end
from weft.planners.search.packed import PackedSearch
from weft.planners.search.team import (
    MAKESPAN,
    REFINING_FACTOR,
    SHORT_SHARE,
    SearchState,
    Team,
    reporting,
)
from weft.planners.search.warm_start import (
    COPY_COST,
    WarmStart,
    fit,
    quick_copies,
    quick_names,
    quick_start,
    start_at,
)
from weft.progress import Progress
from weft.typed import typed_dataclass

DEFAULT_MOVES, DEFAULT_CELLS = 400_000, 150_000_000
"""Most moves, and most moves x tasks x devices, of a run without any limit: about a second."""

CHAINS = 4
"""Chains of a run without a time limit: the same number, and so the same result, on any machine."""

PLAIN_SHARE = 0.25
"""Share of the time after which a search for a schedule with copies starts to make copies."""

MOST_THREADS = 1024
"""Each thread has a chain with memory of its own."""

COPY_CELLS = 1_000_000
"""Most tasks x devices for a search with copies; above it, only quick planners make copies."""


@PLANNERS.register("anytime")
@typed_dataclass(frozen=True)
class Anytime:
    """Annealing for the given time from the best quick plan; never worse than that.

    Without a time limit it makes a fixed number of moves, about a second's worth, and gives the
    same result on any machine.

    Parameters
    ----------
    iterations : moves instead of a time limit: the same result for a seed on any machine; for other
        objectives than the makespan, a search for a short schedule with this number comes first
    threads : chains that run at once; None: one per core
    start : the plan from which the search starts: of this problem, or of one with the same number
        of tasks and the same devices
    duplicate : whether a task may run on several devices to save transfers
    objective : "makespan", another one, or several with weights; see `Objective`, also for `price`,
        `jobs`, `deadlines` and `priorities`
    progress : called with a `SearchState`; None: a bar on stderr
        for runs of 2 s or more

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> Anytime(iterations=100).solve(problem).schedule.makespan
    5.0
    """

    iterations: int | None = None
    threads: int | None = None
    start: Plan | Schedule | None = field(default=None, compare=False)
    duplicate: bool = False
    objective: str | Mapping[str, float] | Objective = "makespan"
    price: Prices = ()
    jobs: ArrayLike = ()
    deadlines: ArrayLike = ()
    priorities: ArrayLike = ()
    progress: Progress[SearchState] | None = field(default=None, compare=False)
    name: str = "anytime"

    def __post_init__(self) -> None:
        """Check the options."""
        for option, most in (("iterations", sys.maxsize), ("threads", MOST_THREADS)):
            if getattr(self, option) is not None:
                whole(getattr(self, option), option, most=most)

    @property
    def supports(self) -> frozenset[str]:
        """Words of `SUPPORTED`."""
        other = {"copies"} if self.duplicate else {"objectives"}
        return QUICK | {"seconds", "capacities"} | other

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        objective = objective_of(self, problem)
        if self.duplicate and not objective.plain:
            raise Unsupported(
                f"planner '{self.name}' with duplicate=True handles the objective 'makespan' only; "
                "leave one of them out"
            )
        if problem.n == 0:
            return Solution(Schedule.of(device=[], start=[], finish=[]))
        names = quick_names(search_clock(seconds, self.iterations))
        # The clock starts after compilation.
        warm_up(names, duplicate=self.duplicate, contended=problem.contended)
        clock = search_clock(seconds, self.iterations)
        return self._search(problem, objective, clock, seed, names)

    def _search(
        self,
        problem: Problem,
        objective: Objective,
        clock: Clock,
        seed: int,
        names: tuple[str, ...],
    ) -> Solution:
        given = None if self.start is None else fit(problem, _schedule_of(self.start))
        start = quick_start(problem, MAKESPAN, clock, seed=seed, names=names, first=given)
        if problem.contended:
            return self._search_packed(problem, objective, clock, seed, start)
        found = [start.schedule]
        points: tuple[tuple[float, float], ...] = ()
        if self.duplicate and (
            (copied := quick_copies(problem, clock, start.heft, seed=seed)) is not None
        ):
            found.append(copied)
        bound = affordable_bound(problem, clock, start.heft, copies=self.duplicate)
        if can_anneal(problem, start.schedule, clock, start.heft):
            with reporting(self.progress, clock, bound if objective.plain else 0.0) as progress:
                found += self._anneal(problem, objective, clock, start, seed, bound, progress)
                points = tuple(progress.points)
        else:
            found.append(
                pass_until_end(problem, start.schedule, clock, 2.5 * start.heft, seed=seed)
            )
        best = min(
            found, key=lambda s: s.makespan if objective.plain else objective.value(problem, s)
        )
        proved = bound if objective.plain and not self.duplicate else 0.0
        return Solution(best, proved, points if objective.plain else ())

    def _search_packed(
        self, problem: Problem, objective: Objective, clock: Clock, seed: int, start: WarmStart
    ) -> Solution:
        """Search on nodes with capacities, from the packed start, without copies."""
        first = pack(problem, start.schedule)
        bound = affordable_bound(problem, clock, start.heft, copies=False)
        proved = bound if objective.plain else 0.0
        with reporting(self.progress, clock, proved) as progress:
            search = PackedSearch(
                problem,
                clock,
                objective,
                seed,
                moves=self.iterations,
                chains=self.threads,
                target=bound * (1 + EXACT),
                progress=progress,
            )
            best = search.improved(first)
            points = tuple(progress.points)
        return Solution(best, proved, points if objective.plain else ())

    def _anneal(
        self,
        problem: Problem,
        objective: Objective,
        clock: Clock,
        start: WarmStart,
        seed: int,
        bound: float,
        progress: Progress[SearchState],
    ) -> list[Schedule]:
        """Return the schedules of the phases of the search.

        For schedules with copies, and for objectives other than the makespan, the first phase
        searches a short schedule without copies.
        """
        moves, chains = search_size(problem, clock, self.iterations, self.threads)
        target, tail = bound * (1 + EXACT), affordable_tails(problem, clock, start.heft)
        team = Team.of(problem, MAKESPAN, start, tail, chains=chains, seed=seed)
        if self.duplicate:
            team.search(clock, round(moves * PLAIN_SHARE), target, progress, until=PLAIN_SHARE)
        else:
            until = 1.0 if objective.plain else SHORT_SHARE
            team.search(clock, moves, target, progress, until=until)
        found = [team.schedule()]
        if self.duplicate:
            if problem.n * problem.p <= COPY_CELLS and fits(clock, COPY_COST * start.heft, 0.1):
                team = team.copying(problem, clock, seed=seed)
            team.search(clock, moves, target, progress)
            found.append(team.schedule())
        elif not objective.plain:
            quick = quick_start(problem, objective, clock, seed=seed)
            value = objective.value(problem, found[0])
            if value < quick.value:
                quick = start_at(problem, found[0], value, start.heft)
            team = Team.of(problem, objective, quick, tail, chains=chains, seed=seed)
            for worker in team.workers:
                worker.scale *= REFINING_FACTOR
            team.search(clock, moves, 0.0, progress)
            found.append(team.schedule())
        return found


def _schedule_of(start: Schedule | Plan) -> Schedule:
    if isinstance(start, Plan):
        return start.schedule
    if isinstance(start, Schedule):
        return start
    raise InvalidInput(f"option 'start' takes a plan or a schedule, not a {type(start).__name__}")


def search_clock(seconds: float | None, iterations: int | None) -> Clock:
    """Start the clock of a search; `iterations` replace a time limit."""
    if iterations or seconds is None:
        return Clock(None)
    # Reserve time for the last moves and the return to the caller.
    return Clock(seconds - min(0.02 * seconds, 0.001 + 0.01 * seconds))


def search_size(
    problem: Problem, clock: Clock, iterations: int | None, threads: int | None
) -> tuple[int, int]:
    """Return the number of moves and of chains of a search."""
    fitting = DEFAULT_CELLS // (problem.n * problem.p)
    moves = iterations or max(2 * CHAINS, min(DEFAULT_MOVES, fitting))
    return moves, threads or (CHAINS if clock.seconds is None else os.cpu_count() or 1)


@cache
def warm_up(names: tuple[str, ...], *, duplicate: bool, contended: bool = False) -> None:
    """Load or compile the kernels of a search by quick planners, on twelve tasks.

    The devices are on two nodes, so that no quick planner is left out. No schedule meets the bound,
    so that the search does not end before its first move.
    """
    tasks = np.arange(12)
    work = np.array([1.0, 2.0, 3.0] * 4)
    workflow = Workflow(work=work, src=tasks[:-2], dst=tasks[2:], data=np.ones(10))
    speeds = {"a0": 1.0, "a1": 2.0, "b0": 3.0, "b1": 1.0}
    devices = [Device(name, node=name[0], speed=speed) for name, speed in speeds.items()]
    capacity = {"cores": {"a": 1.0, "b": 1.0}} if contended else {}
    links = Links(bandwidth=1.0)
    problem = Problem.bind(workflow, Cluster.of(devices, links, capacity=capacity))
    rank_order(problem, tasks.astype(float))  # ranks that put children first, as ties may
    planner = Anytime(iterations=8, threads=1, duplicate=duplicate)
    planner._search(problem, MAKESPAN, Clock(None), 0, names)  # noqa: SLF001  # of this module
