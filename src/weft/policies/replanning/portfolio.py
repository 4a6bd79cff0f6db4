"""Several plans of everything in sight: which one is followed, from event to event; compiled.

No set of weights is the best for every workload. Which one is can be found out by planning with each, and looking at what is promised.
Planning with all of them at every event would take as many times as long; so the plan that is followed meets one challenger at each
event, in turn, and all of them when a job has come. Promises are compared only where all jobs are planned to their end.

A plan is made *anew* at every event, or *kept* and bettered (`kept_plan.py`). Which of the two is better depends on how far the world can
be relied upon; a Q-network says so (`plan_choice.py`). Without one, plans are made anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from weft.model import Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.replanning.affinity import ANYWHERE, divisions, transfer_within, weigh_groups
from weft.policies.replanning.incumbent import keep, look_again, move_one, set_times, take_back
from weft.policies.replanning.placement import (
    MOVED,
    OVERDUE,
    TRUST,
    PlanState,
    any_idle,
    learn_durations,
    note_devices,
    plan_in_sight,
    promised_finish,
    rank_tasks,
)
from weft.policies.replanning.switch import TOLD, log_moving, no_judge, prefers_keeping
from weft.policies.two_stage.q_network import Numbers, QNetwork
from weft.sim.kernel.commit import commit, is_idle
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.tables import JOB_AHEAD, JOB_HERE, READY, Sim

FAR = 2**31
"""Tasks planned at most, where there is no limit."""
SIGHT = 160
"""Tasks planned at most on 16 devices, where many may be waiting: several times as quick as all of them."""
WIDE = 16
"""Devices for which limits are given. On fewer of them as many more tasks are planned: it takes as long, and what is out of sight costs."""
FARTHER = 8
"""How many times as many tasks are planned in a hurry: it breaks off long before."""
FOLLOWED, TRIED, COME, CHALLENGERS, MOST, AIM, KEEPING, MOVES, FIRST_MOVES, HURRY = range(10)
"""What `Plans.contest` holds: the plan that is followed, the one that was tried last, jobs that have come, how many plans challenge the
one followed at each moment, how many tasks are planned at most, what a plan is judged by (the place in `AIMS`), whether a plan is kept (1),
how many changes of it are tried at each moment, how many tasks may be timed for changes when it is new, and whether a plan may break off
once it is clear what starts now (1)."""
AIMS = ("completion", "makespan")
"""The sum of the completion times of the jobs present, or the last of them."""


class Plans(NamedTuple):
    """A desk and weights for each plan, one above the other, and how the contest stands."""

    stack: PlanState  # every array with an axis in front: the plans
    weights: FloatArray  # (plans, weights)
    contest: IntArray  # (10,)
    promise: FloatArray  # (plans, 3) by `REST`, `END`, `WHOLE`; the last one is that of the plan that is kept
    judge: QNetwork  # values of making plans anew and of keeping one; without hidden units nothing is decided
    told: Numbers  # (2, features) of these two
    known: FloatArray  # (2,) how much better keeping must look; what edges take, see `plan_choice.TOLD`
    move: IntArray  # (5,) to work in, see `kept_plan.py`


REST, END, WHOLE = range(3)
"""What a plan promises: seconds in the system, summed over the jobs here; seconds until all is done; 1 if all is in sight."""


def make_plans(
    workload: Workload,
    sim: Sim,
    sets: Sequence[FloatArray],
    *,
    most: int = FAR,
    challengers: int = 1,
    aim: str = "completion",
    moves: tuple[int, int] = (0, 0),
    homes: bool = False,
    hurry: bool = True,
) -> Plans:
    """Lay out what planning with these sets of weights needs beside a simulation of this workload.

    At most `most` tasks are planned on 16 devices, or more of them on fewer. With `moves` a plan can be kept. Without `hurry` all plans are
    made to their end, for who wants to know more than what starts now. With `homes` there are plans by the first weights in which every job
    stays in a group of devices.
    """
    limit, one = (
        most * WIDE // min(workload.cluster.p, WIDE),
        np.zeros(workload.cluster.p, np.int64),
    )
    given = [(weights, one) for weights in sets]
    if homes:
        given += [(sets[0], group) for group in divisions(workload.cluster)]
    kept = [(sets[0], one)] if max(moves) > 0 else []
    desks = [_make_desk(workload, sim, weights, limit, group) for weights, group in given + kept]
    stack = PlanState._make(np.stack(arrays) for arrays in zip(*desks, strict=True))
    return Plans(
        stack=stack,
        weights=np.stack([weights for weights, _ in given]),
        contest=np.array(
            [0, 0, 0, challengers, limit, AIMS.index(aim), 0, *moves, hurry], np.int64
        ),
        promise=np.zeros((len(desks), 3)),
        judge=no_judge(),
        told=np.zeros((2, len(TOLD)), np.float32),
        known=np.array([0.0, log_moving(workload, stack.mean[0])]),
        move=np.zeros(5, np.int64),
    )


def judged_by(plans: Plans, judge: QNetwork, caution: float) -> Plans:
    """The same plans, and a network to decide whether to keep one."""
    return plans._replace(judge=judge, known=np.array([caution, plans.known[1]]))


def copy_plans(plans: Plans) -> Plans:
    """Plans of their own, as far as these are."""
    own = {
        name: getattr(plans, name).copy()
        for name in ("contest", "promise", "told", "known", "move")
    }
    return plans._replace(stack=PlanState._make(array.copy() for array in plans.stack), **own)


def _make_desk(
    workload: Workload, sim: Sim, weights: FloatArray, most: int, group: IntArray
) -> PlanState:
    cluster, tasks, instances, jobs = (
        workload.cluster,
        len(sim.task) - 1,
        len(sim.inst),
        workload.jobs,
    )
    p, kinds = cluster.p, len(sim.kind)
    names = list(dict.fromkeys(cluster.kinds))
    starts = np.concatenate(([0], np.cumsum([problem.n for problem in workload.problems]))).astype(
        np.int64
    )
    slots = min(most * FARTHER, instances) + 1
    power = np.asarray(cluster.power, float)
    desk = PlanState(
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
        seen=np.zeros((kinds, p, 3)),
        factor=np.ones((kinds, p)),
        heads=np.zeros((jobs + 1, 2), np.int64),
        rate=np.ones((kinds, p)),
        burden=np.zeros(p),
        arrival=np.zeros(p),
        seconds=np.zeros(p),
        beyond=np.zeros(p),
        apart=np.zeros(p),
        sequence=np.zeros(slots, np.int64),
        group=group,
        home=np.full(jobs, ANYWHERE),
        toil=np.zeros((jobs, p, 2)),
        note=np.array([0, 0, 12345, group.max() + 1], np.int64),
    )
    topological = np.concatenate(
        [
            problem.workflow.order + at
            for problem, at in zip(workload.problems, starts, strict=False)
        ]
    ).astype(np.int64)
    rank_tasks(sim, topological, desk, *transfer_within(cluster, group), weights)
    if group.any():
        toil = np.zeros((len(workload.problems), p, 2))
        weigh_groups(sim, topological, starts, group, toil, np.zeros((tasks + 3, p)))
        desk.toil[:] = toil[workload.template]
    place = np.argsort(topological)
    # By rank, the highest first; equal ranks in topological order (a task without work ties with its child).
    spans = [(int(a), int(b)) for a, b in pairwise(starts)]
    by_rank = [np.lexsort((place[a:b], -desk.rank[a:b])) for a, b in spans]
    total = np.array([desk.mean[a:b].sum() for a, b in spans])
    for j, t in enumerate(workload.template.tolist()):
        first = int(workload.first_instance[j])
        desk.order[first : first + len(by_rank[t])] = first + by_rank[t]
    desk.job[:, 0], desk.job[:, 1], desk.job[:, 2] = (
        workload.deadline,
        workload.priority,
        total[workload.template],
    )
    return desk


@njit_inline
def desk_at(stack: PlanState, m: int) -> PlanState:
    """The desk of one plan."""
    return PlanState(
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
        stack.rate[m],
        stack.burden[m],
        stack.arrival[m],
        stack.seconds[m],
        stack.beyond[m],
        stack.apart[m],
        stack.sequence[m],
        stack.group[m],
        stack.home[m],
        stack.toil[m],
        stack.note[m],
    )


@njit_noalloc
def note_moment(sim: Sim, plans: Plans) -> None:
    """Write down on every desk when devices are free."""
    for m in range(len(plans.promise)):
        note_devices(sim, desk_at(plans.stack, m))


@njit_noalloc
def plan_anew(sim: Sim, plans: Plans) -> int:
    """Decide which plan to follow, and make it; which one it is."""
    contest, count = plans.contest, len(plans.weights)
    come, left = 0, 0
    for j in range(len(sim.job) - 1):
        come += 1 if sim.job[j].state != JOB_AHEAD else 0
        left += sim.job[j].remaining if sim.job[j].state == JOB_HERE else 0
    arrived = come != contest[COME]
    contest[COME] = come
    tries = count - 1 if arrived else min(contest[CHALLENGERS], count - 1)
    if len(plans.promise) == 1 or (contest[AIM] == 0 and left > contest[MOST] + len(sim.device)):
        return _lead(sim, plans)
    if plans.judge.b1.shape[1] > 0:
        kept = desk_at(plans.stack, count)
        learn_durations(sim, kept, plans.weights[0, TRUST])
        contest[KEEPING] = (
            1
            if prefers_keeping(sim, kept, plans.judge, plans.told, plans.known, contest[KEEPING])
            else 0
        )
    return (
        _go_on(sim, plans, arrived, tries) if contest[KEEPING] == 1 else _contend(sim, plans, tries)
    )


@njit_noalloc
def _lead(sim: Sim, plans: Plans) -> int:
    """Plan with the first weights alone: there are no others, or too many tasks are waiting for promises to be compared."""
    hurry = (
        plans.contest[HURRY] == 1 and plans.weights[0, MOVED] == 0.0
    )  # where the last plan matters, it must have been whole
    plans.contest[FOLLOWED] = 0
    plan_in_sight(
        sim,
        desk_at(plans.stack, 0),
        plans.weights[0],
        plans.contest[MOST] * (FARTHER if hurry else 1),
        hurry,
    )
    return 0


@njit_noalloc
def _contend(sim: Sim, plans: Plans, tries: int) -> int:
    """Plan with the weights followed so far and with challengers; the best of these plans is followed from now on."""
    contest, count = plans.contest, len(plans.weights)
    own = contest[FOLLOWED]
    soonest = _promise(sim, plans, own)
    if soonest == np.inf:  # a part is out of sight: the first weights are the best on the whole
        contest[FOLLOWED] = 0
        if own != 0:
            _promise(sim, plans, 0)
        return 0
    for _ in range(tries):
        other = _next_challenger(contest, count)
        promise = _promise(sim, plans, other)
        if promise < soonest:
            contest[FOLLOWED], soonest = other, promise
    return int(contest[FOLLOWED])


@njit_inline
def _next_challenger(contest: IntArray, count: int) -> int:
    other = (contest[TRIED] + 1) % count
    if other == contest[FOLLOWED]:
        other = (other + 1) % count
    contest[TRIED] = other
    return int(other)


@njit_noalloc
def _go_on(sim: Sim, plans: Plans, arrived: bool, tries: int) -> int:
    """Go on with the plan that is kept, where it holds and no challenger is better; else keep a new one. Then try changes of it."""
    contest, count = plans.contest, len(plans.weights)
    kept, trust, overdue = (
        desk_at(plans.stack, count),
        plans.weights[0, TRUST],
        plans.weights[0, OVERDUE],
    )
    value = np.inf
    if not arrived and look_again(sim, kept, trust, overdue):
        value = _measure(sim, plans, count, True)
    fresh = value == np.inf
    m = _contend(sim, plans, tries) if fresh else _next_challenger(contest, count)
    if fresh or _promise(sim, plans, m) < value:
        contest[FOLLOWED] = m
        keep(desk_at(plans.stack, m), kept)
        if plans.promise[m, WHOLE] == 0.0 or not look_again(sim, kept, trust, overdue):
            kept.note[1] = 0
            return m
        value = _measure(sim, plans, count, True)
    stale = False
    timed = max(kept.note[1] + len(sim.job) - 2, 1)  # tasks, and jobs beside the first
    for _ in range(contest[FIRST_MOVES] // timed if fresh else contest[MOVES]):
        if not move_one(sim, kept, plans.move):
            continue
        stale = not set_times(sim, kept)
        found = np.inf if stale else _measure(sim, plans, count, True)
        stale = found > value
        if stale:
            take_back(kept, plans.move)
        else:
            value = found
    if stale:
        set_times(sim, kept)
        _measure(sim, plans, count, True)
    return count


@njit_noalloc
def _promise(sim: Sim, plans: Plans, m: int) -> float:
    """Make a plan; what it promises. Of what is out of sight there is no completion to compare."""
    whole = plan_in_sight(
        sim, desk_at(plans.stack, m), plans.weights[m], plans.contest[MOST], False
    )
    if whole or plans.contest[AIM] != 0:
        return _measure(sim, plans, m, whole)
    plans.promise[m, WHOLE] = 0.0
    return np.inf


@njit_noalloc
def _measure(sim: Sim, plans: Plans, m: int, whole: bool) -> float:
    """Note what a plan promises the jobs that are here."""
    desk, now, rest, last = desk_at(plans.stack, m), sim.world[0].now, 0.0, 0.0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            seconds = promised_finish(sim, desk, j) - now
            rest, last = rest + seconds, max(last, seconds)
    plans.promise[m, REST], plans.promise[m, END], plans.promise[m, WHOLE] = (
        rest,
        last,
        1.0 if whole else 0.0,
    )
    return float(plans.promise[m, END if plans.contest[AIM] != 0 else REST])


@njit_noalloc
def start_planned(sim: Sim, plans: Plans, m: int) -> None:
    """Commit what a plan starts now."""
    first = plans.stack.first[m]
    for d in range(len(sim.device)):
        i = first[d]
        if i >= 0 and sim.inst[i].status == READY and is_idle(sim, d):
            commit(sim, i, d)


@njit_noalloc
def live_by_plans(sim: Sim, plans: Plans) -> int:
    """Live moments to the end, committing what the plan followed starts now; returns ENDED or STUCK."""
    while True:
        answer = live_to_choice(sim, plans)
        if answer != MOMENT:
            return answer
        start_planned(sim, plans, plan_anew(sim, plans))


@njit_noalloc
def live_to_choice(sim: Sim, plans: Plans) -> int:
    """Live on to the next moment with a ready task and an idle device, and write down how devices are; answers as `advance` does."""
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        if sim.world[0].ready > 0 and any_idle(sim):
            note_moment(sim, plans)
            return answer
