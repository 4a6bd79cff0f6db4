"""Observations of conditional policies and masks of their actions, compiled.

An observation has, by kind of task: the length of its queue, the mean age of its jobs, and the ages
of the first ones; then, as the options of the stream ask for them, the estimated probabilities of
branches, and the units: the time until each is free, what it runs, and the jobs in the system. All
numbers are within [0, 1]. `policies/conditional/network_policy.py` makes the same numbers from a
`View`, for simulations by events and for real runs; a test compares them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.model.columns import BoolArray, IntArray
from weft.sim.kernel.commit import can_run, is_idle
from weft.sim.kernel.events import next_time
from weft.sim.kernel.jit import njit_inline
from weft.sim.kernel.ready_heap import pool_top
from weft.sim.kernel.rules import first_runnable
from weft.sim.kernel.tables import Sim
from weft.sim.vector.state import StepState, busy_for, jobs_here, members

Observation = NDArray[np.float32]


@njit_inline
def observe(sim: Sim, state: StepState, seen: Observation) -> None:
    """Write queue lengths and ages of tasks by kind, then optional parts.

    The ages are the mean and those of the first tasks.
    """
    kinds, now, config = len(sim.kind), sim.world[0].now, state.config[0]
    ages = config.ages
    scale = config.tick / config.age_scale
    for k in range(kinds):
        base, ready = sim.kind[k].pool, sim.kind[k].ready
        total, held = 0.0, 0
        for j in range(ready):
            instance = sim.inst[base + j].pool
            total += now - sim.job[sim.inst[instance].job].arrival
            held = _insert(state.scratch, held, ages, instance)
        seen[k] = min(ready / config.queue_scale, 1.0)
        seen[kinds + k] = min(total / ready * scale, 1.0) if ready > 0 else 0.0
        for j in range(ages):
            age = 0.0
            if j < held:
                age = now - sim.job[sim.inst[state.scratch[j]].job].arrival
            seen[2 * kinds + k * ages + j] = min(age * scale, 1.0)
    at = kinds * (2 + ages)
    if config.estimate == 1:
        for j in range(len(state.estimate)):
            seen[at + j] = state.estimate[j]
        at += len(state.estimate)
    if config.units == 1:
        _observe_units(sim, state, seen, at)


@njit_inline
def _insert(first: IntArray, held: int, most: int, instance: int) -> int:
    """Insert into a sorted list of the `most` lowest instance numbers."""
    if held == most and (most == 0 or instance > first[most - 1]):
        return held
    at = held if held < most else most - 1
    while at > 0 and first[at - 1] > instance:
        first[at] = first[at - 1]
        at -= 1
    first[at] = instance
    return held + 1 if held < most else held


@njit_inline
def _observe_units(sim: Sim, state: StepState, seen: Observation, at: int) -> None:
    """Write time until free and kind per unit, then jobs in the system.

    A time t is written as t / (t + span). With `detail`, the fill of the batch marks the kind
    instead of 1, and the time since the last arrival comes last.
    """
    kinds, detail = len(sim.kind), state.config[0].detail == 1
    for d in range(len(sim.device)):
        busy = busy_for(sim, d)
        seen[at] = busy / (busy + state.config[0].span)
        for k in range(kinds):
            seen[at + 1 + k] = 0.0
        if sim.device[d].running >= 0:
            fill = members(sim, d) / sim.device[d].batch if detail else 1.0
            seen[at + 1 + sim.device[d].last_kind] = fill
        at += 1 + kinds
    seen[at] = min(jobs_here(sim) / state.config[0].queue_scale, 1.0)
    if detail:
        last = sim.world[0].next_arrival - 1
        ago = sim.world[0].now - sim.job[last].arrival if last >= 0 else 0.0
        seen[at + 1] = ago / (ago + state.config[0].span)


@njit_inline
def mask_actions(sim: Sim, state: StepState, mask: BoolArray) -> None:
    """Mark the allowed actions, (units x (kinds + 1)).

    An idle unit may take ready tasks that it can run; all units may wait. With `idle="event"` a
    unit that could run a task may not wait when no event is due.
    """
    kinds = len(sim.kind)
    may_wait = state.config[0].blocking == 1 or next_time(sim) < np.inf
    for d in range(len(sim.device)):
        at = d * (kinds + 1)
        something = False
        idle = is_idle(sim, d)
        for k in range(kinds):
            ready = idle and sim.kind[k].ready > 0
            if ready and not can_run(sim, pool_top(sim, k), d):
                ready = first_runnable(sim, k, d) >= 0
            mask[at + k] = ready
            something = something or ready
        mask[at + kinds] = may_wait or not something


def observation_size(kinds: int, units: int, slots: int, config: Any) -> int:
    """Return the length of an observation."""
    size = kinds * (2 + int(config["ages"]))
    size += slots if config["estimate"] else 0
    return size + (units * (1 + kinds) + 1 + int(config["detail"]) if config["units"] else 0)
