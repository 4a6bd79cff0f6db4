"""`amortised`: one pass of a small network learned from the search planner, samples around it, and annealing from the best of them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.formats.safetensors_file import Numbers
from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import BoolArray, FloatArray
from weft.planners.bounds import device_tails, lower_bound, path_bound
from weft.planners.imitation.amortised.features import pair_features
from weft.planners.imitation.amortised.moves import guided_team
from weft.planners.imitation.amortised.network import (
    Weights,
    read_weights,
    sample_passes,
    shipped_weights,
)
from weft.planners.objective import Goal, Objective
from weft.planners.planner import EXACT, PLANNERS, QUICK, Solution, refuse_choices
from weft.planners.search.anytime import BOUND_CELLS, CHAINS, DEFAULT_CELLS, DEFAULT_MOVES
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import make_decoder
from weft.planners.search.team import Progress, reporting
from weft.planners.search.warm_start import WarmStart, order_by_start, quick_start
from weft.rng import generator
from weft.sim.kernel.ranks import mean_durations, mean_transfer, upward_rank

NETWORK_CELLS = 200_000
"""Tasks x devices up to which the network is asked; larger problems are searched from the best quick plan."""

CELL_SECONDS, NETWORK_SHARE = 1e-6, 0.1
"""Time of network and samples for one task on one device; and the share of what is left of a time limit that they may take at most."""

HURRY, FEW = 0.2, ("heft", "heft-saga-mean", "heft-node", "peft", "dls", "lookahead")
"""Below so many seconds only these quick planners are asked, which are the best ones most often, and of bounds only the quickest: the
others take up to a third of 25 ms, which moves are worth more."""

SAMPLES, NOISE = 8, 0.05
"""Passes with normal noise on the outputs beside the one without; its deviation, in units."""


@PLANNERS.register("amortised")
@dataclass(frozen=True)
class Amortised:
    """One pass of a network, a few samples around it, then annealing from the best; never worse than the quick planners.

    Parameters
    ----------
    search : False: no annealing, the best of one pass and the quick planners
    network : False: the search begins at the best quick plan, to see what the network is worth
    samples : passes with noise beside the one without
    iterations : moves in all, in place of a time limit: the same result for the same seed, on any machine
    threads : how many chains run at once; None: one for each core
    weights : a safetensors file of `weft train amortised`; None: the network that comes with weft
    progress : called with the share of the budget used and the best value; None: a bar on stderr for runs of 2 s or more

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> Amortised(search=False).solve(problem).schedule.makespan
    5.0
    """

    search: bool = True
    network: bool = True
    samples: int = SAMPLES
    iterations: int | None = None
    threads: int | None = None
    weights: str | Path | None = None
    progress: Progress | None = field(default=None, compare=False)
    name: str = "amortised"

    def __post_init__(self) -> None:
        """Refuse what means nothing."""
        for option, least in (("iterations", 1), ("threads", 1), ("samples", 0)):
            value = getattr(self, option)
            if value is not None and value < least:
                raise InvalidInput(f"{option} is {value}; it must be {least} or more")

    @property
    def supports(self) -> frozenset[str]:
        """Words of `FEATURES`."""
        return QUICK | {"seconds"} if self.search else QUICK

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        if problem.n == 0:
            return Solution(Schedule.of(device=[], start=[], finish=[]))
        network = None
        if self.network:
            network = (
                shipped_weights() if self.weights is None else read_weights(Path(self.weights))
            )
        warm_up()  # compiling is not planning: the clock starts afterwards
        limit = (
            None
            if self.iterations or seconds is None
            else seconds - min(0.02 * seconds, 0.001 + 0.01 * seconds)
        )
        return self._plan(problem, network, Clock(limit), seed)

    def _plan(self, problem: Problem, network: Weights | None, clock: Clock, seed: int) -> Solution:
        start = first_plan(problem, network, clock, samples=self.samples, seed=seed)
        if not self.search:
            return Solution(start.schedule)
        bound = 0.0
        if problem.n * problem.p <= BOUND_CELLS:
            bound = path_bound(problem) if in_a_hurry(clock) else lower_bound(problem)
        moves = self.iterations or max(
            2 * CHAINS, min(DEFAULT_MOVES, DEFAULT_CELLS // (problem.n * problem.p))
        )
        chains = self.threads or (CHAINS if clock.seconds is None else os.cpu_count() or 1)
        team = guided_team(problem, start, chains=chains, seed=seed)
        with reporting(self.progress, clock, bound) as report:
            team.search(clock, moves, bound * (1 + EXACT), report)
        best = min(start.schedule, team.schedule(), key=lambda s: s.makespan)
        return Solution(best, bound)


class Observation(NamedTuple):
    """A problem as network and decoder take it."""

    arrays: ProblemArrays
    goal: Goal
    features: Numbers
    able: BoolArray
    rank: FloatArray
    unit: float
    tail: FloatArray


def in_a_hurry(clock: Clock) -> bool:
    """Whether there is so little time that what comes before the search counts."""
    return clock.seconds is not None and clock.seconds < HURRY


def first_plan(
    problem: Problem, network: Weights | None, clock: Clock, *, samples: int, seed: int
) -> WarmStart:
    """The best of the quick planners, one pass of the network, and samples around it."""
    objective = Objective.of("makespan")
    few = in_a_hurry(clock)
    start = (
        quick_start(problem, objective, clock, seed=seed, names=FEW)
        if few
        else quick_start(problem, objective, clock, seed=seed)
    )
    cells = problem.n * problem.p
    if (
        network is None
        or cells > NETWORK_CELLS
        or cells * CELL_SECONDS > NETWORK_SHARE * clock.left()
    ):
        return start
    seen, decoder = observe(problem, start), make_decoder(problem.n, problem.p)
    random = np.array(
        [int(generator(seed, "amortised", "samples").integers(1, 2**63)) | 1], np.uint64
    )
    value = sample_passes(network, *seen, samples, NOISE, random, decoder)
    if value >= start.value:
        return start
    schedule = Schedule.of(device=decoder.device, start=decoder.start, finish=decoder.finish)
    return WarmStart(order_by_start(problem, schedule), schedule.device.copy(), schedule, value)


def observe(problem: Problem, start: WarmStart) -> Observation:
    """What the network and the decoder need to know."""
    tail = device_tails(problem)
    return Observation(
        problem.arrays,
        Objective.of("makespan").goal(problem),
        pair_features(problem, start, tail),
        np.isfinite(problem.pace)[problem.row],
        upward_rank(problem),
        time_unit(problem),
        tail,
    )


def time_unit(problem: Problem) -> float:
    """A mean duration plus a mean transfer: the seconds that an output of 1 stands for."""
    latency, per_byte = mean_transfer(problem)
    transfer = latency + float(problem.workflow.data.mean()) * per_byte if problem.m else 0.0
    return float(mean_durations(problem).mean()) + transfer


@cache
def warm_up() -> None:
    """Load or compile every kernel, on a problem of two tasks."""
    problem = Problem.from_arrays([[1.0, 2.0], [2.0, 1.0]], [[0, 1]], 1.0)
    Amortised(iterations=8, threads=1)._plan(problem, shipped_weights(), Clock(None), 0)  # noqa: SLF001
