"""Placement that may copy a parent to the device of its child, compiled: DEFT.

The cost of a device is the earliest finish there, either with the runs so far or with one more run
of a parent on that device. The least cost wins; among equals, no copy is made. This is our reading
of the placement rule of Lachesis (Luo et al. 2021, arXiv 2103.06980), here with any rank.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import ProblemArrays, Schedule
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.planners.lists.insertion import durations_of, earliest_finish
from weft.sim.kernel.gaps import Timeline, earliest_start, idle_timeline, occupy
from weft.sim.kernel.jit import njit

NONE = -1


class CopyTable(NamedTuple):
    """Runs of tasks, originals and copies; the runs of a task are linked by `newest`, `older`."""

    task: IntArray
    device: IntArray
    start: FloatArray
    finish: FloatArray
    older: IntArray
    newest: IntArray  # (n,)
    size: IntArray  # (1,)


class CopyInputs(NamedTuple):
    """Arrival of a task's inputs on each device, from the run of each parent that serves it first.

    `ready`: arrival of all inputs; `last`: the parent of the last; `others`: arrival of the others.
    """

    ready: FloatArray
    last: IntArray
    others: FloatArray


def as_schedule(runs: CopyTable) -> Schedule:
    """Make a schedule of the runs; the first run of a task is the original."""
    count = int(runs.size[0])
    task = runs.task[:count]
    return Schedule.of(
        task=task,
        device=runs.device[:count],
        start=runs.start[:count],
        finish=runs.finish[:count],
        copy=_is_copy(task, len(runs.newest)),
    )


def _is_copy(task: IntArray, n: int) -> BoolArray:
    first = np.full(n, len(task))
    np.minimum.at(first, task, np.arange(len(task)))
    return np.asarray(np.arange(len(task)) != first[task])


@njit
def no_executions(n: int, rows: int) -> CopyTable:
    """Make an empty table with memory for a number of runs."""
    chain = np.full(n, NONE)
    return CopyTable(
        np.empty(rows, np.int64),
        np.empty(rows, np.int64),
        np.empty(rows),
        np.empty(rows),
        np.full(rows, NONE),
        chain,
        np.zeros(1, np.int64),
    )


@njit
def execute(
    runs: CopyTable, timeline: Timeline, task: int, device: int, start: float, duration: float
) -> None:
    """Add a run of a task."""
    row = runs.size[0]
    runs.task[row], runs.device[row] = task, device
    runs.start[row], runs.finish[row] = start, start + duration
    runs.older[row], runs.newest[task] = runs.newest[task], row
    runs.size[0] = row + 1
    occupy(timeline, device, start, start + duration)


@njit
def inputs_on(
    a: ProblemArrays, runs: CopyTable, task: int, device: int
) -> tuple[float, int, float]:
    """Return the entry of `CopyInputs` for one device: (ready, last, others)."""
    ready, last, others = 0.0, NONE, 0.0
    for i in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
        soonest = np.inf
        run = runs.newest[a.pred[i]]
        while run != NONE:
            source = runs.device[run]
            soonest = min(
                soonest,
                runs.finish[run]
                + (a.latency[source, device] + a.pred_data[i] * a.per_byte[source, device]),
            )
            run = runs.older[run]
        if soonest > ready:
            ready, last, others = soonest, a.pred[i], ready
        elif soonest > others:
            others = soonest
    return ready, last, others


@njit
def _gather(
    a: ProblemArrays, runs: CopyTable, task: int, inputs: CopyInputs, soonest: FloatArray
) -> None:
    inputs.ready[:] = 0.0
    inputs.others[:] = 0.0
    inputs.last[:] = NONE
    for i in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
        soonest[:] = np.inf
        run = runs.newest[a.pred[i]]
        while run != NONE:
            latency, per_byte = a.latency[runs.device[run]], a.per_byte[runs.device[run]]
            for d in range(len(soonest)):
                soonest[d] = min(
                    soonest[d], runs.finish[run] + (latency[d] + a.pred_data[i] * per_byte[d])
                )
            run = runs.older[run]
        for d in range(len(soonest)):
            if soonest[d] > inputs.ready[d]:
                inputs.others[d], inputs.ready[d], inputs.last[d] = (
                    inputs.ready[d],
                    soonest[d],
                    a.pred[i],
                )
            elif soonest[d] > inputs.others[d]:
                inputs.others[d] = soonest[d]


@njit
def _runs_on(runs: CopyTable, task: int, device: int) -> bool:
    run = runs.newest[task]
    while run != NONE:
        if runs.device[run] == device:
            return True
        run = runs.older[run]
    return False


@njit
def copy_before(
    a: ProblemArrays, runs: CopyTable, timeline: Timeline, task: int, device: int, limit: float
) -> tuple[float, float]:
    """Return (start, duration) of one more run that ends before `limit`; (inf, inf) if none."""
    if task == NONE or not a.pace[a.row[task], device] < np.inf or _runs_on(runs, task, device):
        return np.inf, np.inf
    duration = a.work[task] * a.pace[a.row[task], device]
    if not duration < limit:
        return np.inf, np.inf
    start = earliest_start(timeline, device, inputs_on(a, runs, task, device)[0], duration, limit)
    return (start, duration) if start + duration < limit else (np.inf, np.inf)


@njit
def insert_with_copies(a: ProblemArrays, order: IntArray) -> CopyTable:
    """Place each task, in order, at its earliest finish, with or without a copy of a parent."""
    n, p = len(a.work), a.pace.shape[1]
    runs, timeline = no_executions(n, 2 * n), idle_timeline(p, 2 * n)
    inputs = CopyInputs(np.empty(p), np.empty(p, np.int64), np.empty(p))
    soonest, seconds = np.empty(p), np.empty(p)
    for task in order:
        _gather(a, runs, task, inputs, soonest)
        durations_of(a, task, seconds)
        device, start = earliest_finish(timeline, inputs.ready, seconds)
        best, copy_start, copy_duration = start + seconds[device], np.inf, np.inf
        for d in range(p):
            if inputs.others[d] + seconds[d] < best:
                # Only a copy of the parent whose data come last lets the task start earlier.
                begin, duration = copy_before(a, runs, timeline, inputs.last[d], d, inputs.ready[d])
                if begin < np.inf:
                    # The task starts after the copy, so the timeline need not contain the copy.
                    ready = max(inputs.others[d], begin + duration)
                    own = earliest_start(timeline, d, ready, seconds[d], best)
                    if own + seconds[d] < best:
                        best, device, start = own + seconds[d], d, own
                        copy_start, copy_duration = begin, duration
        if copy_start < np.inf:
            execute(runs, timeline, inputs.last[device], device, copy_start, copy_duration)
        execute(runs, timeline, task, device, start, seconds[device])
    return runs
