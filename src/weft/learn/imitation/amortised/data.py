"""Training data of `amortised`: drawn problems and the schedules of a one-second search."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.errors import InvalidInput
from weft.generators import generate, random_cluster, scale_ccr, unrelated_problem
from weft.model import Problem, Workflow
from weft.model.columns import IntArray
from weft.planners import plan
from weft.planners.search.anytime import Anytime
from weft.planners.search.warm_start import order_by_start
from weft.rng import generator

SHAPES = (
    *("cholesky", "lu", "qr", "fft", "gauss", "montage", "epigenomics", "fork_join"),
    *("in_tree", "out_tree", "map_reduce", "cybershake"),
)
"""Generators beside `layered`, which draws a share of `LAYERED_SHARE` of the problems."""
LAYERED_SHARE = 0.5
FIRST_SEED = 1000
"""First seed of training problems; smaller seeds are for validation."""
MOVES = 300_000
"""Moves of the search per problem: about a second on one core."""


@dataclass(frozen=True, eq=False)
class SearchedExample:
    """A problem with the best schedule of the search, and the makespans of it and of HEFT."""

    problem: Problem
    order: IntArray
    device: IntArray
    makespan: float
    heft: float


def draw_problem(
    seed: int, *, ccr: float | None = None, least: int = 15, most: int = 220
) -> Problem:
    """Draw a problem of `least` to `most` tasks on 3 to 32 devices.

    The ratio of communication to computation is drawn from 0.1 to 10 unless `ccr` is given.

    Examples
    --------
    >>> problem = draw_problem(3)
    >>> problem.n == draw_problem(3).n
    True
    """
    rng = generator(seed, "amortised", "problem")
    tasks = round(math.exp(rng.uniform(math.log(least), math.log(most))))
    devices = round(math.exp(rng.uniform(math.log(3), math.log(32))))
    ratio = float(np.exp(rng.uniform(math.log(0.1), math.log(10.0)))) if ccr is None else ccr
    cluster = random_cluster(
        devices=devices,
        nodes=int(rng.integers(1, 4)),
        heterogeneity=float(rng.uniform(0.0, 1.5)),
        link_heterogeneity=float(rng.choice([0.0, 0.5, 1.0])),
        node_factor=float(rng.choice([1.0, 1.0, 4.0])),
        seed=seed,
    )
    workflow = _draw_workflow(rng, tasks, seed)
    if rng.random() < 0.5:
        return Problem.bind(scale_ccr(workflow, ratio, cluster), cluster)
    measured = unrelated_problem(
        workflow, cluster, heterogeneity=float(rng.uniform(0.2, 1.5)), seed=seed
    )
    return Problem.bind(scale_ccr(measured.workflow, ratio, cluster), cluster)


def _draw_workflow(rng: np.random.Generator, tasks: int, seed: int) -> Workflow:
    if rng.random() >= LAYERED_SHARE:
        shape = str(rng.choice(SHAPES))
        try:
            return generate(shape, tasks=tasks, seed=seed)
        except InvalidInput:  # too few tasks for this shape
            pass
    return generate(
        "layered",
        tasks=tasks,
        alpha=float(rng.uniform(0.5, 2.0)),
        density=float(rng.uniform(0.1, 0.8)),
        regularity=float(rng.uniform(0.2, 1.0)),
        jump=int(rng.integers(1, 4)),
        sigma=float(rng.uniform(0.2, 1.0)),
        data_sigma=float(rng.uniform(0.2, 1.0)),
        seed=seed,
    )


def solve(problem: Problem, *, moves: int, seed: int = 0) -> SearchedExample:
    """Solve a problem with so many moves of the search."""
    best = Anytime(iterations=moves).solve(problem, seed=seed).schedule
    heft = plan(problem, "heft").makespan
    return SearchedExample(
        problem, order_by_start(problem, best), best.device.copy(), best.makespan, heft
    )


def searched_examples(seeds: range, *, moves: int = MOVES) -> Iterator[SearchedExample]:
    """Draw problems from the seeds and solve them one by one."""
    for seed in seeds:
        yield solve(draw_problem(seed), moves=moves, seed=seed)
