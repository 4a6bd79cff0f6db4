"""Rules for streams of conditional jobs: units choose task types, step by step, inside the compiled loop.

The first three are those of Debner, Krahn and Hirvisalo (2024), as their code has them: unit by unit, counting what the units before
take in this step; where nothing is left the unit waits. They know nothing of the units. The others do. All of them answer with one
action a unit, so whatever they do, a learned policy could do too.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from weft.errors import InvalidInput, Stuck, UnknownName, Unsupported
from weft.model.columns import FloatArray, IntArray
from weft.registry import closest
from weft.sim.kernel.commit import can_run, is_idle
from weft.sim.kernel.events import ENDED, MOMENT, STUCK, next_time
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.ready_heap import pool_top
from weft.sim.kernel.rules import first_runnable
from weft.sim.kernel.tables import Sim
from weft.sim.vector.batch import StepBatch
from weft.sim.vector.step import (
    BatchTables,
    StepState,
    act,
    busy_for,
    proceed,
    sim_of,
    state_of,
    update_coming,
    update_remaining,
)

SLOW = 3.0
"""Units busy for more than so many typical tasks are locked."""
SOON = 1.0
"""Tasks that end within so many typical tasks are about to bring others."""
FIFO, MRU, DEPTH_FIRST, LONGEST_QUEUE, BATCH_AWARE, SHORTEST_REMAINING, RESERVATION, INDEX = range(
    8
)
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
"""Names, in the order of the numbers above."""

FEATURES = (
    "one",
    "fill",
    "full",
    "queue",
    "age",
    "idle",
    "soon",
    "running",
    "crowd",
    "locked",
    "estimate",
    "estimate x fill",
    "estimate x queue",
    "estimate x locked",
    "estimate squared",
    "coming",
    "estimate x coming",
)
"""What the index of a (unit, kind) pair is linear in; see `_index`. One set of weights for each group of like units and each kind."""


@dataclass(frozen=True, eq=False)
class ConditionalRule:
    """A rule by name; `index` has weights, (groups of like units, kinds, features)."""

    name: str
    weights: FloatArray = field(default_factory=lambda: np.zeros((0, 0, 0)))
    watched: tuple[str, ...] | None = None
    """Tasks whose choices are estimated when the rule decides by views; None for all of them."""

    def __post_init__(self) -> None:
        """Refuse unknown names, and weights where there are none or the wrong ones."""
        if self.name not in RULES:
            raise UnknownName(f"unknown rule '{self.name}'{closest(self.name, RULES)}")
        if self.name == "index" and (
            self.weights.ndim != 3 or self.weights.shape[2] != len(FEATURES)
        ):
            raise InvalidInput(
                f"the index needs weights of shape (groups of units, kinds, {len(FEATURES)}); got {self.weights.shape}"
            )

    def check_fits(self, batch: StepBatch) -> None:
        """Raise unless there are weights for every group of units and every kind."""
        self.check_shape(batch.tables.state.group, batch.kinds, batch.stream.name)

    def check_shape(self, group: IntArray, kinds: int, workload: str) -> None:
        """Raise unless there are weights for every group of units and every kind."""
        shape = (int(group.max(initial=-1)) + 1, kinds)
        if self.name == "index" and self.weights.shape[:2] != shape:
            raise Unsupported(
                f"the index has weights for {self.weights.shape[:2]} groups of units and kinds; "
                f"'{workload}' has {shape}; tune one for it: weft train index"
            )

    def choose(self, fleet: StepBatch, actions: IntArray) -> None:
        """Write the actions of all simulations, (size, units), as they stand now."""
        self.check_fits(fleet)
        choose_many(fleet.tables, RULES.index(self.name), self.weights, actions)

    def play(self, fleet: StepBatch) -> IntArray:
        """Play every simulation, laid out by `fleet.place`, to its end; returns the number of steps of each."""
        self.check_fits(fleet)
        steps = np.zeros(fleet.size, np.int64)
        actions = np.zeros((fleet.size, fleet.units), np.int64)
        stuck = play_many(fleet.tables, RULES.index(self.name), self.weights, actions, steps)
        if stuck >= 0:
            raise Stuck(
                f"rule '{self.name}' waits in '{fleet.stream.name}', but nothing is in flight or due"
            )
        return steps


@njit_noalloc
def play_many(
    fleet: BatchTables, rule: int, weights: FloatArray, actions: IntArray, steps: IntArray
) -> int:
    """Play simulations from their beginning to their end; returns the number of one that is stuck, or -1."""
    for s in range(len(steps)):
        sim, desk = sim_of(fleet, s), state_of(fleet, s)
        answer = proceed(sim, desk)
        while answer == MOMENT:
            choose_one(sim, desk, rule, weights, actions[s])
            act(sim, desk, actions[s])
            answer = proceed(sim, desk)
            steps[s] += 1
        if answer == STUCK:
            return s
        assert answer == ENDED
    return -1


@njit_noalloc
def choose_many(fleet: BatchTables, rule: int, weights: FloatArray, actions: IntArray) -> None:
    """Choose for all simulations."""
    for s in range(len(actions)):
        choose_one(sim_of(fleet, s), state_of(fleet, s), rule, weights, actions[s])


@njit_noalloc
def choose_one(
    sim: Sim, desk: StepState, rule: int, weights: FloatArray, actions: IntArray
) -> None:
    """Choose one action a unit. `desk.scratch` counts what this step has left of each kind."""
    kinds, left = len(sim.kind), desk.scratch
    for k in range(kinds):
        left[k] = sim.kind[k].ready
    if rule >= SHORTEST_REMAINING:
        update_remaining(sim, desk)
    if rule == INDEX:
        _choose_pairs(sim, desk, weights, actions, -1, kinds)
        return
    for d in range(len(sim.device)):
        actions[d] = kinds
        if not is_idle(sim, d):
            continue
        kind = _choose_kind(sim, desk, rule, d)
        if kind >= 0:
            actions[d] = kind
            left[kind] -= min(left[kind], sim.device[d].batch)
        elif rule > DEPTH_FIRST or desk.config[0].blocking == 0:
            actions[d] = _wait(sim, desk, actions, d)


@njit_noalloc
def choose_around(
    sim: Sim, desk: StepState, weights: FloatArray, unit: int, kind: int, actions: IntArray
) -> None:
    """Choose by the index for all units but one, whose kind is given (the number of kinds: it waits)."""
    for k in range(len(sim.kind)):
        desk.scratch[k] = sim.kind[k].ready
    update_remaining(sim, desk)
    _choose_pairs(sim, desk, weights, actions, unit, kind)


@njit_inline
def runs_here(sim: Sim, left: IntArray, kind: int, d: int) -> bool:
    """Whether a unit can take a task of a kind."""
    return left[kind] > 0 and (
        can_run(sim, pool_top(sim, kind), d) or first_runnable(sim, kind, d) >= 0
    )


@njit_inline
def _wait(sim: Sim, desk: StepState, actions: IntArray, d: int) -> int:
    """How a unit waits: with a queue that an earlier unit empties in this step, which binds it no longer than to the next event.

    In the paper's semantics the action "idle" holds the unit for 10 ms, so this is worth having; a learned policy can find it too.
    """
    left = desk.scratch
    for other in range(d):
        kind = actions[other]
        if kind < len(sim.kind) and left[kind] == 0 and is_idle(sim, other):
            return int(kind)
    return len(sim.kind)


# -- one unit after the other ------------------------------------------------


@njit_inline
def _choose_kind(sim: Sim, desk: StepState, rule: int, d: int) -> int:
    """The kind a unit takes, or -1 where nothing is left for it."""
    kinds, left = len(sim.kind), desk.scratch
    best, least = -1, np.inf
    for k in range(kinds):
        kind = k
        if rule == MRU:
            kind = (desk.counters[0].memory + k) % kinds
        elif rule == DEPTH_FIRST:
            kind = desk.depth[kinds - 1 - k]
        if not runs_here(sim, left, kind, d):
            continue
        if MRU <= rule <= DEPTH_FIRST:  # a set would allocate
            best = kind
            break
        cost = _cost(sim, desk, rule, d, kind)
        if cost < least:
            best, least = kind, cost
    if rule == MRU and best >= 0:
        desk.counters[0].memory = best  # one memory for all units, as in the authors' code
    return best


@njit_inline
def _cost(sim: Sim, desk: StepState, rule: int, d: int, kind: int) -> float:
    left = desk.scratch[kind]
    task = task_of(sim, pool_top(sim, kind))
    taken = min(left, sim.device[d].batch)
    if rule == FIFO:
        return _arrival_after(sim, kind, sim.kind[kind].ready - left)
    if rule == LONGEST_QUEUE:
        return -float(left)
    if rule == BATCH_AWARE:
        return float(desk.duration[task, d] / taken)
    if rule == SHORTEST_REMAINING:
        return float(desk.remaining[task] / taken)
    return _reserved(sim, desk, d, task, taken)


@njit_inline
def _arrival_after(sim: Sim, kind: int, skipped: int) -> float:
    """Arrival of the job of the first task of a queue after so many."""
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
def _reserved(sim: Sim, desk: StepState, d: int, task: int, taken: int) -> float:
    """Slow tasks belong to units with large batches, quick ones to the others; within that, work done for the time."""
    batch = 1
    for other in range(len(sim.device)):
        batch = max(batch, sim.device[other].batch)
    slow = desk.duration[task, d] > SLOW * desk.config[0].span
    wrong = slow != (sim.device[d].batch > 1) and batch > 1
    return float(desk.duration[task, d] / taken * (10.0 if wrong else 1.0))


# -- the best pair of unit and kind first ------------------------------------


@njit_inline
def _choose_pairs(
    sim: Sim, desk: StepState, weights: FloatArray, actions: IntArray, told: int, what: int
) -> None:
    """Take the (unit, kind) pair of highest index, again and again while it is above zero; the other units wait.

    Unit `told`, where there is one, has been told what to do already.
    """
    kinds, left = len(sim.kind), desk.scratch
    update_coming(sim, desk, SOON * desk.config[0].span)
    idle, soon, locked, crowd = 0, np.inf, 0, 0
    for k in range(kinds):
        crowd += left[k]
        left[kinds + k] = 0  # the second half counts units that run a kind, or will
    for d in range(len(sim.device)):
        actions[d] = kinds
        busy = busy_for(sim, d) / desk.config[0].span
        if is_idle(sim, d):
            idle += 1
            continue
        soon = min(soon, busy)
        locked += 1 if busy > SLOW else 0
        if sim.device[d].running >= 0:
            left[kinds + sim.device[d].last_kind] += 1
    chosen = 0
    if told >= 0:
        chosen = 1
        actions[told] = what
        if what < kinds:
            crowd -= min(left[what], sim.device[told].batch)
            left[what] -= min(left[what], sim.device[told].batch)
            left[kinds + what] += 1
    while chosen < idle:
        unit, kind, best = -1, -1, -np.inf
        for d in range(len(sim.device)):
            if actions[d] != kinds or d == told or not is_idle(sim, d):
                continue
            for k in range(kinds):
                if runs_here(sim, left, k, d):
                    index = _index(
                        sim,
                        desk,
                        weights[desk.group[d], k],
                        d,
                        k,
                        idle - chosen - 1,
                        soon,
                        locked,
                        crowd,
                    )
                    if index > best:
                        unit, kind, best = d, k, index
        if unit < 0 or (best <= 0.0 and (chosen > 0 or next_time(sim) < np.inf)):
            break
        actions[unit] = kind
        taken = min(left[kind], sim.device[unit].batch)
        left[kind] -= taken
        left[kinds + kind] += 1
        crowd -= taken
        chosen += 1
    for d in range(len(sim.device)):
        if actions[d] == kinds and is_idle(sim, d):
            actions[d] = _wait(sim, desk, actions, d)


@njit_inline
def _index(
    sim: Sim,
    desk: StepState,
    w: FloatArray,
    d: int,
    kind: int,
    others: int,
    soon: float,
    locked: int,
    crowd: int,
) -> float:
    """Worth of giving a unit a kind now.

    The features are, each of the order of 1: how full the batch would be, and whether it is full; the queue; the age of its first
    job; other idle units; the time until a busy unit is free; units that run the same kind; all that is ready; units locked in
    slow tasks; tasks of the kind about to come; and the first estimate, alone and with some of these. Times are in `span`, that
    of a typical task.
    """
    units = len(sim.device)
    left, batch = desk.scratch[kind], sim.device[d].batch
    fill, queue = min(left, batch) / batch, min(left, 20) / 10.0
    age = (sim.world[0].now - sim.job[sim.inst[pool_top(sim, kind)].job].arrival) / (
        10.0 * desk.config[0].span
    )
    held = locked / units
    estimate = desk.estimate[0] if len(desk.estimate) > 0 else 0.5
    score = (
        w[0]
        + w[1] * fill
        + w[3] * queue
        + w[4] * min(age, 3.0)
        + w[5] * others / units
        + w[6] * min(soon / 2.0, 1.0)
    )
    score += (
        w[7] * desk.scratch[len(sim.kind) + kind] / units
        + w[8] * min(crowd, 20) / 10.0
        + w[9] * held
    )
    if left >= batch:
        score += w[2]
    coming = min(desk.coming[kind], 10.0) / 5.0
    return float(
        score
        + w[15] * coming
        + estimate
        * (w[10] + w[11] * fill + w[12] * queue + w[13] * held + w[14] * estimate + w[16] * coming)
    )
