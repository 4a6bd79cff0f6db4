"""`replan`: repair of a plan after a lost device or a longer task, compiled.

Tasks keep their order and, as far as they can, their devices; one pass in the order of their starts
gives them new times (right-shift rescheduling; Vieira, Herrmann and Lin 2003). Among many devices
whose speeds are close, each takes the queue of the next faster one from the lost device on, so that
tasks stay beside those whose results they read. Other tasks of a lost device, and tasks that would
make the plan longer than the tasks before them already do, go to the end of the queue of the device
where they are least late. A pass reads every edge once, so it takes a small fraction of the time of
planning. On small problems HEFT plans again as well, and the shorter plan is the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.model import Problem, ProblemArrays
from weft.model.columns import BoolArray, FloatArray, IntArray, assign, frozen
from weft.planners.lists.common_link import sorted_schedule
from weft.planners.lists.insertion import Rows
from weft.planners.planner import PLANNERS, Plan
from weft.planners.search.warm_start import order_by_start
from weft.registry import closest
from weft.sim.kernel.jit import njit, njit_inline, planning_clock
from weft.typed import typed

DELAY_TOLERANCE = 1e-4
"""Share of the makespan by which a task may be later than all before it and keep its device."""

AGAIN_CELLS = 2_000_000
"""Most tasks x devices for which HEFT plans again as well: it takes a few milliseconds."""

TAKEOVER = 0.005
"""Largest mean slowdown at which devices take the queues of faster ones."""

ShortArray = NDArray[np.int32]


class PlanTables(NamedTuple):
    """A plan as `replan` reads it; tasks are numbered in the order of their starts."""

    task: IntArray  # (n,) the task at each place
    place: ShortArray  # (n,) the place of each task
    work: FloatArray  # (n,)
    row: ShortArray  # (n,)
    device: ShortArray  # (n,)
    latest: FloatArray  # (n,) start after which the plan becomes longer
    due: FloatArray  # (n,) finish after which the plan becomes longer
    behind: ShortArray  # (n,) the next task on the same device; n: none
    pred_ptr: IntArray  # (n + 1,)
    pred: ShortArray  # (m,)
    pred_data: FloatArray  # (m,)
    soonest: FloatArray  # (p,) `latest` of the first task of each device; inf without one
    busy: FloatArray  # (p,) seconds of the tasks on each device
    latency: float  # of all links; NaN: links differ
    per_byte: float  # seconds of all links; NaN: links differ


_TABLES: WeakKeyDictionary[Plan, PlanTables] = WeakKeyDictionary()


def prepare(plan: Plan) -> None:
    """Lay out a plan for `replan`, which otherwise does so at its first call."""
    if plan not in _TABLES:
        _refuse(plan)
        problem, schedule = plan.problem, plan.schedule
        order = order_by_start(problem, schedule)
        _refuse_children_first(problem, order)
        parts = _numbered(
            order,
            problem.work,
            problem.row,
            schedule.device,
            schedule.makespan - _tails(problem.arrays, order, schedule.device),
            schedule.finish - schedule.start,
            problem.p,
            problem.arrays.pred_ptr,
            problem.arrays.pred,
            problem.arrays.pred_data,
        )
        link = _only_link(problem.arrays.latency, problem.arrays.per_byte)
        _TABLES[plan] = PlanTables._make((order, *parts, schedule.busy(problem.p), *link))


@typed
def replan(
    plan: Plan, *, lost: str | Sequence[str] = (), longer: Mapping[str | int, float] | None = None
) -> Plan:
    """Change a plan for lost devices and longer tasks.

    Other tasks keep their devices and order.

    Parameters
    ----------
    plan : a plan without copies; neither networks, shared capacities nor set-up
    lost : names of devices that run nothing any more
    longer : task (name or number) -> factor of its duration on every device; below 1: shorter

    Returns
    -------
    A plan of the changed problem (`plan.problem`), where lost devices cannot run any task.

    Examples
    --------
    >>> from weft.planners import plan
    >>> problem = Problem.from_arrays([[2.0, 2.0], [2.0, 2.0], [3.0, 3.0]], names=["a", "b", "c"])
    >>> made = plan(problem, "heft")
    >>> made.makespan, replan(made, longer={"c": 2.0}).makespan, replan(made, lost="d1").makespan
    (4.0, 6.0, 7.0)
    """
    begin = planning_clock()
    prepare(plan)
    tables, problem = _TABLES[plan], plan.problem
    gone = _lost(problem, [lost] if isinstance(lost, str) else lost)
    work, per_work = problem.work, problem.per_work
    if longer:
        factor = _factors(problem, longer)
        work = work.copy()
        for task, by in factor.items():
            work[task] *= by
        changed_work = tables.work.copy()
        changed_work[tables.place[list(factor)]] = work[list(factor)]
        tables = tables._replace(work=changed_work)
    if gone.any():
        per_work = np.where(gone, np.inf, per_work)
        _refuse_stranded(problem, per_work)
    changed = _changed(problem, frozen(work), frozen(per_work))
    a = changed.arrays
    rows = Rows(np.empty(problem.n, np.int64), np.empty(problem.n), np.empty(problem.n))
    on, end = np.empty(problem.n, np.int32), np.empty(problem.n)  # by numpy: with large pages
    heirs = _heirs(problem, tables, gone)
    _repair(tables, heirs, a, DELAY_TOLERANCE * plan.makespan, rows, on, end)
    schedule = sorted_schedule(rows)
    if problem.n * problem.p <= AGAIN_CELLS:
        again = PLANNERS.create("heft").solve(changed).schedule
        schedule = min(schedule, again, key=lambda made: made.makespan)
    return Plan(changed, schedule, plan.planner, planning_clock() - begin)


def _refuse(plan: Plan) -> None:
    problem = plan.problem
    plan.schedule.refuse_other_problem(problem)
    reasons = {
        "the plan has copies of tasks": plan.schedule.copies > 0,
        "its transfers share a network": problem.cluster.network is not None,
        "tasks on a node share capacities": problem.contended,
        "devices need set-up": problem.cluster.has_setup,
    }
    for reason, holds in reasons.items():
        if holds:
            raise Unsupported(f"cannot replan '{problem.name}': {reason}; plan it again instead")
    if not np.array_equal(plan.schedule.task, np.arange(problem.n)):
        raise InvalidInput(
            f"the plan does not hold every task of '{problem.name}' exactly once; plan it again"
        )


def _refuse_children_first(problem: Problem, order: IntArray) -> None:
    place, w = np.empty(problem.n, np.int64), problem.workflow
    place[order] = np.arange(problem.n)
    if len(early := np.flatnonzero(place[w.src] > place[w.dst])):
        parent, child = (w.task_name(int(ends[early[0]])) for ends in (w.src, w.dst))
        raise InvalidInput(
            f"the plan starts task '{child}' before '{parent}', whose result it reads; "
            "plan it again instead"
        )


def _lost(problem: Problem, names: Sequence[str]) -> BoolArray:
    known, gone = problem.cluster.names, np.zeros(problem.p, bool)
    for name in names:
        if name not in known:
            raise UnknownName(f"no device is called '{name}'{closest(name, known)}")
        gone[known.index(name)] = True
    return gone


def _heirs(problem: Problem, tables: PlanTables, gone: BoolArray) -> ShortArray:
    """Return the device (p,) that takes the queue of each device.

    A lost device in the result means that each task of the queue goes where it is least late. If
    that costs little, the remaining devices take the queues of the fastest devices, in the order of
    their speeds.
    """
    same = np.arange(problem.p, dtype=np.int32)
    if not gone.any() or np.isnan(tables.latency):
        return same
    can = np.isfinite(problem.per_work)
    per_work = np.where(can, problem.per_work, 0.0).sum(axis=0) / np.maximum(can.sum(axis=0), 1)
    queues = np.lexsort((per_work, ~can.any(axis=0)))
    left = queues[~gone[queues]]
    heirs = same.copy()
    heirs[queues[: len(left)]] = left
    heirs[queues[len(left) :]] = np.flatnonzero(gone)
    taken = queues[: len(left)]
    slower = per_work[left] / np.where(per_work[taken] > 0.0, per_work[taken], np.inf)
    seconds = float(tables.busy[taken].sum())
    cost = float((tables.busy[taken] * slower).sum()) - seconds
    return heirs if cost <= TAKEOVER * seconds else same


def _factors(problem: Problem, longer: Mapping[str | int, float]) -> dict[int, float]:
    factors = {}
    for task, by in longer.items():
        number = _number(problem, task)
        if not (0.0 < by < np.inf):
            raise InvalidInput(
                f"task '{problem.workflow.task_name(number)}' is to take {by} times as long; the "
                "factor must be a finite number above zero"
            )
        least = float(problem.per_work[problem.row[number]].min())
        if not float(problem.work[number]) * by * least < np.inf:
            raise InvalidInput(
                f"task '{problem.workflow.task_name(number)}' is to take {by:g} times as long, "
                "which is too long to be computed with"
            )
        factors[number] = float(by)
    return factors


def _number(problem: Problem, task: str | int) -> int:
    if isinstance(task, str):
        w = problem.workflow
        if w.names is None and task[:1] == "t" and task[1:].isdecimal():
            number = int(task[1:])  # making an index of all names takes longer than replanning
        elif task in w.index:
            return w.index[task]
        else:
            raise UnknownName(f"no task is called '{task}'{closest(task, w.index)}")
    else:
        number = int(task)
    if not 0 <= number < problem.n:
        raise InvalidInput(f"task {task} does not exist: there are {problem.n} tasks")
    return number


def _refuse_stranded(problem: Problem, per_work: FloatArray) -> None:
    without = np.isinf(per_work.min(axis=1, initial=np.inf))
    if without.any() and (stranded := without[problem.row]).any():
        name = problem.workflow.task_name(int(np.flatnonzero(stranded)[0]))
        raise InvalidInput(f"task '{name}' fits none of the devices that are left")


def _changed(problem: Problem, work: FloatArray, per_work: FloatArray) -> Problem:
    """Return the problem with other costs.

    Validation of a new problem would take longer than the repair.
    """
    made = copy(problem)
    for key in ("mean_per_work", "best_per_work"):
        made.__dict__.pop(key, None)
    per_work = np.ascontiguousarray(per_work)
    arrays = problem.arrays._replace(work=work, per_work=per_work)
    assign(made, work=work, per_work=frozen(per_work), arrays=arrays)
    return made


@njit
def _numbered(
    order: IntArray,
    work: FloatArray,
    row: IntArray,
    device: IntArray,
    latest: FloatArray,
    seconds: FloatArray,
    p: int,
    pred_ptr: IntArray,
    pred: IntArray,
    pred_data: FloatArray,
) -> Any:
    """Return the columns of `PlanTables` after the first."""
    n, m = len(order), len(pred)
    place = np.empty(n, np.int32)
    for i in range(n):
        place[order[i]] = i
    works, latests, due = np.empty(n), np.empty(n), np.empty(n)
    behind, next_one, ptr = np.empty(n, np.int32), np.full(p, n), np.zeros(n + 1, np.int64)
    rows, devices = np.empty(n, np.int32), np.empty(n, np.int32)
    preds, data, k = np.empty(m, np.int32), np.empty(m), 0
    for i in range(n):
        t = order[i]
        works[i], rows[i], devices[i], latests[i] = work[t], row[t], device[t], latest[t]
        due[i] = latest[t] + seconds[t]
        for e in range(pred_ptr[t], pred_ptr[t + 1]):
            preds[k], data[k] = place[pred[e]], pred_data[e]
            k += 1
        ptr[i + 1] = k
    soonest = np.full(p, np.inf)
    for i in range(n - 1, -1, -1):
        behind[i] = next_one[devices[i]]
        next_one[devices[i]] = i
        soonest[devices[i]] = latests[i]
    return place, works, rows, devices, latests, due, behind, ptr, preds, data, soonest


def _only_link(latency: FloatArray, per_byte: FloatArray) -> tuple[float, float]:
    """Return latency and seconds per byte of the links if all are alike, else NaN.

    A table of links takes more memory than a cache has.
    """
    apart = ~np.eye(len(latency), dtype=bool)
    link = float(latency[0, -1]), float(per_byte[0, -1])  # a single device: its link to itself
    for table, value in zip((latency, per_byte), link, strict=True):
        if (table[~apart] != 0.0).any() or (table[apart] != value).any():
            return np.nan, np.nan
    return link


@njit
def _tails(a: ProblemArrays, order: IntArray, device: IntArray) -> FloatArray:
    """Return the longest time (n,) from each start to the end, by children and queues.

    A queue holds the later tasks of the same device.
    """
    tail, behind = np.zeros(len(order)), np.zeros(a.per_work.shape[1])
    for i in range(len(order) - 1, -1, -1):
        t = order[i]
        d, rest = device[t], behind[device[t]]
        for e in range(a.succ_ptr[t], a.succ_ptr[t + 1]):
            there = device[a.succ[e]]
            move = a.latency[d, there] + a.succ_data[e] * a.per_byte[d, there]
            rest = max(rest, move + tail[a.succ[e]])
        tail[t] = rest + a.work[t] * a.per_work[a.row[t], d]
        behind[d] = tail[t]
    return tail


@njit_inline
def _transfer(x: PlanTables, a: ProblemArrays, source: int, target: int, data: float) -> float:
    if x.latency >= 0.0:
        return 0.0 if source == target else x.latency + data * x.per_byte
    return float(a.latency[source, target] + data * a.per_byte[source, target])


@njit
def _repair(
    x: PlanTables,
    heirs: ShortArray,
    a: ProblemArrays,
    tolerance: float,
    rows: Rows,
    on: ShortArray,
    end: FloatArray,
) -> None:
    """Fill in device, start and finish of each task.

    `on` and `end` are device and finish by place. The lateness of a placement is its finish minus
    the latest finish of the task, or minus the latest start of the next task on the device if that
    is earlier. The plan becomes longer by the largest lateness. So a task gets another device only
    if it is later than all tasks before it by more than `tolerance` seconds.
    """
    n, p = len(x.task), a.per_work.shape[1]
    free, ready, upcoming = np.zeros(p), np.zeros(p), np.empty(p)
    for d in range(p):
        upcoming[heirs[d]] = x.soonest[d]  # no two devices share an heir
    worst = 0.0  # lateness that no device could avoid
    for i in range(n):
        d, units, costs = heirs[x.device[i]], x.work[i], a.per_work[x.row[i]]
        upcoming[d] = x.latest[x.behind[i]] if x.behind[i] < n else np.inf
        seconds, begin, late = 0.0, 0.0, np.inf
        if costs[d] < np.inf:
            seconds, begin = units * costs[d], free[d]
            for e in range(x.pred_ptr[i], x.pred_ptr[i + 1]):
                u = x.pred[e]
                move = _transfer(x, a, on[u], d, x.pred_data[e])
                begin = max(begin, end[u] + move)
            late = begin + seconds - min(x.due[i], upcoming[d])
        if late > worst + tolerance:
            ready[:] = free
            for e in range(x.pred_ptr[i], x.pred_ptr[i + 1]):
                sent, data, source = end[x.pred[e]], x.pred_data[e], on[x.pred[e]]
                for k in range(p):
                    move = _transfer(x, a, source, k, data)
                    ready[k] = max(ready[k], sent + move)
            for k in range(p):
                if costs[k] < np.inf:
                    done = ready[k] + units * costs[k]
                    if done - min(x.due[i], upcoming[k]) < late:
                        late = done - min(x.due[i], upcoming[k])
                        d, begin, seconds = k, ready[k], units * costs[k]
            worst = max(worst, late)
        on[i], end[i], free[d] = d, begin + seconds, begin + seconds
        t = x.task[i]
        rows.device[t], rows.start[t], rows.finish[t] = d, begin, begin + seconds
