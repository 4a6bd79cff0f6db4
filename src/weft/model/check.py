"""`check`: the one oracle, which shares no code with planners or kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.machines.setup import seconds_before_groups
from weft.model.network.planned import planned_transfers
from weft.model.oracle.trace_rules import trace_violations
from weft.model.oracle.violation import (
    Executions,
    Violation,
    device_name,
    differs,
    exceeds,
    excesses,
    inputs,
    misfits,
    overlaps,
    task_name,
)
from weft.model.problem import Problem
from weft.model.schedule import Planned, Schedule
from weft.model.trace import Trace
from weft.model.variants import resolve, variants_by_task
from weft.model.workload import Workload
from weft.typed import typed

__all__ = ["Violation", "check"]


@typed
def check(target: Problem | Workload, result: Schedule | Trace | Planned) -> list[Violation]:
    """Return the violations; an empty list means valid.

    A measured trace (`Trace.measured`) has its own durations and transfers; a simulated one must
    have those of its scenario.

    Parameters
    ----------
    target : the problem or workload
    result : the schedule or plan of a problem, or the trace of a workload or of a problem

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> check(problem, Schedule.of(device=[1, 1], start=[0.0, 1.0], finish=[1.0, 5.0]))
    []
    >>> late = Schedule.of(device=[1, 0], start=[0.0, 2.0], finish=[1.0, 5.0])
    >>> for violation in check(problem, late):
    ...     print(violation)
    transfer: task 't1' starts on 'd0' at 2 before the data of task 't0' arrives at 3
    """
    if isinstance(target, Problem) and target.workflow.variants:
        return _check_variants(target, result)
    if isinstance(result, Planned):
        result = result.schedule
    if not isinstance(result, Schedule | Trace):
        raise InvalidInput(
            f"cannot check a {type(result).__name__}; give a Schedule, a Plan or a Trace"
        )
    if isinstance(result, Schedule):
        if not isinstance(target, Problem):
            raise InvalidInput(
                "a schedule is checked against a problem; give workload.problems[i], not the "
                "workload"
            )
        return list(_schedule_violations(target, result))
    return list(trace_violations(_workload(target, result), result))


def _check_variants(problem: Problem, result: object) -> list[Violation]:
    """Check that a plan has a variant for each task with variants, and is valid."""
    if not isinstance(result, Planned):
        raise InvalidInput(
            f"'{problem.name}' has variants: give the plan, which has the chosen ones, or check "
            "against plan.problem"
        )
    chosen, wrong = dict(getattr(result, "variants", {})), []
    for t, known in variants_by_task(problem.workflow).items():
        name = problem.workflow.task_name(t)
        if name not in chosen or chosen[name] not in known:
            wrong.append(Violation("variant", f"task '{name}' has none of its variants"))
    return wrong or list(_schedule_violations(resolve(problem, chosen), result.schedule))


def _workload(target: Problem | Workload, trace: Trace) -> Workload:
    """Return the workload to check against: the target, not the trace's own."""
    if isinstance(target, Problem):
        if len(trace.workload.problems) != 1:
            raise InvalidInput(
                f"the trace has {len(trace.workload.problems)} problems, not only '{target.name}'; "
                "check it against its workload"
            )
        target = replace(trace.workload, problems=(target,))
    found, expected = (
        (trace.workload.jobs, trace.workload.instances),
        (target.jobs, target.instances),
    )
    if found != expected:
        raise InvalidInput(
            f"the trace is of {found[0]} jobs with {found[1]} tasks, but '{target.name}' has "
            f"{expected[0]} jobs with {expected[1]} tasks"
        )
    return target


def _schedule_violations(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Yield the violations of a schedule, which holds all tasks of all branches."""
    known = (
        (schedule.task >= 0)
        & (schedule.task < problem.n)
        & (schedule.device >= 0)
        & (schedule.device < problem.p)
    )
    yield from _strangers(problem, schedule)
    task, device = schedule.task[known], schedule.device[known]
    start, finish, copy = schedule.start[known], schedule.finish[known], schedule.copy[known]
    yield from _counts(problem, task, copy)
    if problem.cluster.network is not None and copy.any():
        yield Violation("copy", "the schedule has copies, which a network does not allow")
        return
    yield from misfits(problem, task, device)
    yield from _times(problem, task, device, start, finish)
    yield from _overlaps(problem, task, device, start, finish)
    yield from excesses(
        problem.cluster,
        device,
        start,
        finish,
        problem.needs[task],
        lambda r: task_name(problem, task[r]),
    )
    yield from _late_inputs(problem, task, device, start, finish)


def _strangers(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    for r in np.flatnonzero((schedule.task < 0) | (schedule.task >= problem.n)).tolist():
        yield Violation(
            "unknown task",
            f"row {r} is of task {schedule.task[r]}, but there are {problem.n} tasks",
        )
    for r in np.flatnonzero((schedule.device < 0) | (schedule.device >= problem.p)).tolist():
        yield Violation(
            "unknown device",
            f"task {schedule.task[r]} is on device {schedule.device[r]}, but there are {problem.p} "
            "devices",
        )


def _counts(problem: Problem, task: IntArray, copy: BoolArray) -> Iterator[Violation]:
    originals = np.bincount(task[~copy], minlength=problem.n)
    for t in np.flatnonzero(originals == 0).tolist():
        yield Violation("missing", f"{task_name(problem, t)} is not scheduled")
    for t in np.flatnonzero(originals > 1).tolist():
        yield Violation(
            "duplicate",
            f"{task_name(problem, t)} is scheduled {originals[t]} times without being marked as a "
            "copy",
        )


def _times(
    problem: Problem, task: IntArray, device: IntArray, start: FloatArray, finish: FloatArray
) -> Iterator[Violation]:
    for r in np.flatnonzero(~(start >= 0)).tolist():
        yield Violation(
            "too early", f"{task_name(problem, task[r])} starts at {start[r]:.9g}, before time zero"
        )
    per_work = problem.per_work[problem.row[task], device]
    can = np.isfinite(per_work)
    expected = start + problem.work[task] * np.where(can, per_work, 0.0)
    expected = expected + _setup_seconds(problem, task, device, start, finish)
    for r in np.flatnonzero(can & differs(finish, expected)).tolist():
        where = f"{task_name(problem, task[r])} on {device_name(problem, device[r])}"
        yield Violation(
            "wrong duration",
            f"{where} runs from {start[r]:.9g} to {finish[r]:.9g}; "
            f"it must end at {expected[r]:.9g}",
        )


def _setup_seconds(
    problem: Problem, task: IntArray, device: IntArray, start: FloatArray, finish: FloatArray
) -> FloatArray:
    """Return the seconds of set-up at the start of each row."""
    seconds, c, w = np.zeros(len(task)), problem.cluster, problem.workflow
    if c.has_setup:
        order = np.lexsort((finish, start))
        seconds[order] = seconds_before_groups(
            c.setup_of(w.kinds), c.cache, c.switch, device=device[order], kind=w.kind[task[order]]
        )
    return seconds


def _overlaps(
    problem: Problem, task: IntArray, device: IntArray, start: FloatArray, finish: FloatArray
) -> Iterator[Violation]:
    for a, b in overlaps(device, start, finish):
        name, place = task_name(problem, task[b]), device_name(problem, device[b])
        late = f"{name} starts on {place} at {start[b]:.9g}"
        yield Violation(
            "overlap", f"{late} while {task_name(problem, task[a])} runs until {finish[a]:.9g}"
        )


INPUT_ROWS = 1_000_000
"""Rows whose inputs are checked together, as all at once would need memory for all edges."""


def _late_inputs(
    problem: Problem, task: IntArray, device: IntArray, start: FloatArray, finish: FloatArray
) -> Iterator[Violation]:
    done = Executions.of(task, device, finish, instances=problem.n)
    came = None
    if problem.cluster.network is not None:
        moved = planned_transfers(problem, task, device, start, finish)
        came = np.full(problem.m, np.nan)
        came[moved.edge] = moved.end
    for first in range(0, len(task), INPUT_ROWS):
        part = slice(first, first + INPUT_ROWS)
        yield from _late_rows(problem, done, came, task[part], device[part], start[part])


def _late_rows(
    problem: Problem,
    done: Executions,
    came: FloatArray | None,
    task: IntArray,
    device: IntArray,
    start: FloatArray,
) -> Iterator[Violation]:
    """Yield rows that start before their inputs; `came`: arrivals by a network or NaN."""
    need = inputs(problem, done, first=np.zeros(len(task), np.int64), task=task, device=device)
    if came is not None:
        moved = came[need.edge]
        need = need._replace(arrived=np.where(np.isnan(moved), need.arrived, moved))
    begin = start[need.row]
    absent = np.isinf(need.finished)  # reported as missing
    for i in np.flatnonzero(exceeds(need.arrived, begin) & ~absent).tolist():
        r, parent = need.row[i], task_name(problem, problem.workflow.src[need.edge[i]])
        name, place = task_name(problem, task[r]), device_name(problem, device[r])
        here = f"{name} starts on {place} at {start[r]:.9g}"
        if exceeds(need.finished[i : i + 1], begin[i : i + 1])[0]:
            yield Violation("order", f"{here} before {parent} ends at {need.finished[i]:.9g}")
        else:
            yield Violation(
                "transfer", f"{here} before the data of {parent} arrives at {need.arrived[i]:.9g}"
            )
