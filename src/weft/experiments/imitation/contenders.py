"""Planners of the DeepSched comparison, and trivial baselines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from weft.model import Problem, Schedule
from weft.model.columns import IntArray
from weft.planners import plan
from weft.planners.lists.heft import insert_in_order
from weft.planners.lists.insertion import as_schedule
from weft.planners.lists.placements import ListPlanner
from weft.planners.lists.ranks import rank_order
from weft.planners.search.anytime import Anytime
from weft.planners.search.clock import processor_time
from weft.planners.search.genetic import Genetic
from weft.rng import generator
from weft.sim.kernel.ranks import downward_rank

PlanFunction = Callable[[Problem], Schedule]


def heft(problem: Problem) -> Schedule:
    """Plan with HEFT, which the networks imitate."""
    return plan(problem, "heft").schedule


def deepsched(problem: Problem) -> Schedule:
    """Plan with weft's network."""
    return plan(problem, "deepsched").schedule


def no_gaps(problem: Problem) -> Schedule:
    """Plan with HEFT without insertion into gaps."""
    return plan(problem, ListPlanner(rank="upward", placement="mct")).schedule


def genetic(problem: Problem, *, objective: str, seconds: float) -> Schedule:
    """Plan by a GA from random individuals, as the document does, in processor time."""
    with processor_time():
        return plan(problem, Genetic(objective=objective, seeded=False), seconds=seconds).schedule


def anytime(problem: Problem, *, seconds: float) -> Schedule:
    """Plan with weft's search for the same objective and the same processor seconds."""
    with processor_time():
        return plan(problem, Anytime(objective="waiting", threads=1), seconds=seconds).schedule


# -- trivial baselines -------------------------------------------------------------------


def in_order(problem: Problem, device: IntArray) -> Schedule:
    """Place tasks on given devices, where they can run, by earliest start."""
    can = np.isfinite(problem.per_work)[problem.row]
    shortest = np.where(can, problem.durations(), np.inf).argmin(axis=1)
    chosen = np.where(can[np.arange(problem.n), device], device, shortest)
    order = rank_order(problem, -downward_rank(problem))
    return as_schedule(insert_in_order(problem.arrays, order, chosen))


def random_device(problem: Problem) -> Schedule:
    """Place every task on a random device."""
    random = generator(problem.n, "imitation", "random")
    return in_order(problem, random.integers(problem.p, size=problem.n))


def round_robin(problem: Problem) -> Schedule:
    """Place tasks on the devices in turn."""
    order = rank_order(problem, -downward_rank(problem))
    device = np.empty(problem.n, np.int64)
    device[order] = np.arange(problem.n) % problem.p
    return in_order(problem, device)


def always_fastest(problem: Problem) -> Schedule:
    """Place all tasks on the device that is fastest for most work."""
    seconds = problem.durations()
    total = np.where(np.isfinite(seconds), seconds, 0.0).sum(axis=0)
    return in_order(problem, np.full(problem.n, int(total.argmin())))


def fixed_device(problem: Problem, device: int) -> Schedule:
    """Place all tasks on one device: HEFT's favourite in the training data."""
    return in_order(problem, np.full(problem.n, device))


TRIVIAL: dict[str, PlanFunction] = {
    "random": random_device,
    "round robin": round_robin,
    "always fastest": always_fastest,
}
"""Baselines that read nothing but the numbers of tasks and devices, or one number per device."""


def contenders(*, seconds: float) -> dict[str, PlanFunction]:
    """Return contenders for any problem; `seconds` is the processor time of a search."""
    return {
        "HEFT": heft,
        "deepsched": deepsched,
        "HEFT without gaps": no_gaps,
        "GA (waiting)": partial(genetic, objective="waiting", seconds=seconds),
        "GA (makespan)": partial(genetic, objective="makespan", seconds=seconds),
        "anytime (waiting)": partial(anytime, seconds=seconds),
        **TRIVIAL,
    }


def warm_up(problem: Problem) -> None:
    """Compile, or read from the cache, before searches are timed."""
    for contender in contenders(seconds=0.01).values():
        contender(problem)
