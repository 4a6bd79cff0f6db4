"""One policy for any conditional graph on any units: a small network scores every (unit, kind) pair, with the same weights for all.

The best pair is taken, again and again while its score is above zero; the other units wait. What a pair is scored by has no unit and
no size: times in those of a typical task, counts in batches, so that weights learned on some graphs serve on others. A `Situation`
is all that is read; it is filled from the compiled simulation here, and from a `View` by `pair_policy.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.policies.conditional.networks import Network, Numbers, forward
from weft.sim.kernel.commit import can_run, is_idle
from weft.sim.kernel.events import next_time
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.ready_heap import pool_top
from weft.sim.kernel.rules import first_runnable
from weft.sim.kernel.tables import Sim
from weft.sim.vector.step import (
    StepState,
    busy_for,
    chance_of,
    jobs_here,
    update_coming,
    update_remaining,
)

PAIR_FEATURES = (
    "fill",
    "full",
    "queue",
    "slower than the best unit",
    "duration",
    "duration a task",
    "remaining",
    "remaining a task",
    "age",
    "other idle units",
    "slower than another idle unit",
    "sooner on a busy unit",
    "coming",
    "running",
    "crowd",
    "locked",
    "batch",
    "flow during it",
    "flow",
    "jobs",
    "waiting work",
    "slower than another kind",
    "units that run it best",
)
"""What a pair is scored by, each of the order of 1; see `_describe`."""

LONG = 3.0
"""Units busy for more than so many typical tasks are locked."""
SOON = 1.0
"""Tasks that end within so many typical tasks are about to bring others."""


class Situation(NamedTuple):
    """What is known at a decision. Times are in ticks, or in any other unit: they are divided by `span`.

    `left`, `aged`, `seconds`, `rest`, `coming` and `flow` go by kind: ready tasks; the age of the first one's job; (kinds, units) its
    duration, inf where a unit cannot run it; its expected time to the end of the job; tasks expected soon; tasks expected per time.
    `idle`, `busy`, `batch` and `runs` go by unit: whether it may be given something; the time until it is free; the most it
    takes; the kind it runs, or -1. `scalar`: a typical task, jobs in the system, and whether all may wait (1) or not (0).
    """

    left: IntArray
    aged: FloatArray
    seconds: FloatArray
    rest: FloatArray
    coming: FloatArray
    flow: FloatArray
    idle: BoolArray
    busy: FloatArray
    batch: IntArray
    runs: IntArray
    scalar: FloatArray
    visit: FloatArray  # (tasks,) space to work out how often tasks run
    feature: Numbers
    score: FloatArray  # (units,) space for the shortest time a task takes of any kind


def make_situation(tasks: int, kinds: int, units: int) -> Situation:
    """Room for a situation."""
    by_kind, by_unit = np.zeros(kinds), np.zeros(units)
    return Situation(
        left=np.zeros(kinds, np.int64),
        aged=by_kind.copy(),
        seconds=np.zeros((kinds, units)),
        rest=by_kind.copy(),
        coming=by_kind.copy(),
        flow=by_kind.copy(),
        idle=np.zeros(units, np.bool_),
        busy=by_unit.copy(),
        batch=np.zeros(units, np.int64),
        runs=np.zeros(units, np.int64),
        scalar=np.zeros(3),
        visit=np.zeros(tasks),
        feature=np.zeros(len(PAIR_FEATURES), np.float32),
        score=by_unit.copy(),
    )


# -- from a simulation -----------------------------------------------------------------


@njit_noalloc
def fill_situation(sim: Sim, desk: StepState, now: Situation) -> None:
    """Read off the simulation what the policy may know."""
    kinds, units = len(sim.kind), len(sim.device)
    if desk.counters[0].fresh == 1 or now.visit[desk.order[0]] == 0.0:
        _update_flow(sim, desk, now)
    update_remaining(sim, desk)
    update_coming(sim, desk, SOON * desk.config[0].span)
    time = sim.world[0].now
    rate = sim.world[0].next_arrival / time if time > 0 else 0.0
    for d in range(units):
        now.idle[d] = is_idle(sim, d)
        now.busy[d] = busy_for(sim, d)
        now.batch[d] = sim.device[d].batch
        now.runs[d] = sim.device[d].last_kind if sim.device[d].running >= 0 else -1
    for k in range(kinds):
        now.left[k] = sim.kind[k].ready
        now.coming[k] = desk.coming[k]
        now.aged[k], now.rest[k] = 0.0, 0.0
        if now.left[k] == 0:
            continue
        top = pool_top(sim, k)
        task = task_of(sim, top)
        now.aged[k] = time - sim.job[sim.inst[top].job].arrival
        now.rest[k] = desk.remaining[task]
        for d in range(units):
            first = top if can_run(sim, top, d) else first_runnable(sim, k, d)
            now.seconds[k, d] = desk.duration[task_of(sim, first), d] if first >= 0 else np.inf
    now.scalar[0] = desk.config[0].span
    now.scalar[1] = jobs_here(sim)
    now.scalar[2] = 1.0 if next_time(sim) < np.inf else 0.0
    for k in range(kinds):
        now.flow[k] = 0.0
    for t in range(len(now.visit)):
        now.flow[sim.task[t].kind] += now.visit[t] * rate


@njit_inline
def _update_flow(sim: Sim, desk: StepState, now: Situation) -> None:
    """How often a job runs each task, as far as known; parents count as independent."""
    for at in range(len(desk.order)):
        t = desk.order[at]
        now.visit[t] = 1.0 if sim.task[t].pred == sim.task[t + 1].pred else 0.0
    for at in range(len(desk.order)):
        t = desk.order[at]
        for e in range(sim.task[t].succ, sim.task[t + 1].succ):
            v = sim.edge[e].target
            now.visit[v] = 1.0 - (1.0 - now.visit[v]) * (1.0 - now.visit[t] * chance_of(desk, e))


# -- the choice ------------------------------------------------------------------------


@njit_noalloc
def choose_pairs(now: Situation, network: Network, space: Numbers, actions: IntArray) -> None:
    """Give units kinds, the pair of the highest score first; `now` is used up. The number of kinds stands for waiting."""
    kinds, units = len(now.left), len(now.idle)
    for d in range(units):
        actions[d] = kinds
    chosen = 0
    while True:
        unit, kind, best = -1, -1, -np.inf
        _best_paces(now)
        for d in range(units):
            if not now.idle[d]:
                continue
            for k in range(kinds):
                if now.left[k] == 0 or now.seconds[k, d] == np.inf:
                    continue
                _describe(now, d, k)
                score = float(space[forward(network, now.feature, space), 0])
                if score > best:
                    unit, kind, best = d, k, score
        if unit < 0 or (best <= 0.0 and (chosen > 0 or now.scalar[2] == 1.0)):
            return
        actions[unit] = kind
        now.left[kind] -= min(now.left[kind], now.batch[unit])
        now.idle[unit] = False
        now.busy[unit] = now.seconds[kind, unit]
        now.runs[unit] = kind
        chosen += 1


@njit_inline
def _best_paces(now: Situation) -> None:
    """For each unit, the shortest time that a task of any kind takes there, its batch as full as it can be."""
    for d in range(len(now.idle)):
        now.score[d] = np.inf
        for k in range(len(now.left)):
            if now.left[k] > 0 and now.seconds[k, d] < np.inf:
                now.score[d] = min(now.score[d], now.seconds[k, d] / min(now.left[k], now.batch[d]))


@njit_inline
def _log(x: float, most: float) -> float:
    """A logarithm within limits; zero times are as short as it gets."""
    if x <= 0.0:
        return -most
    return float(min(max(np.log(x), -most), most))


@njit_inline
def _describe(now: Situation, d: int, k: int) -> None:
    """Write the features of a pair."""
    units, span, f = len(now.idle), now.scalar[0], now.feature
    here, left, batch = now.seconds[k, d], now.left[k], now.batch[d]
    taken = min(left, batch)
    best, idle_best, soonest = here, np.inf, np.inf
    idle, locked, same, best_units, crowd = 0, 0, 0, 0, 0
    for o in range(units):
        there = now.seconds[k, o]
        best = min(best, there)
        locked += 1 if now.busy[o] > LONG * span else 0
        same += 1 if now.runs[o] == k else 0
        if o == d:
            continue
        if now.idle[o]:
            idle += 1
            idle_best = min(idle_best, there)
        else:
            soonest = min(soonest, now.busy[o] + there)
    for o in range(units):
        best_units += 1 if now.seconds[k, o] <= best * 1.1 else 0
    for other in range(len(now.left)):
        crowd += now.left[other]
    f[0] = taken / batch
    f[1] = 1.0 if left >= batch else 0.0
    f[2] = np.log1p(left) / 2.0
    f[3] = _log(here / best, 3.0) if best > 0.0 else 0.0
    f[4] = _log(here / span, 5.0) / 2.0
    f[5] = _log(here / (taken * span), 5.0) / 2.0
    f[6] = _log(now.rest[k] / span, 5.0) / 2.0
    f[7] = _log(now.rest[k] / (taken * span), 5.0) / 2.0
    f[8] = min(now.aged[k] / (10.0 * span), 3.0)
    f[9] = idle / units
    f[10] = _log(here / idle_best, 2.0) if 0.0 < idle_best < np.inf else 0.0
    f[11] = max((here - soonest) / here, -1.0) if here > 0.0 and soonest < np.inf else -1.0
    f[12] = min(now.coming[k] / batch, 2.0)
    f[13] = same / units
    f[14] = np.log1p(crowd / units)
    f[15] = locked / units
    f[16] = np.log(batch) / 2.0
    f[17] = np.log1p(now.flow[k] * here / batch)
    f[18] = min(now.flow[k] * span, 3.0)
    f[19] = np.log1p(now.scalar[1] / units)
    f[20] = np.log1p(left * best / span) / 2.0
    f[21] = _log(here / (taken * now.score[d]), 3.0) if 0.0 < now.score[d] < np.inf else 0.0
    f[22] = best_units / units
