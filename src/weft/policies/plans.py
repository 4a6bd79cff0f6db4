"""Several plans of everything in sight: the one that is followed, and challengers; compiled.

No set of weights is the best for every workload. Which one is can be found out by planning with each, and looking at what is promised.
Planning with all of them at every event would take as many times as long; so the plan that is followed meets one challenger at each
event, in turn, and all of them when a job has come. Promises are compared only where all jobs are planned to their end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from weft.model import Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.foresight import Desk, any_idle, note_devices, plan_in_sight, promised_finish, rank_tasks
from weft.sim.commitment import commit, is_idle
from weft.sim.jit import inline, lean
from weft.sim.kernel import MOMENT, advance
from weft.sim.ranks import mean_transfer
from weft.sim.tables import JOB_AHEAD, JOB_HERE, READY, Sim

FAR = 2**31
"""Tasks planned at most, where there is no limit."""
FOLLOWED, TRIED, COME, CHALLENGERS, MOST, AIM = range(6)
"""What `Plans.contest` holds: the plan that is followed, the one that was tried last, jobs that have come, how many plans challenge the
one followed at each moment, how many tasks are planned at most, and what a plan is judged by: the place in `AIMS`."""
AIMS = ("completion", "makespan")
"""The sum of the completion times of the jobs present, or the last of them."""


class Plans(NamedTuple):
    """A desk and weights for each plan, one above the other, and how the contest stands."""

    stack: Desk  # every array with an axis in front: the plans
    weights: FloatArray  # (plans, weights)
    contest: IntArray  # (6,)


def make_plans(
    workload: Workload, sim: Sim, sets: Sequence[FloatArray], *, most: int = FAR, challengers: int = 1, aim: str = "completion"
) -> Plans:
    """Lay out what planning with these sets of weights needs beside a simulation of this workload."""
    desks = [_make_desk(workload, sim, weights, most) for weights in sets]
    stack = Desk._make(np.stack(arrays) for arrays in zip(*desks, strict=True))
    return Plans(stack, np.stack(sets), np.array([0, 0, 0, challengers, most, AIMS.index(aim)], np.int64))


def copy_plans(plans: Plans) -> Plans:
    """Plans of their own, as far as these are."""
    return Plans(Desk._make(array.copy() for array in plans.stack), plans.weights, plans.contest.copy())


def _make_desk(workload: Workload, sim: Sim, weights: FloatArray, most: int) -> Desk:
    cluster, tasks, instances, jobs = workload.cluster, len(sim.task) - 1, len(sim.inst), workload.jobs
    p, kinds = cluster.p, len(sim.kind)
    names = list(dict.fromkeys(cluster.kinds))
    starts = np.concatenate(([0], np.cumsum([problem.n for problem in workload.problems]))).astype(np.int64)
    slots = min(most, instances) + 1
    power = np.asarray(cluster.power, float)
    desk = Desk(
        rank=np.zeros(tasks),
        ahead=np.zeros((tasks, p)),
        least=np.zeros(tasks),
        mean=np.zeros(tasks),
        order=np.zeros(instances, np.int64),
        cursor=np.zeros(jobs, np.int64),
        job=np.zeros((jobs, 4)),
        device=np.full(instances, -1, np.int64),
        start=np.full(instances, np.nan),
        finish=np.full(instances, np.nan),
        begins=np.zeros((p, slots)),
        ends=np.zeros((p, slots)),
        used=np.zeros(p, np.int64),
        first=np.full(p, -1, np.int64),
        free=np.zeros(p),
        busy=np.full(p, -1, np.int64),
        began=np.full(p, np.nan),
        power=power / power.mean() if power.sum() > 0 else np.ones(p),
        alike=np.array([names.index(kind) for kind in cluster.kinds], np.int64),
        seen=np.zeros((kinds, p, 2)),
        factor=np.ones((kinds, p)),
        heads=np.zeros((jobs + 1, 2), np.int64),
        arrival=np.zeros(p),
        apart=np.zeros(p),
        note=np.zeros(1, np.int64),
    )
    topological = np.concatenate([problem.workflow.order + at for problem, at in zip(workload.problems, starts, strict=False)])
    rank_tasks(sim, topological.astype(np.int64), desk, *mean_transfer(workload.problems[0]), weights)
    place = np.argsort(topological)
    # By rank, the highest first; equal ranks in topological order (a task without work ties with its child).
    spans = [(int(a), int(b)) for a, b in pairwise(starts)]
    orders = [np.lexsort((place[a:b], -desk.rank[a:b])) for a, b in spans]
    total = np.array([desk.mean[a:b].sum() for a, b in spans])
    for j, t in enumerate(workload.template.tolist()):
        first = int(workload.first_instance[j])
        desk.order[first : first + len(orders[t])] = first + orders[t]
    desk.job[:, 0], desk.job[:, 1], desk.job[:, 2] = workload.deadline, workload.priority, total[workload.template]
    return desk


@inline
def desk_at(stack: Desk, m: int) -> Desk:
    """The desk of one plan."""
    return Desk(
        stack.rank[m],
        stack.ahead[m],
        stack.least[m],
        stack.mean[m],
        stack.order[m],
        stack.cursor[m],
        stack.job[m],
        stack.device[m],
        stack.start[m],
        stack.finish[m],
        stack.begins[m],
        stack.ends[m],
        stack.used[m],
        stack.first[m],
        stack.free[m],
        stack.busy[m],
        stack.began[m],
        stack.power[m],
        stack.alike[m],
        stack.seen[m],
        stack.factor[m],
        stack.heads[m],
        stack.arrival[m],
        stack.apart[m],
        stack.note[m],
    )


@lean
def note_moment(sim: Sim, plans: Plans) -> None:
    """Write down on every desk when devices are free."""
    for m in range(len(plans.weights)):
        note_devices(sim, desk_at(plans.stack, m))


@lean
def plan_anew(sim: Sim, plans: Plans) -> int:
    """Plan with the weights followed so far and with challengers; the plan with the best promise is followed from now on."""
    contest, count = plans.contest, len(plans.weights)
    come = 0
    for j in range(len(sim.job) - 1):
        come += 1 if sim.job[j].state != JOB_AHEAD else 0
    tries = count - 1 if come != contest[COME] else min(contest[CHALLENGERS], count - 1)
    contest[COME] = come
    own = contest[FOLLOWED]
    soonest = _promise(sim, plans, own)
    if soonest == np.inf:  # a part is out of sight: the first weights are the best on the whole
        contest[FOLLOWED] = 0
        if own != 0:
            _promise(sim, plans, 0)
        return 0
    for _ in range(tries):
        other = (contest[TRIED] + 1) % count
        if other == own:
            other = (other + 1) % count
        contest[TRIED] = other
        promise = _promise(sim, plans, other)
        if promise < soonest:
            contest[FOLLOWED], soonest = other, promise
    return int(contest[FOLLOWED])


@lean
def _promise(sim: Sim, plans: Plans, m: int) -> float:
    """Make a plan; when it promises the jobs present to be done. Of what is out of sight there is no completion to compare."""
    desk = desk_at(plans.stack, m)
    whole = plan_in_sight(sim, desk, plans.weights[m], plans.contest[MOST])
    if not whole and plans.contest[AIM] == 0:
        return np.inf
    total, last = 0.0, 0.0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            finish = promised_finish(sim, desk, j)
            total, last = total + finish - sim.job[j].arrival, max(last, finish)
    return total if plans.contest[AIM] == 0 else last


@lean
def live_by_plans(sim: Sim, plans: Plans) -> int:
    """Live moments to the end, committing what the plan followed starts now; returns ENDED or STUCK."""
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        if sim.world[0].ready == 0 or not any_idle(sim):
            continue
        note_moment(sim, plans)
        first = plans.stack.first[plan_anew(sim, plans)]
        for d in range(len(sim.device)):
            i = first[d]
            if i >= 0 and sim.inst[i].status == READY and is_idle(sim, d):
                commit(sim, i, d)
