"""Dynamic list planners, compiled: DLS, ETF, Min-Min, Max-Min and Sufferage.

At every step each free task (its parents are placed) proposes its best device, and a rule chooses
the task that goes next. Tasks go to the end of their device, without insertion, as published. Since
devices only fill up, a proposal changes only when its device receives a task.

* Min-Min, Max-Min, Sufferage: Maheswaran et al. (1999), section 3, on the free tasks of a graph.
  Sufferage in its short form: the task that would lose most by its second-best device goes first.
* DLS: Sih and Lee (1993), dynamic level = static level - start + (typical - own duration).
* ETF: Hwang et al. (1989), the earliest start, then the higher static level. For devices that
  differ we add: among equal starts a task prefers its earlier finish.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.lists.insertion import Rows, arrivals, as_schedule, durations_of, empty_rows
from weft.planners.planner import PLANNERS, QUICK, Solution, refuse_choices
from weft.sim.kernel.jit import njit
from weft.typed import typed_dataclass

MIN_MIN, MAX_MIN, SUFFERAGE, DLS, ETF = range(5)
RULES = {
    "min-min": (MIN_MIN, "Min-Min: the free task with the earliest finish first."),
    "max-min": (MAX_MIN, "Max-Min: the free task with the latest earliest finish first."),
    "sufferage": (
        SUFFERAGE,
        "Sufferage: the task that loses most by its second-best device first.",
    ),
    "dls": (DLS, "DLS: the task and device with the highest dynamic level first."),
    "etf": (ETF, "ETF: the task with the earliest start first, then the higher static level."),
}
"""Name of a planner -> its rule and description."""

STEP = 50_000
"""Comparisons after which a planner can stop: about a millisecond."""


class Proposals(NamedTuple):
    """The best placement of each free task."""

    device: IntArray  # (n,) best device
    second: IntArray  # (n,) second-best device, or -1
    start: FloatArray
    finish: FloatArray
    key: FloatArray  # (n,) the task with the smallest key goes next


@typed_dataclass(frozen=True)
class DynamicList:
    """A planner that places, at every step, the free task that its rule prefers.

    Its name is that of the rule.
    """

    name: str
    supports: ClassVar[frozenset[str]] = QUICK

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        made = choose_in_turn(problem, self.name, lambda: True)
        assert made is not None
        return Solution(made)


def choose_in_turn(problem: Problem, name: str, more: Callable[[], bool]) -> Schedule | None:
    """Plan by a rule; None if `more`, called every `STEP` comparisons, is False."""
    typical = typical_durations(problem)
    level = _static_levels(problem.arrays, typical)
    code = RULES[name][0]
    bonus = level + typical if code == DLS else level
    state = begin_steps(problem.arrays, code, bonus)
    while not take_steps(problem.arrays, code, bonus, state, STEP):
        if not more():
            return None
    return as_schedule(state.rows)


for _name, (_, _summary) in RULES.items():
    PLANNERS.register(_name, summary=_summary)(partial(DynamicList, name=_name))


def typical_durations(problem: Problem) -> FloatArray:
    """Return the median seconds of each task over all devices.

    See Sih and Lee (1993), section III. Where a task can run on fewer than half of the devices, it
    is the largest finite duration.
    """
    largest = np.where(np.isfinite(problem.per_work), problem.per_work, -np.inf).max(
        axis=1, initial=-np.inf
    )
    middle = np.median(problem.per_work, axis=1) if len(problem.per_work) else largest
    return problem.work * np.where(np.isfinite(middle), middle, largest)[problem.row]


@njit
def _static_levels(a: ProblemArrays, cost: FloatArray) -> FloatArray:
    """Return the longest path from each task to the end, without transfers."""
    level = np.zeros(len(cost))
    for i in range(len(cost) - 1, -1, -1):
        task = a.order[i]
        below = 0.0
        for e in range(a.succ_ptr[task], a.succ_ptr[task + 1]):
            below = max(below, level[a.succ[e]])
        level[task] = cost[task] + below
    return level


@njit
def _propose(
    a: ProblemArrays,
    task: int,
    rows: Rows,
    free_from: FloatArray,
    code: int,
    bonus: FloatArray,
    best: Proposals,
) -> None:
    p = len(free_from)
    ready, seconds = np.empty(p), np.empty(p)
    arrivals(a, task, rows, ready)
    durations_of(a, task, seconds)
    device, second, start, finish, runner_up = -1, -1, np.inf, np.inf, np.inf
    for d in range(p):
        begin = max(ready[d], free_from[d])
        end = begin + seconds[d]
        if end == np.inf:
            continue
        if (begin, end) < (start, finish) if code == ETF else end < finish:
            second, runner_up = device, finish
            device, start, finish = d, begin, end
        elif end < runner_up:
            second, runner_up = d, end
    best.device[task], best.second[task] = device, second
    best.start[task], best.finish[task] = start, finish
    if code == MIN_MIN:
        best.key[task] = finish
    elif code == MAX_MIN:
        best.key[task] = -finish
    elif code == SUFFERAGE:
        best.key[task] = -(runner_up - finish)
    elif code == DLS:
        best.key[task] = finish - bonus[task]
    else:
        best.key[task] = start


class DynamicState(NamedTuple):
    """State of a planner between two steps, so that it can stop and go on."""

    rows: Rows
    free_from: FloatArray  # (p,)
    best: Proposals
    waiting: IntArray  # (n,) parents that are not placed
    free: IntArray  # (n,) the first `free_count` are the free tasks
    free_count: IntArray  # (1,)


@njit
def begin_steps(a: ProblemArrays, code: int, bonus: FloatArray) -> DynamicState:
    """Return the state before the first step."""
    n, p = len(a.work), a.per_work.shape[1]
    rows, free_from = empty_rows(n), np.zeros(p)
    best = Proposals(np.full(n, -1), np.full(n, -1), np.empty(n), np.empty(n), np.empty(n))
    waiting = a.pred_ptr[1:] - a.pred_ptr[:-1]
    free, count = np.empty(n, np.int64), 0
    for task in range(n):
        if waiting[task] == 0:
            _propose(a, task, rows, free_from, code, bonus, best)
            free[count] = task
            count += 1
    return DynamicState(rows, free_from, best, waiting, free, np.full(1, count))


@njit
def take_steps(
    a: ProblemArrays, code: int, bonus: FloatArray, state: DynamicState, work: int
) -> bool:
    """Place tasks until all are placed or about `work` comparisons are done.

    Returns whether all tasks are placed.
    """
    p = len(state.free_from)
    best, free, waiting, count = state.best, state.free, state.waiting, state.free_count[0]
    while count > 0 and work > 0:
        at = 0
        for i in range(1, count):
            if _goes_before(free[i], free[at], best.key, bonus, code):
                at = i
        task = free[at]
        count -= 1
        free[at] = free[count]
        work -= count + p
        device = best.device[task]
        state.rows.device[task] = device
        state.rows.start[task], state.rows.finish[task] = best.start[task], best.finish[task]
        state.free_from[device] = best.finish[task]
        for i in range(count):
            if best.device[free[i]] == device or (
                code == SUFFERAGE and best.second[free[i]] == device
            ):
                _propose(a, free[i], state.rows, state.free_from, code, bonus, best)
                work -= (1 + a.pred_ptr[free[i] + 1] - a.pred_ptr[free[i]]) * p
        for e in range(a.succ_ptr[task], a.succ_ptr[task + 1]):
            waiting[a.succ[e]] -= 1
            if waiting[a.succ[e]] == 0:
                _propose(a, a.succ[e], state.rows, state.free_from, code, bonus, best)
                work -= (1 + a.pred_ptr[a.succ[e] + 1] - a.pred_ptr[a.succ[e]]) * p
                free[count] = a.succ[e]
                count += 1
    state.free_count[0] = count
    return bool(count == 0)


@njit
def _goes_before(task: int, other: int, key: FloatArray, bonus: FloatArray, code: int) -> bool:
    if key[task] != key[other]:
        return bool(key[task] < key[other])
    if code == ETF and bonus[task] != bonus[other]:
        return bool(bonus[task] > bonus[other])
    return task < other
