"""Search over orders and choices of devices for the tasks that are left; compiled.

The moves are those of the planner `anytime`. A task goes to another place in the order; or to
another device: that of the earliest finish, that of a neighbour in the graph, or any. Other moves
remove a wait of the critical path. A plan is judged by its mean value over the sampled futures of
`residual`. The value adds up the time of each job until its end; the seconds that tasks occupy
devices, times the price of the device, which stand for the jobs that will come; and the mean finish
of the tasks, so that tasks with slack do not start late without need. Once all parents of a task
have ended, its last parent may run again on its own device, right ahead of it; both then take one
interval of the plan. The work is counted in placements of tasks, not in seconds, so that the same
seed gives the same decisions on every machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.model.columns import FloatArray, IntArray
from weft.policies.search.residual import Residual
from weft.sim.kernel.gaps import NONE, gap_in_chain, link
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.order_moves import ANY, ANY_SHARE, below, draw_move, shift, uniform
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import RecordTable

ArrayColumn = NDArray[Any]
"""(K, tasks) numbers."""
WORK_PER_PAIR = 100
"""Placements per pair of tasks after which a search ends, as few tasks have few plans."""
FIGURES = record("value best work", "path")
# value of the plan, and of the best; placements so far; tasks on the critical path


class PlanChain(NamedTuple):
    """The plan under search, its times in each future, and the best plan."""

    order: IntArray  # (tasks,)
    place: IntArray  # (tasks,)
    choice: IntArray  # (tasks,) device, or ANY
    best_order: IntArray
    best_choice: IntArray
    device: IntArray  # (K, tasks)
    start: FloatArray  # (K, tasks)
    finish: FloatArray  # (K, tasks)
    kept_device: IntArray  # (K, tasks) the accepted times
    kept_start: FloatArray
    kept_finish: FloatArray
    before: IntArray  # (K, tasks) the task before on the same device, or NONE
    latest: IntArray  # (K, p) the last task of each device
    ready: FloatArray  # (p,) storage
    ends: FloatArray  # (jobs,) storage
    path: IntArray  # (tasks,) critical path, the last task first
    wait: IntArray  # (tasks,) the task that each one waits for, or NONE
    group: IntArray  # (2,) tasks that move together
    old: IntArray  # (2,) their choices
    figures: RecordTable  # (1,)


def make_search_chain(tasks: int, jobs: int, p: int, futures: int) -> PlanChain:
    """Allocate the memory of a search over a number of tasks and jobs."""

    def integers(*shape: int) -> IntArray:
        return np.zeros(shape, np.int64)

    def floats(*shape: int) -> FloatArray:
        return np.zeros(shape)

    n, k = tasks, futures
    return PlanChain(
        order=integers(n),
        place=integers(n),
        choice=integers(n),
        best_order=integers(n),
        best_choice=integers(n),
        device=integers(k, n),
        start=floats(k, n),
        finish=floats(k, n),
        kept_device=integers(k, n),
        kept_start=floats(k, n),
        kept_finish=floats(k, n),
        before=integers(k, n),
        latest=integers(k, p),
        ready=floats(p),
        ends=floats(jobs + 1),
        path=integers(n),
        wait=integers(n),
        group=integers(2),
        old=integers(2),
        figures=np.zeros(1, FIGURES),
    )


@njit_inline
def _keep_placed(left: Residual, c: PlanChain, k: int, first: int) -> float:
    """Link the tasks that come before a place in the order; return their value."""
    on, begin, end = c.device[k], c.start[k], c.finish[k]
    before, latest, ends, tail = c.before[k], c.latest[k], c.ends, left.tail[k]
    now, finish_weight = left.size[0].now, left.size[0].finish_weight / max(left.size[0].tasks, 1)
    value = 0.0
    for j in range(left.size[0].jobs):
        ends[j] = left.size[0].now
    for d in range(len(latest)):
        latest[d] = NONE
    for at in range(first):
        t = c.order[at]
        after, other = NONE, latest[on[t]]
        while other != NONE and (
            begin[other] > begin[t] or (begin[other] == begin[t] and end[other] > end[t])
        ):
            after, other = other, before[other]
        link(t, on[t], after, latest, before)
        value += finish_weight * (end[t] - now) + left.price[on[t]] * (end[t] - begin[t])
        if end[t] + tail[t] > ends[left.job[t]]:
            value += end[t] + tail[t] - ends[left.job[t]]
            ends[left.job[t]] = end[t] + tail[t]
    return value


@njit_noalloc
def place_from(
    left: Residual, grid: FloatArray, c: PlanChain, k: int, first: int, limit: float
) -> float:
    """Place the tasks of a future from a place in the order on.

    Return the value, the sum over jobs of the time until their end, or inf as soon as it must
    exceed the limit.
    """
    n, p = left.size[0].tasks, left.free.shape[1]
    on, begin, end = c.device[k], c.start[k], c.finish[k]
    before, latest, ready, ends = c.before[k], c.latest[k], c.ready, c.ends
    free, tail, factor = left.free[k], left.tail[k], left.factor[k]
    now, copies = left.size[0].now, left.size[0].copies == 1
    finish_weight = left.size[0].finish_weight / max(n, 1)
    value = _keep_placed(left, c, k, first)
    for at in range(first, n):
        t = c.order[at]
        fixed = c.choice[t]
        low, high = (0, p) if fixed < 0 else (fixed, fixed + 1)
        for d in range(low, high):
            ready[d] = max(left.arrival[k, t, d], free[d])
        for e in range(left.pred_ptr[t], left.pred_ptr[t + 1]):
            u, data = left.pred[e], left.pred_data[e]
            done, wait, slow = end[u], grid[on[u]], grid[p + on[u]]
            for d in range(low, high):
                ready[d] = max(ready[d], done + (wait[d] + data * slow[d]))
        device, start, finish, behind = NONE, 0.0, np.inf, NONE
        for d in range(low, high):
            seconds = left.seconds[t, d] * factor[t]
            if ready[d] + seconds < finish:
                soonest, after = gap_in_chain(latest[d], before, begin, end, ready[d], seconds)
                if soonest + seconds < finish:
                    finish, device, start, behind = soonest + seconds, d, soonest, after
            if copies and ready[d] > free[d]:
                soonest, after, ends_at = _with_copy(left, grid, c, k, t, d, finish)
                if ends_at < finish:
                    finish, device, start, behind = ends_at, d, soonest, after
        c.figures[0].work += 1.0 if fixed >= 0 else 0.5 * p
        if device == NONE:
            return np.inf
        value += finish_weight * (finish - now) + left.price[device] * (finish - start)
        if finish + tail[t] > ends[left.job[t]]:
            value += finish + tail[t] - ends[left.job[t]]
            ends[left.job[t]] = finish + tail[t]
        if value > limit:
            return np.inf
        link(t, device, behind, latest, before)
        on[t], begin[t], end[t] = device, start, finish
    return value


@njit_noalloc
def _with_copy(
    left: Residual, grid: FloatArray, c: PlanChain, k: int, t: int, d: int, limit: float
) -> tuple[float, int, float]:
    """Place a task behind a copy of the parent whose data comes last.

    Return the start of the copy, the task after both, and the finish; inf if it is no better than
    the limit.
    """
    p, on, end = left.free.shape[1], c.device[k], c.finish[k]
    last, latest, decided = NONE, left.arrival[k, t, d], left.done[k, t]
    others = left.others[k, t, d]
    for e in range(left.pred_ptr[t], left.pred_ptr[t + 1]):
        u = left.pred[e]
        there = end[u] + (grid[on[u], d] + left.pred_data[e] * grid[p + on[u], d])
        decided = max(decided, end[u])
        if there > latest:
            last, others, latest = u, latest, there
        else:
            others = max(others, there)
    again = left.again[t, d] if last == NONE else left.seconds[last, d] * left.factor[k, last]
    both = again + left.seconds[t, d] * left.factor[k, t]
    ready = max(decided, left.free[k, d], others - again)
    if ready + both >= limit:
        return 0.0, NONE, np.inf
    if last == NONE:
        ready = max(ready, left.source[t, d])
    else:
        ready = max(ready, left.arrival[k, last, d])
        for e in range(left.pred_ptr[last], left.pred_ptr[last + 1]):
            u = left.pred[e]
            ready = max(ready, end[u] + (grid[on[u], d] + left.pred_data[e] * grid[p + on[u], d]))
    if ready + again >= latest or ready + both >= limit:
        return 0.0, NONE, np.inf
    start, after = gap_in_chain(c.latest[k, d], c.before[k], c.start[k], end, ready, both)
    return start, after, start + both


@njit_noalloc
def evaluate(left: Residual, grid: FloatArray, c: PlanChain, first: int, limit: float) -> float:
    """Return the mean value over the futures, inf as soon as it must exceed the limit."""
    futures, total = left.size[0].futures, 0.0
    for k in range(futures):
        total += place_from(left, grid, c, k, first, limit * futures - total)
        if total == np.inf:
            break
    return float(total / futures)


@njit_inline
def _copy(
    left: Residual, c: PlanChain, first: int, source: ArrayColumn, target: ArrayColumn
) -> None:
    """Copy a column of all futures, for the tasks from a place in the order on."""
    for k in range(left.size[0].futures):
        for at in range(first, left.size[0].tasks):
            target[k, c.order[at]] = source[k, c.order[at]]


@njit_inline
def accept(left: Residual, c: PlanChain, first: int) -> None:
    """Keep the times of all futures from a place in the order on."""
    _copy(left, c, first, c.device, c.kept_device)
    _copy(left, c, first, c.start, c.kept_start)
    _copy(left, c, first, c.finish, c.kept_finish)


@njit_inline
def _reject(left: Residual, c: PlanChain, first: int) -> None:
    _copy(left, c, first, c.kept_device, c.device)
    _copy(left, c, first, c.kept_start, c.start)
    _copy(left, c, first, c.kept_finish, c.finish)


@njit_inline
def keep_best(left: Residual, c: PlanChain) -> None:
    """Store the plan as the best."""
    c.figures[0].best = c.figures[0].value
    for at in range(left.size[0].tasks):
        c.best_order[at] = c.order[at]
        c.best_choice[at] = c.choice[at]


@njit_noalloc
def trace_path(left: Residual, grid: FloatArray, c: PlanChain, k: int) -> None:
    """Find a critical path of the plan in one future, to the end of a random job."""
    n, p = left.size[0].tasks, left.free.shape[1]
    job = below(left.random, left.size[0].present)
    t, size, latest = NONE, 0, -np.inf
    for other in range(left.size[0].real):
        ends_at = c.finish[k, other] + left.tail[k, other]
        if left.job[other] == job and ends_at > latest:
            t, latest = other, ends_at
    while t != NONE:
        wait, start, here = NONE, c.start[k, t], c.device[k, t]
        other = c.before[k, t]
        if other != NONE and c.finish[k, other] == start:
            wait = other
        else:
            for e in range(left.pred_ptr[t], left.pred_ptr[t + 1]):
                u = left.pred[e]
                origin = c.device[k, u]
                seconds = grid[origin, here] + left.pred_data[e] * grid[p + origin, here]
                if start in (c.finish[k, u] + seconds, c.finish[k, u]):
                    wait = u
                    break
        c.path[size], c.wait[size] = t, wait
        size += 1
        t = wait if size < n else NONE
    c.figures[0].path = size


@njit_noalloc
def begin_search(left: Residual, grid: FloatArray, c: PlanChain) -> float:
    """Compute the times of the plan in `order` and `choice`; return its value."""
    for at in range(left.size[0].tasks):
        c.place[c.order[at]] = at
    c.figures[0].value = evaluate(left, grid, c, 0, np.inf)
    if c.figures[0].value < np.inf:
        accept(left, c, 0)
        trace_path(left, grid, c, 0)
    return float(c.figures[0].value)


@njit_noalloc
def _choose(left: Residual, c: PlanChain, size: int, new: int) -> int:
    """Set the choice of a group; return the first changed place, or NONE."""
    first = NONE
    for i in range(size):
        t = c.group[i]
        c.old[i] = c.choice[t]
        if new != ANY and left.seconds[t, new] == np.inf:
            continue
        c.choice[t] = new
        if new != c.old[i] and (first == NONE or c.place[t] < first):
            first = c.place[t]
    return first


@njit_noalloc
def anneal(
    left: Residual, grid: FloatArray, c: PlanChain, work: float, start_temperature: float
) -> None:
    """Try moves until `work` placements are made; accept worse plans by temperature.

    The temperature is the start temperature times the value, and falls to 0 as the work is used.
    """
    n, begun = left.size[0].tasks, c.figures[0].work
    order, work = c.order[:n], min(work, float(WORK_PER_PAIR * n * n))
    while c.figures[0].work - begun < work:
        c.figures[0].work += 1.0  # a move that changes nothing counts too
        spent, now = (c.figures[0].work - begun) / work, c.figures[0].value
        temperature = start_temperature * max(1.0 - spent, 0.0) * now
        limit = now * (1.0 + 1e-12) - temperature * np.log(1.0 - uniform(left.random))
        t, new, there, size = draw_move(
            left,
            order,
            c.place,
            c.device[0],
            left.free.shape[1],
            ANY_SHARE,
            c.path,
            c.wait,
            c.figures[0].path,
            c.group,
            left.random,
        )
        here = c.place[t]
        if there != NONE:
            first, _ = shift(order, c.place, here, there)
        else:
            first = _choose(left, c, size, new)
        if first == NONE:
            continue
        value = evaluate(left, grid, c, first, limit)
        if value > limit:
            if there != NONE:
                shift(order, c.place, there, here)
            else:
                for i in range(size):
                    c.choice[c.group[i]] = c.old[i]
            _reject(left, c, first)
            continue
        accept(left, c, first)
        c.figures[0].value = value
        if value != now:
            trace_path(left, grid, c, 0)
        if value < c.figures[0].best:
            keep_best(left, c)
