"""Warm start of a search: the best quick schedule, after passes from both ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.model import Problem, Schedule
from weft.model.columns import IntArray
from weft.planners.lists.common_link import insert
from weft.planners.lists.dynamic import RULES, choose_in_turn
from weft.planners.lists.insertion import ANYWHERE, Rows, as_schedule
from weft.planners.lists.ranks import rank_order
from weft.planners.objective import Objective
from weft.planners.planner import PLANNERS
from weft.planners.search.clock import Clock
from weft.planners.search.effort import step_seconds
from weft.planners.search.enumeration import best_assignment
from weft.planners.search.forward_backward import improve

LISTS = ("heft", "dls", "heft-saga-mean", "heft-node", "peft", "greedy", "cpop")
FRONTS = ("etf", "sufferage", "min-min", "max-min", "lookahead")
REST = ("mct", "met", "olb", "single-device", "round-robin", "random")
COPIES = ("heft-deft", "peft-deft", "cpop-deft", "fifo-deft", "tdca")

FEW, SHORT = ("heft", "dls", "heft-saga-mean", "heft-node", "peft", "lookahead"), 0.2
"""Quick planners that are most often the best; with fewer than `SHORT` seconds only they run."""

FRONT_LIMIT = 20_000
"""Most tasks for planners whose time may grow with the square of the number of tasks, unless a
time limit stops them."""

NODE_CELLS = 1_000_000
"""Most tasks x devices for HEFT on single nodes, which takes five times as long as HEFT."""

START_SHARE, PASS_SHARE = 0.25, 0.15
"""Shares of the time after which no further quick planner, and no further pass, begins."""

COPY_SHARE, COPY_COST = 0.4, 10.0
"""Share of the time for quick planners with copies; their expected time in units of HEFT's."""

IMPROVED = 4
"""Best quick plans from which passes start."""

PASSES = 24
"""Most passes in both directions without a time limit."""


class WarmStart(NamedTuple):
    """An order of tasks by start, the device of each, and the schedule they come from."""

    order: IntArray
    device: IntArray
    schedule: Schedule
    value: float
    heft: float  # seconds that HEFT took: the unit of expected times


def quick_names(clock: Clock) -> tuple[str, ...]:
    """Return the quick planners for a time limit."""
    short = clock.seconds is not None and clock.seconds < SHORT
    return FEW if short else (*LISTS, *FRONTS, *REST)


def quick_start(
    problem: Problem,
    objective: Objective,
    clock: Clock,
    *,
    seed: int = 0,
    names: tuple[str, ...] = (),
    first: Schedule | None = None,
) -> WarmStart:
    """Return the best schedule without copies of quick planners and of passes.

    With a time limit, only planners run that are expected to end within a share of it. HEFT always
    runs: its time predicts that of the others. With a schedule `first`, only passes from that and
    from HEFT's schedule run.
    """
    names = names or quick_names(clock)
    begun = clock.elapsed()
    found = [PLANNERS.create("heft").solve(problem, seed=seed).schedule]
    heft = clock.elapsed() - begun
    if first is not None:
        found, names = [first, *found], ()
    until = START_SHARE * (clock.seconds or 0.0)
    for name in names:
        if name == "heft" or _left_out(problem, name, clock):
            continue
        if clock.seconds is None or clock.elapsed() + _expected(problem, name, heft) < until:
            made = _solve(problem, name, clock, until, seed)
            found += [] if made is None else [made]
    values = [objective.value(problem, schedule) for schedule in found]
    best = np.argsort(values, kind="stable")[:IMPROVED].tolist()
    found += _passes(problem, [found[i] for i in best], clock, 2.5 * heft)
    if (every := best_assignment(problem, objective, clock)) is not None:
        found.append(every)
    values += [objective.value(problem, schedule) for schedule in found[len(values) :]]
    return start_at(problem, found[int(np.argmin(values))], min(values), heft)


def start_at(problem: Problem, schedule: Schedule, value: float, heft: float) -> WarmStart:
    """Return a start at a schedule without copies."""
    order = order_by_start(problem, schedule)
    return WarmStart(order, schedule.device.copy(), schedule, value, heft)


def fit(problem: Problem, given: Schedule) -> Schedule:
    """Repeat order and devices of a schedule of a problem of the same structure.

    Tasks that cannot run on their device go to that of their earliest finish. Copies are left out.
    """
    own = ~given.copy
    device, start = given.device[own], given.start[own]
    whole = np.array_equal(given.task[own], np.arange(problem.n))
    if not whole or not -1 < int(device.min(initial=0)) <= int(device.max(initial=0)) < problem.p:
        raise InvalidInput(
            f"the plan of option 'start' has {len(device)} tasks and uses device "
            f"{int(device.max(initial=-1))}, but '{problem.name}' has {problem.n} tasks on "
            f"{problem.p} devices; start from a plan of the same structure"
        )
    able = np.isfinite(problem.per_work[problem.row, device])
    pin = np.where(able, device, ANYWHERE).astype(np.int64)
    return as_schedule(insert(problem.arrays, rank_order(problem, -start), pin))


def _left_out(problem: Problem, name: str, clock: Clock) -> bool:
    if name == "heft-node":  # equals "heft" on one node
        one_node = len(set(problem.cluster.nodes)) == 1
        return one_node or problem.n * problem.p > NODE_CELLS
    slow = name == "lookahead" or name in RULES
    return slow and clock.seconds is None and problem.n > FRONT_LIMIT


def _expected(problem: Problem, name: str, heft: float) -> float:
    """Return the expected seconds of a quick planner, from the seconds of HEFT."""
    if name == "lookahead":
        parents = np.diff(problem.arrays.pred_ptr).astype(float)
        steps = (float((parents**2).sum()) + problem.m * problem.p) * problem.p
        return heft + 1.5 * steps * step_seconds(problem, heft)
    return heft * {"heft-node": 6.0, "peft": 2.0, "cpop": 2.0}.get(name, 1.5)


def _solve(problem: Problem, name: str, clock: Clock, until: float, seed: int) -> Schedule | None:
    """Run a quick planner; None if it must be stopped."""
    if name in RULES:
        return choose_in_turn(
            problem, name, lambda: clock.seconds is None or clock.elapsed() < until
        )
    return PLANNERS.create(name).solve(problem, seed=seed).schedule


def _passes(
    problem: Problem, found: list[Schedule], clock: Clock, seconds: float
) -> list[Schedule]:
    """Improve schedules by passes, each with this number of expected seconds."""
    budget, made = PASS_SHARE * (clock.seconds or 0.0), []
    until = clock.elapsed() + budget
    for schedule in found:
        left = [PASSES]

        def more(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] >= 0 if clock.seconds is None else clock.elapsed() + seconds < until

        rows = improve(problem, Rows(schedule.device, schedule.start, schedule.finish), more)
        made.append(as_schedule(rows))
    return made


def quick_copies(problem: Problem, clock: Clock, heft: float, *, seed: int = 0) -> Schedule | None:
    """Return the best schedule with copies of quick planners; None without time."""
    best: Schedule | None = None
    longest = COPY_COST * heft
    for name in COPIES if problem.n <= FRONT_LIMIT else COPIES[:1]:
        begun = clock.elapsed()
        if clock.seconds is not None and begun + longest > COPY_SHARE * clock.seconds:
            break
        schedule = PLANNERS.create(name).solve(problem, seed=seed).schedule
        longest = max(longest, 2.0 * (clock.elapsed() - begun))
        if best is None or schedule.makespan < best.makespan:
            best = schedule
    return best


def order_by_start(problem: Problem, schedule: Schedule) -> IntArray:
    """Order tasks by start; among equals, parents first."""
    own, place = ~schedule.copy, problem.workflow.place
    return np.lexsort((place, schedule.finish[own], schedule.start[own])).astype(np.int64)
