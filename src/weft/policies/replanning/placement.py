"""Planning everything in sight, at every event: a weighted order, a weighted choice of devices; compiled.

At a moment with an idle device and a ready task, all tasks of all jobs in the system that are not committed yet are planned, in one
list: by job and rank, each on the device with the lowest score, in the first gap that fits. What the plan starts now is started then.
With plain weights this is HEFT (Topcuoglu, Hariri and Wu 2002) planned anew at every event; other weights make other rules: see
`WEIGHTS`. Everything is measured in seconds, so that a rule means the same whatever the unit of time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.policies.replanning.affinity import ANYWHERE, find_homes
from weft.sim.kernel.commit import free_at, is_idle
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of, transfer_time
from weft.sim.kernel.tables import COMMITTED, DONE, JOB_HERE, READY, WAITING, Sim

WEIGHTS = (
    # rank of a task
    "least",  # from the mean duration over the devices (0) to the least one (1)
    "moving",  # the logarithm of a factor on transfers
    # key of a job, added to the ranks of its tasks; the highest first
    "work",  # minus remaining work / devices
    "path",  # minus the highest rank that is left
    "age",  # seconds since arrival
    "slack",  # minus the seconds its highest rank could be late without missing the deadline
    "priority",  # priority x highest rank
    "rank",  # weight of the rank itself against all these
    # score of a task on a device, added to its finish; the lowest wins
    "ahead",  # optimistic seconds from its end there to the end of the workflow (Arabnejad and Barbosa 2014, equation 2)
    "longer",  # its duration there above the least one
    "together",  # transfers between there and where the other parents of its children are
    "gap",  # idle seconds it leaves before itself
    "slowed",  # its duration there, while the device is slower than usual
    "moved",  # its mean duration, where the last plan had it elsewhere
    "energy",  # its duration there x power / mean power
    # expectations
    "overdue",  # how much of its duration a task that should have ended still takes
    "trust",  # in observed against estimated durations, by task kind and device kind (a power)
)
"""Names of the weights, in the order of the array."""

(
    LEAST,
    MOVING,
    WORK,
    PATH,
    AGE,
    SLACK,
    PRIORITY,
    RANK,
    AHEAD,
    LONGER,
    TOGETHER,
    GAP,
    SLOWED,
    MOVED,
    ENERGY,
    OVERDUE,
    TRUST,
) = range(17)
KEYS = (WORK, PATH, AGE, SLACK, PRIORITY)
"""Weights that make the key of a job."""

_PRIOR = 3.0
"""Observations the estimate counts for, against those of a task kind on a device kind; and theirs against all on that device kind."""


class PlanState(NamedTuple):
    """What planning in sight keeps beside a simulation.

    Tasks are global tasks (see `sim/kernel/tables.py`). `order` lists the instances of each job by rank, the highest first; `cursor` is how much
    of a job's list is done. The plan: `device`, `start` and `finish` of an instance, `begins` and `ends` of what is planned on a device,
    `used` of them, and the `first` to start there. `heads` is a heap of jobs, the one with the most urgent task on top.
    """

    rank: FloatArray  # (tasks,)
    ahead: FloatArray  # (tasks, p)
    least: FloatArray  # (tasks,) seconds on the quickest device
    mean: FloatArray  # (tasks,) mean seconds
    order: IntArray  # (instances,)
    cursor: IntArray  # (jobs,)
    job: FloatArray  # (jobs, 4) deadline, priority, mean seconds of all tasks, key
    device: IntArray  # (instances,)
    start: FloatArray  # (instances,)
    finish: FloatArray  # (instances,)
    begins: FloatArray  # (p, most + 1)
    ends: FloatArray  # (p, most + 1)
    used: IntArray  # (p,)
    first: IntArray  # (p,)
    free: FloatArray  # (p,) when a device has done what is committed to it
    busy: IntArray  # (p,) the instance it runs or waits for, or -1
    began: FloatArray  # (p,) when it began to run that; NaN: it waits for data
    power: FloatArray  # (p,) watts / their mean
    alike: IntArray  # (p,) number of the device's kind
    seen: FloatArray  # (kinds, p, 3) sum of log(observed / estimated), how many, and sum of their squares
    factor: FloatArray  # (kinds, p) expected / estimated duration
    heads: IntArray  # (jobs + 1, 2) of jobs in the system: place in `order`, job
    rate: FloatArray  # (kinds, p) expected / estimated duration, at the present pace
    burden: FloatArray  # (p,) what a second there counts for, beside the time itself
    arrival: FloatArray  # (p,) when the inputs of the task at hand are on a device
    seconds: FloatArray  # (p,) how long it takes there
    beyond: FloatArray  # (p,) what counts against a device beside its finish
    apart: FloatArray  # (p,) see `_note_distances`
    sequence: IntArray  # (most + 1,) tasks in the order they were placed
    group: (
        IntArray  # (p,) group of a device; all in one where jobs may run anywhere, see `homes.py`
    )
    home: IntArray  # (jobs,) the group a job stays in, or `ANYWHERE`
    toil: FloatArray  # (jobs, p, 2) what a job takes of a group
    note: (
        IntArray  # (4,) executions learned from, tasks placed, chance (see `kept_plan.py`), groups
    )


@njit_noalloc
def rank_tasks(
    sim: Sim,
    topological: IntArray,
    desk: PlanState,
    latency: float,
    per_byte: float,
    weights: FloatArray,
) -> None:
    """Work out rank, optimistic remainder, least and mean duration of every task, children first."""
    p, moving = len(sim.device), np.exp(weights[MOVING])
    for k in range(len(topological) - 1, -1, -1):
        u = topological[k]
        able, total, least = 0, 0.0, np.inf
        for d in range(p):
            if sim.grid[sim.task[u].row, d] < np.inf:
                seconds = sim.task[u].work * sim.grid[sim.task[u].row, d]
                able, total, least = able + 1, total + seconds, min(least, seconds)
        desk.mean[u], desk.least[u] = total / able, least
        longest = 0.0
        for e in range(sim.task[u].succ, sim.task[u + 1].succ):
            transfer = moving * (latency + sim.edge[e].data * per_byte)
            longest = max(longest, transfer + desk.rank[sim.edge[e].target])
        desk.rank[u] = (1.0 - weights[LEAST]) * desk.mean[u] + weights[LEAST] * least + longest
        if weights[AHEAD] != 0.0:
            for d in range(p):
                desk.ahead[u, d] = _remainder(sim, desk, u, d)


@njit_inline
def _remainder(sim: Sim, desk: PlanState, u: int, d: int) -> float:
    """Seconds from the end of a task on a device to the end of its workflow, if every descendant ran where it suits this path best.

    Of the devices of the same group, where one of them can.
    """
    worst = 0.0
    for e in range(sim.task[u].succ, sim.task[u + 1].succ):
        v = sim.edge[e].target
        near, best = np.inf, np.inf
        for other in range(len(sim.device)):
            if sim.grid[sim.task[v].row, other] < np.inf:
                seconds = sim.task[v].work * sim.grid[sim.task[v].row, other]
                rest = (
                    transfer_time(sim, d, other, sim.edge[e].data) + seconds + desk.ahead[v, other]
                )
                best = min(best, rest)
                if desk.group[other] == desk.group[d]:
                    near = min(near, rest)
        worst = max(worst, near if near < np.inf else best)
    return worst


# -- what is known now --------------------------------------------------------


@njit_inline
def note_devices(sim: Sim, desk: PlanState) -> None:
    """Write down when devices are free, and what they are busy with."""
    for d in range(len(sim.device)):
        desk.free[d], desk.busy[d], desk.began[d] = free_at(sim, d), -1, np.nan
        if sim.device[d].running >= 0:
            desk.busy[d], desk.began[d] = (
                sim.entry[sim.device[d].running].instance,
                sim.device[d].start,
            )
        elif sim.device[d].head >= 0:
            desk.busy[d] = sim.entry[sim.device[d].head].instance


@njit_noalloc
def learn_durations(sim: Sim, desk: PlanState, trust: float) -> None:
    """Compare what has ended with its estimate; pooled over devices of one kind, and drawn towards that kind's mean over all tasks."""
    x, known = desk.note[0], sim.world[0].executions
    if x == known:
        return
    desk.note[0] = known
    p = len(sim.device)
    for k in range(x, known):
        _learn_from(sim, desk, k)
    if trust == 0.0:
        return
    for d in range(p):
        total, count = 0.0, 0.0
        for kind in range(len(sim.kind)):
            total, count = total + desk.seen[kind, d, 0], count + desk.seen[kind, d, 1]
        pooled = total / (count + _PRIOR)
        for kind in range(len(sim.kind)):
            mean = (desk.seen[kind, d, 0] + _PRIOR * pooled) / (desk.seen[kind, d, 1] + _PRIOR)
            desk.factor[kind, d] = np.exp(trust * mean)


@njit_inline
def _learn_from(sim: Sim, desk: PlanState, x: int) -> None:
    d, g = sim.execution[x].device, task_of(sim, sim.execution[x].instance)
    estimate = sim.task[g].work * sim.grid[sim.task[g].row, d] * sim.device[d].pace
    observed = sim.execution[x].finish - sim.execution[x].start
    if sim.execution[x].status != 0 or not 0.0 < estimate < np.inf or observed <= 0.0:
        return
    ratio = min(
        max(np.log(observed / estimate), -1.5), 1.5
    )  # a pace that changed meanwhile must not count for more than that
    for other in range(len(sim.device)):
        if desk.alike[other] == desk.alike[d]:
            desk.seen[sim.task[g].kind, other, 0] += ratio
            desk.seen[sim.task[g].kind, other, 1] += 1.0
            desk.seen[sim.task[g].kind, other, 2] += ratio * ratio


@njit_inline
def note_rates(sim: Sim, desk: PlanState) -> None:
    """Write down how many times its estimate a task of a kind should take on a device now."""
    for kind in range(len(desk.factor)):
        for d in range(len(sim.device)):
            desk.rate[kind, d] = sim.device[d].pace * desk.factor[kind, d]


@njit_inline
def expect_ends(sim: Sim, desk: PlanState, overdue: float) -> bool:
    """When devices will really be free, given what was observed; False when all are down."""
    now, up = sim.world[0].now, False
    for d in range(len(sim.device)):
        desk.used[d], desk.first[d] = 0, -1
        up = up or desk.free[d] < np.inf
        i = desk.busy[d]
        if i < 0 or desk.free[d] == np.inf:
            continue
        if not np.isnan(desk.began[d]):
            g = task_of(sim, i)
            factor = desk.factor[sim.task[g].kind, d]
            seconds = (
                sim.task[g].work * sim.grid[sim.task[g].row, d] * desk.rate[sim.task[g].kind, d]
            )
            ends = desk.free[d] if factor == 1.0 else desk.began[d] + seconds
            desk.free[d] = ends if ends > now else now + overdue * seconds
        desk.device[i], desk.finish[i] = d, desk.free[d]
    return up


# -- the plan -----------------------------------------------------------------


@njit_noalloc
def plan_in_sight(sim: Sim, desk: PlanState, weights: FloatArray, most: int, hurry: bool) -> bool:
    """Plan up to `most` tasks from what `note_devices` wrote down; whether these were all.

    In a hurry only what starts now is asked for: a device that has something to start now keeps it, whatever is planned after that, so
    the plan is as good as made when every idle device has.
    """
    learn_durations(sim, desk, weights[TRUST])
    note_rates(sim, desk)
    for d in range(len(sim.device)):
        desk.burden[d] = (weights[SLOWED] if sim.device[d].pace > 1.0 else 0.0) + weights[
            ENERGY
        ] * desk.power[d]
    if not expect_ends(sim, desk, weights[OVERDUE]):
        return False
    if desk.note[3] > 1:
        find_homes(sim, desk.free, desk.group, desk.toil, desk.home, desk.beyond)
    jobs = _weigh_jobs(sim, desk, weights)
    for k in range(jobs // 2 - 1, -1, -1):
        _sink(sim, desk, weights, jobs, k)
    desk.note[1] = 0
    idle = _count_idle(sim, desk)
    for k in range(min(most, len(desk.order))):
        if jobs == 0:
            break
        i = desk.order[desk.heads[0, 0]]
        place_task(sim, desk, weights, i)
        if (
            hurry
            and desk.device[i] >= 0
            and desk.busy[desk.device[i]] < 0
            and desk.start[i] <= sim.world[0].now
        ):
            idle -= 1
            if idle == 0:
                return False
        desk.sequence[k], desk.note[1] = i, k + 1
        desk.heads[0, 0] += 1
        if _is_planned(sim, desk, 0):
            jobs -= 1
            desk.heads[0, 0], desk.heads[0, 1] = desk.heads[jobs, 0], desk.heads[jobs, 1]
        _sink(sim, desk, weights, jobs, 0)
    return bool(jobs == 0)


@njit_inline
def _count_idle(sim: Sim, desk: PlanState) -> int:
    count = 0
    for d in range(len(desk.busy)):
        count += 1 if desk.busy[d] < 0 and desk.free[d] <= sim.world[0].now else 0
    return count


@njit_inline
def _weigh_jobs(sim: Sim, desk: PlanState, weights: FloatArray) -> int:
    """List the jobs in the system that have tasks to be planned, with their keys; how many."""
    now, p, count = sim.world[0].now, len(sim.device), 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state != JOB_HERE:
            continue
        first, last = sim.job[j].first, sim.job[j + 1].first
        at = max(desk.cursor[j], first)
        while at < last and sim.inst[desk.order[at]].status == DONE:
            at += 1
        desk.cursor[j] = at
        if at == last:
            continue
        top = desk.rank[desk.order[at] - sim.job[j].shift]
        key = (
            -weights[WORK] * desk.job[j, 2] * (sim.job[j].remaining / (last - first)) / p
            - weights[PATH] * top
        )
        key += weights[AGE] * (now - sim.job[j].arrival) + weights[PRIORITY] * desk.job[j, 1] * top
        if desk.job[j, 0] < np.inf:
            key -= weights[SLACK] * (desk.job[j, 0] - now - top)
        desk.job[j, 3] = key
        desk.heads[count, 0], desk.heads[count, 1] = at, j
        if not _is_planned(sim, desk, count):
            count += 1
    return count


@njit_inline
def _is_planned(sim: Sim, desk: PlanState, k: int) -> bool:
    """Go on to the next task of a job that is not committed; True when there is none."""
    at, last = desk.heads[k, 0], sim.job[desk.heads[k, 1] + 1].first
    while at < last:
        status = sim.inst[desk.order[at]].status
        if status in (WAITING, READY):
            break
        at += 1
    desk.heads[k, 0] = at
    return bool(at == last)


@njit_noalloc
def _sink(sim: Sim, desk: PlanState, weights: FloatArray, jobs: int, k: int) -> None:
    """Let a job sink in the heap until the next tasks of both jobs below it come later; among equals the lower number comes first."""
    at, job = desk.heads[k, 0], desk.heads[k, 1]
    own = _key(sim, desk, weights, at, job)
    while 2 * k + 1 < jobs:
        child = 2 * k + 1
        key = _key(sim, desk, weights, desk.heads[child, 0], desk.heads[child, 1])
        if child + 1 < jobs:
            other = _key(sim, desk, weights, desk.heads[child + 1, 0], desk.heads[child + 1, 1])
            if other > key or (other == key and desk.heads[child + 1, 1] < desk.heads[child, 1]):
                child, key = child + 1, other
        if own > key or (own == key and job < desk.heads[child, 1]):
            break
        desk.heads[k, 0], desk.heads[k, 1] = desk.heads[child, 0], desk.heads[child, 1]
        k = child
    desk.heads[k, 0], desk.heads[k, 1] = at, job


@njit_inline
def _key(sim: Sim, desk: PlanState, weights: FloatArray, at: int, job: int) -> float:
    """How urgent a task is: that of the job, and its rank."""
    return float(desk.job[job, 3] + weights[RANK] * desk.rank[desk.order[at] - sim.job[job].shift])


@njit_noalloc
def place_task(sim: Sim, desk: PlanState, weights: FloatArray, i: int) -> None:
    """Give a task the device with the lowest score, in the first gap that fits; -1 where no device that is up can run it."""
    note_arrivals(sim, desk, i)
    if weights[TOGETHER] != 0.0:
        _note_distances(sim, desk, i)
    _weigh_devices(sim, desk, weights, i)
    best, begin, slot = _best_device(sim, desk, weights, desk.home[sim.inst[i].job])
    if best < 0 and desk.note[3] > 1:
        best, begin, slot = _best_device(sim, desk, weights, ANYWHERE)
    desk.device[i], desk.start[i], desk.finish[i] = best, begin, np.inf
    if best >= 0:
        desk.finish[i] = begin + desk.seconds[best]
        insert(desk, i, best, slot)


@njit_inline
def _best_device(
    sim: Sim, desk: PlanState, weights: FloatArray, home: int
) -> tuple[int, float, int]:
    """Of the devices of a group, the one with the lowest score for the task at hand; when it begins there, and before what."""
    best, lowest, begin, slot = -1, np.inf, np.inf, 0
    for d in range(len(sim.device)):
        seconds, beyond = desk.seconds[d], desk.beyond[d]
        at, gap = max(desk.free[d], desk.arrival[d]), desk.used[d]
        if at + seconds == np.inf or (weights[GAP] >= 0.0 and at + seconds + beyond >= lowest):
            continue  # it cannot run there, or no gap there could make it the best one
        if home not in (ANYWHERE, desk.group[d]):
            continue
        for k in range(first_after(desk, d, at), desk.used[d]):
            if at + seconds <= desk.begins[d, k]:
                gap = k
                break
            at = max(at, desk.ends[d, k])
        score = at + seconds + beyond
        if weights[GAP] != 0.0:
            score += weights[GAP] * (at - (desk.free[d] if gap == 0 else desk.ends[d, gap - 1]))
        if score < lowest:
            best, lowest, begin, slot = d, score, at, gap
    return best, begin, slot


@njit_inline
def _weigh_devices(sim: Sim, desk: PlanState, weights: FloatArray, i: int) -> None:
    """For each device, the seconds of a task there, and what counts against it beside the finish and the gap before it."""
    g = task_of(sim, i)
    work, row, kind, least = sim.task[g].work, sim.task[g].row, sim.task[g].kind, desk.least[g]
    ahead, longer, together = weights[AHEAD], weights[LONGER], weights[TOGETHER]
    for d in range(len(sim.device)):
        seconds = work * sim.grid[row, d] * desk.rate[kind, d]
        desk.seconds[d] = seconds
        desk.beyond[d] = (
            ahead * desk.ahead[g, d]
            + longer * (seconds - least)
            + together * desk.apart[d]
            + desk.burden[d] * seconds
        )
    if weights[MOVED] != 0.0 and desk.device[i] >= 0:
        for d in range(len(sim.device)):
            desk.beyond[d] += weights[MOVED] * desk.mean[g] if d != desk.device[i] else 0.0


@njit_inline
def first_after(desk: PlanState, d: int, at: float) -> int:
    """The first of what is planned on a device that ends after a time."""
    low, high = 0, desk.used[d]
    while low < high:
        middle = (low + high) // 2
        if desk.ends[d, middle] > at:
            high = middle
        else:
            low = middle + 1
    return low


@njit_noalloc
def note_arrivals(sim: Sim, desk: PlanState, i: int) -> None:
    """Write down when the inputs of a task are on each device: from where parents ran, or are planned to."""
    g, p = task_of(sim, i), len(sim.device)
    for d in range(p):
        desk.arrival[d] = 0.0
    for k in range(sim.task[g].pred, sim.task[g + 1].pred):
        e = sim.edge[k].back
        parent = sim.edge[e].source + i - g
        if sim.inst[parent].status == DONE:
            origin, done = sim.inst[parent].ran_on, sim.inst[parent].done_at
        else:
            origin, done = desk.device[parent], desk.finish[parent]
        if origin < 0:
            done = np.inf
        data = sim.edge[e].data
        for d in range(p):
            there = done + transfer_time(sim, max(origin, 0), d, data)
            desk.arrival[d] = max(there, desk.arrival[d])


@njit_noalloc
def _note_distances(sim: Sim, desk: PlanState, i: int) -> None:
    """For each device, the seconds of the cheaper transfer for each pair of this task, there, and another parent of a child, committed."""
    g, p = task_of(sim, i), len(sim.device)
    for d in range(p):
        desk.apart[d] = 0.0
    for e in range(sim.task[g].succ, sim.task[g + 1].succ):
        v = sim.edge[e].target
        for k in range(sim.task[v].pred, sim.task[v + 1].pred):
            back = sim.edge[k].back
            other = sim.edge[back].source + i - g
            if other == i or sim.inst[other].status < COMMITTED:
                continue
            origin = (
                sim.inst[other].ran_on if sim.inst[other].status == DONE else desk.device[other]
            )
            for d in range(p):
                if origin not in (-1, d):
                    there, back_again = sim.edge[e].data, sim.edge[back].data
                    desk.apart[d] += min(
                        transfer_time(sim, d, origin, there),
                        transfer_time(sim, origin, d, back_again),
                    )


@njit_inline
def insert(desk: PlanState, i: int, d: int, slot: int) -> None:
    """Put a task that has its times into the list of a device."""
    for k in range(desk.used[d], slot, -1):
        desk.begins[d, k], desk.ends[d, k] = desk.begins[d, k - 1], desk.ends[d, k - 1]
    desk.begins[d, slot], desk.ends[d, slot] = desk.start[i], desk.finish[i]
    desk.used[d] += 1
    if desk.first[d] < 0 or desk.start[i] < desk.start[desk.first[d]]:
        desk.first[d] = i


# -- asking it ----------------------------------------------------------------


@njit_inline
def any_idle(sim: Sim) -> bool:
    """Whether a device could start something now."""
    for d in range(len(sim.device)):  # noqa: SIM110 (a generator expression does not compile)
        if is_idle(sim, d):
            return True
    return False


@njit_noalloc
def promised_finish(sim: Sim, desk: PlanState, j: int) -> float:
    """When a job should end by the plan: the latest of its tasks that are not done and in sight."""
    latest = sim.world[0].now
    for k in range(desk.cursor[j], sim.job[j + 1].first):
        i = desk.order[k]
        if sim.inst[i].status != DONE and desk.finish[i] < np.inf:
            latest = max(latest, desk.finish[i])
    return float(latest)
