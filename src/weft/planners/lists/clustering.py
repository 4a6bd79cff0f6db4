"""Task-duplication-based clustering (TDCA), compiled.

Our reading of He et al. (IEEE Transactions on Parallel and Distributed Systems, 2019); there is no
public code to compare with. Its four steps:

1. *Parameters.* The earliest completion of each task on each device, if the data of every parent
   come from the same device or, after a mean transfer, from the parent's best device. The *critical
   parent* of a task is the parent whose data would arrive last if it were sent.
2. *Clusters.* From the exits upwards, a task outside all clusters opens one. The cluster takes the
   critical parent, then the critical parent of that, up to an entry or a clustered task.
3. *Merging.* In order of upward rank, a cluster goes to the device that would finish it first,
   given the tasks placed there, the work reserved for other clusters, and a copy of the parent that
   delays it. Tasks that this device cannot run go to their earliest finish.
4. *Copies on demand.* A parent whose data delay a task runs again on the task's device, as long as
   that lets the task finish earlier.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.lists.duplication import (
    NONE,
    CopyTable,
    as_schedule,
    copy_before,
    execute,
    inputs_on,
    no_executions,
)
from weft.planners.lists.heft import earliest_finish
from weft.planners.lists.insertion import durations_of
from weft.planners.lists.ranks import rank_order
from weft.planners.planner import PLANNERS, QUICK, Solution, refuse_choices
from weft.sim.kernel.gaps import Timeline, earliest_start, idle_timeline
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import mean_transfer, upward_rank
from weft.typed import typed_dataclass


@PLANNERS.register("tdca")
@typed_dataclass(frozen=True)
class Clustering:
    """TDCA: clusters along critical parents, merged onto devices; copies on demand.

    Examples
    --------
    >>> durations = [[1.0, 1.0], [4.0, 4.0], [4.0, 4.0]]
    >>> fork = Problem.from_arrays(durations, [[0, 1], [0, 2]], [9.0, 9.0], bandwidth=1.0)
    >>> Clustering().solve(fork).schedule.makespan  # task 0 runs on both devices
    5.0
    """

    name: str = "tdca"
    supports: ClassVar[frozenset[str]] = QUICK | {"copies"}

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        latency, per_byte = mean_transfer(problem)
        below = clusters(problem.arrays, critical_parents(problem.arrays, latency, per_byte))
        order = rank_order(problem, upward_rank(problem))
        return Solution(as_schedule(_place_clusters(problem.arrays, order, below)))


@njit
def critical_parents(a: ProblemArrays, latency: float, per_byte: float) -> IntArray:
    """Find the parent whose data arrive last; -1 for an entry.

    Data are sent from the best device of the parent.
    """
    n, p = len(a.work), a.per_work.shape[1]
    completion, seconds = np.zeros((n, p)), np.empty(p)
    best_completion, critical = np.zeros(n), np.full(n, NONE)
    for task in a.order:
        latest = -1.0
        ready = completion[task]
        for i in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
            sent = best_completion[a.pred[i]] + (latency + a.pred_data[i] * per_byte)
            for d in range(p):
                ready[d] = max(ready[d], min(sent, completion[a.pred[i], d]))
            if sent > latest:
                latest, critical[task] = sent, a.pred[i]
        durations_of(a, task, seconds)
        ready += seconds
        best_completion[task] = ready.min()
    return critical


@njit
def clusters(a: ProblemArrays, critical: IntArray) -> IntArray:
    """Return the next task in the cluster, a chain, of each task; -1: none."""
    n = len(critical)
    below, taken = np.full(n, NONE), np.zeros(n, np.bool_)
    for i in range(n - 1, -1, -1):
        task = a.order[i]
        while not taken[task]:
            taken[task] = True
            parent = critical[task]
            if parent == NONE or taken[parent]:
                break
            below[parent] = task
            task = parent
    return below


@njit
def _cluster_device(
    a: ProblemArrays,
    runs: CopyTable,
    timeline: Timeline,
    head: int,
    below: IntArray,
    reserved: FloatArray,
) -> int:
    """Find the device that would finish a cluster first.

    It is one of those that can run most of the cluster. `reserved` holds the seconds of work that
    each device has reserved for clusters.
    """
    p = a.per_work.shape[1]
    total, unable = np.zeros(p), np.zeros(p, np.int64)
    task = head
    while task != NONE:
        for d in range(p):
            total[d] += _seconds_or_none(a, task, d)
            unable[d] += not a.per_work[a.row[task], d] < np.inf
        task = below[task]
    best, device = np.inf, -1
    for d in range(p):
        if device < 0 or unable[d] <= unable[device]:
            ready, last, others = inputs_on(a, runs, head, d)
            begin, copied = copy_before(a, runs, timeline, last, d, ready)
            if begin < np.inf:
                ready = max(others, begin + copied)
            end = (
                earliest_start(timeline, d, ready, _seconds_or_none(a, head, d), np.inf)
                + total[d]
                + reserved[d]
            )
            if device < 0 or unable[d] < unable[device] or end < best:
                best, device = end, d
    return device


@njit
def _seconds_or_none(a: ProblemArrays, task: int, device: int) -> float:
    """Return the seconds of a task on a device; 0 where it cannot run."""
    per_work = a.per_work[a.row[task], device]
    return float(a.work[task] * per_work) if per_work < np.inf else 0.0


@njit
def _run_with_copies(
    a: ProblemArrays, runs: CopyTable, timeline: Timeline, task: int, device: int
) -> None:
    """Run a task on a device, after copies of parents that let it finish earlier."""
    duration = a.work[task] * a.per_work[a.row[task], device]
    ready, last, others = inputs_on(a, runs, task, device)
    start = earliest_start(timeline, device, ready, duration, np.inf)
    while True:
        begin, seconds = copy_before(a, runs, timeline, last, device, ready)
        if begin == np.inf:
            break
        earlier = earliest_start(timeline, device, max(others, begin + seconds), duration, np.inf)
        if not earlier < start:
            break
        execute(runs, timeline, last, device, begin, seconds)
        ready, last, others = inputs_on(a, runs, task, device)
        start = earlier
    execute(runs, timeline, task, device, start, duration)


@njit
def _anywhere(a: ProblemArrays, runs: CopyTable, timeline: Timeline, task: int) -> int:
    p = a.per_work.shape[1]
    ready, seconds = np.empty(p), np.empty(p)
    durations_of(a, task, seconds)
    for d in range(p):
        ready[d] = inputs_on(a, runs, task, d)[0]
    return earliest_finish(timeline, ready, seconds)[0]


@njit
def _place_clusters(a: ProblemArrays, order: IntArray, below: IntArray) -> CopyTable:
    n, p = len(a.work), a.per_work.shape[1]
    rows = n + len(a.pred)  # at most one copy of a parent per child
    runs, timeline = no_executions(n, rows), idle_timeline(p, rows)
    cluster_device, reserved = np.full(n, NONE), np.zeros(p)
    for task in order:
        if cluster_device[task] == NONE:  # the head of a cluster: parents come first
            device = _cluster_device(a, runs, timeline, task, below, reserved)
            member = task
            while member != NONE:
                cluster_device[member] = device
                reserved[device] += _seconds_or_none(a, member, device)
                member = below[member]
        device = cluster_device[task]
        reserved[device] -= _seconds_or_none(a, task, device)
        if not a.per_work[a.row[task], device] < np.inf:
            device = _anywhere(a, runs, timeline, task)
        _run_with_copies(a, runs, timeline, task, device)
    return runs
