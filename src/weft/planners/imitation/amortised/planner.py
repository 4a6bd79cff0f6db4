"""The planner `amortised`: passes of a small network, then annealing from the best of them.

The network is trained on schedules of `anytime`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Schedule
from weft.planners.bounds import device_tails, lower_bound, path_bound
from weft.planners.imitation.amortised.features import pair_features
from weft.planners.imitation.amortised.moves import guided_team
from weft.planners.imitation.amortised.network import (
    AmortisedWeights,
    Observation,
    bundled_weights,
    read_weights,
    sample_passes,
)
from weft.planners.objective import Objective
from weft.planners.planner import EXACT, PLANNERS, QUICK, Solution, refuse_choices
from weft.planners.search.anytime import BOUND_CELLS, search_clock, search_size
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import make_decoder
from weft.planners.search.team import Progress, reporting
from weft.planners.search.warm_start import (
    FRONTS,
    LISTS,
    REST,
    WarmStart,
    order_by_start,
    quick_start,
)
from weft.rng import generator
from weft.sim.kernel.ranks import mean_durations, mean_transfer, upward_rank

NETWORK_CELLS = 200_000
"""Most tasks x devices for the network; larger problems start at the best quick plan."""

CELL_SECONDS, NETWORK_SHARE = 1e-6, 0.1
"""Seconds of the passes per task and device, and their largest share of the remaining time."""

SHORT, FEW = 0.2, ("heft", "heft-saga-mean", "heft-node", "peft", "dls", "lookahead")
"""With a time limit below `SHORT` seconds, only the quick planners `FEW`, which are most often the
best, and only the quickest bound are computed: the others take up to a third of 25 ms."""

SAMPLES, NOISE = 8, 0.05
"""Passes with normal noise on the outputs, and the deviation of the noise, in units."""


@PLANNERS.register("amortised")
@dataclass(frozen=True)
class Amortised:
    """Passes of a network, then annealing from the best; never worse than the quick plans.

    Parameters
    ----------
    search : False: no annealing, the best of the passes and the quick planners
    network : False: start at the best quick plan, to measure the worth of the network
    samples : passes with noise, in addition to one without
    iterations : total moves instead of a time limit: the same result for a seed on any machine
    threads : chains that run at once; None: one per core
    weights : a safetensors file of `weft train amortised`; None: the network that comes with weft
    progress : called with the used share of the budget and the best value; None: a bar on stderr
        for runs of 2 s or more

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
        """Check the options."""
        for option, least in (("iterations", 1), ("threads", 1), ("samples", 0)):
            value = getattr(self, option)
            if value is not None and value < least:
                raise InvalidInput(f"{option} is {value}; it must be {least} or more")

    @property
    def supports(self) -> frozenset[str]:
        """Names of `FEATURES`."""
        return QUICK | {"seconds"} if self.search else QUICK

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        if problem.n == 0:
            return Solution(Schedule.of(device=[], start=[], finish=[]))
        network = None
        if self.network:
            network = (
                bundled_weights() if self.weights is None else read_weights(Path(self.weights))
            )
        warm_up()  # the clock starts after compilation
        return self._plan(problem, network, search_clock(seconds, self.iterations), seed)

    def _plan(
        self, problem: Problem, network: AmortisedWeights | None, clock: Clock, seed: int
    ) -> Solution:
        start = first_plan(problem, network, clock, samples=self.samples, seed=seed)
        if not self.search:
            return Solution(start.schedule)
        bound = 0.0
        if problem.n * problem.p <= BOUND_CELLS:
            bound = path_bound(problem) if short_of_time(clock) else lower_bound(problem)
        moves, chains = search_size(problem, clock, self.iterations, self.threads)
        team = guided_team(problem, start, chains=chains, seed=seed)
        with reporting(self.progress, clock, bound) as progress:
            team.search(clock, moves, bound * (1 + EXACT), progress)
        best = min(start.schedule, team.schedule(), key=lambda s: s.makespan)
        return Solution(best, bound)


def short_of_time(clock: Clock) -> bool:
    """Return whether the time limit is so short that the warm start and the bound matter."""
    return clock.seconds is not None and clock.seconds < SHORT


def first_plan(
    problem: Problem, network: AmortisedWeights | None, clock: Clock, *, samples: int, seed: int
) -> WarmStart:
    """Return the best schedule of the quick planners and the passes of the network."""
    objective = Objective.of("makespan")
    names = FEW if short_of_time(clock) else (*LISTS, *FRONTS, *REST)
    start = quick_start(problem, objective, clock, seed=seed, names=names)
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
    value = sample_passes(network, seen, samples, NOISE, random, decoder)
    if value >= start.value:
        return start
    schedule = Schedule.of(device=decoder.device, start=decoder.start, finish=decoder.finish)
    return WarmStart(order_by_start(problem, schedule), schedule.device.copy(), schedule, value)


def observe(problem: Problem, start: WarmStart) -> Observation:
    """Compute the inputs of the network and the decoder."""
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
    """Return a mean duration plus a mean transfer: the seconds of an output of 1."""
    latency, per_byte = mean_transfer(problem)
    transfer = latency + float(problem.workflow.data.mean()) * per_byte if problem.m else 0.0
    return float(mean_durations(problem).mean()) + transfer


@cache
def warm_up() -> None:
    """Load or compile all kernels, on a problem of two tasks."""
    problem = Problem.from_arrays([[1.0, 2.0], [2.0, 1.0]], [[0, 1]], 1.0, bandwidth=1.0)
    planner = Amortised(iterations=8, threads=1)
    planner._plan(problem, bundled_weights(), Clock(None), 0)  # noqa: SLF001
