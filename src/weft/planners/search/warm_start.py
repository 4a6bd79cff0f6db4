"""Warm start of a search: the best schedule of the quick planners."""

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
"""Most tasks for planners whose time grows faster than the number of tasks."""

NODE_CELLS = 1_000_000
"""Most tasks x devices for HEFT on single nodes, which takes five times as long as HEFT."""

SMALL = 4_000
"""Tasks x devices up to which all quick planners run whatever the time limit, in milliseconds."""

START_SHARE = 0.4
"""Share of the time after which no further quick planner runs."""


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
    """Return the best schedule of the quick planners without copies.

    All of `names` run on small problems; else as many as there is time for, at least one.
    """
    left_out = () if problem.n <= FRONT_LIMIT else FRONTS
    one_node = len(set(problem.cluster.nodes)) == 1  # where "heft-node" equals "heft"
    if one_node or problem.n * problem.p > NODE_CELLS:
        left_out = (*left_out, "heft-node")
    best: WarmStart | None = None
    for name in names:
        if name in left_out:
            continue
        if best is not None and problem.n * problem.p > SMALL and clock.share() > START_SHARE:
            break
        schedule = PLANNERS.create(name).solve(problem, seed=seed).schedule
        value = objective.value(problem, schedule)
        if best is None or value < best.value:
            order = order_by_start(problem, schedule)
            best = WarmStart(order, schedule.device.copy(), schedule, value)
    assert best is not None
    return best


def quick_copies(problem: Problem, clock: Clock, *, seed: int = 0) -> Schedule | None:
    """Return the best schedule of the quick planners with copies; None without time for one."""
    best: Schedule | None = None
    for name in COPIES if problem.n <= FRONT_LIMIT else COPIES[:1]:
        if clock.share() > START_SHARE:
            break
        schedule = PLANNERS.create(name).solve(problem, seed=seed).schedule
        if best is None or schedule.makespan < best.makespan:
            best = schedule
    return best


def order_by_start(problem: Problem, schedule: Schedule) -> IntArray:
    """Order tasks by start; among equals, parents first."""
    place = np.empty(problem.n, np.int64)
    place[problem.workflow.order] = np.arange(problem.n)
    own = ~schedule.copy
    return np.lexsort((place, schedule.finish[own], schedule.start[own])).astype(np.int64)
