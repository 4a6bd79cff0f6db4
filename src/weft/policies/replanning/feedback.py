"""Observations that plans start from: busy devices, and observed durations."""

from __future__ import annotations

import numpy as np

from weft.policies.replanning.state import PlanState
from weft.sim.kernel.commit import free_at
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import batch_growth, task_of
from weft.sim.kernel.tables import Sim

LARGEST_RATIO = 1.5
"""Largest logarithm of observed / estimated that counts: the speed may have changed meanwhile."""


@njit_inline
def observe_devices(sim: Sim, plan: PlanState) -> None:
    """Record when devices are free, and the instances they are busy with."""
    for d in range(len(sim.device)):
        device = plan.device[d]
        device.free, device.busy, device.began = free_at(sim, d), -1, np.nan
        running = sim.device[d].running
        if running >= 0 and sim.entry[running].copy == 0:  # a copy runs for the instance behind it
            device.busy = sim.entry[running].instance
            device.began = sim.device[d].start
        elif sim.device[d].head >= 0:
            entry = sim.device[d].head
            if sim.entry[entry].copy == 1:
                entry = sim.entry[entry].next
            device.busy = sim.entry[entry].instance


@njit_noalloc
def learn_durations(sim: Sim, plan: PlanState, trust: float) -> None:
    """Update the expected durations from the executions since the last call.

    Observations are pooled over devices of one kind, and drawn towards the mean of this device kind
    over all task kinds.
    """
    if collect_durations(sim, plan) and trust != 0.0:
        expect_durations(sim, plan, trust)


@njit_noalloc
def collect_durations(sim: Sim, plan: PlanState) -> bool:
    """Add new executions to the observations; return whether there are any."""
    seen, known = plan.state[0].executions, sim.world[0].executions
    plan.state[0].executions = known
    for x in range(seen, known):
        _learn_from(sim, plan, x)
    return bool(seen != known)


@njit_noalloc
def expect_durations(sim: Sim, plan: PlanState, trust: float) -> None:
    """Compute expected / estimated durations from the observations and the priors."""
    own, of_kind = plan.prior[0].estimate, plan.prior[0].device_kind
    for d in range(len(sim.device)):
        total, count = 0.0, 0.0
        for kind in range(len(sim.kind)):
            total, count = total + plan.pair[kind, d].log_sum, count + plan.pair[kind, d].count
        pooled = total / (count + of_kind)
        for kind in range(len(sim.kind)):
            pair = plan.pair[kind, d]
            pair.factor = np.exp(trust * ((pair.log_sum + own * pooled) / (pair.count + own)))


@njit_inline
def _learn_from(sim: Sim, plan: PlanState, x: int) -> None:
    d, g = sim.execution[x].device, task_of(sim, sim.execution[x].instance)
    estimate = sim.task[g].work * sim.grid[sim.task[g].row, d] * sim.device[d].slowdown
    observed = sim.execution[x].finish - sim.execution[x].start
    if sim.execution[x].status != 0 or sim.execution[x].copy == 1:
        return
    if not 0.0 < estimate < np.inf or observed <= 0.0:
        return
    ratio = min(max(np.log(observed / estimate), -LARGEST_RATIO), LARGEST_RATIO)
    for other in range(len(sim.device)):
        if plan.device[other].kind == plan.device[d].kind:
            pair = plan.pair[sim.task[g].kind, other]
            pair.log_sum += ratio
            pair.count += 1.0
            pair.square_sum += ratio * ratio


@njit_inline
def observed_spread(plan: PlanState) -> tuple[float, float, float, float, float]:
    """Summarise log(observed / estimated duration) over task and device kinds.

    Return the number of observations, the sum of their squares, the number of pairs, the sum of
    squares that the means of pairs explain, and the sum of all.
    """
    count, square, pairs, means, total = 0.0, 0.0, 0.0, 0.0, 0.0
    for d in range(len(plan.device)):
        first = True  # devices of a kind share their observations: they count once
        for other in range(d):
            first = first and plan.device[other].kind != plan.device[d].kind
        if first:
            for kind in range(len(plan.pair)):
                pair = plan.pair[kind, d]
                if pair.count > 0.0:
                    count, square, pairs = count + pair.count, square + pair.square_sum, pairs + 1.0
                    means += pair.log_sum * pair.log_sum / pair.count
                    total += pair.log_sum
    return count, square, pairs, means, total


@njit_inline
def update_rates(sim: Sim, plan: PlanState) -> None:
    """Set the expected / estimated durations at the present speed of each device."""
    for kind in range(len(plan.pair)):
        for d in range(len(sim.device)):
            plan.rate[kind, d] = sim.device[d].slowdown * plan.pair[kind, d].factor


@njit_inline
def expect_ends(sim: Sim, plan: PlanState, overdue: float) -> bool:
    """Set expected ends of committed tasks, clear the plan; False: no device is up."""
    now, up = sim.world[0].now, False
    for d in range(len(sim.device)):
        device = plan.device[d]
        device.used, device.first = 0, -1
        up = up or device.free < np.inf
        i = device.busy
        if i < 0 or device.free == np.inf:
            continue
        if not np.isnan(device.began):
            kind, seconds = sim.task[task_of(sim, i)].kind, _group_seconds(sim, plan, i, d)
            exact = plan.pair[kind, d].factor == 1.0
            ends = device.free if exact else device.began + seconds
            device.free = ends if ends > now else now + overdue * seconds
        while i >= 0:  # all members of a batch end together
            plan.inst[i].device, plan.inst[i].finish = d, device.free
            i = sim.inst[i].partner
    return up


@njit_inline
def _group_seconds(sim: Sim, plan: PlanState, i: int, d: int) -> float:
    """Return the expected duration of a batch: that of its longest member."""
    longest, size, first = 0.0, 0, sim.task[task_of(sim, i)].kind
    while i >= 0:
        size += 1
        g = task_of(sim, i)
        rate = plan.rate[sim.task[g].kind, d]
        longest = max(longest, sim.task[g].work * sim.grid[sim.task[g].row, d] * rate)
        i = sim.inst[i].partner
    return longest * batch_growth(sim, first, d, size)
