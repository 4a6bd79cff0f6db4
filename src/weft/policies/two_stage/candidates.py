"""Candidates of the two-stage scheduler: which ready task, then which device.

At an event with an idle device and a ready task, all tasks in the window are planned
(`policies/replanning/placement.py`). Then decisions follow, in two stages. The candidates of a
*task decision* are the ready tasks that an idle device can run and, if a device is busy, to wait,
which ends the moment. The candidates of a *device decision* are the idle devices that can run the
chosen task, and to hold the task, which removes it from this moment. The number of candidates
varies; each has the same number of features and is scored with the same weights. The features
compare the candidate with the plan, so that following the plan is easy to learn.

The reward of a moment is the change of the predicted completion times, summed over the jobs
present, in mean critical paths. Along a run it adds up to minus (completion - first prediction):
the elapsed time, with the prediction as a potential (Ng, Harada and Russell 1999, section 3). The
reward terms of the source document are available too.
"""

from __future__ import annotations

import numpy as np

from weft.model.columns import FloatArray
from weft.policies.replanning.placement import compute_arrivals, predicted_finish
from weft.policies.replanning.portfolio import Portfolio, observe, replan
from weft.policies.replanning.state import PlanState, plan_at
from weft.policies.replanning.weights import W
from weft.policies.two_stage.decision import (
    DEVICE,
    OF_DEVICE,
    OF_TASK,
    REWARD,
    TASK,
    Candidates,
    FeatureRows,
)
from weft.policies.two_stage.graph_features import describe_graph, describe_place, finish_elsewhere
from weft.sim.kernel.commit import any_idle, is_idle
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.tables import JOB_HERE, READY, Sim

# -- decisions ---------------------------------------------------------------------


@njit_noalloc
def next_decision(sim: Sim, portfolio: Portfolio, candidates: Candidates) -> int:
    """Advance to the next decision; return what `advance` does."""
    candidates.reward[:] = 0.0
    while True:
        if enumerate_candidates(sim, portfolio, candidates):
            return MOMENT
        plan = plan_at(portfolio.stack, portfolio.state[0].followed)
        before = sim.world[0].now
        busy, power = _busy_shares(sim, plan)
        answer = advance(sim)
        _reward_time(sim, plan, candidates, sim.world[0].now - before, busy, power)
        if answer != MOMENT:
            _reward_prediction(sim, plan, candidates)
            return answer
        if sim.world[0].ready == 0 or not any_idle(sim):
            continue
        observe(sim, portfolio)
        followed = plan_at(portfolio.stack, replan(sim, portfolio))
        _reward_prediction(sim, followed, candidates)
        _list_ready(sim, portfolio, candidates)


@njit_noalloc
def _list_ready(sim: Sim, portfolio: Portfolio, candidates: Candidates) -> None:
    """List the ready tasks, in any order, and the idle devices."""
    count, idle = 0, 0
    for kind in range(len(sim.kind)):
        for k in range(sim.kind[kind].ready):
            candidates.ready[count] = sim.inst[sim.kind[kind].pool + k].pool
            count += 1
    for d in range(len(sim.device)):
        candidates.idle[d] = 1 if is_idle(sim, d) else 0
        idle += candidates.idle[d]
    begin_moment(sim, portfolio, candidates, count, idle)


@njit_noalloc
def begin_moment(
    sim: Sim, portfolio: Portfolio, candidates: Candidates, ready: int, idle: int
) -> None:
    """Start with a task decision; `ready` and `idle` of the candidates are filled in."""
    state = candidates.state[0]
    state.stage, state.ready, state.idle, state.busy, state.jobs = TASK, ready, idle, 0, 0
    for d in range(len(sim.device)):
        state.busy += 1 if portfolio.stack.device[0, d].busy >= 0 else 0
    for j in range(len(sim.job) - 1):
        state.jobs += 1 if sim.job[j].state == JOB_HERE else 0


@njit_noalloc
def apply(candidates: Candidates, choice: int) -> tuple[int, int]:
    """Take a candidate; return the task and the device to commit, or (-1, -1)."""
    chosen, state = candidates.item[choice], candidates.state[0]
    if state.stage == TASK:
        if chosen < 0:
            state.ready = 0  # the moment is over
        else:
            state.stage, state.task = DEVICE, chosen
        return -1, -1
    state.stage = TASK
    _remove_ready(candidates, state.task)
    if chosen < 0:
        return -1, -1
    candidates.idle[chosen] = 0
    state.idle -= 1
    state.busy += 1
    return state.task, chosen


@njit_inline
def _remove_ready(candidates: Candidates, task: int) -> None:
    at = 0
    for k in range(candidates.state[0].ready):
        if candidates.ready[k] != task:
            candidates.ready[at] = candidates.ready[k]
            at += 1
    candidates.state[0].ready = at


@njit_inline
def _drop_committed(sim: Sim, candidates: Candidates) -> None:
    """Drop the ready tasks that joined the batch of a task chosen before."""
    at = 0
    for k in range(candidates.state[0].ready):
        if sim.inst[candidates.ready[k]].status == READY:
            candidates.ready[at] = candidates.ready[k]
            at += 1
    candidates.state[0].ready = at


# -- candidates --------------------------------------------------------------------


@njit_noalloc
def enumerate_candidates(sim: Sim, portfolio: Portfolio, candidates: Candidates) -> bool:
    """Fill in the candidates by the followed plan; return whether any is left."""
    state, followed = candidates.state[0], portfolio.state[0].followed
    _drop_committed(sim, candidates)
    if state.ready == 0 or state.idle == 0:
        return False
    plan = plan_at(portfolio.stack, followed)
    if state.stage == DEVICE:
        state.count = _candidate_devices(sim, plan, candidates)
        return True
    state.count = _candidate_tasks(sim, plan, candidates, portfolio.weights[followed])
    return bool(state.count > 0)


@njit_inline
def _urgency(sim: Sim, plan: PlanState, weights: FloatArray, i: int) -> float:
    rank = plan.task[task_of(sim, i)].rank
    return float(plan.job[sim.inst[i].job].key + weights[W.rank] * rank)


@njit_inline
def _candidate_tasks(sim: Sim, plan: PlanState, candidates: Candidates, weights: FloatArray) -> int:
    now, p, count = sim.world[0].now, len(sim.device), 0
    highest, rank, seconds, ready = -np.inf, 1e-300, 0.0, candidates.state[0].ready
    for k in range(ready):
        g = task_of(sim, candidates.ready[k])
        rank = max(rank, plan.task[g].rank)
        seconds += plan.task[g].mean / ready
        highest = max(highest, _urgency(sim, plan, weights, candidates.ready[k]))
    for k in range(ready):
        i = candidates.ready[k]
        g, job = task_of(sim, i), sim.inst[i].job
        soonest = np.inf
        compute_arrivals(sim, plan, i)
        for d in range(p):
            if candidates.idle[d] == 1 and sim.grid[sim.task[g].row, d] < np.inf:
                soonest = min(soonest, _finish_there(sim, plan, i, d))
        if soonest == np.inf:
            continue
        mean, f = max(plan.task[g].mean, 1e-300), candidates.feature[count]
        f[OF_TASK.planned] = 1.0 if _is_planned_now(plan, candidates, i) else 0.0
        f[OF_TASK.delay] = _within((plan.inst[i].start - now) / mean, 0.0, 5.0)
        f[OF_TASK.rank] = plan.task[g].rank / rank
        below = (_urgency(sim, plan, weights, i) - highest) / rank
        f[OF_TASK.urgency] = _within(below, -5.0, 0.0)
        f[OF_TASK.duration] = _within(np.log(mean / max(seconds, 1e-300)), -3.0, 3.0)
        f[OF_TASK.least] = plan.task[g].least / mean
        f[OF_TASK.later] = _within((soonest - plan.inst[i].finish) / mean, -2.0, 5.0)
        f[OF_TASK.children] = min(sim.task[g + 1].succ - sim.task[g].succ, 8) / 8.0
        f[OF_TASK.slack] = _within((plan.job[job].deadline - now) / rank, -2.0, 5.0)
        f[OF_TASK.age] = _within((now - sim.job[job].arrival) / rank, 0.0, 5.0)
        size = sim.job[job + 1].first - sim.job[job].first
        f[OF_TASK.left] = sim.job[job].remaining / size
        opens, joins, transfer = describe_graph(sim, plan, i)
        f[OF_TASK.opens], f[OF_TASK.joins] = min(opens, 8.0) / 8.0, joins
        f[OF_TASK.transfer] = _within(transfer / mean, 0.0, 5.0)
        f[OF_TASK.depth] = 1.0 - plan.task[g].rank / max(_path(sim, plan, job), 1e-300)
        _describe_state(sim, candidates, f)
        candidates.item[count] = i
        count += 1
    if count > 0 and candidates.state[0].busy > 0:  # otherwise no event would follow
        f = candidates.feature[count]
        f[:] = 0.0
        until = (_next_end(plan, now) - now) / max(seconds, 1e-300)
        f[OF_TASK.delay] = _within(until, 0.0, 5.0)
        _describe_state(sim, candidates, f)
        f[OF_TASK.none] = 1.0
        candidates.item[count] = -1
        count += 1
    return count


@njit_inline
def _candidate_devices(sim: Sim, plan: PlanState, candidates: Candidates) -> int:
    now, i, count = sim.world[0].now, candidates.state[0].task, 0
    g = task_of(sim, i)
    mean, where = max(plan.task[g].mean, 1e-300), plan.inst[i].device
    compute_arrivals(sim, plan, i)
    elsewhere = finish_elsewhere(sim, plan, i)
    for d in range(len(sim.device)):
        if candidates.idle[d] == 0 or sim.grid[sim.task[g].row, d] == np.inf:
            continue
        f = candidates.feature[count]
        seconds, ends = _seconds_there(sim, plan, i, d), _finish_there(sim, plan, i, d)
        other = plan.device[d].first
        f[OF_DEVICE.planned] = 1.0 if where == d and other == i else 0.0
        f[OF_DEVICE.chosen] = 1.0 if where == d else 0.0
        f[OF_DEVICE.later] = _within((ends - plan.inst[i].finish) / mean, -2.0, 6.0)
        f[OF_DEVICE.wait] = _within((ends - seconds - now) / mean, 0.0, 5.0)
        longer = seconds / max(plan.task[g].least, 1e-300) - 1.0
        f[OF_DEVICE.longer] = _within(longer, -1.0, 5.0)
        f[OF_DEVICE.ahead] = 0.0
        if where >= 0:
            further = (plan.ahead[g, d] - plan.ahead[g, where]) / mean
            f[OF_DEVICE.ahead] = _within(further, -5.0, 5.0)
        f[OF_DEVICE.delays], f[OF_DEVICE.other_rank], f[OF_DEVICE.other_ready] = 0.0, 0.0, 0.0
        if other >= 0 and other != i:
            o = task_of(sim, other)
            delay = (ends - plan.inst[other].start) / max(plan.task[o].mean, 1e-300)
            f[OF_DEVICE.delays] = _within(delay, 0.0, 5.0)
            ratio = plan.task[o].rank / max(plan.task[g].rank, 1e-300)
            f[OF_DEVICE.other_rank] = _within(ratio, 0.0, 3.0)
            f[OF_DEVICE.other_ready] = 1.0 if sim.inst[other].status == READY else 0.0
        f[OF_DEVICE.slowed] = _within(sim.device[d].slowdown - 1.0, 0.0, 3.0)
        f[OF_DEVICE.bias] = _within(plan.pair[sim.task[g].kind, d].factor - 1.0, -1.0, 2.0)
        f[OF_DEVICE.near], f[OF_DEVICE.copy] = describe_place(sim, i, d)
        f[OF_DEVICE.elsewhere] = _within((elsewhere - ends) / mean, -5.0, 5.0)
        f[OF_DEVICE.speed] = plan.task[g].least / max(seconds, 1e-300)
        _describe_state(sim, candidates, f)
        candidates.item[count] = d
        count += 1
    if candidates.state[0].busy == 0:
        return count
    f = candidates.feature[count]
    f[:] = 0.0
    f[OF_DEVICE.chosen] = _within((plan.inst[i].start - now) / mean, 0.0, 5.0)
    f[OF_DEVICE.planned] = 0.0 if _is_planned_now(plan, candidates, i) else 1.0
    _describe_state(sim, candidates, f)
    f[OF_DEVICE.none] = 1.0
    candidates.item[count] = -1
    return count + 1


@njit_inline
def _is_planned_now(plan: PlanState, candidates: Candidates, i: int) -> bool:
    where = plan.inst[i].device
    return bool(where >= 0 and plan.device[where].first == i and candidates.idle[where] == 1)


@njit_inline
def _describe_state(sim: Sim, candidates: Candidates, f: FeatureRows) -> None:
    """Fill in the features that all candidates share."""
    p, state = len(sim.device), candidates.state[0]
    f[OF_TASK.ready] = min(state.ready / p, 4.0)
    f[OF_TASK.idle] = state.idle / p
    f[OF_TASK.jobs] = min(state.jobs, 16) / 16.0
    f[OF_TASK.none] = 0.0
    f[OF_TASK.one] = 1.0


@njit_inline
def _within(x: float, low: float, high: float) -> float:
    return high if not x < high else max(x, low)  # NaN and inf become `high`


@njit_inline
def _seconds_there(sim: Sim, plan: PlanState, i: int, d: int) -> float:
    g = task_of(sim, i)
    estimate = sim.task[g].work * sim.grid[sim.task[g].row, d] * sim.device[d].slowdown
    return float(estimate * plan.pair[sim.task[g].kind, d].factor)


@njit_inline
def _finish_there(sim: Sim, plan: PlanState, i: int, d: int) -> float:
    """Return the finish of a task that starts there now, after `compute_arrivals`."""
    return float(max(sim.world[0].now, plan.arrival[d]) + _seconds_there(sim, plan, i, d))


@njit_inline
def _next_end(plan: PlanState, now: float) -> float:
    soonest = np.inf
    for d in range(len(plan.device)):
        if plan.device[d].busy >= 0:
            soonest = min(soonest, max(plan.device[d].free, now))
    return float(soonest)


# -- rewards -----------------------------------------------------------------------


@njit_noalloc
def _reward_prediction(sim: Sim, plan: PlanState, candidates: Candidates) -> None:
    """Reward the change of the predicted finish, for the jobs of the last prediction."""
    change, paths, count = 0.0, 0.0, 0
    for j in range(len(sim.job) - 1):
        before, after = candidates.predicted[j], sim.job[j].finish
        candidates.predicted[j] = np.nan
        if sim.job[j].state == JOB_HERE:
            after = predicted_finish(sim, plan, j)
            candidates.predicted[j] = after
        if np.isnan(before):
            continue
        paths, count = paths + _path(sim, plan, j), count + 1
        if not np.isnan(after):
            change += after - before
    if count > 0:
        candidates.reward[REWARD.promise] -= change * count / max(paths, 1e-300)


@njit_inline
def _path(sim: Sim, plan: PlanState, j: int) -> float:
    """Return the highest rank of a job."""
    first = sim.job[j].first
    return float(plan.task[plan.inst[first].order - sim.job[j].shift].rank)


@njit_inline
def _busy_shares(sim: Sim, plan: PlanState) -> tuple[float, float]:
    """Return the share of devices that run a task, and their share of the power."""
    p, busy, power = len(sim.device), 0, 0.0
    for d in range(p):
        if sim.device[d].running >= 0:
            busy, power = busy + 1, power + plan.device[d].power
    return busy / p, power / p


@njit_inline
def _reward_time(
    sim: Sim, plan: PlanState, candidates: Candidates, seconds: float, busy: float, power: float
) -> None:
    """Reward the elapsed time, by the terms of the document."""
    paths, count, late = 0.0, 0, 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            paths, count = paths + _path(sim, plan, j), count + 1
            late += 1 if sim.world[0].now > plan.job[j].deadline else 0
    if count == 0:
        return
    share = seconds * count / max(paths, 1e-300)
    candidates.reward[REWARD.elapsed] -= share
    candidates.reward[REWARD.idle] -= share * (1.0 - busy)
    candidates.reward[REWARD.imbalance] -= share * np.sqrt(busy * (1.0 - busy))
    candidates.reward[REWARD.late] -= share * late
    candidates.reward[REWARD.energy] -= share * power
