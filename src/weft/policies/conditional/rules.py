"""Rules for conditional streams: each idle unit chooses a task kind per step.

The first three are those of Debner, Krahn and Hirvisalo (2024), as in their code: unit by unit,
without the tasks that earlier units take in the same step; a unit waits if nothing is left. They
treat all units alike; the other rules do not. All rules give one action per unit, so a learned
policy could give the same actions.
"""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.model.columns import FloatArray, IntArray
from weft.policies.conditional.waiting import stuck
from weft.registry import closest
from weft.sim.kernel.commit import can_run, is_idle
from weft.sim.kernel.events import MOMENT, STUCK, next_time
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import batch_growth, batch_limit, task_of
from weft.sim.kernel.ready_heap import pool_top
from weft.sim.kernel.rules import first_runnable
from weft.sim.kernel.setup import setup_seconds
from weft.sim.kernel.tables import Sim
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.state import BatchTables, StepState, busy_for, sim_of, state_of
from weft.sim.vector.step import act, proceed, update_coming, update_remaining
from weft.typed import typed_dataclass

SLOW = 3.0
"""A unit that is busy for longer than this many typical tasks is locked."""
SOON = 1.0
"""A task that ends within the time of this many typical tasks makes others ready soon."""
FIFO, MRU, DEPTH_FIRST, LONGEST_QUEUE = range(4)
BATCH_AWARE, SHORTEST_REMAINING, RESERVATION, INDEX = range(4, 8)
RULES = (
    "unit-fifo",
    "unit-mru",
    "unit-depth-first",
    "longest-queue",
    "batch-aware",
    "shortest-remaining",
    "reservation",
    "index",
)
"""Names in the order of the constants."""


class IndexFeatures(NamedTuple):
    """Places of the features of the index of a pair, each of the order of 1."""

    one: int
    fill: int  # share of the batch
    full: int  # 1: the batch is full
    queue: int  # ready tasks of the kind
    age: int  # of the job of the first of them
    idle: int  # share of other idle units
    soon: int  # time until a busy unit is free
    running: int  # share of the units that run the kind
    crowd: int  # ready tasks of all kinds
    locked: int  # share of the units that run slow tasks
    estimate: int  # the first estimate, alone and in products
    estimate_x_fill: int
    estimate_x_queue: int
    estimate_x_locked: int
    estimate_squared: int
    coming: int  # tasks of the kind that become ready soon
    estimate_x_coming: int


FEATURE = IndexFeatures(*range(len(IndexFeatures._fields)))
FEATURES = tuple(name.replace("_", " ") for name in IndexFeatures._fields)
"""Names of the features on cards. There are weights per group of equal units and per kind."""


@typed_dataclass(frozen=True, eq=False)
class ConditionalRule:
    """A rule by name; `index` has weights, (groups of equal units, kinds, features)."""

    name: str
    weights: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    watched: tuple[str, ...] | None = None
    """Tasks whose choices are estimated when the rule decides by views; None: all."""

    def __post_init__(self) -> None:
        """Refuse unknown names and weights of a wrong shape."""
        if self.name not in RULES:
            raise UnknownName(f"unknown rule '{self.name}'{closest(self.name, RULES)}")
        fits = self.weights.ndim == 3 and self.weights.shape[2] == len(FEATURES)
        if self.name == "index" and not fits:
            raise InvalidInput(
                f"the index needs weights of shape (groups of units, kinds, {len(FEATURES)}); "
                f"got {self.weights.shape}"
            )

    def check_fits(self, batch: StepBatch) -> None:
        """Raise unless there are weights for the units and kinds of a batch."""
        self.check_shape(batch.tables.state.group, batch.kinds, batch.stream.name)

    def check_shape(self, group: IntArray, kinds: int, workload: str) -> None:
        """Raise unless there are weights for every group of units and every kind."""
        shape = (int(group.max(initial=-1)) + 1, kinds)
        if self.name == "index" and self.weights.shape[:2] != shape:
            raise Unsupported(
                f"the index has weights for {self.weights.shape[:2]} groups of units and kinds; "
                f"'{workload}' has {shape}; tune one for it: weft train index"
            )

    def choose(self, batch: StepBatch, actions: IntArray) -> None:
        """Write the actions of all simulations, (size, units), in their present state."""
        self.check_fits(batch)
        choose_many(batch.tables, RULES.index(self.name), self.weights, actions)

    def run(self, batch: StepBatch) -> IntArray:
        """Run all simulations, laid out by `batch.place`, to the end; return their steps."""
        self.check_fits(batch)
        steps = np.zeros(batch.size, np.int64)
        actions = np.zeros((batch.size, batch.units), np.int64)
        number = RULES.index(self.name)
        if run_rule(batch.tables, number, self.weights, actions, steps) >= 0:
            raise stuck(self.name, batch.stream)
        return steps


@njit_noalloc
def run_rule(
    tables: BatchTables, rule: int, weights: FloatArray, actions: IntArray, steps: IntArray
) -> int:
    """Run simulations to the end; return the number of one that is stuck, or -1."""
    for s in range(len(steps)):
        sim, state = sim_of(tables, s), state_of(tables, s)
        answer = proceed(sim, state)
        while answer == MOMENT:
            choose_one(sim, state, rule, weights, actions[s])
            answer = act(sim, state, actions[s])
            steps[s] += 1
        if answer == STUCK:
            return s
    return -1


@njit_noalloc
def choose_many(tables: BatchTables, rule: int, weights: FloatArray, actions: IntArray) -> None:
    """Choose for all simulations."""
    for s in range(len(actions)):
        choose_one(sim_of(tables, s), state_of(tables, s), rule, weights, actions[s])


@njit_noalloc
def choose_one(
    sim: Sim, state: StepState, rule: int, weights: FloatArray, actions: IntArray
) -> None:
    """Choose one action per unit; count in `state.scratch` the tasks that are left."""
    kinds, left = len(sim.kind), state.scratch
    for k in range(kinds):
        left[k] = sim.kind[k].ready
    if rule >= SHORTEST_REMAINING:
        update_remaining(sim, state)
    if rule == INDEX:
        _choose_pairs(sim, state, weights, actions, -1, kinds)
        return
    for d in range(len(sim.device)):
        actions[d] = kinds
        if not is_idle(sim, d):
            continue
        kind = _choose_kind(sim, state, rule, d)
        if kind >= 0:
            actions[d] = kind
            left[kind] -= min(left[kind], batch_limit(sim, kind, d))
        elif rule > DEPTH_FIRST or state.config[0].blocking == 0:
            actions[d] = _wait(sim, state, actions, d)


@njit_noalloc
def choose_around(
    sim: Sim, state: StepState, weights: FloatArray, unit: int, kind: int, actions: IntArray
) -> None:
    """Choose by the index for all units but one, whose kind is given (kinds: wait)."""
    for k in range(len(sim.kind)):
        state.scratch[k] = sim.kind[k].ready
    update_remaining(sim, state)
    _choose_pairs(sim, state, weights, actions, unit, kind)


@njit_inline
def runs_here(sim: Sim, left: IntArray, kind: int, d: int) -> bool:
    """Return whether a unit can take a task of a kind."""
    return left[kind] > 0 and (
        can_run(sim, pool_top(sim, kind), d) or first_runnable(sim, kind, d) >= 0
    )


@njit_inline
def _wait(sim: Sim, state: StepState, actions: IntArray, d: int) -> int:
    """Return the action with which a unit waits.

    That is a queue that an earlier unit empties in this step, if there is one: the unit then gets
    nothing and waits until the next event. The action "wait" of the published environment would
    hold it for 10 ms.
    """
    left = state.scratch
    for other in range(d):
        kind = actions[other]
        if kind < len(sim.kind) and left[kind] == 0 and is_idle(sim, other):
            return int(kind)
    return len(sim.kind)


# -- unit by unit ------------------------------------------------------------


@njit_inline
def _choose_kind(sim: Sim, state: StepState, rule: int, d: int) -> int:
    """Return the kind that a unit takes, or -1 if nothing is left for it."""
    kinds, left = len(sim.kind), state.scratch
    best, least = -1, np.inf
    for k in range(kinds):
        kind = k
        if rule == MRU:
            kind = (state.counters[0].memory + k) % kinds
        elif rule == DEPTH_FIRST:
            kind = state.depth[kinds - 1 - k]
        if not runs_here(sim, left, kind, d):
            continue
        if MRU <= rule <= DEPTH_FIRST:  # without a set, which would allocate
            best = kind
            break
        cost = _cost(sim, state, rule, d, kind)
        if cost < least:
            best, least = kind, cost
    if rule == MRU and best >= 0:
        state.counters[0].memory = best  # one memory for all units, as in the authors' code
    return best


@njit_inline
def _cost(sim: Sim, state: StepState, rule: int, d: int, kind: int) -> float:
    left = state.scratch[kind]
    task = task_of(sim, pool_top(sim, kind))
    taken = min(left, batch_limit(sim, kind, d))
    if rule == FIFO:
        return float(_arrival_after(sim, kind, sim.kind[kind].ready - left))
    if rule == LONGEST_QUEUE:
        return -float(left)
    if rule == BATCH_AWARE:
        return float(_batch_seconds(sim, state, d, task, taken) / taken)
    if rule == SHORTEST_REMAINING:
        return float(state.remaining[task] / taken)
    return _reserved(sim, state, d, task, taken)


@njit_inline
def _batch_seconds(sim: Sim, state: StepState, d: int, task: int, taken: int) -> float:
    """Return the time of a batch on an idle unit, with the set-up that it needs."""
    kind = sim.task[task].kind
    seconds = state.duration[task, d] * batch_growth(sim, kind, d, taken)
    return float(seconds + setup_seconds(sim, d, d, kind))


@njit_inline
def _arrival_after(sim: Sim, kind: int, skipped: int) -> float:
    """Return the arrival of the job of the first task after `skipped` ones."""
    base, size = sim.kind[kind].pool, sim.kind[kind].ready
    last = -1
    for _ in range(skipped + 1):
        least = np.iinfo(np.int64).max
        for j in range(size):
            instance = sim.inst[base + j].pool
            if last < instance < least:
                least = instance
        last = least
    return float(sim.job[sim.inst[last].job].arrival)


@njit_inline
def _reserved(sim: Sim, state: StepState, d: int, task: int, taken: int) -> float:
    """Return the time per task, times 10 if the unit does not suit it.

    Slow tasks suit units with batches, and other tasks units without.
    """
    batch = 1
    for other in range(len(sim.device)):
        batch = max(batch, sim.device[other].batch)
    slow = state.duration[task, d] > SLOW * state.config[0].span
    wrong = slow != (sim.device[d].batch > 1) and batch > 1
    seconds = _batch_seconds(sim, state, d, task, taken)
    return seconds / taken * (10.0 if wrong else 1.0)


# -- best pair of unit and kind first ----------------------------------------


@njit_inline
def _choose_pairs(
    sim: Sim, state: StepState, weights: FloatArray, actions: IntArray, given: int, given_kind: int
) -> None:
    """Take the pair of highest index while it is above zero; other units wait.

    Unit `given`, unless it is -1, has the kind `given_kind`.
    """
    kinds, left = len(sim.kind), state.scratch
    update_coming(sim, state, SOON * state.config[0].span)
    idle, soon, locked, crowd = 0, np.inf, 0, 0
    for k in range(kinds):
        crowd += left[k]
        left[kinds + k] = 0  # the second half of `left` counts the units that run or take a kind
    for d in range(len(sim.device)):
        actions[d] = kinds
        busy = busy_for(sim, d) / state.config[0].span
        if is_idle(sim, d):
            idle += 1
            continue
        soon = min(soon, busy)
        locked += 1 if busy > SLOW else 0
        if sim.device[d].running >= 0:
            left[kinds + sim.device[d].last_kind] += 1
    chosen = 0
    if given >= 0:
        chosen = 1
        actions[given] = given_kind
        if given_kind < kinds:
            crowd -= _take(sim, left, given, given_kind)
    while chosen < idle:
        unit, kind, best = -1, -1, -np.inf
        for d in range(len(sim.device)):
            if actions[d] != kinds or d == given or not is_idle(sim, d):
                continue
            for k in range(kinds):
                if runs_here(sim, left, k, d):
                    own, others = weights[state.group[d], k], idle - chosen - 1
                    index = _index(sim, state, own, d, k, others, soon, locked, crowd)
                    if index > best:
                        unit, kind, best = d, k, index
        if unit < 0 or (best <= 0.0 and (chosen > 0 or next_time(sim) < np.inf)):
            break
        actions[unit] = kind
        crowd -= _take(sim, left, unit, kind)
        chosen += 1
    for d in range(len(sim.device)):
        if actions[d] == kinds and is_idle(sim, d):
            actions[d] = _wait(sim, state, actions, d)


@njit_inline
def _take(sim: Sim, left: IntArray, d: int, kind: int) -> int:
    """Take a batch of a kind for a unit; return the number of its tasks."""
    taken = min(left[kind], batch_limit(sim, kind, d))
    left[kind] -= taken
    left[len(sim.kind) + kind] += 1
    return int(taken)


@njit_inline
def _index(
    sim: Sim,
    state: StepState,
    w: FloatArray,
    d: int,
    kind: int,
    others: int,
    soon: float,
    locked: int,
    crowd: int,
) -> float:
    """Return the index of a pair; times are over `span`, that of a typical task."""
    units = len(sim.device)
    left, batch = state.scratch[kind], batch_limit(sim, kind, d)
    fill, queue = min(left, batch) / batch, min(left, 20) / 10.0
    arrival = sim.job[sim.inst[pool_top(sim, kind)].job].arrival
    age = (sim.world[0].now - arrival) / (10.0 * state.config[0].span)
    held = locked / units
    estimate = state.estimate[0] if len(state.estimate) > 0 else 0.5
    score = (
        w[FEATURE.one]
        + w[FEATURE.fill] * fill
        + w[FEATURE.queue] * queue
        + w[FEATURE.age] * min(age, 3.0)
        + w[FEATURE.idle] * others / units
        + w[FEATURE.soon] * min(soon / 2.0, 1.0)
    )
    score += (
        w[FEATURE.running] * state.scratch[len(sim.kind) + kind] / units
        + w[FEATURE.crowd] * min(crowd, 20) / 10.0
        + w[FEATURE.locked] * held
    )
    if left >= batch:
        score += w[FEATURE.full]
    coming = min(state.coming[kind], 10.0) / 5.0
    return float(
        score
        + w[FEATURE.coming] * coming
        + estimate
        * (
            w[FEATURE.estimate]
            + w[FEATURE.estimate_x_fill] * fill
            + w[FEATURE.estimate_x_queue] * queue
            + w[FEATURE.estimate_x_locked] * held
            + w[FEATURE.estimate_squared] * estimate
            + w[FEATURE.estimate_x_coming] * coming
        )
    )
