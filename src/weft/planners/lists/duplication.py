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
from weft.planners.lists.heft import earliest_finish
from weft.planners.lists.insertion import durations_of
from weft.sim.kernel.gaps import Timeline, earliest_start, idle_timeline, occupy
from weft.sim.kernel.jit import njit

NONE = -1


class CopyTable(NamedTuple):
    """Runs of tasks, originals and copies, linked by `newest`, then `older`."""

    task: IntArray
    device: IntArray
    start: FloatArray
    finish: FloatArray
    older: IntArray
    newest: IntArray  # (n,)
    size: IntArray  # (1,)


class CopyInputs(NamedTuple):
    """Arrival of a task's inputs on each device.

    Each parent sends from the run that serves the device first.

    `ready`: arrival of all inputs; `last`: the parent of the last input to arrive; `others`:
    arrival of all other inputs.
    """

    ready: FloatArray
    last: IntArray
    others: FloatArray
    soon: FloatArray  # scratch memory


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
def add_run(runs: CopyTable, task: int, device: int, start: float, duration: float) -> int:
    """Add a run of a task to the table and return its row."""
    row = int(runs.size[0])
    runs.task[row], runs.device[row] = task, device
    runs.start[row], runs.finish[row] = start, start + duration
    runs.older[row], runs.newest[task] = runs.newest[task], row
    runs.size[0] = row + 1
    return row


@njit
def execute(
    runs: CopyTable, timeline: Timeline, task: int, device: int, start: float, duration: float
) -> None:
    """Add a run of a task to the table and the timeline."""
    add_run(runs, task, device, start, duration)
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
            x = runs.device[run]
            transfer = a.latency[x, device] + a.pred_data[i] * a.per_byte[x, device]
            soonest = min(soonest, runs.finish[run] + transfer)
            run = runs.older[run]
        if soonest > ready:
            ready, last, others = soonest, a.pred[i], ready
        elif soonest > others:
            others = soonest
    return ready, last, others


@njit
def gather_inputs(
    a: ProblemArrays, runs: CopyTable, task: int, inputs: CopyInputs, low: int, high: int
) -> None:
    """Fill `inputs` of a task for devices low to high - 1."""
    finish, device, older, soon = runs.finish, runs.device, runs.older, inputs.soon
    ready, last, others = inputs.ready, inputs.last, inputs.others
    for d in range(low, high):
        ready[d] = others[d] = 0.0
        last[d] = NONE
    for e in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
        u, data = a.pred[e], a.pred_data[e]
        for d in range(low, high):
            soon[d] = np.inf
        run = runs.newest[u]
        while run != NONE:
            wait, slow, done = a.latency[device[run]], a.per_byte[device[run]], finish[run]
            for d in range(low, high):
                soon[d] = min(soon[d], done + (wait[d] + data * slow[d]))
            run = older[run]
        for d in range(low, high):
            if soon[d] > ready[d]:
                others[d], ready[d], last[d] = ready[d], soon[d], u
            elif soon[d] > others[d]:
                others[d] = soon[d]


@njit
def runs_on(runs: CopyTable, task: int, device: int) -> bool:
    """Return whether a run of a task is on a device."""
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
    """Return (start, duration) of one more run before `limit`, or (inf, inf)."""
    if task == NONE or not a.per_work[a.row[task], device] < np.inf or runs_on(runs, task, device):
        return np.inf, np.inf
    duration = a.work[task] * a.per_work[a.row[task], device]
    if not duration < limit:
        return np.inf, np.inf
    start = earliest_start(timeline, device, inputs_on(a, runs, task, device)[0], duration, limit)
    return (start, duration) if start + duration < limit else (np.inf, np.inf)


@njit
def insert_with_copies(a: ProblemArrays, order: IntArray) -> CopyTable:
    """Place each task, in order, at its earliest finish; a parent may be copied."""
    n, p = len(a.work), a.per_work.shape[1]
    runs, timeline = no_executions(n, 2 * n), idle_timeline(p, 2 * n)
    inputs = CopyInputs(np.empty(p), np.empty(p, np.int64), np.empty(p), np.empty(p))
    seconds = np.empty(p)
    for task in order:
        gather_inputs(a, runs, task, inputs, 0, p)
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
