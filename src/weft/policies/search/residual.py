"""The problem that is left: uncommitted tasks, busy devices, sampled futures.

It is built at every event from the simulation and a plan of `replanning`, which supplies the tasks
in the window, the expected durations from observations so far, and the expected ends of committed
tasks. Future 0 is the expected one; in the others the duration of every task has a random factor,
with the observed spread. In streams, futures may contain jobs that will come (`_sample_jobs`):
copies of jobs that have arrived, at the observed rate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.replanning.state import PlanState
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.order_moves import below, uniform
from weft.sim.kernel.queues import input_arrival, task_of, transfer_time
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import DONE, JOB_AHEAD, READY, WAITING, RecordTable, Sim

SIZE = record("now finish_weight", "tasks real futures jobs present copies")
"""Time; value of the mean finish of a task, see `anneal`; numbers of tasks left, of those of jobs
present, of futures in use, of jobs whose ends count, of jobs present; 1 if plans have copies."""


class Residual(NamedTuple):
    """Tasks that are left, numbered in the order of the plan; K futures, p devices."""

    size: RecordTable  # (1,)
    instance: IntArray  # (tasks,)
    number: IntArray  # (instances,) of each instance here, or NONE
    pred_ptr: IntArray  # (tasks + 1,) parents that are left, as in a problem
    pred: IntArray
    pred_data: FloatArray
    succ_ptr: IntArray  # (tasks + 1,)
    succ: IntArray
    seconds: FloatArray  # (tasks, p) expected; inf where a task cannot run now
    factor: FloatArray  # (K, tasks) seconds in a future / expected seconds
    arrival: FloatArray  # (K, tasks, p) of data from finished and committed parents
    free: FloatArray  # (K, p)
    tail: FloatArray  # (K, tasks) least seconds from the finish of a task to the end of its job
    job: IntArray  # (tasks,) whose end counts; 0 for all if the makespan is the objective
    job_number: IntArray  # (jobs,)
    random: np.ndarray  # (1,) uint64
    price: FloatArray  # (p,) value of a second of each device, in seconds of a job
    others: FloatArray  # (K, tasks, p) arrival without the last outside parent,
    again: FloatArray  # (tasks, p) seconds of that parent there, inf if it cannot run there,
    source: FloatArray  # (tasks, p) and the arrival of its inputs
    done: FloatArray  # (K, tasks) end of the last outside parent
    base: IntArray  # (tasks,) first task of the sampled job of a task, or NONE
    position: IntArray  # (instances,) place of an instance in the order of ranks of its job
    release: FloatArray  # (K, tasks) arrival of the sampled job


def make_residual(
    workload: Workload, sim: Sim, tasks: int, futures: int, seed: int, *, sampled_jobs: int = 0
) -> Residual:
    """Allocate the memory for numbers of tasks, futures and sampled jobs."""
    sizes = [problem.m for problem in workload.problems]
    edges = sum(sizes[t] for t in workload.template.tolist()) + sampled_jobs * max(sizes)
    n = min(tasks, len(sim.inst)) + sampled_jobs * max(problem.n for problem in workload.problems)
    p, k = workload.cluster.p, futures
    return Residual(
        size=np.zeros(1, SIZE),
        instance=np.zeros(n, np.int64),
        number=np.full(len(sim.inst), NONE),
        pred_ptr=np.zeros(n + 1, np.int64),
        pred=np.zeros(edges, np.int64),
        pred_data=np.zeros(edges),
        succ_ptr=np.zeros(n + 1, np.int64),
        succ=np.zeros(edges, np.int64),
        seconds=np.zeros((n, p)),
        factor=np.ones((k, n)),
        arrival=np.zeros((k, n, p)),
        free=np.zeros((k, p)),
        tail=np.zeros((k, n)),
        job=np.zeros(n, np.int64),
        job_number=np.full(workload.jobs, NONE),
        random=np.array([(2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64 | 1], np.uint64),
        price=np.zeros(p),
        others=np.zeros((k, n, p)),
        again=np.full((n, p), np.inf),
        source=np.zeros((n, p)),
        done=np.zeros((k, n)),
        base=np.full(n, NONE),
        position=np.zeros(len(sim.inst), np.int64),
        release=np.zeros((k, n)),
    )


@njit_noalloc
def fill(
    sim: Sim,
    plan: PlanState,
    left: Residual,
    window: int,
    futures: int,
    spread: float,
    makespan: bool,
    sampled_jobs: int,
) -> None:
    """Fill in the tasks of the plan.

    Futures differ by `spread`, a standard deviation of logarithms.
    """
    size = left.size[0]
    for t in range(size.real):
        left.number[left.instance[t]] = NONE
        left.job_number[sim.inst[left.instance[t]].job] = NONE
    size.now, size.futures, size.jobs = sim.world[0].now, futures, 0
    count = 0
    for k in range(plan.state[0].planned):
        i = plan.sequence[k]
        if sim.inst[i].status in (WAITING, READY) and count < window:
            left.instance[count], left.number[i], left.base[count] = i, count, NONE
            count += 1
    size.tasks, size.real = count, count
    for t in range(count):
        job = sim.inst[left.instance[t]].job
        if left.job_number[job] == NONE:
            left.job_number[job] = size.jobs
            size.jobs += 1
        left.job[t] = 0 if makespan else left.job_number[job]
    if makespan:
        size.jobs = min(size.jobs, 1)
    size.present = size.jobs
    if sampled_jobs > 0 and not makespan:
        _sample_jobs(sim, plan, left, sampled_jobs)
    _draw_futures(sim, plan, left, spread)
    _link_parents(sim, plan, left)
    _link_children(sim, left)
    _compute_tails(sim, plan, left)


@njit_noalloc
def _sample_jobs(sim: Sim, plan: PlanState, left: Residual, sampled_jobs: int) -> None:
    """Add jobs that will come: random copies of jobs that have arrived, at their rate."""
    size, arrived, first = left.size[0], 0, np.inf
    for j in range(len(sim.job) - 1):
        if sim.job[j].state != JOB_AHEAD:
            arrived, first = arrived + 1, min(first, sim.job[j].arrival)
    if arrived < 2:
        return
    gap = (size.now - first) / (arrived - 1)
    for m in range(sampled_jobs):
        chosen, twin = below(left.random, arrived), NONE
        for j in range(len(sim.job) - 1):
            if sim.job[j].state != JOB_AHEAD:
                twin = j if chosen == 0 else twin
                chosen -= 1
        base, start, end = size.tasks, sim.job[twin].first, sim.job[twin + 1].first
        if base + end - start > len(left.instance):
            return
        for k in range(start, end):
            i = plan.inst[k].order
            t = base + k - start
            left.position[i], left.instance[t], left.base[t] = k - start, i, base
            left.job[t] = size.jobs
        for k in range(size.futures):
            wait = gap if k == 0 else -gap * np.log(1.0 - uniform(left.random))
            before = left.release[k, base - 1] if m > 0 else size.now
            for t in range(base, base + end - start):
                left.release[k, t] = before + wait
        size.tasks, size.jobs = base + end - start, size.jobs + 1


@njit_inline
def _normal(random: np.ndarray) -> float:
    """Draw an approximately standard normal number: a sum of uniform numbers."""
    total = 0.0
    for _ in range(12):
        total += uniform(random)
    return total - 6.0


@njit_inline
def _draw_futures(sim: Sim, plan: PlanState, left: Residual, spread: float) -> None:
    """Draw the factors of tasks and the ends of running ones."""
    now, p = left.size[0].now, len(sim.device)
    for k in range(left.size[0].futures):
        own = spread if k > 0 else 0.0
        for t in range(left.size[0].tasks):
            left.factor[k, t] = np.exp(own * _normal(left.random)) if k > 0 else 1.0
        for d in range(p):
            free = plan.device[d].free
            if k > 0 and now < free < np.inf:
                free = now + (free - now) * np.exp(own * _normal(left.random))
            left.free[k, d] = max(free, now)
    for t in range(left.size[0].tasks):
        g = task_of(sim, left.instance[t])
        for d in range(p):
            able = plan.device[d].free < np.inf and sim.grid[sim.task[g].row, d] < np.inf
            rate = plan.rate[sim.task[g].kind, d]
            seconds = sim.task[g].work * sim.grid[sim.task[g].row, d] * rate
            left.seconds[t, d] = seconds if able else np.inf


@njit_inline
def _link_parents(sim: Sim, plan: PlanState, left: Residual) -> None:
    """Collect the parents that are left, and the arrival of data from the others."""
    count, p, now = 0, len(sim.device), left.size[0].now
    for t in range(left.size[0].tasks):
        left.pred_ptr[t] = count
        for k in range(left.size[0].futures):
            left.done[k, t] = 0.0
            for d in range(p):
                left.arrival[k, t, d], left.others[k, t, d] = 0.0, 0.0
        for d in range(p):
            left.again[t, d] = np.inf
        if left.base[t] != NONE:
            for k in range(left.size[0].futures):
                for d in range(p):
                    left.arrival[k, t, d] = left.release[k, t]
        i = left.instance[t]
        g = task_of(sim, i)
        for at in range(sim.task[g].pred, sim.task[g + 1].pred):
            e = sim.edge[at].back
            parent, data = sim.edge[e].source + i - g, sim.edge[e].data
            if left.base[t] != NONE:
                left.pred[count] = left.base[t] + left.position[parent]
                left.pred_data[count] = data
                count += 1
            elif left.number[parent] != NONE:
                left.pred[count], left.pred_data[count] = left.number[parent], data
                count += 1
            elif sim.inst[parent].status == DONE:
                _arrive_from_done(sim, plan, left, t, parent, data)
            else:
                origin = plan.inst[parent].device
                for k in range(left.size[0].futures):
                    done = left.free[k, origin] if origin >= 0 else now
                    left.done[k, t] = max(left.done[k, t], done)
                    for d in range(p):
                        there = done + transfer_time(sim, max(origin, 0), d, data)
                        _arrive(sim, plan, left, k, t, d, parent, there)
    left.pred_ptr[left.size[0].tasks] = count


@njit_inline
def _arrive(
    sim: Sim, plan: PlanState, left: Residual, k: int, t: int, d: int, parent: int, there: float
) -> None:
    """Let the data of an outside parent arrive.

    The last parent to arrive may run there again.
    """
    if there <= left.arrival[k, t, d]:
        left.others[k, t, d] = max(left.others[k, t, d], there)
        return
    left.others[k, t, d], left.arrival[k, t, d] = left.arrival[k, t, d], there
    if k == 0 and left.size[0].copies == 1:
        g = task_of(sim, parent)
        rate = plan.rate[sim.task[g].kind, d]
        left.again[t, d] = sim.task[g].work * sim.grid[sim.task[g].row, d] * rate
        left.source[t, d] = input_arrival(sim, parent, d, left.size[0].now)


@njit_inline
def _arrive_from_done(
    sim: Sim, plan: PlanState, left: Residual, t: int, parent: int, data: float
) -> None:
    """Let the data of a finished parent arrive from its quickest execution."""
    now, eager = left.size[0].now, sim.world[0].eager == 1
    for d in range(len(sim.device)):
        soonest, x = np.inf, sim.inst[parent].result
        while x >= 0:
            sent = sim.execution[x].finish if eager else max(sim.execution[x].finish, now)
            soonest = min(soonest, sent + transfer_time(sim, sim.execution[x].device, d, data))
            x = sim.execution[x].before
        for k in range(left.size[0].futures):
            _arrive(sim, plan, left, k, t, d, parent, soonest)


@njit_inline
def _link_children(sim: Sim, left: Residual) -> None:
    count = 0
    for t in range(left.size[0].tasks):
        left.succ_ptr[t] = count
        i = left.instance[t]
        g = task_of(sim, i)
        for e in range(sim.task[g].succ, sim.task[g + 1].succ):
            child = left.number[sim.edge[e].target + i - g]
            if left.base[t] != NONE:
                child = left.base[t] + left.position[sim.edge[e].target + i - g]
            if child != NONE:
                left.succ[count] = child
                count += 1
    left.succ_ptr[left.size[0].tasks] = count


@njit_inline
def _compute_tails(sim: Sim, plan: PlanState, left: Residual) -> None:
    """Compute the least seconds behind each task; outside the window, by its rank."""
    p = len(sim.device)
    for t in range(left.size[0].tasks - 1, -1, -1):  # children have higher numbers
        i = left.instance[t]
        g, outside = task_of(sim, i), 0.0
        for e in range(sim.task[g].succ, sim.task[g + 1].succ):
            child = sim.edge[e].target
            if left.base[t] == NONE and left.number[child + i - g] == NONE:
                outside = max(outside, plan.task[child].rank)
        for k in range(left.size[0].futures):
            left.tail[k, t] = outside
        for e in range(left.succ_ptr[t], left.succ_ptr[t + 1]):
            child, least = left.succ[e], np.inf
            for d in range(p):
                least = min(least, left.seconds[child, d])
            for k in range(left.size[0].futures):
                behind = least * left.factor[k, child] + left.tail[k, child]
                left.tail[k, t] = max(left.tail[k, t], behind)
