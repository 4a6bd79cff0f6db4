"""Steps: units choose task types. The environment of Debner, Krahn and Hirvisalo (2024), for any stream, over the one kernel.

A step visits the units in order and skips those that are not idle. Action k takes up to `batch` ready tasks of kind k, oldest job
first; on a queue that an earlier unit emptied in the same step it does nothing. The last action is to wait. Then moments are lived,
at least one, until a unit is idle, a task is ready and nothing more is due now. See "Steps" in `docs/simulator.md`.
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

SETTING = _record(
    "idle slowest prior tick span age_scale queue_scale", "blocking ages estimate units detail"
)
# slowest: least weight of a new outcome, 1 / window; span: ticks of a typical task; blocking: waiting holds the unit for `idle`
# ticks; the last three: parts of what is seen
WATCH = _record("", "choice slot branches")  # a choice to estimate; its first place in `estimate`
CHANCE = _record(
    "nominal", "slot first last"
)  # of an edge: fixed, estimate[slot], or (slot -2) what first to last leave over
TALLY = _record(
    "cost elapsed", "scanned fresh memory"
)  # fresh: estimates moved since `remaining` was worked out; memory: of a rule


class StepState(NamedTuple):
    """What steps keep beside the simulation; `estimate`, `seen`, `remaining`, `tally` and `scratch` belong to one simulation each."""

    setting: Table  # (1,)
    watch: Table
    watch_ptr: IntArray  # (tasks + 1,) the watched choices of each task
    chance: Table  # (edges,)
    order: IntArray  # (tasks,) topological
    duration: FloatArray  # (tasks, units) ticks, inf where a task cannot run
    depth: IntArray  # (kinds,) place in the order of Depth-First, deepest last
    group: IntArray  # (units,) units alike share a number
    estimate: FloatArray
    seen: IntArray
    remaining: (
        FloatArray  # (tasks,) expected ticks to the end of the job, each task on its fastest unit
    )
    coming: FloatArray  # (kinds,) tasks expected to become ready soon
    tally: Table  # (1,)
    scratch: IntArray


class Fleet(NamedTuple):
    """Many simulations: tables that differ have one more axis in front."""

    sim: Sim
    desk: StepState


@njit_inline
def sim_of(fleet: Fleet, s: int) -> Sim:
    """One simulation of many."""
    f = fleet.sim
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
    )


@njit_inline
def desk_of(fleet: Fleet, s: int) -> StepState:
    """Its desk."""
    f = fleet.desk
    return StepState(
        f.setting,
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
        f.tally[s],
        f.scratch[s],
    )


# -- what a step does --------------------------------------------------------


@njit_inline
def act(sim: Sim, desk: StepState, actions: IntArray) -> None:
    """Carry out one action a unit."""
    for d in range(len(sim.device)):
        if not is_idle(sim, d):
            continue
        kind = actions[d]
        if kind == len(sim.kind):
            if desk.setting[0].blocking == 1:
                hold(sim, d, sim.world[0].now + desk.setting[0].idle)
        elif sim.kind[kind].ready > 0:
            instance = first_runnable(sim, kind, d)
            if instance >= 0:
                commit(sim, instance, d)


@njit_inline
def hold(sim: Sim, d: int, until: float) -> None:
    """Keep an idle unit from being asked until a time. Unlike that of `block`, its end is no event: it is asked at the next one."""
    sim.device[d].blocked_until = until
    sim.device[d].stale = 1


@njit_noalloc
def proceed(sim: Sim, desk: StepState) -> int:
    """Live moments up to the next decision; counts jobs in the system times ticks on the way."""
    desk.tally[0].cost = 0.0
    begin = sim.world[0].now
    answer = MOMENT
    while True:
        before, jobs = sim.world[0].now, jobs_here(sim)
        answer = advance(sim)
        if answer == STUCK and _rouse(sim, desk):
            answer = advance(sim)
        if answer != MOMENT:
            break
        desk.tally[0].cost += (sim.world[0].now - before) * jobs
        _learn_outcomes(sim, desk)
        if sim.world[0].open_jobs == 0:
            answer = ENDED
            break
        if sim.world[0].ready > 0 and any_idle(sim) and next_time(sim) > sim.world[0].now:
            break
    desk.tally[0].elapsed = sim.world[0].now - begin
    return answer


@njit_inline
def jobs_here(sim: Sim) -> int:
    """Jobs in the system: arrived and not finished (streams call no job off)."""
    return int(sim.world[0].next_arrival - (len(sim.job) - 1 - sim.world[0].open_jobs))


@njit_inline
def _rouse(sim: Sim, desk: StepState) -> bool:
    """Nothing is due: the first unit that is held back makes a moment when it is free again. Where waiting holds units, all wait."""
    first = -1
    for d in range(len(sim.device)):
        if desk.setting[0].blocking == 1 and is_idle(sim, d):
            hold(sim, d, sim.world[0].now + desk.setting[0].idle)
        until = sim.device[d].blocked_until
        if until > sim.world[0].now and (first < 0 or until < sim.device[first].blocked_until):
            first = d
    if first >= 0:
        sim.due[first] = sim.device[first].blocked_until
    return first >= 0


# -- estimates ---------------------------------------------------------------


@njit_inline
def _learn_outcomes(sim: Sim, desk: StepState) -> None:
    """Take in the outcomes of tasks that ended: never earlier, so that nothing leaks."""
    for x in range(desk.tally[0].scanned, sim.world[0].executions):
        instance = sim.execution[x].instance
        g = task_of(sim, instance)
        if sim.execution[x].status == X_DONE and desk.watch_ptr[g] < desk.watch_ptr[g + 1]:
            _take_in(sim, desk, g, sim.job[sim.inst[instance].job].choice)
    desk.tally[0].scanned = sim.world[0].executions


@njit_inline
def _take_in(sim: Sim, desk: StepState, g: int, first_choice: int) -> None:
    for w in range(desk.watch_ptr[g], desk.watch_ptr[g + 1]):
        branch = sim.outcome[first_choice + desk.watch[w].choice]
        desk.seen[w] += 1
        weight = max(1.0 / (desk.seen[w] + desk.setting[0].prior), desk.setting[0].slowest)
        for b in range(desk.watch[w].branches - 1):
            at = desk.watch[w].slot + b
            desk.estimate[at] += weight * ((1.0 if branch == b else 0.0) - desk.estimate[at])
    desk.tally[0].fresh = 1


@njit_inline
def chance_of(desk: StepState, edge: int) -> float:
    """How probable an edge is taken, as far as known."""
    c = desk.chance[edge]
    if c.slot >= 0:
        return float(desk.estimate[c.slot])
    if c.slot == -1:
        return float(c.nominal)
    rest = 1.0
    for at in range(c.first, c.last):
        rest -= desk.estimate[at]
    return rest


@njit_inline
def update_remaining(sim: Sim, desk: StepState) -> None:
    """Expected ticks from each task to the end, one after the other on the fastest units."""
    if desk.tally[0].fresh == 0:
        return
    desk.tally[0].fresh = 0
    for at in range(len(desk.order) - 1, -1, -1):
        t = desk.order[at]
        total = np.inf
        for d in range(len(sim.device)):
            total = min(total, desk.duration[t, d])
        for e in range(sim.task[t].succ, sim.task[t + 1].succ):
            total += chance_of(desk, e) * desk.remaining[sim.edge[e].target]
        desk.remaining[t] = total


@njit_inline
def update_coming(sim: Sim, desk: StepState, within: float) -> None:
    """Expected number of tasks of each kind made ready by what ends within so many ticks (a task with several parents counts for each)."""
    for k in range(len(desk.coming)):
        desk.coming[k] = 0.0
    for d in range(len(sim.device)):
        if sim.device[d].running < 0 or busy_for(sim, d) > within:
            continue
        instance = sim.entry[sim.device[d].running].instance
        while instance >= 0:
            g = task_of(sim, instance)
            for e in range(sim.task[g].succ, sim.task[g + 1].succ):
                desk.coming[sim.task[sim.edge[e].target].kind] += chance_of(desk, e)
            instance = sim.inst[instance].partner


# -- what a policy sees ------------------------------------------------------


@njit_inline
def observe(sim: Sim, desk: StepState, seen: Observation) -> None:
    """Queue lengths, mean ages, ages of the first tasks, each by kind; then, where asked for, estimates and units."""
    kinds, now, setting = len(sim.kind), sim.world[0].now, desk.setting[0]
    ages = setting.ages
    scale = setting.tick / setting.age_scale
    for k in range(kinds):
        base, ready = sim.kind[k].pool, sim.kind[k].ready
        total, held = 0.0, 0
        for j in range(ready):
            instance = sim.inst[base + j].pool
            total += now - sim.job[sim.inst[instance].job].arrival
            held = _insert(desk.scratch, held, ages, instance)
        seen[k] = min(ready / setting.queue_scale, 1.0)
        seen[kinds + k] = min(total / ready * scale, 1.0) if ready > 0 else 0.0
        for j in range(ages):
            age = 0.0
            if j < held:
                age = now - sim.job[sim.inst[desk.scratch[j]].job].arrival
            seen[2 * kinds + k * ages + j] = min(age * scale, 1.0)
    at = kinds * (2 + ages)
    if setting.estimate == 1:
        for j in range(len(desk.estimate)):
            seen[at + j] = desk.estimate[j]
        at += len(desk.estimate)
    if setting.units == 1:
        _observe_units(sim, desk, seen, at)


@njit_inline
def _insert(first: IntArray, held: int, most: int, instance: int) -> int:
    """Keep the `most` lowest instance numbers, sorted."""
    if held == most and (most == 0 or instance > first[most - 1]):
        return held
    at = held if held < most else most - 1
    while at > 0 and first[at - 1] > instance:
        first[at] = first[at - 1]
        at -= 1
    first[at] = instance
    return held + 1 if held < most else held


@njit_inline
def _observe_units(sim: Sim, desk: StepState, seen: Observation, at: int) -> None:
    """For each unit: how long until it is free, as t / (t + a typical task), and the kind it runs; then jobs in the system.

    In detail the kind is marked by how full the batch is, not by 1, and the time since the last arrival comes last.
    """
    kinds, detail = len(sim.kind), desk.setting[0].detail == 1
    for d in range(len(sim.device)):
        busy = busy_for(sim, d)
        seen[at] = busy / (busy + desk.setting[0].span)
        for k in range(kinds):
            seen[at + 1 + k] = 0.0
        if sim.device[d].running >= 0:
            fill = members(sim, d) / sim.device[d].batch if detail else 1.0
            seen[at + 1 + sim.device[d].last_kind] = fill
        at += 1 + kinds
    seen[at] = min(jobs_here(sim) / desk.setting[0].queue_scale, 1.0)
    if detail:
        last = sim.world[0].next_arrival - 1
        ago = sim.world[0].now - sim.job[last].arrival if last >= 0 else 0.0
        seen[at + 1] = ago / (ago + desk.setting[0].span)


@njit_inline
def members(sim: Sim, d: int) -> int:
    """Tasks in what a unit runs."""
    size, instance = 0, sim.entry[sim.device[d].running].instance
    while instance >= 0:
        size, instance = size + 1, sim.inst[instance].partner
    return size


@njit_inline
def busy_for(sim: Sim, d: int) -> float:
    """Ticks until a unit is expected to be free."""
    until = sim.device[d].blocked_until
    if sim.device[d].running >= 0:
        until = max(until, sim.device[d].expected)
    return float(max(until - sim.world[0].now, 0.0))


@njit_inline
def mask_actions(sim: Sim, desk: StepState, mask: BoolArray) -> None:
    """Which of (units x (kinds + 1)) actions are allowed: an idle unit may take what is ready and runs there; all may wait.

    Where waiting blocks nothing it is not allowed when nothing is in flight or due, to a unit that has something to do.
    """
    kinds = len(sim.kind)
    may_wait = desk.setting[0].blocking == 1 or next_time(sim) < np.inf
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


# -- many at once ------------------------------------------------------------


@njit_noalloc
def step_many(
    fleet: Fleet,
    actions: IntArray,
    seen: Observation,
    mask: BoolArray,
    reward: FloatArray,
    elapsed: FloatArray,
    done: BoolArray,
) -> int:
    """One step of every simulation; returns the number of one that is stuck, or -1. Those done are to be begun anew by the caller."""
    tick = fleet.desk.setting[0].tick
    stuck = -1
    for s in range(len(done)):
        sim, desk = sim_of(fleet, s), desk_of(fleet, s)
        act(sim, desk, actions[s])
        answer = proceed(sim, desk)
        reward[s] = -desk.tally[0].cost * tick
        elapsed[s] = desk.tally[0].elapsed * tick
        done[s] = answer == ENDED
        if answer == STUCK:
            stuck = s
        observe(sim, desk, seen[s])
        mask_actions(sim, desk, mask[s])
    return stuck


@njit_noalloc
def begin_one(fleet: Fleet, s: int, seen: Observation, mask: BoolArray) -> int:
    """Live up to the first decision of a simulation that was laid out anew."""
    sim, desk = sim_of(fleet, s), desk_of(fleet, s)
    answer = proceed(sim, desk)
    observe(sim, desk, seen[s])
    mask_actions(sim, desk, mask[s])
    return answer


def observation_size(kinds: int, units: int, slots: int, setting: Any) -> int:
    """How long an observation is."""
    size = kinds * (2 + int(setting["ages"]))
    size += slots if setting["estimate"] else 0
    return size + (units * (1 + kinds) + 1 + int(setting["detail"]) if setting["units"] else 0)
