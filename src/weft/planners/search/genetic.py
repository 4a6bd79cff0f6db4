"""The planners `genetic` and `genetic-waiting`: a genetic algorithm, compiled.

An individual is an order of all tasks that respects the edges, and a device per task. Crossover
takes the beginning of one parent's order and the rest in the order of the other, which keeps every
precedence (Wang et al. 1997); the device comes from the same parent as the place. Mutation moves
tasks between their parents and children and changes devices. The fitness is any `Objective`.
`genetic-waiting` minimises the mean time from the arrival of the workflow to the start of a task,
as the genetic algorithm with which DeepSched is compared.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import whole
from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.objective import CompiledObjective, Objective, Prices
from weft.planners.planner import PLANNERS, QUICK, Solution, objective_of, refuse_choices
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import Decoder, decode, make_decoder
from weft.planners.search.team import SearchState, reporting
from weft.planners.search.warm_start import order_by_start
from weft.progress import Progress
from weft.rng import generator
from weft.sim.kernel.jit import njit
from weft.sim.kernel.order_moves import another_place, below, shift, uniform
from weft.typed import typed_dataclass

GENERATIONS = 300
"""Generations of a run without a time limit."""

MOST_INDIVIDUALS = 1_000_000
"""Largest population."""

TOURNAMENT = 3
"""Individuals drawn per tournament; the best of them becomes a parent."""

ELITE = 2
"""Best individuals that enter the next generation unchanged."""

MOVE_RATE, DEVICE_RATE = 1.5, 1.5
"""Mean mutations per child: moves in the order, changes of device."""


class Population(NamedTuple):
    """Two generations, old and next."""

    order: IntArray  # (2, size, n)
    device: IntArray  # (2, size, n)
    value: FloatArray  # (2, size)
    place: IntArray  # (n,)
    random: np.ndarray  # (1,) uint64


@typed_dataclass(frozen=True)
class Genetic:
    """A genetic algorithm over orders of tasks and devices.

    It stops after the generations or the time limit, whichever comes first. The same seed and
    generations give the same result.

    Parameters
    ----------
    population : individuals per generation
    generations : None: 300, or as many as the time limit allows
    objective : the fitness; see `Objective`, also for `price`, `jobs`, `deadlines` and `priorities`
    seeded : whether the first generation contains HEFT's schedule; the others are random
    progress : called with a `SearchState`; None: a bar on stderr
        for runs of 2 s or more

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]])  # no edges: both at once
    >>> Genetic(generations=5).solve(problem).schedule.makespan
    3.0
    """

    population: int = 60
    generations: int | None = None
    objective: str | Mapping[str, float] | Objective = "makespan"
    price: Prices = ()
    jobs: ArrayLike = ()
    deadlines: ArrayLike = ()
    priorities: ArrayLike = ()
    seeded: bool = True
    progress: Progress[SearchState] | None = field(default=None, compare=False)
    name: str = "genetic"
    supports: ClassVar[frozenset[str]] = QUICK | {"seconds", "objectives"}

    def __post_init__(self) -> None:
        """Check the options."""
        whole(self.population, "population", least=2 * ELITE, most=MOST_INDIVIDUALS)
        if self.generations is not None:
            whole(self.generations, "generations", most=sys.maxsize)

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        objective = objective_of(self, problem)
        if problem.n == 0:
            return Solution(Schedule.of(device=[], start=[], finish=[]))
        clock = Clock(seconds)
        search = GeneticSearch.of(
            problem, objective, clock, population=self.population, seeded=self.seeded, seed=seed
        )
        limit = self.generations or (GENERATIONS if seconds is None else sys.maxsize)
        with reporting(self.progress, clock, 0.0) as progress:
            search.run(clock, limit, progress)
        return Solution(
            search.schedule(), history=tuple(progress.points) if objective.plain else ()
        )


PLANNERS.register("genetic")(Genetic)
PLANNERS.register("genetic-waiting", summary="`genetic` for the mean waiting time, without HEFT.")(
    partial(Genetic, objective="waiting", seeded=False, name="genetic-waiting")
)


@dataclass
class GeneticSearch:
    """One run of the genetic algorithm."""

    problem: Problem
    objective: CompiledObjective
    tail: FloatArray
    people: Population
    decoder: Decoder
    old: int = 0

    @classmethod
    def of(
        cls,
        problem: Problem,
        objective: Objective,
        clock: Clock,
        *,
        population: int,
        seeded: bool,
        seed: int,
    ) -> GeneticSearch:
        """Make the first generation: HEFT's schedule if `seeded`, then random ones.

        If time is short, it has fewer individuals.
        """
        n = problem.n
        first = int(generator(seed, "genetic").integers(1, 2**63))
        people = Population(
            np.zeros((2, population, n), np.int64),
            np.zeros((2, population, n), np.int64),
            np.full((2, population), np.inf),
            np.zeros(n, np.int64),
            np.array([first], np.uint64),
        )
        made = cls(
            problem,
            objective.compiled(problem),
            np.zeros((n, 1)),
            people,
            make_decoder(n, problem.p),
        )
        if seeded:
            heft = PLANNERS.create("heft").solve(problem).schedule
            people.order[0, 0], people.device[0, 0] = order_by_start(problem, heft), heft.device
        count = 0
        for i in range(population):
            if not (seeded and i == 0):
                draw_individual(problem.arrays, people, i)
            people.value[0, i] = made.decode(0, i)
            count = i + 1
            if count >= 2 * ELITE and clock.share() > 0.5:
                break
        made.people = people._replace(
            order=np.ascontiguousarray(people.order[:, :count]),
            device=np.ascontiguousarray(people.device[:, :count]),
            value=np.ascontiguousarray(people.value[:, :count]),
        )
        return made

    def decode(self, generation: int, i: int) -> float:
        """Decode an individual and return its fitness."""
        order, device = self.people.order[generation, i], self.people.device[generation, i]
        return decode(self.problem.arrays, self.objective, order, device, self.tail, self.decoder)

    def run(self, clock: Clock, generations: int, progress: Progress[SearchState]) -> None:
        """Breed generation after generation."""
        a, size = self.problem.arrays, self.people.value.shape[1]
        for _ in range(generations):
            begun = clock.elapsed()
            keep_elite(self.people, self.old)
            # One call per child, so that the time limit holds for large problems too.
            for i in range(ELITE, size):
                breed(a, self.objective, self.tail, self.people, self.decoder, self.old, i)
                if clock.left() <= 0:
                    return
            self.old = 1 - self.old
            best = float(self.people.value[self.old].min())
            progress(SearchState(clock.share(), best))
            if clock.left() <= clock.elapsed() - begun:
                return

    def schedule(self) -> Schedule:
        """Return the best schedule of the last complete generation."""
        self.decode(self.old, int(np.argmin(self.people.value[self.old])))
        w = self.decoder
        return Schedule.of(device=w.device, start=w.start, finish=w.finish)


@njit
def draw_individual(a: ProblemArrays, g: Population, i: int) -> None:
    """Draw an order of tasks, and a device that can run each task.

    In the order, every free task is equally likely to be next.
    """
    n, p = len(a.work), a.per_work.shape[1]
    waiting = a.pred_ptr[1:] - a.pred_ptr[:-1]
    free, count = np.empty(n, np.int64), 0
    for t in range(n):
        if waiting[t] == 0:
            free[count] = t
            count += 1
    for j in range(n):
        k = below(g.random, count)
        t = free[k]
        count -= 1
        free[k] = free[count]
        g.order[0, i, j] = t
        g.device[0, i, t] = below(g.random, p)
        while a.per_work[a.row[t], g.device[0, i, t]] == np.inf:
            g.device[0, i, t] = below(g.random, p)
        for e in range(a.succ_ptr[t], a.succ_ptr[t + 1]):
            waiting[a.succ[e]] -= 1
            if waiting[a.succ[e]] == 0:
                free[count] = a.succ[e]
                count += 1


@njit
def keep_elite(g: Population, old: int) -> None:
    """Copy the best two individuals to the next generation."""
    first = int(np.argmin(g.value[old]))
    second = -1
    for i in range(g.value.shape[1]):
        if i != first and (second < 0 or g.value[old, i] < g.value[old, second]):
            second = i
    for k, i in enumerate((first, second)):
        g.order[1 - old, k] = g.order[old, i]
        g.device[1 - old, k] = g.device[old, i]
        g.value[1 - old, k] = g.value[old, i]


@njit
def _parent(g: Population, old: int) -> int:
    best = below(g.random, g.value.shape[1])
    for _ in range(TOURNAMENT - 1):
        other = below(g.random, g.value.shape[1])
        if g.value[old, other] < g.value[old, best]:
            best = other
    return best


@njit
def breed(
    a: ProblemArrays,
    objective: CompiledObjective,
    tail: FloatArray,
    g: Population,
    w: Decoder,
    old: int,
    i: int,
) -> None:
    """Make individual i of the next generation: crossover, mutation, fitness."""
    n, p = len(a.work), a.per_work.shape[1]
    mother, father = _parent(g, old), _parent(g, old)
    order, device = g.order[1 - old, i], g.device[1 - old, i]
    cut = below(g.random, n + 1)
    g.place[:] = -1
    for j in range(cut):
        t = g.order[old, mother, j]
        order[j], g.place[t], device[t] = t, j, g.device[old, mother, t]
    j = cut
    for k in range(n):
        t = g.order[old, father, k]
        if g.place[t] < 0:
            order[j], g.place[t], device[t] = t, j, g.device[old, father, t]
            j += 1
    while uniform(g.random) < MOVE_RATE / (1.0 + MOVE_RATE):
        t = below(g.random, n)
        there = another_place(a, order, g.place, t, g.random)
        if there != g.place[t]:
            shift(order, g.place, g.place[t], there)
    while uniform(g.random) < DEVICE_RATE / (1.0 + DEVICE_RATE):
        t, d = below(g.random, n), below(g.random, p)
        if a.per_work[a.row[t], d] < np.inf:
            device[t] = d
    g.value[1 - old, i] = decode(a, objective, order, device, tail, w)
