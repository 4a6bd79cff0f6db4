"""List scheduling of all uncommitted tasks of all jobs present, by weights.

At an event with an idle device and a ready task, the tasks are placed in one list: by key of the
job and rank, each on the device with the lowest score, in the earliest gap that fits. The policy
then commits the tasks that the plan starts now. With plain weights this is HEFT (Topcuoglu, Hariri
and Wu 2002), planned again at every event; other weights (`weights.py`) make other rules.
"""

from __future__ import annotations

import numpy as np

from weft.model.columns import FloatArray
from weft.policies.replanning.affinity import NO_GROUP, assign_groups
from weft.policies.replanning.feedback import expect_ends, learn_durations, update_rates
from weft.policies.replanning.prices import update_prices
from weft.policies.replanning.state import PlanState, end_of
from weft.policies.replanning.weights import W
from weft.sim.kernel.gaps import gap_in_rows, insert_row
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of, transfer_time
from weft.sim.kernel.tables import COMMITTED, DONE, JOB_HERE, READY, WAITING, Sim


@njit_noalloc
def plan_window(
    sim: Sim, plan: PlanState, weights: FloatArray, window: int, early_exit: bool
) -> bool:
    """Plan up to `window` tasks.

    Return whether these were all. `observe_devices` goes before.

    With `early_exit` the plan stops once every idle device has a task to start now: later
    placements do not move these tasks.
    """
    learn_durations(sim, plan, weights[W.trust])
    update_rates(sim, plan)
    priced = weights[W.price] != 0.0 and update_prices(sim, plan)
    for d in range(len(sim.device)):
        slowed = weights[W.slowed] if sim.device[d].slowdown > 1.0 else 0.0
        plan.penalty_rate[d] = slowed + weights[W.energy] * plan.device[d].power
        if priced:
            plan.penalty_rate[d] += weights[W.price] * plan.price_scale[0] * plan.price[d]
    if not expect_ends(sim, plan, weights[W.overdue]):
        return False
    if plan.state[0].groups > 1:
        assign_groups(sim, plan.device, plan.demand, plan.job)
    jobs = _weigh_jobs(sim, plan, weights)
    for k in range(jobs // 2 - 1, -1, -1):
        _sink(sim, plan, weights, jobs, k)
    plan.state[0].planned = 0
    idle = _count_idle(sim, plan)
    for k in range(min(window, len(plan.inst))):
        if jobs == 0:
            break
        i = plan.inst[plan.heap[0].at].order
        place_task(sim, plan, weights, i)
        if early_exit and _starts_now(sim, plan, i):
            idle -= 1
            if idle == 0:
                return False
        plan.sequence[k], plan.state[0].planned = i, k + 1
        plan.heap[0].at += 1
        if _skip_committed(sim, plan, 0):
            jobs -= 1
            if jobs == 0:
                break
            plan.heap[0].at, plan.heap[0].job = plan.heap[jobs].at, plan.heap[jobs].job
        _sink(sim, plan, weights, jobs, 0)
    return bool(jobs == 0)


@njit_inline
def _starts_now(sim: Sim, plan: PlanState, i: int) -> bool:
    d = plan.inst[i].device
    return bool(d >= 0 and plan.device[d].busy < 0 and plan.inst[i].start <= sim.world[0].now)


@njit_inline
def _count_idle(sim: Sim, plan: PlanState) -> int:
    count = 0
    for d in range(len(plan.device)):
        idle = plan.device[d].busy < 0 and plan.device[d].free <= sim.world[0].now
        count += 1 if idle else 0
    return count


# -- order of tasks ----------------------------------------------------------------


@njit_inline
def _weigh_jobs(sim: Sim, plan: PlanState, weights: FloatArray) -> int:
    """Put the jobs with tasks to plan into the heap, with their keys; count them."""
    now, p, count = sim.world[0].now, len(sim.device), 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state != JOB_HERE:
            continue
        first, last = sim.job[j].first, sim.job[j + 1].first
        at = skip_done(sim, plan, j)
        if at == last:
            continue
        job = plan.job[j]
        top = plan.task[plan.inst[at].order - sim.job[j].shift].rank
        left = sim.job[j].remaining / (last - first)
        key = -weights[W.work] * job.seconds * left / p - weights[W.path] * top
        key += (
            weights[W.age] * (now - sim.job[j].arrival) + weights[W.priority] * job.priority * top
        )
        if job.deadline < np.inf:
            key -= weights[W.slack] * (job.deadline - now - top)
        job.key = key
        plan.heap[count].at, plan.heap[count].job = at, j
        if not _skip_committed(sim, plan, count):
            count += 1
    return count


@njit_inline
def skip_done(sim: Sim, plan: PlanState, j: int) -> int:
    """Move the cursor of a job over the tasks that are done; return it."""
    at, last = max(plan.job[j].cursor, sim.job[j].first), sim.job[j + 1].first
    while at < last and sim.inst[plan.inst[at].order].status == DONE:
        at += 1
    plan.job[j].cursor = at
    return int(at)


@njit_inline
def _skip_committed(sim: Sim, plan: PlanState, k: int) -> bool:
    """Go on to the next task of a job that is not committed; True if there is none."""
    at, last = plan.heap[k].at, sim.job[plan.heap[k].job + 1].first
    while at < last:
        status = sim.inst[plan.inst[at].order].status
        if status in (WAITING, READY):
            break
        at += 1
    plan.heap[k].at = at
    return bool(at == last)


@njit_noalloc
def _sink(sim: Sim, plan: PlanState, weights: FloatArray, jobs: int, k: int) -> None:
    """Move a job down the heap, below more urgent jobs; ties by number."""
    heap, at, job = plan.heap, plan.heap[k].at, plan.heap[k].job
    own = _key(sim, plan, weights, at, job)
    while 2 * k + 1 < jobs:
        child = 2 * k + 1
        key = _key(sim, plan, weights, heap[child].at, heap[child].job)
        if child + 1 < jobs:
            other = _key(sim, plan, weights, heap[child + 1].at, heap[child + 1].job)
            if other > key or (other == key and heap[child + 1].job < heap[child].job):
                child, key = child + 1, other
        if own > key or (own == key and job < heap[child].job):
            break
        heap[k].at, heap[k].job = heap[child].at, heap[child].job
        k = child
    heap[k].at, heap[k].job = at, job


@njit_inline
def _key(sim: Sim, plan: PlanState, weights: FloatArray, at: int, job: int) -> float:
    rank = plan.task[plan.inst[at].order - sim.job[job].shift].rank
    return float(plan.job[job].key + weights[W.rank] * rank)


# -- choice of devices -------------------------------------------------------------


@njit_noalloc
def place_task(sim: Sim, plan: PlanState, weights: FloatArray, i: int) -> None:
    """Place a task on the device with the lowest score; -1: none can run it now."""
    compute_arrivals(sim, plan, i)
    if weights[W.together] != 0.0:
        _compute_distances(sim, plan, i)
    _weigh_devices(sim, plan, weights, i)
    best, start, slot = _best_device(sim, plan, weights, plan.job[sim.inst[i].job].group)
    if best < 0 and plan.state[0].groups > 1:
        best, start, slot = _best_device(sim, plan, weights, NO_GROUP)
    plan.inst[i].device, plan.inst[i].start, plan.inst[i].finish = best, start, np.inf
    if best >= 0:
        plan.inst[i].finish = start + plan.seconds[best]
        insert(plan, i, best, slot)


@njit_inline
def _best_device(
    sim: Sim, plan: PlanState, weights: FloatArray, group: int
) -> tuple[int, float, int]:
    """Return the device with the lowest score, the start, and the place there."""
    best, lowest, start, slot = -1, np.inf, np.inf, 0
    for d in range(len(sim.device)):
        device = plan.device[d]
        seconds, penalty = plan.seconds[d], plan.penalty[d]
        at = max(device.free, plan.arrival[d])
        if at + seconds == np.inf or (weights[W.gap] >= 0.0 and at + seconds + penalty >= lowest):
            continue  # the task cannot run there, or no gap there makes the device the best one
        if group not in (NO_GROUP, device.group):
            continue
        at, gap = gap_in_rows(plan.begin[d], plan.end[d], device.used, at, seconds)
        score = at + seconds + penalty
        if weights[W.gap] != 0.0:
            score += weights[W.gap] * (at - (device.free if gap == 0 else plan.end[d, gap - 1]))
        if score < lowest:
            best, lowest, start, slot = d, score, at, gap
    return best, start, slot


@njit_inline
def _weigh_devices(sim: Sim, plan: PlanState, weights: FloatArray, i: int) -> None:
    """Compute the seconds of a task on each device, and the penalty."""
    g = task_of(sim, i)
    work, row, kind, least = sim.task[g].work, sim.task[g].row, sim.task[g].kind, plan.task[g].least
    ahead, longer, together = weights[W.ahead], weights[W.longer], weights[W.together]
    for d in range(len(sim.device)):
        seconds = work * sim.grid[row, d] * plan.rate[kind, d]
        plan.seconds[d] = seconds
        plan.penalty[d] = (
            ahead * plan.ahead[g, d]
            + longer * (seconds - least)
            + together * plan.distance[d]
            + plan.penalty_rate[d] * seconds
        )
    last = plan.inst[i].device
    if weights[W.moved] != 0.0 and last >= 0:
        for d in range(len(sim.device)):
            plan.penalty[d] += weights[W.moved] * plan.task[g].mean if d != last else 0.0


@njit_noalloc
def compute_arrivals(sim: Sim, plan: PlanState, i: int) -> None:
    """Compute when the inputs of a task are on each device."""
    g, p = task_of(sim, i), len(sim.device)
    for d in range(p):
        plan.arrival[d] = 0.0
    for k in range(sim.task[g].pred, sim.task[g + 1].pred):
        e = sim.edge[k].back
        parent = sim.edge[e].source + i - g
        origin, done = end_of(sim, plan, parent)
        if origin < 0:
            done = np.inf
        data = sim.edge[e].data
        for d in range(p):
            there = done + transfer_time(sim, max(origin, 0), d, data)
            plan.arrival[d] = max(there, plan.arrival[d])


@njit_noalloc
def _compute_distances(sim: Sim, plan: PlanState, i: int) -> None:
    """Sum up transfers to the other parents of the children of a task, per device.

    If two parents of a child run on different devices, the data of one must move; the cheaper of
    the two transfers counts.
    """
    g, p = task_of(sim, i), len(sim.device)
    for d in range(p):
        plan.distance[d] = 0.0
    for e in range(sim.task[g].succ, sim.task[g + 1].succ):
        v = sim.edge[e].target
        for k in range(sim.task[v].pred, sim.task[v + 1].pred):
            back = sim.edge[k].back
            other = sim.edge[back].source + i - g
            status = sim.inst[other].status
            if other == i or status < COMMITTED:
                continue
            origin = sim.inst[other].ran_on if status == DONE else plan.inst[other].device
            for d in range(p):
                if origin not in (-1, d):
                    plan.distance[d] += min(
                        transfer_time(sim, d, origin, sim.edge[e].data),
                        transfer_time(sim, origin, d, sim.edge[back].data),
                    )


@njit_inline
def insert(plan: PlanState, i: int, d: int, slot: int) -> None:
    """Put a task with known times into the list of a device."""
    start, finish, device = plan.inst[i].start, plan.inst[i].finish, plan.device[d]
    insert_row(plan.begin[d], plan.end[d], device.used, slot, start, finish)
    device.used += 1
    if device.first < 0 or start < plan.inst[device.first].start:
        device.first = i


@njit_noalloc
def predicted_finish(sim: Sim, plan: PlanState, j: int) -> float:
    """Return the latest finish of the planned and committed tasks of a job."""
    latest = sim.world[0].now
    for k in range(plan.job[j].cursor, sim.job[j + 1].first):
        i = plan.inst[k].order
        if sim.inst[i].status != DONE and plan.inst[i].finish < np.inf:
            latest = max(latest, plan.inst[i].finish)
    return float(latest)
