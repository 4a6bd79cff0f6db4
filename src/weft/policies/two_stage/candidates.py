"""The decision process of the DQN scheduler, compiled: which ready task, then which device; or neither.

At a moment with an idle device and a ready task, everything in sight is planned (`policies/replanning/placement.py`). Then turns follow. A *task
turn* offers the ready tasks that an idle device can run, and to wait, which ends the moment (where something is at work). A *device turn*
offers the idle devices that can run the chosen task, and to hold it, which sets it aside for this moment. There are as many candidates
as there are; each is described by `FEATURES` numbers, and scored with shared weights. The numbers say what the plan thinks of the
candidate, so that following the plan is easy to learn.

The reward of a moment is the change of the expected completion times, summed over the jobs present, in mean paths: minus what the plan of
the next moment promises later than the last one did. Along a run these add up to minus (completion - first promise): the document's
elapsed time, with the promise as a potential (Ng, Harada and Russell 1999, section 3). The document's own terms are there too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.model.columns import FloatArray, IntArray
from weft.policies.replanning.placement import (
    RANK,
    PlanState,
    any_idle,
    note_arrivals,
    promised_finish,
)
from weft.policies.replanning.portfolio import FOLLOWED, Plans, desk_at, note_moment, plan_anew
from weft.sim.kernel.commit import is_idle
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.tables import JOB_HERE, READY, Sim

FEATURES = 16
"""Numbers that describe a candidate, of either turn."""
TASK, DEVICE = 0, 1
"""Kinds of turn."""

REWARDS = ("promise", "elapsed", "idle", "imbalance", "late", "energy")
"""What a turn is worth, in mean paths: the change of promises (see above); the terms of the document, never above zero (elapsed time; that
times the share of idle devices, times the standard deviation of being busy, times the jobs past their deadline); and the power that busy
devices draw, as a share of all."""
PROMISE, ELAPSED, IDLE, IMBALANCE, LATE, ENERGY = range(6)

Features = NDArray[np.float32]


class Turn(NamedTuple):
    """Whose turn it is, and what is offered."""

    state: IntArray  # (7,) kind of turn, chosen task, candidates, ready tasks, idle devices, devices at work, jobs here
    ready: IntArray  # (instances,) ready tasks not set aside
    idle: IntArray  # (p,) 1: idle
    offer: IntArray  # (most candidates,) a task or a device; -1: wait, or hold
    feature: Features  # (most candidates, FEATURES)
    promise: FloatArray  # (jobs, 2) expected finish by the last plan and by this one
    reward: FloatArray  # (6,) since the last turn, by `REWARDS`


def make_turn(sim: Sim) -> Turn:
    """Room for the turns of a simulation."""
    instances, p, jobs = len(sim.inst), len(sim.device), len(sim.job) - 1
    most = max(instances, p) + 1
    return Turn(
        state=np.zeros(7, np.int64),
        ready=np.zeros(max(instances, 1), np.int64),
        idle=np.zeros(p, np.int64),
        offer=np.zeros(most, np.int64),
        feature=np.zeros((most, FEATURES), np.float32),
        promise=np.full((jobs, 2), np.nan),
        reward=np.zeros(len(REWARDS)),
    )


# -- when a turn is due -------------------------------------------------------


@njit_noalloc
def next_turn(sim: Sim, plans: Plans, turn: Turn) -> int:
    """Go on to the next turn, living moments as needed; answers as `advance` does."""
    turn.reward[:] = 0.0
    while True:
        if offer(sim, plans, turn):
            return MOMENT
        desk = desk_at(plans.stack, plans.contest[FOLLOWED])
        busy, drawn, before = _at_work(sim, desk), _power(sim, desk), sim.world[0].now
        answer = advance(sim)
        _account(sim, desk, turn, sim.world[0].now - before, busy, drawn)
        if answer != MOMENT:
            _reward(sim, desk, turn)
            return answer
        if sim.world[0].ready == 0 or not any_idle(sim):
            continue
        note_moment(sim, plans)
        _reward(sim, desk_at(plans.stack, plan_anew(sim, plans)), turn)
        _note_ready(sim, plans, turn)


@njit_noalloc
def _note_ready(sim: Sim, plans: Plans, turn: Turn) -> None:
    """List what is ready, in no certain order, and which devices are idle."""
    count, idle = 0, 0
    for kind in range(len(sim.kind)):
        for k in range(sim.kind[kind].ready):
            turn.ready[count] = sim.inst[sim.kind[kind].pool + k].pool
            count += 1
    for d in range(len(sim.device)):
        turn.idle[d] = 1 if is_idle(sim, d) else 0
        idle += turn.idle[d]
    begin_turns(sim, plans, turn, count, idle)


@njit_noalloc
def begin_turns(sim: Sim, plans: Plans, turn: Turn, ready: int, idle: int) -> None:
    """The first turn of a moment, with `turn.ready` and `turn.idle` filled in."""
    turn.state[0], turn.state[3], turn.state[4], turn.state[5] = TASK, ready, idle, 0
    for d in range(len(sim.device)):
        turn.state[5] += 1 if plans.stack.busy[0, d] >= 0 else 0
    turn.state[6] = 0
    for j in range(len(sim.job) - 1):
        turn.state[6] += 1 if sim.job[j].state == JOB_HERE else 0


@njit_noalloc
def take_turn(turn: Turn, choice: int) -> tuple[int, int]:
    """Take a candidate. Returns the task and the device to commit, or (-1, -1)."""
    chosen = turn.offer[choice]
    if turn.state[0] == TASK:
        if chosen < 0:
            turn.state[3] = 0  # the moment is over
        else:
            turn.state[0], turn.state[1] = DEVICE, chosen
        return -1, -1
    turn.state[0] = TASK
    task = turn.state[1]
    _set_aside(turn, task)
    if chosen < 0:
        return -1, -1
    turn.idle[chosen] = 0
    turn.state[4] -= 1
    turn.state[5] += 1
    return task, chosen


@njit_inline
def _set_aside(turn: Turn, task: int) -> None:
    at, count = 0, turn.state[3]
    for k in range(count):
        if turn.ready[k] != task:
            turn.ready[at] = turn.ready[k]
            at += 1
    turn.state[3] = at


# -- what is offered ----------------------------------------------------------


@njit_noalloc
def offer(sim: Sim, plans: Plans, turn: Turn) -> bool:
    """Fill in the candidates of the turn, as the plan that is followed sees them; False when there is nothing to decide in this moment."""
    if turn.state[3] == 0 or turn.state[4] == 0:
        return False
    desk = desk_at(plans.stack, plans.contest[FOLLOWED])
    if turn.state[0] == DEVICE:
        turn.state[2] = _offer_devices(sim, desk, turn)
        return True
    turn.state[2] = _offer_tasks(sim, desk, turn, plans.weights[plans.contest[FOLLOWED]])
    return bool(turn.state[2] > 0)


@njit_inline
def _offer_tasks(sim: Sim, desk: PlanState, turn: Turn, weights: FloatArray) -> int:
    now, p, count = sim.world[0].now, len(sim.device), 0
    highest, rank, seconds, ready = -np.inf, 1e-300, 0.0, turn.state[3]
    for k in range(ready):
        g = task_of(sim, turn.ready[k])
        rank = max(rank, desk.rank[g])
        seconds += desk.mean[g] / ready
        highest = max(
            highest, desk.job[sim.inst[turn.ready[k]].job, 3] + weights[RANK] * desk.rank[g]
        )
    for k in range(ready):
        i = turn.ready[k]
        g, job = task_of(sim, i), sim.inst[i].job
        soonest = np.inf
        note_arrivals(sim, desk, i)
        for d in range(p):
            if turn.idle[d] == 1 and sim.grid[sim.task[g].row, d] < np.inf:
                soonest = min(soonest, _finish_there(sim, desk, i, d))
        if soonest == np.inf:
            continue
        mean, f = max(desk.mean[g], 1e-300), turn.feature[count]
        where = desk.device[i]
        f[0] = 1.0 if where >= 0 and desk.first[where] == i and turn.idle[where] == 1 else 0.0
        f[1] = _within((desk.start[i] - now) / mean, 0.0, 5.0)
        f[2] = desk.rank[g] / rank
        f[3] = _within(
            (desk.job[job, 3] + weights[RANK] * desk.rank[g] - highest) / rank, -5.0, 0.0
        )
        f[4] = _within(np.log(mean / max(seconds, 1e-300)), -3.0, 3.0)
        f[5] = desk.least[g] / mean
        f[6] = _within((soonest - desk.finish[i]) / mean, -2.0, 5.0)
        f[7] = min(sim.task[g + 1].succ - sim.task[g].succ, 8) / 8.0
        f[8] = _within((desk.job[job, 0] - now) / rank, -2.0, 5.0)
        f[9] = _within((now - sim.job[job].arrival) / rank, 0.0, 5.0)
        f[10] = sim.job[job].remaining / (sim.job[job + 1].first - sim.job[job].first)
        _say_state(sim, turn, f)
        turn.offer[count] = i
        count += 1
    if count > 0 and turn.state[5] > 0:  # with nothing at work, nothing would ever happen
        f = turn.feature[count]
        f[:] = 0.0
        f[1] = _within((_next_end(desk, now) - now) / max(seconds, 1e-300), 0.0, 5.0)
        _say_state(sim, turn, f)
        f[14] = 1.0
        turn.offer[count] = -1
        count += 1
    return count


@njit_inline
def _offer_devices(sim: Sim, desk: PlanState, turn: Turn) -> int:
    now, i, count = sim.world[0].now, turn.state[1], 0
    g = task_of(sim, i)
    mean, where = max(desk.mean[g], 1e-300), desk.device[i]
    note_arrivals(sim, desk, i)
    for d in range(len(sim.device)):
        if turn.idle[d] == 0 or sim.grid[sim.task[g].row, d] == np.inf:
            continue
        f, seconds, ends = (
            turn.feature[count],
            _seconds_there(sim, desk, i, d),
            _finish_there(sim, desk, i, d),
        )
        other = desk.first[d]
        f[0] = 1.0 if where == d and other == i else 0.0
        f[1] = 1.0 if where == d else 0.0
        f[2] = _within((ends - desk.finish[i]) / mean, -2.0, 6.0)
        f[3] = _within((ends - seconds - now) / mean, 0.0, 5.0)
        f[4] = _within(seconds / max(desk.least[g], 1e-300) - 1.0, -1.0, 5.0)
        f[5] = (
            _within((desk.ahead[g, d] - desk.ahead[g, where]) / mean, -5.0, 5.0)
            if where >= 0
            else 0.0
        )
        f[6], f[7], f[8] = 0.0, 0.0, 0.0
        if other >= 0 and other != i:
            o = task_of(sim, other)
            f[6] = _within((ends - desk.start[other]) / max(desk.mean[o], 1e-300), 0.0, 5.0)
            f[7] = _within(desk.rank[o] / max(desk.rank[g], 1e-300), 0.0, 3.0)
            f[8] = 1.0 if sim.inst[other].status == READY else 0.0
        f[9] = _within(sim.device[d].pace - 1.0, 0.0, 3.0)
        f[10] = _within(desk.factor[sim.task[g].kind, d] - 1.0, -1.0, 2.0)
        _say_state(sim, turn, f)
        turn.offer[count] = d
        count += 1
    if turn.state[5] == 0:
        return count
    f = turn.feature[count]
    f[:] = 0.0
    f[1] = _within((desk.start[i] - now) / mean, 0.0, 5.0)
    f[0] = (
        1.0 if where < 0 or turn.idle[where] == 0 or desk.first[where] != i else 0.0
    )  # the plan would hold it too
    _say_state(sim, turn, f)
    f[14] = 1.0
    turn.offer[count] = -1
    return count + 1


@njit_inline
def _say_state(sim: Sim, turn: Turn, f: Features) -> None:
    """What is the same for all candidates: how much is ready and idle, and how many jobs are there."""
    p = len(sim.device)
    f[11] = min(turn.state[3] / p, 4.0)
    f[12] = turn.state[4] / p
    f[13] = min(turn.state[6], 16) / 16.0
    f[14] = 0.0
    f[15] = 1.0


@njit_inline
def _within(x: float, low: float, high: float) -> float:
    return high if not x < high else max(x, low)  # NaN and inf are the most there is


@njit_inline
def _seconds_there(sim: Sim, desk: PlanState, i: int, d: int) -> float:
    g = task_of(sim, i)
    return float(
        sim.task[g].work
        * sim.grid[sim.task[g].row, d]
        * sim.device[d].pace
        * desk.factor[sim.task[g].kind, d]
    )


@njit_inline
def _finish_there(sim: Sim, desk: PlanState, i: int, d: int) -> float:
    """When it would end if it started there now; `note_arrivals` must have been asked about this task."""
    return float(max(sim.world[0].now, desk.arrival[d]) + _seconds_there(sim, desk, i, d))


@njit_inline
def _next_end(desk: PlanState, now: float) -> float:
    soonest = np.inf
    for d in range(len(desk.free)):
        if desk.busy[d] >= 0:
            soonest = min(soonest, max(desk.free[d], now))
    return float(soonest)


# -- what it was worth --------------------------------------------------------


@njit_noalloc
def _reward(sim: Sim, desk: PlanState, turn: Turn) -> None:
    """Compare what the plan promises now with what the last one did, for the jobs that were there then."""
    change, paths, count = 0.0, 0.0, 0
    for j in range(len(sim.job) - 1):
        before = turn.promise[j, 0]
        here = sim.job[j].state == JOB_HERE
        turn.promise[j, 0] = promised_finish(sim, desk, j) if here else np.nan
        if np.isnan(before):
            continue
        after = turn.promise[j, 0] if here else sim.job[j].finish
        top = desk.order[sim.job[j].first] - sim.job[j].shift
        paths, count = paths + desk.rank[top], count + 1
        if not np.isnan(after):
            change += after - before
    if count > 0:
        turn.reward[PROMISE] -= change * count / max(paths, 1e-300)


@njit_inline
def _at_work(sim: Sim, desk: PlanState) -> float:
    busy = 0
    for d in range(len(desk.busy)):
        busy += 1 if sim.device[d].running >= 0 else 0
    return busy / len(desk.busy)


@njit_inline
def _power(sim: Sim, desk: PlanState) -> float:
    drawn = 0.0
    for d in range(len(desk.power)):
        drawn += desk.power[d] if sim.device[d].running >= 0 else 0.0
    return drawn / len(desk.power)


@njit_inline
def _account(
    sim: Sim, desk: PlanState, turn: Turn, seconds: float, busy: float, drawn: float
) -> None:
    """Count the time that has passed, by the terms of the document."""
    paths, count, late = 0.0, 0, 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            paths, count = (
                paths + desk.rank[desk.order[sim.job[j].first] - sim.job[j].shift],
                count + 1,
            )
            late += 1 if sim.world[0].now > desk.job[j, 0] else 0
    if count == 0:
        return
    share = seconds * count / max(paths, 1e-300)
    turn.reward[ELAPSED] -= share
    turn.reward[IDLE] -= share * (1.0 - busy)
    turn.reward[IMBALANCE] -= share * np.sqrt(busy * (1.0 - busy))
    turn.reward[LATE] -= share * late
    turn.reward[ENERGY] -= share * drawn
