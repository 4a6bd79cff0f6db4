"""Whether a schedule is valid: every rule written from its definition, none of a planner's code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.problem import Problem
from weft.model.schedule import Schedule
from weft.model.violation import Executions, Violation, differs, exceeds, inputs, overlaps


def schedule_violations(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Yield what is wrong with a schedule; of a workflow with choices it must hold all tasks: it is the plan for every branch."""
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
    yield from misfits(problem, task, device)
    yield from _times(problem, task, device, start, finish)
    yield from _overlaps(problem, task, device, start, finish)
    yield from _late_inputs(problem, task, device, start, finish)


def task_name(problem: Problem, task: int) -> str:
    """The task as messages name it."""
    return f"task '{problem.workflow.task_name(int(task))}'"


def device_name(problem: Problem, device: int) -> str:
    """The device as messages name it."""
    return f"'{problem.cluster.names[int(device)]}'"


def misfits(problem: Problem, task: IntArray, device: IntArray) -> Iterator[Violation]:
    """Yield rows on a device that lacks memory or cores for them, or cannot run their kind."""
    w, c = problem.workflow, problem.cluster
    small = w.memory[task] > c.memory[device]
    for r in np.flatnonzero(small).tolist():
        need, room = w.memory[task[r]], c.memory[device[r]]
        yield Violation(
            "memory",
            f"{task_name(problem, task[r])} needs {need:g} bytes, {device_name(problem, device[r])} has {room:g}",
        )
    narrow = w.cores[task] > c.cores[device]
    for r in np.flatnonzero(narrow).tolist():
        need, room = w.cores[task[r]], c.cores[device[r]]
        yield Violation(
            "cores",
            f"{task_name(problem, task[r])} needs {need} cores, {device_name(problem, device[r])} has {room}",
        )
    for r in np.flatnonzero(
        np.isinf(problem.pace[problem.row[task], device]) & ~small & ~narrow
    ).tolist():
        yield Violation(
            "cannot run",
            f"{task_name(problem, task[r])} cannot run on {device_name(problem, device[r])}",
        )


def _strangers(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    for r in np.flatnonzero((schedule.task < 0) | (schedule.task >= problem.n)).tolist():
        yield Violation(
            "unknown task",
            f"row {r} is of task {schedule.task[r]}, but there are {problem.n} tasks",
        )
    for r in np.flatnonzero((schedule.device < 0) | (schedule.device >= problem.p)).tolist():
        text = f"task {schedule.task[r]} is on device {schedule.device[r]}, but there are {problem.p} devices"
        yield Violation("unknown device", text)


def _counts(problem: Problem, task: IntArray, copy: BoolArray) -> Iterator[Violation]:
    originals = np.bincount(task[~copy], minlength=problem.n)
    for t in np.flatnonzero(originals == 0).tolist():
        yield Violation("missing", f"{task_name(problem, t)} is not scheduled")
    for t in np.flatnonzero(originals > 1).tolist():
        yield Violation(
            "duplicate",
            f"{task_name(problem, t)} is scheduled {originals[t]} times without being marked as a copy",
        )


def _times(
    problem: Problem, task: IntArray, device: IntArray, start: FloatArray, finish: FloatArray
) -> Iterator[Violation]:
    for r in np.flatnonzero(~(start >= 0)).tolist():
        yield Violation(
            "too early", f"{task_name(problem, task[r])} starts at {start[r]:.9g}, before time zero"
        )
    pace = problem.pace[problem.row[task], device]
    can = np.isfinite(pace)
    expected = start + problem.work[task] * np.where(can, pace, 0.0)
    for r in np.flatnonzero(can & differs(finish, expected)).tolist():
        where = f"{task_name(problem, task[r])} on {device_name(problem, device[r])}"
        yield Violation(
            "wrong duration",
            f"{where} runs from {start[r]:.9g} to {finish[r]:.9g}; it must end at {expected[r]:.9g}",
        )


def _overlaps(
    problem: Problem, task: IntArray, device: IntArray, start: FloatArray, finish: FloatArray
) -> Iterator[Violation]:
    for a, b in overlaps(device, start, finish):
        late = f"{task_name(problem, task[b])} starts on {device_name(problem, device[b])} at {start[b]:.9g}"
        yield Violation(
            "overlap", f"{late} while {task_name(problem, task[a])} runs until {finish[a]:.9g}"
        )


def _late_inputs(
    problem: Problem, task: IntArray, device: IntArray, start: FloatArray, finish: FloatArray
) -> Iterator[Violation]:
    done = Executions.of(task, device, finish, instances=problem.n)
    need = inputs(problem, done, first=np.zeros(len(task), np.int64), task=task, device=device)
    begin = start[need.row]
    absent = np.isinf(need.finished)  # reported as missing
    for i in np.flatnonzero(exceeds(need.arrived, begin) & ~absent).tolist():
        r, parent = need.row[i], task_name(problem, problem.workflow.src[need.edge[i]])
        here = f"{task_name(problem, task[r])} starts on {device_name(problem, device[r])} at {start[r]:.9g}"
        if exceeds(need.finished[i : i + 1], begin[i : i + 1])[0]:
            yield Violation("order", f"{here} before {parent} ends at {need.finished[i]:.9g}")
        else:
            yield Violation(
                "transfer", f"{here} before the data of {parent} arrives at {need.arrived[i]:.9g}"
            )
