"""Networks and rules in the published environment, with or without its habits.

`published_completions` runs the compiled simulation (`published_kernel.py`), `run_network` the
plain one (`published.py`), job by job and bit by bit the same. The observation is that of
`weft.sim.vector.observation`, number by number: without the habits a network decides as in the
compiled environment, which a test compares job by job.
"""

from __future__ import annotations

import numpy as np

from weft.errors import UnknownName
from weft.experiments.conditional.published import (
    PUBLISHED_RULES,
    PublishedOptions,
    PublishedSimulation,
)
from weft.experiments.conditional.published_kernel import (
    PublishedTables,
    any_waiting,
    begin,
    is_done,
    make_tables,
    run_rule,
    step,
)
from weft.model.columns import BoolArray, FloatArray, IntArray, Numbers
from weft.model.conditional_stream import ConditionalStream, ticked
from weft.policies.conditional.evaluate import (
    MAX_STEPS_PER_JOB,
    check_network_fits,
    options_of,
    watched_task,
)
from weft.policies.conditional.networks import Network, choose, working_space
from weft.policies.conditional.trained_network import TrainedNetwork, read_network
from weft.registry import closest
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import RecordTable
from weft.sim.vector.batch import StepBatch

OBSERVATION = record("age_scale queue_scale span", "ages estimate units detail")  # its settings


def published_completions(
    name: str, stream: ConditionalStream, seed: int, options: PublishedOptions | None = None
) -> FloatArray:
    """Return the completion time of each job in seconds, by a rule or a network.

    The simulation is compiled; jobs of a run that never ends have inf.
    """
    arrival, outcome = stream.draw_ticks(seed, authors=True)
    options = options or PublishedOptions()
    most = MAX_STEPS_PER_JOB * stream.jobs + 1000
    if name in PUBLISHED_RULES:
        sim = make_tables(stream, arrival, outcome, options)
        taken, actions = np.zeros(len(sim.waiting), np.int64), np.zeros(len(sim.unit), np.int64)
        steps = run_rule(sim, list(PUBLISHED_RULES).index(name), taken, actions, most)
    else:
        sim, steps = _run_compiled(stream, _network(name), (arrival, outcome), options, most)
    finish = sim.job["finish"] if steps >= 0 else np.full(len(arrival), np.inf)
    seconds: FloatArray = (finish - arrival) * stream.tick
    return seconds


def _network(name: str) -> TrainedNetwork:
    known = [*PUBLISHED_RULES, "conditional-best", "conditional-paper-best", "conditional-pi4"]
    refusal = UnknownName(
        f"'{name}' does not run in the published environment; rules and networks for one stream "
        f"do{closest(name, known)}"
    )
    try:
        policy = read_network(name)
    except UnknownName:
        raise refusal from None
    if policy.observation.get("name") != "steps":
        raise refusal
    return policy


def _run_compiled(
    stream: ConditionalStream,
    policy: TrainedNetwork,
    draw: tuple[FloatArray, IntArray],
    options: PublishedOptions,
    most: int,
) -> tuple[PublishedTables, int]:
    seen, network = options_of(policy), policy.network
    sim = make_tables(
        stream, *draw, options, watched=_watched(stream), window=seen.window, prior=seen.prior
    )
    units, kinds = len(sim.unit), len(sim.waiting)
    settings = np.zeros(1, OBSERVATION)
    settings["age_scale"], settings["queue_scale"] = stream.tick / seen.age_scale, seen.queue_scale
    settings["span"] = _span(stream)
    for name in ("ages", "estimate", "units", "detail"):
        settings[name] = getattr(seen, name)
    check_network_fits(network, StepBatch(stream.with_jobs(1), 1, seen))
    steps = run_network_compiled(
        sim,
        network,
        settings,
        np.zeros(int(network.sizes[0]), np.float32),
        np.zeros((units, kinds + 1), np.bool_),
        np.zeros(kinds, np.int64),
        np.array(sim.unit["batch"], np.int64),
        working_space(network),
        np.zeros(units, np.int64),
        most,
    )
    return sim, steps


def _watched(stream: ConditionalStream) -> int:
    """Return the number of the choice that is estimated."""
    workflow = stream.problem.workflow
    return [workflow.task_name(int(t)) for t in workflow.choices.task].index(watched_task(stream))


def _span(stream: ConditionalStream) -> float:
    """Return the ticks of a typical task."""
    shortest = ticked(stream.problem, stream.tick).durations().min(axis=1)
    return max(float(np.median(shortest)), 1e-12)


def run_network(
    stream: ConditionalStream,
    policy: TrainedNetwork,
    seed: int,
    options: PublishedOptions | None = None,
) -> PublishedSimulation:
    """Run a network with the authors' draws to the end, in plain Python."""
    arrival, outcome = stream.draw_ticks(seed, authors=True)
    sim = PublishedSimulation(stream, arrival, outcome, options)
    runner = _NetworkRunner(sim, policy, outcome)
    while not sim.done:
        sim.step(runner.actions())
    return sim


class _NetworkRunner:
    """A network in a run: its estimates, and the buffers of its decisions."""

    def __init__(self, sim: PublishedSimulation, policy: TrainedNetwork, outcome: object) -> None:
        self.sim, self.network, self.options = sim, policy.network, options_of(policy)
        self.outcome = np.asarray(outcome)
        self.watched = _watched(sim.stream)
        self.task = int(sim.stream.problem.workflow.choices.task[self.watched])
        self.estimate, self.counted = 0.5, 0
        self.space = working_space(self.network)
        self.capacity = np.array(sim.batch, np.int64)
        self.span = _span(sim.stream)

    def actions(self) -> list[int]:
        """Return an action per unit."""
        sim, kinds = self.sim, self.sim.kinds
        for kind, job in sim.take_ended():
            if kind == self.task:
                self._learn(int(self.outcome[job, self.watched]))
        ready = np.array([len(queue) for queue in sim.queues], np.int64)
        idle = [sim.idle(unit) for unit in range(sim.units)]
        mask = np.zeros((sim.units, kinds + 1), np.bool_)
        mask[:, kinds] = True
        for unit in np.flatnonzero(idle).tolist():
            mask[unit, :kinds] = ready > 0
            mask[unit, kinds] = not (ready > 0).any() or not sim.nothing_due
        action = np.zeros(sim.units, np.int64)
        choose(self.network, self.observe(), mask, ready.copy(), self.capacity, self.space, action)
        self._shorten_waits(action, ready.copy(), ready, idle)
        return [int(a) for a in action]

    def _learn(self, branch: int) -> None:
        self.counted += 1
        weight = max(1.0 / (self.counted + self.options.prior), 1.0 / self.options.window)
        self.estimate += weight * ((1.0 if branch == 0 else 0.0) - self.estimate)

    def _shorten_waits(
        self, action: np.ndarray, left: np.ndarray, ready: np.ndarray, idle: list[bool]
    ) -> None:
        """Wait for the next event instead of 10 ms where an earlier unit empties a queue."""
        kinds = self.sim.kinds
        for unit in np.flatnonzero(idle).tolist():
            kind = int(action[unit])
            if kind < kinds:
                left[kind] -= min(int(left[kind]), self.sim.batch[unit])
                continue
            for k in range(kinds):
                if ready[k] > 0 and left[k] == 0:
                    action[unit] = k

    def observe(self) -> Numbers:
        """Return the observation."""
        sim, o = self.sim, self.options
        scale = sim.stream.tick / o.age_scale
        queue, mean, first = np.zeros(sim.kinds), np.zeros(sim.kinds), []
        for k, waiting in enumerate(sim.queues):
            ages = [sim.now - since for since, _ in waiting]
            queue[k] = min(len(ages) / o.queue_scale, 1.0)
            total = 0.0
            for age in ages:  # in this order: sum() of some versions of Python is more exact
                total += age
            mean[k] = min(total / len(ages) * scale, 1.0) if ages else 0.0
            oldest = [sim.now - since for _, since in sorted((job, s) for s, job in waiting)]
            oldest = (oldest + [0.0] * o.ages)[: o.ages]
            first += [min(age * scale, 1.0) for age in oldest]
        parts = [queue, mean, np.array(first)]
        if o.estimate:
            parts.append(np.array([self.estimate]))
        if o.units:
            parts.append(self._units())
        return np.concatenate(parts).astype(np.float32)

    def _units(self) -> FloatArray:
        sim, o = self.sim, self.options
        rows = np.zeros((sim.units, 1 + sim.kinds))
        for unit, row in enumerate(rows):
            busy = max(sim.free_at[unit] - sim.now, 0.0)
            row[0] = busy / (busy + self.span)
            kind, size = sim.running[unit]
            if kind >= 0 and busy > 0.0:
                row[1 + kind] = size / sim.batch[unit] if o.detail else 1.0
        more = [min((sim.arrived - sim.ended) / o.queue_scale, 1.0)]
        if o.detail:
            ago = sim.now - float(sim.arrival[sim.arrived - 1]) if sim.arrived else 0.0
            more.append(ago / (ago + self.span))
        return np.concatenate((rows.reshape(-1), more))


# -- compiled ----------------------------------------------------------------------


@njit_noalloc
def run_network_compiled(
    sim: PublishedTables,
    network: Network,
    settings: RecordTable,
    seen: Numbers,
    mask: BoolArray,
    ready: IntArray,
    capacity: IntArray,
    space: Numbers,
    actions: IntArray,
    most: int,
) -> int:
    """Run a network; return its steps, or -1 if it does not end within `most` steps."""
    begin(sim)
    kinds = len(sim.waiting)
    for at in range(most):
        if is_done(sim):
            return at
        something = any_waiting(sim)
        for d in range(len(sim.unit)):
            idle = sim.unit[d].free_at <= sim.world[0].now
            for k in range(kinds):
                mask[d, k] = idle and sim.waiting[k] > 0
            mask[d, kinds] = not idle or not something or sim.world[0].events > 0
        for k in range(kinds):
            ready[k] = sim.waiting[k]
        observe(sim, settings, seen)
        choose(network, seen, mask, ready, capacity, space, actions)
        _shorten_waits(sim, ready, actions)
        step(sim, actions)
    return -1


@njit_inline
def _shorten_waits(sim: PublishedTables, left: IntArray, actions: IntArray) -> None:
    """Wait for the next event instead of 10 ms where an earlier unit empties a queue."""
    kinds = len(sim.waiting)
    for k in range(kinds):
        left[k] = sim.waiting[k]
    for d in range(len(sim.unit)):
        if sim.unit[d].free_at > sim.world[0].now:
            continue
        kind = actions[d]
        if kind < kinds:
            left[kind] -= min(left[kind], sim.unit[d].batch)
            continue
        for k in range(kinds):
            if sim.waiting[k] > 0 and left[k] == 0:
                actions[d] = k


@njit_noalloc
def observe(sim: PublishedTables, settings: RecordTable, seen: Numbers) -> None:
    """Write the observation, as `weft.sim.vector.observation` does."""
    kinds, now = len(sim.waiting), sim.world[0].now
    ages, scale = settings[0].ages, settings[0].age_scale
    for k in range(kinds):
        queue, ready, total = sim.queue[k], sim.waiting[k], 0.0
        for j in range(ready):
            total += now - queue[j].since
        seen[k] = min(ready / settings[0].queue_scale, 1.0)
        seen[kinds + k] = min(total / ready * scale, 1.0) if ready > 0 else 0.0
        last = -1
        for a in range(ages):  # the jobs of the lowest numbers, one after the other
            found = -1
            for j in range(ready):
                if queue[j].job > last and (found < 0 or queue[j].job < queue[found].job):
                    found = j
            age = 0.0
            if found >= 0:
                age, last = now - queue[found].since, queue[found].job
            else:
                last = len(sim.job)
            seen[2 * kinds + k * ages + a] = min(age * scale, 1.0)
    at = kinds * (2 + ages)
    if settings[0].estimate == 1:
        seen[at] = sim.world[0].estimate
        at += 1
    if settings[0].units == 1:
        _observe_units(sim, settings, seen, at)


@njit_inline
def _observe_units(sim: PublishedTables, settings: RecordTable, seen: Numbers, at: int) -> None:
    kinds, now = len(sim.waiting), sim.world[0].now
    for d in range(len(sim.unit)):
        unit = sim.unit[d]
        busy = max(unit.free_at - now, 0.0)
        seen[at] = busy / (busy + settings[0].span)
        for k in range(kinds):
            seen[at + 1 + k] = 0.0
        if unit.kind >= 0 and busy > 0.0:
            seen[at + 1 + unit.kind] = unit.size / unit.batch if settings[0].detail == 1 else 1.0
        at += 1 + kinds
    seen[at] = min((sim.world[0].arrived - sim.world[0].ended) / settings[0].queue_scale, 1.0)
    if settings[0].detail == 1:
        arrived = sim.world[0].arrived
        ago = now - sim.job[arrived - 1].arrival if arrived > 0 else 0.0
        seen[at + 1] = ago / (ago + settings[0].span)
