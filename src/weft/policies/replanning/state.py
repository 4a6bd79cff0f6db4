"""State of a plan beside a simulation: record arrays, and their one constructor."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from weft.model import Workload
from weft.model.columns import FloatArray, IntArray, offsets
from weft.policies.replanning.affinity import DEMAND, NO_GROUP, transfer_within, weigh_groups
from weft.policies.replanning.weights import W
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import transfer_time
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import DONE, RecordTable, Sim

EARLY_EXIT_FACTOR = 8
"""Factor on the window of a plan that may exit early, as it stops long before the end."""

PRIOR = 3.0
"""Number of observations of a task kind on a device kind that the estimate weighs; and the number
that the mean of a device kind weighs."""

TASK = record("rank least mean", "")  # upward rank; seconds on the fastest device, and on average
INST = record("start finish", "device order")
# `order` is storage: the instances of each job by rank, the highest first
JOB = record("deadline priority seconds key", "cursor group")
# seconds: mean seconds of all its tasks; cursor: how much of its part of `order` is done
DEVICE = record("free began power group_load", "used first busy kind group")
# free: time at which its committed tasks are done; began: start of its running task, NaN while that
# waits for data; group_load: by group; used: tasks in `begin` and `end`; first: the planned task
# that starts first; busy: the instance it runs or waits for, or -1
PAIR = record("log_sum count square_sum factor", "")
# of a task kind on a device: sum, number and sum of squares of log(observed / estimated duration);
# expected / estimated duration
HEAD = record("", "at job")  # place in `order` of the next task of a job
PRIORS = record("estimate device_kind", "")
# number of observations that the estimate of a duration, and the mean of a device kind, weigh
STATE = record("", "executions planned random groups priced")
# executions that were observed; tasks placed; state of the random numbers of `incumbent`; groups;
# jobs that had arrived when the prices were computed


class PlanState(NamedTuple):
    """One plan. Tasks are global tasks (see `sim/kernel/tables.py`).

    P is the number of devices.

    The inner loops over devices use plain arrays, which the compiler vectorises.
    """

    task: RecordTable  # (tasks,)
    ahead: FloatArray  # (tasks, p) optimistic seconds from the end there to the end of the workflow
    inst: RecordTable  # (instances,)
    job: RecordTable  # (jobs,)
    device: RecordTable  # (p,)
    begin: FloatArray  # (p, slots) times of the planned tasks of a device, in order
    end: FloatArray  # (p, slots)
    pair: RecordTable  # (kinds, p)
    rate: FloatArray  # (kinds, p) expected / estimated duration at the present speed
    penalty_rate: FloatArray  # (p,) penalty per second of a task
    arrival: FloatArray  # (p,) of the task that is being placed: the arrival of its inputs,
    seconds: FloatArray  # (p,) its duration,
    distance: FloatArray  # (p,) transfers between there and the other parents of its children,
    penalty: FloatArray  # (p,) and the penalty beside its finish
    heap: RecordTable  # (jobs + 1,) jobs with tasks to place, the most urgent task on top
    sequence: IntArray  # (slots,) tasks in the order of placement
    demand: RecordTable  # (jobs, p) seconds that a job needs of a group, see `affinity`
    price: FloatArray  # (p,) of device time, see `prices`
    price_scale: FloatArray  # (1,) 1 / (1 + CCR): a near device matters more than a cheap one
    row_work: FloatArray  # (rows of the grid,) work that has arrived
    prior: RecordTable  # (1,)
    state: RecordTable  # (1,)


@njit_inline
def plan_at(stack: PlanState, m: int) -> PlanState:
    """Return one plan of a stack, whose arrays have one more axis in front."""
    return PlanState(
        task=stack.task[m],
        ahead=stack.ahead[m],
        inst=stack.inst[m],
        job=stack.job[m],
        device=stack.device[m],
        begin=stack.begin[m],
        end=stack.end[m],
        pair=stack.pair[m],
        rate=stack.rate[m],
        penalty_rate=stack.penalty_rate[m],
        arrival=stack.arrival[m],
        seconds=stack.seconds[m],
        distance=stack.distance[m],
        penalty=stack.penalty[m],
        heap=stack.heap[m],
        sequence=stack.sequence[m],
        demand=stack.demand[m],
        price=stack.price[m],
        price_scale=stack.price_scale[m],
        row_work=stack.row_work[m],
        prior=stack.prior[m],
        state=stack.state[m],
    )


def make_plan(
    workload: Workload, sim: Sim, weights: FloatArray, window: int, group: IntArray
) -> PlanState:
    """Allocate an empty plan and rank the tasks; `group` is the group of each device."""
    tasks, instances, jobs, p = len(sim.task) - 1, len(sim.inst), workload.jobs, len(group)
    slots = min(window * EARLY_EXIT_FACTOR, instances) + 1
    plan = PlanState(
        task=np.zeros(tasks, TASK),
        ahead=np.zeros((tasks, p)),
        inst=np.zeros(instances, INST),
        job=np.zeros(jobs, JOB),
        device=_devices(workload, group),
        begin=np.zeros((p, slots)),
        end=np.zeros((p, slots)),
        pair=np.zeros((len(sim.kind), p), PAIR),
        rate=np.ones((len(sim.kind), p)),
        penalty_rate=np.zeros(p),
        arrival=np.zeros(p),
        seconds=np.zeros(p),
        distance=np.zeros(p),
        penalty=np.zeros(p),
        heap=np.zeros(jobs + 1, HEAD),
        sequence=np.zeros(slots, np.int64),
        demand=np.zeros((jobs, p), DEMAND),
        price=np.ones(p),
        price_scale=np.ones(1),
        row_work=np.zeros(len(sim.grid)),
        prior=np.array([(PRIOR, PRIOR)], PRIORS),
        state=np.zeros(1, STATE),
    )
    plan.inst["start"] = plan.inst["finish"] = np.nan
    plan.inst["device"] = -1
    plan.pair["factor"] = 1.0
    plan.state["random"], plan.state["groups"] = 12345, group.max() + 1
    starts = offsets([problem.n for problem in workload.problems])
    orders = zip(workload.problems, starts, strict=False)
    topological = np.concatenate([problem.workflow.order + at for problem, at in orders])
    topological = topological.astype(np.int64)
    latency, per_byte = transfer_within(workload.cluster, group)
    rank_tasks(sim, topological, plan, latency, per_byte, weights)
    seconds = np.ascontiguousarray(plan.task["mean"]).sum() / max(tasks, 1)
    if len(sim.edge) and seconds > 0.0:
        moving = latency + np.ascontiguousarray(sim.edge["data"]).mean() * per_byte
        plan.price_scale[:] = 1.0 / (1.0 + moving / seconds)
    if group.any():
        demand = np.zeros((len(workload.problems), p), DEMAND)
        weigh_groups(sim, topological, starts, group, demand, np.zeros((tasks + 3, p)))
        plan.demand[:] = demand[workload.template]
    _fill_jobs(workload, plan, starts, topological)
    return plan


def _devices(workload: Workload, group: IntArray) -> RecordTable:
    cluster, device = workload.cluster, np.zeros(len(group), DEVICE)
    power, kinds = np.asarray(cluster.power, float), list(dict.fromkeys(cluster.kinds))
    device["power"] = power / power.mean() if power.sum() > 0 else 1.0
    device["kind"], device["group"] = [kinds.index(kind) for kind in cluster.kinds], group
    device["first"] = device["busy"] = -1
    device["began"] = np.nan
    return device


def _fill_jobs(
    workload: Workload, plan: PlanState, starts: IntArray, topological: IntArray
) -> None:
    place, rank, spans = np.argsort(topological), plan.task["rank"], list(pairwise(starts.tolist()))
    # Equal ranks in topological order: a task without work ties with its child.
    by_rank = [np.lexsort((place[a:b], -rank[a:b])) for a, b in spans]
    total = np.array([np.ascontiguousarray(plan.task["mean"])[a:b].sum() for a, b in spans])
    for j, t in enumerate(workload.template.tolist()):
        first = int(workload.first_instance[j])
        plan.inst["order"][first : first + len(by_rank[t])] = first + by_rank[t]
    plan.job["deadline"], plan.job["priority"] = workload.deadline, workload.priority
    plan.job["seconds"], plan.job["group"] = total[workload.template], NO_GROUP


@njit_inline
def end_of(sim: Sim, plan: PlanState, i: int) -> tuple[int, float]:
    """Return the device and the finish of an instance: as it ran, or as it is planned."""
    if sim.inst[i].status == DONE:
        return sim.inst[i].ran_on, sim.inst[i].done_at
    return plan.inst[i].device, plan.inst[i].finish


@njit_noalloc
def rank_tasks(
    sim: Sim,
    topological: IntArray,
    plan: PlanState,
    latency: float,
    per_byte: float,
    weights: FloatArray,
) -> None:
    """Compute ranks, optimistic remainders and durations, children first."""
    p, moving = len(sim.device), np.exp(weights[W.moving])
    for k in range(len(topological) - 1, -1, -1):
        u = topological[k]
        able, total, least = 0, 0.0, np.inf
        for d in range(p):
            if sim.grid[sim.task[u].row, d] < np.inf:
                seconds = sim.task[u].work * sim.grid[sim.task[u].row, d]
                able, total, least = able + 1, total + seconds, min(least, seconds)
        mean = total / able
        plan.task[u].mean, plan.task[u].least = mean, least
        longest = 0.0
        for e in range(sim.task[u].succ, sim.task[u + 1].succ):
            transfer = moving * (latency + sim.edge[e].data * per_byte)
            longest = max(longest, transfer + plan.task[sim.edge[e].target].rank)
        plan.task[u].rank = (1.0 - weights[W.least]) * mean + weights[W.least] * least + longest
        if weights[W.ahead] != 0.0:
            for d in range(p):
                plan.ahead[u, d] = _remainder(sim, plan, u, d)


@njit_inline
def _remainder(sim: Sim, plan: PlanState, u: int, d: int) -> float:
    """Return the least seconds from the end of a task to the end of its workflow.

    Each descendant is on the device that suits this path best, in the same group if one can run it.
    """
    worst = 0.0
    for e in range(sim.task[u].succ, sim.task[u + 1].succ):
        v = sim.edge[e].target
        near, best = np.inf, np.inf
        for other in range(len(sim.device)):
            if sim.grid[sim.task[v].row, other] < np.inf:
                seconds = sim.task[v].work * sim.grid[sim.task[v].row, other]
                transfer = transfer_time(sim, d, other, sim.edge[e].data)
                rest = transfer + seconds + plan.ahead[v, other]
                best = min(best, rest)
                if plan.device[other].group == plan.device[d].group:
                    near = min(near, rest)
        worst = max(worst, near if near < np.inf else best)
    return worst
