"""Step-wise simulation: in each step every idle unit chooses a task kind.

The environment of Debner, Krahn and Hirvisalo (2024), for any stream, on the event kernel. A step
visits the units in order and skips those that are not idle. Action k takes up to `batch` ready
tasks of kind k, oldest job first; it does nothing if an earlier unit emptied that queue in the same
step. The last action is to wait. Then at least one moment is simulated, until a unit is idle, a
task is ready and no further event is due now. See "Steps" in `docs/simulator.md`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.trace import DONE as X_DONE
from weft.sim.kernel.commit import any_idle, can_run, commit, is_idle
from weft.sim.kernel.events import ENDED, MOMENT, STUCK, advance, next_time
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.ready_heap import pool_top
from weft.sim.kernel.records import record as _record
from weft.sim.kernel.rules import first_runnable
from weft.sim.kernel.tables import Sim, Table

Observation = NDArray[np.float32]

CONFIG = _record(
    "idle_ticks slowest prior tick span age_scale queue_scale",
    "blocking ages estimate units detail",
)
# slowest: least weight of a new outcome, 1 / window; span: ticks of a typical task; blocking: a
# unit that waits is held for `idle_ticks`; estimate, units, detail: parts of the observation
WATCH = _record("", "choice slot branches")  # a choice to estimate; its first place in `estimate`
CHANCE = _record("nominal", "slot first last")
# of an edge: slot -1: `nominal`; slot -2: 1 minus the estimates first to last; else estimate[slot]
COUNTERS = _record("cost elapsed", "scanned fresh memory")
# fresh: estimates changed since `remaining` was computed; memory: last kind chosen by a rule


class StepState(NamedTuple):
    """Options and estimates beside the simulation.

    `estimate`, `seen`, `remaining`, `coming`, `counters` and `scratch` belong to one simulation.
    """

    config: Table  # (1,)
    watch: Table
    watch_ptr: IntArray  # (tasks + 1,) the watched choices of each task
    chance: Table  # (edges,)
    order: IntArray  # (tasks,) topological
    duration: FloatArray  # (tasks, units) ticks, inf where a task cannot run
    depth: IntArray  # (kinds,) place in the order of Depth-First, deepest last
    group: IntArray  # (units,) identical units share a number
    estimate: FloatArray
    seen: IntArray
    remaining: FloatArray  # (tasks,) expected ticks to the end of the job on the fastest units
    coming: FloatArray  # (kinds,) tasks expected to become ready soon
    counters: Table  # (1,)
    scratch: IntArray


class BatchTables(NamedTuple):
    """Many simulations: tables that differ between them have one more axis in front."""

    sim: Sim
    state: StepState


@njit_inline
def sim_of(batch: BatchTables, s: int) -> Sim:
    """Return the tables of one simulation."""
    f = batch.sim
    return Sim(
        f.world[s],
        f.task,
        f.edge,
        f.job[s],
        f.inst[s],
        f.entry[s],
        f.kind[s],
        f.device[s],
        f.due[s],
        f.execution[s],
        f.change,
        f.grid,
        f.outcome[s],
        f.need,
        f.room[s],
        f.flow,
        f.link,
        f.inbound,
        f.route,
        f.loaded[s],
    )


@njit_inline
def state_of(batch: BatchTables, s: int) -> StepState:
    """Return the step state of one simulation."""
    f = batch.state
    return StepState(
        f.config,
        f.watch,
        f.watch_ptr,
        f.chance,
        f.order,
        f.duration,
        f.depth,
        f.group,
        f.estimate[s],
        f.seen[s],
        f.remaining[s],
        f.coming[s],
        f.counters[s],
        f.scratch[s],
    )


# -- actions -----------------------------------------------------------------


@njit_inline
def act(sim: Sim, state: StepState, actions: IntArray) -> None:
    """Carry out one action per unit."""
    for d in range(len(sim.device)):
        if not is_idle(sim, d):
            continue
        kind = actions[d]
        if kind == len(sim.kind):
            if state.config[0].blocking == 1:
                hold(sim, d, sim.world[0].now + state.config[0].idle_ticks)
        elif sim.kind[kind].ready > 0:
            instance = first_runnable(sim, kind, d)
            if instance >= 0:
                commit(sim, instance, d)


@njit_inline
def hold(sim: Sim, d: int, until: float) -> None:
    """Hold an idle unit until a time. Unlike with `block`, the end of the hold is no event."""
    sim.device[d].blocked_until = until
    sim.device[d].stale = 1


@njit_noalloc
def proceed(sim: Sim, state: StepState) -> int:
    """Simulate up to the next decision; add up jobs in the system times ticks."""
    state.counters[0].cost = 0.0
    begin = sim.world[0].now
    answer = MOMENT
    while True:
        before, jobs = sim.world[0].now, jobs_here(sim)
        answer = advance(sim)
        if answer == STUCK and _end_first_hold(sim, state):
            answer = advance(sim)
        if answer != MOMENT:
            break
        state.counters[0].cost += (sim.world[0].now - before) * jobs
        read_outcomes(sim, state)
        if sim.world[0].open_jobs == 0:
            answer = ENDED
            break
        if sim.world[0].ready > 0 and any_idle(sim) and next_time(sim) > sim.world[0].now:
            break
    state.counters[0].elapsed = sim.world[0].now - begin
    return answer


@njit_inline
def jobs_here(sim: Sim) -> int:
    """Return the number of jobs in the system (streams cancel no job)."""
    return int(sim.world[0].next_arrival - (len(sim.job) - 1 - sim.world[0].open_jobs))


@njit_inline
def _end_first_hold(sim: Sim, state: StepState) -> bool:
    """Make an event of the first hold that ends, where no other event is due.

    Where waiting holds units, the idle ones wait as well.
    """
    first = -1
    for d in range(len(sim.device)):
        if state.config[0].blocking == 1 and is_idle(sim, d):
            hold(sim, d, sim.world[0].now + state.config[0].idle_ticks)
        until = sim.device[d].blocked_until
        if until > sim.world[0].now and (first < 0 or until < sim.device[first].blocked_until):
            first = d
    if first >= 0:
        sim.due[first] = sim.device[first].blocked_until
    return first >= 0


# -- estimates ---------------------------------------------------------------


@njit_inline
def read_outcomes(sim: Sim, state: StepState) -> None:
    """Update estimates with the outcomes of tasks that ended: never earlier (no leak)."""
    for x in range(state.counters[0].scanned, sim.world[0].executions):
        instance = sim.execution[x].instance
        g = task_of(sim, instance)
        if sim.execution[x].status == X_DONE and state.watch_ptr[g] < state.watch_ptr[g + 1]:
            _update_estimates(sim, state, g, sim.job[sim.inst[instance].job].choice)
    state.counters[0].scanned = sim.world[0].executions


@njit_inline
def _update_estimates(sim: Sim, state: StepState, g: int, first_choice: int) -> None:
    for w in range(state.watch_ptr[g], state.watch_ptr[g + 1]):
        branch = sim.outcome[first_choice + state.watch[w].choice]
        state.seen[w] += 1
        weight = max(1.0 / (state.seen[w] + state.config[0].prior), state.config[0].slowest)
        for b in range(state.watch[w].branches - 1):
            at = state.watch[w].slot + b
            state.estimate[at] += weight * ((1.0 if branch == b else 0.0) - state.estimate[at])
    state.counters[0].fresh = 1


@njit_inline
def chance_of(state: StepState, edge: int) -> float:
    """Return the estimated probability that an edge is taken."""
    c = state.chance[edge]
    if c.slot >= 0:
        return float(state.estimate[c.slot])
    if c.slot == -1:
        return float(c.nominal)
    rest = 1.0
    for at in range(c.first, c.last):
        rest -= state.estimate[at]
    return rest


@njit_inline
def update_remaining(sim: Sim, state: StepState) -> None:
    """Update the expected ticks from each task to the end, in sequence on the fastest units."""
    if state.counters[0].fresh == 0:
        return
    state.counters[0].fresh = 0
    for at in range(len(state.order) - 1, -1, -1):
        t = state.order[at]
        total = np.inf
        for d in range(len(sim.device)):
            total = min(total, state.duration[t, d])
        for e in range(sim.task[t].succ, sim.task[t + 1].succ):
            total += chance_of(state, e) * state.remaining[sim.edge[e].target]
        state.remaining[t] = total


@njit_inline
def update_coming(sim: Sim, state: StepState, within: float) -> None:
    """Update the expected number of tasks per kind that executions ending `within` make ready.

    A task with several parents counts once per parent.
    """
    for k in range(len(state.coming)):
        state.coming[k] = 0.0
    for d in range(len(sim.device)):
        if sim.device[d].running < 0 or busy_for(sim, d) > within:
            continue
        instance = sim.entry[sim.device[d].running].instance
        while instance >= 0:
            g = task_of(sim, instance)
            for e in range(sim.task[g].succ, sim.task[g + 1].succ):
                state.coming[sim.task[sim.edge[e].target].kind] += chance_of(state, e)
            instance = sim.inst[instance].partner


# -- observation -------------------------------------------------------------


@njit_inline
def observe(sim: Sim, state: StepState, seen: Observation) -> None:
    """Write queue lengths, mean ages and ages of the first tasks by kind, then optional parts."""
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
    """Write time until free, as t / (t + span), and kind per unit; then jobs in the system.

    With `detail` the kind is marked by the fill of the batch instead of 1, and the time since the
    last arrival comes last.
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
def members(sim: Sim, d: int) -> int:
    """Return the number of tasks in the running batch of a unit."""
    size, instance = 0, sim.entry[sim.device[d].running].instance
    while instance >= 0:
        size, instance = size + 1, sim.inst[instance].partner
    return size


@njit_inline
def busy_for(sim: Sim, d: int) -> float:
    """Return the ticks until a unit is expected to be free."""
    until = sim.device[d].blocked_until
    if sim.device[d].running >= 0:
        until = max(until, sim.device[d].expected)
    return float(max(until - sim.world[0].now, 0.0))


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


# -- batches -----------------------------------------------------------------


@njit_noalloc
def step_many(
    batch: BatchTables,
    actions: IntArray,
    seen: Observation,
    mask: BoolArray,
    reward: FloatArray,
    elapsed: FloatArray,
    done: BoolArray,
) -> int:
    """Step every simulation; return the number of a stuck one, or -1."""
    tick = batch.state.config[0].tick
    stuck = -1
    for s in range(len(done)):
        sim, state = sim_of(batch, s), state_of(batch, s)
        act(sim, state, actions[s])
        answer = proceed(sim, state)
        reward[s] = -state.counters[0].cost * tick
        elapsed[s] = state.counters[0].elapsed * tick
        done[s] = answer == ENDED
        if answer == STUCK:
            stuck = s
        observe(sim, state, seen[s])
        mask_actions(sim, state, mask[s])
    return stuck


@njit_noalloc
def begin_one(batch: BatchTables, s: int, seen: Observation, mask: BoolArray) -> int:
    """Simulate a new simulation up to its first decision."""
    sim, state = sim_of(batch, s), state_of(batch, s)
    answer = proceed(sim, state)
    observe(sim, state, seen[s])
    mask_actions(sim, state, mask[s])
    return answer


def observation_size(kinds: int, units: int, slots: int, config: Any) -> int:
    """Return the length of an observation."""
    size = kinds * (2 + int(config["ages"]))
    size += slots if config["estimate"] else 0
    return size + (units * (1 + kinds) + 1 + int(config["detail"]) if config["units"] else 0)
