"""Where a search begins: the best schedule of the quick planners, as an order of tasks and a device each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import Problem, Schedule
from weft.model.columns import IntArray
from weft.planners.objective import Objective
from weft.planners.planner import PLANNERS
from weft.planners.search.clock import Clock

LISTS = ("heft", "heft-saga-mean", "heft-node", "peft", "greedy", "cpop")
FRONTS = ("dls", "etf", "sufferage", "min-min", "max-min", "lookahead")
REST = ("mct", "met", "olb", "single-device", "round-robin", "random")
COPIES = ("heft-deft", "peft-deft", "cpop-deft", "fifo-deft", "tdca")

FRONT_LIMIT = 20_000
"""Tasks up to which planners run whose time grows faster than the tasks."""

NODE_CELLS = 1_000_000
"""Tasks x devices up to which HEFT is also tried on single nodes: five times HEFT."""

SMALL = 4_000
"""Tasks x devices up to which all quick planners are asked, whatever the time: that takes milliseconds."""

START_SHARE = 0.4
"""Share of the time after which no further quick planner is asked."""


class WarmStart(NamedTuple):
    """An order of tasks by start, the device of each, and the schedule they come from."""

    order: IntArray
    device: IntArray
    schedule: Schedule
    value: float


def quick_start(
    problem: Problem,
    objective: Objective,
    clock: Clock,
    *,
    seed: int = 0,
    names: tuple[str, ...] = (*LISTS, *FRONTS, *REST),
) -> WarmStart:
    """The best of the quick planners without copies: of all named for small problems, else of those there is time for, one at least."""
    left_out = () if problem.n <= FRONT_LIMIT else FRONTS
    if (
        problem.n * problem.p > NODE_CELLS or len(set(problem.cluster.nodes)) == 1
    ):  # on one node it would be HEFT once more
        left_out = (*left_out, "heft-node")
    names = tuple(name for name in names if name not in left_out)
    best: WarmStart | None = None
    for name in names:
        if best is not None and problem.n * problem.p > SMALL and clock.share() > START_SHARE:
            break
        schedule = PLANNERS.create(name).solve(problem, seed=seed).schedule
        value = objective.value(problem, schedule)
        if best is None or value < best.value:
            best = WarmStart(
                order_by_start(problem, schedule), schedule.device.copy(), schedule, value
            )
    assert best is not None
    return best


def quick_copies(problem: Problem, clock: Clock, *, seed: int = 0) -> Schedule | None:
    """The best of the quick planners that make copies, if there is time for one."""
    best: Schedule | None = None
    for name in COPIES if problem.n <= FRONT_LIMIT else COPIES[:1]:
        if clock.share() > START_SHARE:
            break
        schedule = PLANNERS.create(name).solve(problem, seed=seed).schedule
        if best is None or schedule.makespan < best.makespan:
            best = schedule
    return best


def order_by_start(problem: Problem, schedule: Schedule) -> IntArray:
    """Tasks by start; among equals, parents first."""
    place = np.empty(problem.n, np.int64)
    place[problem.workflow.order] = np.arange(problem.n)
    originals = ~schedule.copy
    return np.lexsort((place, schedule.finish[originals], schedule.start[originals])).astype(
        np.int64
    )
