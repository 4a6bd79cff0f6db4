"""Step-wise simulation: in each step every idle unit chooses a task kind.

The environment of Debner, Krahn and Hirvisalo (2024), for any stream, on the event kernel. A step
visits the units in order and skips those that are not idle. Action k takes up to `batch` ready
tasks of kind k, oldest job first; it does nothing if an earlier unit emptied that queue in the same
step. The last action is to wait. Then at least one moment is simulated, until a unit is idle, a
task is ready and no further event is due now. See "Steps" in `docs/simulator.md`.
"""

from __future__ import annotations

import numpy as np

from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.trace import DONE as X_DONE
from weft.sim.kernel.commit import any_idle, commit, is_idle
from weft.sim.kernel.events import ENDED, MOMENT, STUCK, advance, next_time
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.rules import first_runnable
from weft.sim.kernel.tables import Sim
from weft.sim.vector.observation import Observation, mask_actions, observe
from weft.sim.vector.state import BatchTables, StepState, busy_for, jobs_here, sim_of, state_of

# -- actions -----------------------------------------------------------------


@njit_inline
def act(sim: Sim, state: StepState, actions: IntArray) -> int:
    """Carry out one action per unit, and simulate up to the next decision."""
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
    return proceed(sim, state)


@njit_inline
def hold(sim: Sim, d: int, until: float) -> None:
    """Hold an idle unit until a time; unlike with `block`, that time is no event."""
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
def _end_first_hold(sim: Sim, state: StepState) -> bool:
    """Make an event of the first end of a hold, if no other event is due.

    If waiting holds units, idle units wait, too.
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
    """Update estimates with outcomes of ended tasks, and of no others (no leak)."""
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
    """Update expected ticks to the end: tasks in sequence on the fastest units."""
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
    """Update the expected number of tasks per kind that are ready soon.

    Executions that end within `within` ticks make them ready. A task with several parents counts
    once per parent.
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
        answer = act(sim, state, actions[s])
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
