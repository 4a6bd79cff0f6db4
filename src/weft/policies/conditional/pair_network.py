"""Network that scores pairs of unit and task kind, for any conditional graph.

All pairs are scored with the same weights. The pair of highest score is taken, repeatedly while its
score is above zero; the other units wait. The features have no unit and no size (times are relative
to a typical task, counts to batches), so that weights learned on some graphs fit others. They are
computed from a `PairState`, which is filled from a simulation here, and from a `View` by
`network_policy.py`.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.model import Workload
from weft.model.columns import BoolArray, FloatArray, IntArray, Numbers
from weft.model.conditional_stream import in_ticks
from weft.policies.conditional.networks import Network, forward, working_space
from weft.policies.conditional.waiting import shorten_waits, stuck
from weft.sim.kernel.commit import can_run, is_idle
from weft.sim.kernel.events import MOMENT, STUCK, next_time
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.ready_heap import pool_top
from weft.sim.kernel.records import record
from weft.sim.kernel.rules import first_runnable
from weft.sim.kernel.setup import setup_seconds
from weft.sim.kernel.tables import RecordTable, Sim
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.state import BatchTables, StepState, busy_for, jobs_here, sim_of, state_of
from weft.sim.vector.step import act, chance_of, proceed, update_coming, update_remaining
from weft.typed import typed_dataclass

LONG = 3.0
"""A unit that is busy for longer than this many typical tasks is locked."""
SOON = 1.0
"""A task that ends within the time of this many typical tasks makes others ready soon."""


class PairFeatures(NamedTuple):
    """Places of the features of a pair, all of the order of 1; times over `span`."""

    fill: int  # share of the batch
    full: int  # 1: the batch is full
    queue: int  # logarithm of the ready tasks of the kind
    slower_than_the_best_unit: int  # logarithm of the ratio of durations
    duration: int  # logarithm
    duration_a_task: int  # logarithm of the duration per task of the batch
    remaining: int  # logarithm of the expected time to the end of the job
    remaining_a_task: int  # the same per task of the batch
    age: int  # of the job of the first ready task
    other_idle_units: int  # share of the units
    slower_than_another_idle_unit: int  # logarithm of the ratio of durations
    sooner_on_a_busy_unit: int  # how much earlier a busy unit would finish, relative to duration
    coming: int  # tasks of the kind that become ready soon, relative to the batch
    running: int  # share of the units that run the kind
    crowd: int  # logarithm of the ready tasks of all kinds per unit
    locked: int  # share of the units
    batch: int  # logarithm of the largest batch
    flow_during_it: int  # logarithm of the expected tasks of the kind per batch, while it runs
    flow: int  # expected tasks of the kind per typical task
    jobs: int  # logarithm of the jobs in the system per unit
    waiting_work: int  # logarithm of the ready tasks times their duration on the best unit
    slower_than_another_kind: int  # logarithm of the ratio of durations per task
    units_that_run_it_best: int  # share of the units
    urgency: int  # near 1 when the deadline of the first job is near, 0 without a deadline
    late: int  # 1: the first job is expected to miss its deadline
    priority: int  # p / (1 + |p|) of the first job


FEATURE = PairFeatures(*range(len(PairFeatures._fields)))
PAIR_FEATURES = tuple(name.replace("_", " ") for name in PairFeatures._fields)
"""Names of the features on cards."""
OBSERVATION = {"name": "pairs", "version": 1, "features": list(PAIR_FEATURES)}
"""Observation on the cards of such networks."""

CONTEXT = record("span jobs deadline priority", "may_wait")
# span: time of a typical task; jobs: in the system; deadline (after the arrival), priority: of the
# jobs of a stream; may_wait: 0 if at least one unit must act


class PairState(NamedTuple):
    """State of the kinds and units at a decision; times are in the unit of `span`."""

    left: IntArray  # (kinds,) ready tasks
    age: FloatArray  # (kinds,) of the job of the first ready task
    left_time: FloatArray  # (kinds,) until the deadline of this job, inf without one
    priority: FloatArray  # (kinds,) of this job
    duration: FloatArray  # (kinds, units) of that task, inf where it cannot run
    remaining: FloatArray  # (kinds,) its expected time to the end of the job
    coming: FloatArray  # (kinds,) tasks expected soon
    flow: FloatArray  # (kinds,) tasks expected per time
    idle: BoolArray  # (units,)
    busy: FloatArray  # (units,) time until it is free
    batch: IntArray  # (kinds, units) most tasks of a batch
    growth: FloatArray  # (kinds, units, largest batch) seconds of a batch over those of one task
    setup: FloatArray  # (kinds, units) time of the set-up before it
    running: IntArray  # (units,) the kind it runs, or -1
    context: RecordTable  # (1,)
    visit: FloatArray  # (tasks,) how often a job runs each task
    feature: Numbers  # buffer: features of one pair
    least: FloatArray  # (units,) buffer: least time per task of any kind


def make_pair_state(workload: Workload) -> PairState:
    """Allocate a state."""
    kinds, units = len(workload.kinds), workload.cluster.p
    tasks = sum(problem.n for problem in workload.problems)
    return PairState(
        left=np.zeros(kinds, np.int64),
        age=np.zeros(kinds),
        left_time=np.full(kinds, np.inf),
        priority=np.zeros(kinds),
        duration=np.zeros((kinds, units)),
        remaining=np.zeros(kinds),
        coming=np.zeros(kinds),
        flow=np.zeros(kinds),
        idle=np.zeros(units, np.bool_),
        busy=np.zeros(units),
        batch=np.array(workload.batch_limit),
        growth=np.array(workload.batch_growth),
        setup=np.zeros((kinds, units)),
        running=np.zeros(units, np.int64),
        context=np.zeros(1, CONTEXT),
        visit=np.zeros(tasks),
        feature=np.zeros(len(PAIR_FEATURES), np.float32),
        least=np.zeros(units),
    )


@typed_dataclass(frozen=True, eq=False)
class PairPolicy:
    """A network over `PAIR_FEATURES` with one output, for step-wise simulations."""

    network: Network
    name: str = "any"
    _space: Numbers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse networks of another shape."""
        if self.network.sizes[0] != len(PAIR_FEATURES) or self.network.sizes[-1] != 1:
            raise InvalidInput(
                f"a policy over pairs reads {len(PAIR_FEATURES)} numbers and gives one; "
                f"got {self.network.sizes.tolist()}"
            )
        object.__setattr__(self, "_space", working_space(self.network))

    def run(self, batch: StepBatch) -> IntArray:
        """Run all simulations, laid out by `batch.place`, to the end; return their steps."""
        steps, actions = np.zeros(batch.size, np.int64), np.zeros(batch.units, np.int64)
        pairs = _pairs_of(batch)
        if run_pairs(batch.tables, pairs, self.network, self._space, actions, steps) >= 0:
            raise stuck(self.name, batch.stream)
        return steps

    def choose(self, batch: StepBatch, actions: IntArray) -> None:
        """Write the actions of all simulations, (size, units), in their present state."""
        choose_pairs_many(batch.tables, _pairs_of(batch), self.network, self._space, actions)


def _pairs_of(batch: StepBatch) -> PairState:
    """Allocate a state for simulations of a stream."""
    pairs, stream = make_pair_state(batch.workload), batch.stream
    pairs.context["deadline"] = in_ticks(stream.deadline, stream.tick)
    pairs.context["priority"] = stream.priority
    return pairs


@njit_noalloc
def run_pairs(
    tables: BatchTables,
    pairs: PairState,
    network: Network,
    space: Numbers,
    actions: IntArray,
    steps: IntArray,
) -> int:
    """Run simulations to the end; return the number of one that is stuck, or -1.

    The loop repeats that of `rules.run_rule`: numba does not cache functions that take functions.
    """
    for s in range(len(steps)):
        sim, state = sim_of(tables, s), state_of(tables, s)
        pairs.visit[state.order[0]] = 0.0  # computed again for each simulation
        answer = proceed(sim, state)
        while answer == MOMENT:
            _choose(sim, state, pairs, network, space, actions)
            answer = act(sim, state, actions)
            steps[s] += 1
        if answer == STUCK:
            return s
    return -1


@njit_noalloc
def choose_pairs_many(
    tables: BatchTables, pairs: PairState, network: Network, space: Numbers, actions: IntArray
) -> None:
    """Choose for all simulations."""
    for s in range(len(actions)):
        sim, state = sim_of(tables, s), state_of(tables, s)
        pairs.visit[state.order[0]] = 0.0
        _choose(sim, state, pairs, network, space, actions[s])


@njit_inline
def _choose(
    sim: Sim,
    state: StepState,
    pairs: PairState,
    network: Network,
    space: Numbers,
    actions: IntArray,
) -> None:
    read_simulation(sim, state, pairs)
    choose_pairs(pairs, network, space, actions)
    shorten_waits(sim, state, actions)


# -- state of a simulation -------------------------------------------------------------


@njit_noalloc
def read_simulation(sim: Sim, state: StepState, pairs: PairState) -> None:
    """Fill in the state from a simulation, without its future."""
    kinds, units = len(sim.kind), len(sim.device)
    if state.counters[0].fresh == 1 or pairs.visit[state.order[0]] == 0.0:
        _update_visits(sim, state, pairs)
    update_remaining(sim, state)
    update_coming(sim, state, SOON * state.config[0].span)
    time = sim.world[0].now
    rate = sim.world[0].next_arrival / time if time > 0 else 0.0
    for d in range(units):
        pairs.idle[d] = is_idle(sim, d)
        pairs.busy[d] = busy_for(sim, d)
        pairs.running[d] = sim.device[d].last_kind if sim.device[d].running >= 0 else -1
    for k in range(kinds):
        pairs.left[k] = sim.kind[k].ready
        pairs.coming[k] = state.coming[k]
        pairs.age[k], pairs.remaining[k] = 0.0, 0.0
        if pairs.left[k] == 0:
            continue
        top = pool_top(sim, k)
        task = task_of(sim, top)
        pairs.age[k] = time - sim.job[sim.inst[top].job].arrival
        pairs.left_time[k] = pairs.context[0].deadline - pairs.age[k]
        pairs.priority[k] = pairs.context[0].priority
        pairs.remaining[k] = state.remaining[task]
        for d in range(units):
            first = top if can_run(sim, top, d) else first_runnable(sim, k, d)
            pairs.duration[k, d] = state.duration[task_of(sim, first), d] if first >= 0 else np.inf
            pairs.setup[k, d] = setup_seconds(sim, d, d, k)
    pairs.context[0].span = state.config[0].span
    pairs.context[0].jobs = jobs_here(sim)
    pairs.context[0].may_wait = 1 if next_time(sim) < np.inf else 0
    for k in range(kinds):
        pairs.flow[k] = 0.0
    for t in range(len(pairs.visit)):
        pairs.flow[sim.task[t].kind] += pairs.visit[t] * rate


@njit_inline
def _update_visits(sim: Sim, state: StepState, pairs: PairState) -> None:
    """Update how often a job runs each task, as if parents ran independently."""
    for at in range(len(state.order)):
        t = state.order[at]
        pairs.visit[t] = 1.0 if sim.task[t].pred == sim.task[t + 1].pred else 0.0
    for at in range(len(state.order)):
        t = state.order[at]
        for e in range(sim.task[t].succ, sim.task[t + 1].succ):
            v = sim.edge[e].target
            pairs.visit[v] = 1.0 - (1.0 - pairs.visit[v]) * (
                1.0 - pairs.visit[t] * chance_of(state, e)
            )


# -- choice ------------------------------------------------------------------------


@njit_noalloc
def choose_pairs(pairs: PairState, network: Network, space: Numbers, actions: IntArray) -> None:
    """Choose a kind for each unit, or the number of kinds to wait; change the state.

    The pair with the highest score is taken first.
    """
    kinds, units = len(pairs.left), len(pairs.idle)
    for d in range(units):
        actions[d] = kinds
    chosen = 0
    while True:
        unit, kind, best = -1, -1, -np.inf
        _update_least(pairs)
        for d in range(units):
            if not pairs.idle[d]:
                continue
            for k in range(kinds):
                if pairs.left[k] == 0 or pairs.duration[k, d] == np.inf:
                    continue
                _describe(pairs, d, k)
                score = float(space[forward(network, pairs.feature, space), 0])
                if score > best:
                    unit, kind, best = d, k, score
        if unit < 0 or (best <= 0.0 and (chosen > 0 or pairs.context[0].may_wait == 1)):
            return
        actions[unit] = kind
        pairs.busy[unit] = _seconds(pairs, kind, unit)
        pairs.left[kind] -= min(pairs.left[kind], pairs.batch[kind, unit])
        pairs.idle[unit] = False
        pairs.running[unit] = kind
        chosen += 1


@njit_inline
def _seconds(pairs: PairState, k: int, d: int) -> float:
    """Return the time of set-up and batch, if a unit took a batch of a kind now."""
    taken = min(pairs.left[k], pairs.batch[k, d])
    growth = pairs.growth[k, d, min(taken, pairs.growth.shape[2]) - 1]
    return float(pairs.duration[k, d] * growth + pairs.setup[k, d])


@njit_inline
def _update_least(pairs: PairState) -> None:
    """Update the least time per task of any kind on each unit, by its fullest batch."""
    for d in range(len(pairs.idle)):
        pairs.least[d] = np.inf
        for k in range(len(pairs.left)):
            if pairs.left[k] > 0 and pairs.duration[k, d] < np.inf:
                taken = min(pairs.left[k], pairs.batch[k, d])
                pairs.least[d] = min(pairs.least[d], _seconds(pairs, k, d) / taken)


@njit_inline
def _log(x: float, most: float) -> float:
    """Return a logarithm within [-most, most]; that of 0 is -most."""
    if x <= 0.0:
        return -most
    return float(min(max(np.log(x), -most), most))


@njit_inline
def _describe(pairs: PairState, d: int, k: int) -> None:
    """Fill in the features of a pair."""
    units, span, f = len(pairs.idle), pairs.context[0].span, pairs.feature
    left, batch = pairs.left[k], pairs.batch[k, d]
    taken = min(left, batch)
    here = _seconds(pairs, k, d)
    best, idle_best, soonest = here, np.inf, np.inf
    idle, locked, same, best_units, crowd = 0, 0, 0, 0, 0
    for o in range(units):
        there = _seconds(pairs, k, o)
        best = min(best, there)
        locked += 1 if pairs.busy[o] > LONG * span else 0
        same += 1 if pairs.running[o] == k else 0
        if o == d:
            continue
        if pairs.idle[o]:
            idle += 1
            idle_best = min(idle_best, there)
        else:
            soonest = min(soonest, pairs.busy[o] + there)
    for o in range(units):
        best_units += 1 if _seconds(pairs, k, o) <= best * 1.1 else 0
    for other in range(len(pairs.left)):
        crowd += pairs.left[other]
    f[FEATURE.fill] = taken / batch
    f[FEATURE.full] = 1.0 if left >= batch else 0.0
    f[FEATURE.queue] = np.log1p(left) / 2.0
    f[FEATURE.slower_than_the_best_unit] = _log(here / best, 3.0) if best > 0.0 else 0.0
    f[FEATURE.duration] = _log(here / span, 5.0) / 2.0
    f[FEATURE.duration_a_task] = _log(here / (taken * span), 5.0) / 2.0
    f[FEATURE.remaining] = _log(pairs.remaining[k] / span, 5.0) / 2.0
    f[FEATURE.remaining_a_task] = _log(pairs.remaining[k] / (taken * span), 5.0) / 2.0
    f[FEATURE.age] = min(pairs.age[k] / (10.0 * span), 3.0)
    f[FEATURE.other_idle_units] = idle / units
    f[FEATURE.slower_than_another_idle_unit] = (
        _log(here / idle_best, 2.0) if 0.0 < idle_best < np.inf else 0.0
    )
    f[FEATURE.sooner_on_a_busy_unit] = (
        max((here - soonest) / here, -1.0) if here > 0.0 and soonest < np.inf else -1.0
    )
    f[FEATURE.coming] = min(pairs.coming[k] / batch, 2.0)
    f[FEATURE.running] = same / units
    f[FEATURE.crowd] = np.log1p(crowd / units)
    f[FEATURE.locked] = locked / units
    f[FEATURE.batch] = np.log(batch) / 2.0
    f[FEATURE.flow_during_it] = np.log1p(pairs.flow[k] * here / batch)
    f[FEATURE.flow] = min(pairs.flow[k] * span, 3.0)
    f[FEATURE.jobs] = np.log1p(pairs.context[0].jobs / units)
    f[FEATURE.waiting_work] = np.log1p(left * best / span) / 2.0
    f[FEATURE.slower_than_another_kind] = (
        _log(here / (taken * pairs.least[d]), 3.0) if 0.0 < pairs.least[d] < np.inf else 0.0
    )
    f[FEATURE.units_that_run_it_best] = best_units / units
    slack = pairs.left_time[k] - pairs.remaining[k]
    f[FEATURE.urgency] = 1.0 / (1.0 + max(slack, 0.0) / (10.0 * span))
    f[FEATURE.late] = 1.0 if slack < 0.0 else 0.0
    f[FEATURE.priority] = pairs.priority[k] / (1.0 + abs(pairs.priority[k]))
