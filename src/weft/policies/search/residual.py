"""The problem that is left: uncommitted tasks, busy devices, and sampled futures of both.

Built at every event from the simulation and a plan of `replanning`, which supplies the tasks in
the window, the expected durations as observed so far, and the expected ends of committed tasks.
Future 0 is the expected one; in the others every task takes a random factor longer, with the
spread that was observed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.replanning.state import PlanState
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of, transfer_time
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import DONE, READY, WAITING, Sim, Table
from weft.sim.order_moves import uniform

SIZE = record("now", "tasks futures jobs")
"""Time, tasks left, futures in use, and jobs whose ends count."""


class Residual(NamedTuple):
    """Tasks that are left, numbered in the order of the plan; K futures, p devices."""

    size: Table  # (1,)
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
    job: IntArray  # (tasks,) whose end counts; 0 for all if the makespan is the aim
    job_number: IntArray  # (jobs,)
    random: np.ndarray  # (1,) uint64
    ended: FloatArray  # (p,) storage: seconds that running tasks have left


def make_residual(workload: Workload, sim: Sim, tasks: int, futures: int, seed: int) -> Residual:
    """Allocate the memory for so many tasks and futures."""
    n, p, k = min(tasks, len(sim.inst)), workload.cluster.p, futures
    sizes = [problem.m for problem in workload.problems]
    edges = sum(sizes[t] for t in workload.template.tolist())
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
        ended=np.zeros(p),
    )


@njit_noalloc
def fill(
    sim: Sim, plan: PlanState, left: Residual, futures: int, spread: float, makespan: bool
) -> None:
    """Fill in the tasks of the plan; futures differ by `spread`, a standard deviation of logs."""
    size = left.size[0]
    for t in range(size.tasks):
        left.number[left.instance[t]] = NONE
        left.job_number[sim.inst[left.instance[t]].job] = NONE
    size.now, size.futures, size.jobs = sim.world[0].now, futures, 0
    count = 0
    for k in range(plan.state[0].planned):
        i = plan.sequence[k]
        if sim.inst[i].status in (WAITING, READY) and count < len(left.instance):
            left.instance[count], left.number[i] = i, count
            count += 1
    size.tasks = count
    for t in range(count):
        job = sim.inst[left.instance[t]].job
        if left.job_number[job] == NONE:
            left.job_number[job] = size.jobs
            size.jobs += 1
        left.job[t] = 0 if makespan else left.job_number[job]
    if makespan:
        size.jobs = min(size.jobs, 1)
    _draw_futures(sim, plan, left, spread)
    _link_parents(sim, plan, left)
    _link_children(sim, left)
    _compute_tails(sim, plan, left)


@njit_inline
def _normal(random: np.ndarray) -> float:
    """Draw from about the standard normal distribution: a sum of uniform numbers."""
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
            for d in range(p):
                left.arrival[k, t, d] = 0.0
        i = left.instance[t]
        g = task_of(sim, i)
        for at in range(sim.task[g].pred, sim.task[g + 1].pred):
            e = sim.edge[at].back
            parent, data = sim.edge[e].source + i - g, sim.edge[e].data
            if left.number[parent] != NONE:
                left.pred[count], left.pred_data[count] = left.number[parent], data
                count += 1
            elif sim.inst[parent].status == DONE:
                _arrive_from_done(sim, left, t, parent, data)
            else:
                origin = plan.inst[parent].device
                for k in range(left.size[0].futures):
                    done = left.free[k, origin] if origin >= 0 else now
                    for d in range(p):
                        there = done + transfer_time(sim, max(origin, 0), d, data)
                        left.arrival[k, t, d] = max(left.arrival[k, t, d], there)
    left.pred_ptr[left.size[0].tasks] = count


@njit_inline
def _arrive_from_done(sim: Sim, left: Residual, t: int, parent: int, data: float) -> None:
    """Take the data of a finished parent from where it arrives first: it may have copies."""
    now, eager = left.size[0].now, sim.world[0].eager == 1
    for d in range(len(sim.device)):
        soonest, x = np.inf, sim.inst[parent].result
        while x >= 0:
            sent = sim.execution[x].finish if eager else max(sim.execution[x].finish, now)
            soonest = min(soonest, sent + transfer_time(sim, sim.execution[x].device, d, data))
            x = sim.execution[x].before
        for k in range(left.size[0].futures):
            left.arrival[k, t, d] = max(left.arrival[k, t, d], soonest)


@njit_inline
def _link_children(sim: Sim, left: Residual) -> None:
    count = 0
    for t in range(left.size[0].tasks):
        left.succ_ptr[t] = count
        i = left.instance[t]
        g = task_of(sim, i)
        for e in range(sim.task[g].succ, sim.task[g + 1].succ):
            child = left.number[sim.edge[e].target + i - g]
            if child != NONE:
                left.succ[count] = child
                count += 1
    left.succ_ptr[left.size[0].tasks] = count


@njit_inline
def _compute_tails(sim: Sim, plan: PlanState, left: Residual) -> None:
    """Compute the least seconds behind each task; tasks outside the window count by rank."""
    p = len(sim.device)
    for t in range(left.size[0].tasks - 1, -1, -1):  # children have higher numbers
        i = left.instance[t]
        g, outside = task_of(sim, i), 0.0
        for e in range(sim.task[g].succ, sim.task[g + 1].succ):
            child = sim.edge[e].target
            if left.number[child + i - g] == NONE:
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
