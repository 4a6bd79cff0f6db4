"""`anytime`: the best of the quick planners, improved by annealing on all cores until the time is up or the bound is met."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from weft.errors import InvalidInput, Unsupported
from weft.model import Problem, Schedule
from weft.planners.bounds import lower_bound
from weft.planners.objective import Objective
from weft.planners.planner import EXACT, PLANNERS, QUICK, Solution, refuse_choices
from weft.planners.search.clock import Clock
from weft.planners.search.team import Progress, Team, reporting
from weft.planners.search.warm_start import quick_copies, quick_start

DEFAULT_MOVES, DEFAULT_CELLS = 400_000, 150_000_000
"""TransferEstimator of a run without any limit, and most moves x tasks x devices: about a second."""

CHAINS = 4
"""Chains of a run with an iteration budget, whatever the machine, so that its result is the same everywhere."""

PLAIN_SHARE = 0.25
"""Share of the time after which a search for a schedule with copies begins to make some."""

COPY_CELLS = 1_000_000
"""Tasks x devices up to which a search makes copies; above it, the copies of the quick planners are all there are."""

BOUND_CELLS = 2_000_000
"""Tasks x devices up to which the bound is worked out before the search, to stop when it is met."""


@PLANNERS.register("anytime")
@dataclass(frozen=True)
class Anytime:
    """Search for the time given, beginning with the best of the quick planners; never worse than they.

    Without a time limit it makes a fixed number of moves, about a second's worth, and gives the same result on any machine.

    Parameters
    ----------
    iterations : moves in all, in place of a time limit: the same result for the same seed, on any machine
    threads : how many chains run at once; None: one for each core
    duplicate : whether a task may run on several devices, to save transfers
    objective : "makespan", or another or several with weights; see `Objective`, which `price` and `jobs` belong to
    progress : called with the share of the budget used and the best value; None: a bar on stderr for runs of 2 s or more

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> Anytime(iterations=100).solve(problem).schedule.makespan
    5.0
    """

    iterations: int | None = None
    threads: int | None = None
    duplicate: bool = False
    objective: str | Mapping[str, float] | Objective = "makespan"
    price: tuple[float, ...] = ()
    jobs: tuple[int, ...] = ()
    progress: Progress | None = field(default=None, compare=False)
    name: str = "anytime"

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        for option in ("iterations", "threads"):
            value = getattr(self, option)
            if value is not None and value < 1:
                raise InvalidInput(f"{option} is {value}; it must be 1 or more")

    @property
    def supports(self) -> frozenset[str]:
        """Words of `FEATURES`."""
        return QUICK | {"seconds"} | ({"copies"} if self.duplicate else {"objectives"})

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        objective = Objective.of(self.objective, price=self.price, jobs=self.jobs)
        if self.duplicate and not objective.plain:
            raise Unsupported(
                f"planner '{self.name}' with duplicate=True handles the objective 'makespan' only; leave one of them out"
            )
        if problem.n == 0:
            return Solution(Schedule.of(device=[], start=[], finish=[]))
        warm_up()  # compiling is not searching: the clock starts afterwards
        # The last moves in flight and the way back to the caller take time too: it comes out of the budget.
        limit = (
            None
            if self.iterations or seconds is None
            else seconds - min(0.02 * seconds, 0.001 + 0.01 * seconds)
        )
        return self._search(problem, objective, Clock(limit), seed)

    def _search(self, problem: Problem, objective: Objective, clock: Clock, seed: int) -> Solution:
        start = quick_start(problem, objective, clock, seed=seed)
        found = [start.schedule]
        if self.duplicate and (copied := quick_copies(problem, clock, seed=seed)) is not None:
            found.append(copied)
        bound = 0.0
        if objective.plain and problem.n * problem.p <= BOUND_CELLS:
            bound = lower_bound(problem, copies=self.duplicate)
        target = bound * (1 + EXACT)
        moves = self.iterations or max(
            2 * CHAINS, min(DEFAULT_MOVES, DEFAULT_CELLS // (problem.n * problem.p))
        )
        chains = self.threads or (CHAINS if clock.seconds is None else os.cpu_count() or 1)
        team = Team.of(problem, objective, start, chains=chains, seed=seed)
        with reporting(self.progress, clock, bound) as report:
            if self.duplicate:
                team.search(clock, round(moves * PLAIN_SHARE), target, report, until=PLAIN_SHARE)
                found.append(team.schedule())
                team = (
                    team.copying(problem, clock, seed=seed)
                    if problem.n * problem.p <= COPY_CELLS
                    else team
                )
            team.search(clock, moves, target, report)
        found.append(team.schedule())
        best = min(
            found, key=lambda s: s.makespan if objective.plain else objective.value(problem, s)
        )
        return Solution(best, bound if objective.plain and not self.duplicate else 0.0)


@cache
def warm_up() -> None:
    """Load or compile every kernel a search uses, on a problem of two tasks."""
    problem = Problem.from_arrays([[1.0, 2.0], [2.0, 1.0]], [[0, 1]], 1.0)
    for duplicate in (False, True):
        objective = Objective.of("makespan")
        planner = Anytime(iterations=8, threads=1, duplicate=duplicate)
        planner._search(problem, objective, Clock(None), 0)  # noqa: SLF001
