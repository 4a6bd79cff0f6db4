"""Plans for nodes whose tasks share capacities: timing by earliest fit, compiled.

Any planner's schedule becomes valid by placing its tasks one after another, in the order of their
starts, at the earliest time at which a device is free and the node has room (the serial schedule
generation scheme of project scheduling: Kolisch and Hartmann 1999, section 2.1). Equal devices of a
node are one *pool*: the number of free ones is one more capacity. Which of them runs a task is
chosen at the end, in order of start.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import Problem, ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray
from weft.planners.packing.pools import Pools, each_alone, make_pools, pool_of_devices
from weft.planners.packing.profile import earliest_fit, empty_profile, use
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import upward_rank

ANYWHERE = -1
"""The pin of a task that may go to any pool."""

PackedRows = tuple[IntArray, FloatArray, FloatArray]
"""The pool, start and duration of each task."""


def pack(problem: Problem, schedule: Schedule) -> Schedule:
    """Return a schedule that respects capacities of nodes, made of one that may not.

    The best of a few: tasks in the order of their starts, on their devices, on devices like theirs
    or on the best ones, and tasks by upward rank on the best ones. Copies are left out.
    """
    if problem.n == 0:
        return schedule
    device, by_start = devices_and_order(problem, schedule)
    by_rank = np.lexsort((problem.workflow.place, -upward_rank(problem))).astype(np.int64)
    free = np.full(problem.n, ANYWHERE)
    pool = pool_of_devices(problem)
    tries = [(pool, by_start, pool[device]), (pool, by_start, free), (pool, by_rank, free)]
    alone = each_alone(problem, pool)
    if alone is not pool:
        tries.append((alone, by_start, alone[device]))
    found = [
        (into, *pack_in_order(problem.arrays, make_pools(problem, into), order, pin))
        for into, order, pin in tries
    ]
    if alone is pool:
        return as_schedule(problem, *min(found, key=lambda rows: length_of(rows[1:])))
    made = [_left_shifted(problem, as_schedule(problem, *rows)) for rows in found]
    return min(made, key=lambda schedule: schedule.makespan)


def _left_shifted(problem: Problem, schedule: Schedule) -> Schedule:
    """Return the schedule with each task as early as its device allows, none later.

    A pool counts a transfer between two tasks even if the same device runs both in the end. Tasks
    are placed in the order of their starts: those placed before a task had begun by its old start
    and now end no later than they did, so the task still has room there.
    """
    each = np.arange(problem.p)
    _, order = devices_and_order(problem, schedule)
    rows = pack_in_order(problem.arrays, make_pools(problem, each), order, schedule.device)
    return as_schedule(problem, each, *rows)


class ForwardBackward(NamedTuple):
    """A problem in both directions: forward, and with time running backwards."""

    problem: Problem
    arrays: ProblemArrays
    pools: Pools
    back: ProblemArrays
    back_pools: Pools

    @classmethod
    def of(cls, problem: Problem, pools: Pools) -> ForwardBackward:
        """Return a problem in both directions."""
        return cls(problem, problem.arrays, pools, *_reversed(problem.arrays, pools))


def _reversed(a: ProblemArrays, pools: Pools) -> tuple[ProblemArrays, Pools]:
    near = [np.ascontiguousarray(x) for x in (pools.latency.T, pools.per_byte.T)]
    return a.reversed(), pools._replace(latency=near[0], per_byte=near[1])


def back_and_forth(directions: ForwardBackward, rows: PackedRows) -> PackedRows:
    """Pack tasks from the end, last finish first, then again from the beginning.

    Forward-backward improvement (Valls, Ballestin and Quintanilla 2005, section 3).
    """
    pool, start, seconds = rows
    place = directions.problem.workflow.place
    last = np.lexsort((-place, -(start + seconds))).astype(np.int64)
    _, late, again = pack_in_order(directions.back, directions.back_pools, last, pool)
    order = order_of(directions.problem, -(late + again))
    return pack_in_order(directions.arrays, directions.pools, order, pool)


def order_of(problem: Problem, start: FloatArray) -> IntArray:
    """Order tasks by start; among equals, parents first."""
    return np.lexsort((problem.workflow.place, start)).astype(np.int64)


def length_of(rows: PackedRows) -> float:
    """Return the makespan of packed tasks."""
    return float((rows[1] + rows[2]).max())


def devices_and_order(problem: Problem, schedule: Schedule) -> tuple[IntArray, IntArray]:
    """Return the device of each task, and the tasks in the order of their starts.

    A child that read the data of a copy may start before its parent. Copies are left out here, so
    the order is made topological: a task goes after its parents.
    """
    device, start = np.zeros(problem.n, np.int64), np.zeros(problem.n)
    rows = ~schedule.copy
    device[schedule.task[rows]] = schedule.device[rows]
    start[schedule.task[rows]] = schedule.start[rows]
    w, places = problem.workflow, problem.workflow.place
    if schedule.copies or (start[w.src] > start[w.dst]).any():
        for edge in np.argsort(places[w.src], kind="stable").tolist():
            start[w.dst[edge]] = max(start[w.dst[edge]], start[w.src[edge]])
    return device, np.lexsort((places, start)).astype(np.int64)


def as_schedule(
    problem: Problem, pool: IntArray, chosen: IntArray, start: FloatArray, seconds: FloatArray
) -> Schedule:
    """Choose a device of its pool for each task, in order of start."""
    device, finish = np.zeros(problem.n, np.int64), start + seconds
    for k in range(int(pool.max()) + 1):
        members = np.flatnonzero(pool == k)
        free = np.zeros(len(members))
        tasks = np.flatnonzero(chosen == k)
        for t in tasks[np.lexsort((finish[tasks], start[tasks]))].tolist():
            # Of the free devices, the one that ended last: earlier ones stay free for longer tasks.
            able = np.flatnonzero(free <= start[t])
            at = int(able[np.argmax(free[able])])
            device[t], free[at] = members[at], finish[t]
    return Schedule.of(device=device, start=start, finish=finish)


@njit
def pack_in_order(a: ProblemArrays, pools: Pools, order: IntArray, pin: IntArray) -> PackedRows:
    """Place each task, in order, in its pinned pool or where it finishes first."""
    n, count = len(a.work), len(pools.first)
    pool, start, seconds = np.full(n, -1), np.zeros(n), np.zeros(n)
    profile = empty_profile(pools.room, n)
    ready = np.zeros(count)
    for task in order:
        ready[:] = 0.0
        for i in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
            parent = a.pred[i]
            source = pool[parent]
            sent = start[parent] + seconds[parent]
            for k in range(count):
                moved = pools.latency[source, k] + a.pred_data[i] * pools.per_byte[source, k]
                ready[k] = max(ready[k], sent + moved)
        best, chosen, begin = np.inf, -1, 0.0
        for k in range(count):
            per_work = a.per_work[a.row[task], pools.first[k]]
            if per_work == np.inf or (pin[task] != ANYWHERE and pin[task] != k):
                continue
            duration = a.work[task] * per_work
            if ready[k] + duration >= best:
                continue
            at = earliest_fit(profile, pools, k, task, ready[k], duration, best)
            if at + duration < best:
                best, chosen, begin = at + duration, k, at
        pool[task], start[task] = chosen, begin
        seconds[task] = a.work[task] * a.per_work[a.row[task], pools.first[chosen]]
        use(profile, pools, chosen, task, begin, begin + seconds[task])
    return pool, start, seconds
