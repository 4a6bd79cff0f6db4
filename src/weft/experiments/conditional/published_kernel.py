"""The published environment (`published.py`) compiled, with its habits as options.

The plain version is its twin, which a test compares job by job and bit by bit: the same events in
the same order, the same heaps place by place, the same numbers in an observation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.experiments.conditional.published import (
    END,
    PublishedOptions,
    next_tasks,
    published_problem,
)
from weft.model.columns import FloatArray, IntArray
from weft.model.conditional_stream import ConditionalStream, in_ticks
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import RecordTable

CONFIG = record("hold expiry", "single_event heap_order watched")
# hold: ticks for which a unit that waits is held; watched: the task whose choice is estimated
WORLD = record("now estimate slowest prior", "events arrived ended expired memory counted")
# slowest: least weight of a new outcome; memory: the kind that MRU chose last
HEAP = record("time since", "job task")
# an event, or a waiting task: then both times are the arrival of its job, and task is 0
UNIT = record("free_at", "batch kind size")  # kind, size: of the last batch; kind -1: held
JOB = record("arrival finish", "doing branch")
# doing: the task that runs, or -1; branch: of the watched choice

FIFO, MRU, DEPTH_FIRST = range(3)


class PublishedTables(NamedTuple):
    """One simulation; times are in ticks."""

    config: RecordTable  # (1,)
    world: RecordTable  # (1,)
    duration: FloatArray  # (kinds, units)
    after: IntArray  # (jobs, kinds) the task after each task; END: none
    job: RecordTable  # (jobs,)
    unit: RecordTable  # (units,)
    event: RecordTable  # (jobs,) a heap
    queue: RecordTable  # (kinds, jobs) a heap each
    waiting: IntArray  # (kinds,) length of each queue


def make_tables(
    stream: ConditionalStream,
    arrival: FloatArray,
    outcome: IntArray,
    options: PublishedOptions,
    *,
    watched: int = -1,
    window: float = np.inf,
    prior: float = 2.0,
) -> PublishedTables:
    """Allocate the simulation of a draw; the choice `watched` is estimated."""
    problem = published_problem(stream)
    jobs, kinds, units = len(arrival), problem.n, problem.p
    config, world = np.zeros(1, CONFIG), np.zeros(1, WORLD)
    config["hold"] = in_ticks(options.idle_seconds, stream.tick)
    config["expiry"] = options.expiry / stream.tick
    config["single_event"], config["heap_order"] = options.single_event, options.heap_order
    config["watched"] = -1
    world["now"], world["estimate"] = -1.0, 0.5
    world["slowest"], world["prior"] = 1.0 / window, prior
    job, unit, event = np.zeros(jobs, JOB), np.zeros(units, UNIT), np.zeros(jobs, HEAP)
    job["arrival"], job["finish"], job["doing"] = arrival, np.nan, -1
    if watched >= 0:
        config["watched"] = int(stream.problem.workflow.choices.task[watched])
        job["branch"] = outcome[:, watched]
    unit["free_at"], unit["batch"], unit["kind"] = -1.0, problem.cluster.batch, -1
    order = np.lexsort((np.arange(jobs), arrival))  # a sorted list is a heap
    event["time"] = event["since"] = arrival[order]
    event["job"] = order
    world["events"] = jobs
    return PublishedTables(
        config,
        world,
        np.ascontiguousarray(problem.durations(), np.float64),
        next_tasks(stream, outcome),
        job,
        unit,
        event,
        np.zeros((kinds, jobs), HEAP),
        np.zeros(kinds, np.int64),
    )


# -- heaps: the places of Python's heapq, as no two entries are equal --------------------


@njit_inline
def _before(heap: RecordTable, a: int, b: int) -> bool:
    """Return whether entry a of a heap comes before entry b."""
    if heap[a].time != heap[b].time:
        return bool(heap[a].time < heap[b].time)
    if heap[a].since != heap[b].since:
        return bool(heap[a].since < heap[b].since)
    return bool(heap[a].job < heap[b].job)


@njit_inline
def _copy(heap: RecordTable, to: int, source: int) -> None:
    heap[to].time, heap[to].since = heap[source].time, heap[source].since
    heap[to].job, heap[to].task = heap[source].job, heap[source].task


@njit_noalloc
def push(heap: RecordTable, size: int, time: float, since: float, job: int, task: int) -> None:
    """Add an entry to a heap with `size` entries."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        over = heap[up]
        if over.time < time or (
            over.time == time and (over.since < since or (over.since == since and over.job < job))
        ):
            break
        _copy(heap, at, up)
        at = up
    heap[at].time, heap[at].since, heap[at].job, heap[at].task = time, since, job, task


@njit_noalloc
def pop(heap: RecordTable, size: int) -> None:
    """Take the first entry, which must have been read, off a heap with `size` entries."""
    last, at = size - 1, 0
    while 2 * at + 1 < last:
        child = 2 * at + 1
        if child + 1 < last and _before(heap, child + 1, child):
            child += 1
        if not _before(heap, child, last):
            break
        _copy(heap, at, child)
        at = child
    if at < last:
        _copy(heap, at, last)


# -- events ------------------------------------------------------------------------------


@njit_inline
def any_waiting(sim: PublishedTables) -> bool:
    """Return whether any task waits."""
    total = 0
    for k in range(len(sim.waiting)):
        total += sim.waiting[k]
    return total > 0


@njit_inline
def is_done(sim: PublishedTables) -> bool:
    """Return whether all jobs have ended."""
    return bool(sim.world[0].events == 0 and not any_waiting(sim))


@njit_inline
def _first_free(sim: PublishedTables) -> float:
    first = np.inf
    for d in range(len(sim.unit)):
        first = min(first, sim.unit[d].free_at)
    return first


@njit_noalloc
def _handle_event(sim: PublishedTables) -> None:
    world = sim.world[0]
    if world.events == 0:
        world.now = _first_free(sim)
        return
    head = sim.event[0]
    time, since, job, task = head.time, head.since, head.job, head.task
    pop(sim.event, world.events)
    world.events -= 1
    world.now = max(world.now, time)
    if sim.job[job].doing >= 0:
        if sim.job[job].doing == sim.config[0].watched:
            _learn(sim, sim.job[job].branch)
        sim.job[job].doing = -1
    else:
        world.arrived += 1
    if task == END:
        sim.job[job].finish = time
        world.ended += 1
    else:
        push(sim.queue[task], sim.waiting[task], since, since, job, 0)
        sim.waiting[task] += 1


@njit_inline
def _learn(sim: PublishedTables, branch: int) -> None:
    world = sim.world[0]
    world.counted += 1
    weight = max(1.0 / (world.counted + world.prior), world.slowest)
    world.estimate += weight * ((1.0 if branch == 0 else 0.0) - world.estimate)


@njit_noalloc
def begin(sim: PublishedTables) -> None:
    """Simulate up to the first decision."""
    while not any_waiting(sim) and sim.world[0].events > 0:
        _handle_event(sim)


@njit_noalloc
def step(sim: PublishedTables, actions: IntArray) -> None:
    """Carry out an action per unit, and simulate up to the next decision."""
    kinds, now = len(sim.waiting), sim.world[0].now
    for d in range(len(sim.unit)):
        kind = actions[d]
        if sim.unit[d].free_at > now:
            continue
        if kind == kinds:
            sim.unit[d].free_at = now + sim.config[0].hold
            sim.unit[d].kind, sim.unit[d].size = -1, 0
        elif sim.waiting[kind] > 0:
            _run(sim, d, kind)
    _proceed(sim)
    _expire(sim)


@njit_inline
def _run(sim: PublishedTables, d: int, kind: int) -> None:
    end = sim.world[0].now + sim.duration[kind, d]
    size = min(sim.unit[d].batch, sim.waiting[kind])
    sim.unit[d].free_at, sim.unit[d].kind, sim.unit[d].size = end, kind, size
    for _ in range(size):
        since, job = sim.queue[kind, 0].since, sim.queue[kind, 0].job
        pop(sim.queue[kind], sim.waiting[kind])
        sim.waiting[kind] -= 1
        sim.job[job].doing = kind
        push(sim.event, sim.world[0].events, end, since, job, sim.after[job, kind])
        sim.world[0].events += 1


@njit_inline
def _proceed(sim: PublishedTables) -> None:
    first_free, handled, world = _first_free(sim), False, sim.world[0]
    while world.events > 0 and (
        first_free > world.now or not any_waiting(sim) or sim.event[0].time <= world.now
    ):
        _handle_event(sim)
        handled = True
    if not handled:
        _handle_event(sim)
        while (
            sim.config[0].single_event == 0 and world.events > 0 and sim.event[0].time <= world.now
        ):
            _handle_event(sim)
    while world.events > 0 and sim.event[0].time < world.now:  # while all units were held
        _handle_event(sim)


@njit_inline
def _expire(sim: PublishedTables) -> None:
    expiry = sim.config[0].expiry
    for k in range(len(sim.waiting)):
        while sim.waiting[k] > 0 and sim.queue[k, 0].since < sim.world[0].now - expiry:
            job, since = sim.queue[k, 0].job, sim.queue[k, 0].since
            pop(sim.queue[k], sim.waiting[k])
            sim.waiting[k] -= 1
            sim.job[job].finish = since + expiry
            sim.world[0].expired += 1
            sim.world[0].ended += 1


# -- rules -------------------------------------------------------------------------------


@njit_noalloc
def run_rule(sim: PublishedTables, rule: int, taken: IntArray, actions: IntArray, most: int) -> int:
    """Run a rule; return its steps, or -1 if it does not end within `most` steps."""
    begin(sim)
    kinds = len(sim.waiting)
    for at in range(most):
        if is_done(sim):
            return at
        for k in range(kinds):
            taken[k] = 0
        for d in range(len(sim.unit)):
            actions[d] = kinds
            if sim.unit[d].free_at <= sim.world[0].now:
                kind = _choose(sim, rule, taken)
                if kind >= 0:
                    actions[d] = kind
                    taken[kind] += sim.unit[d].batch
        step(sim, actions)
    return -1


@njit_inline
def _choose(sim: PublishedTables, rule: int, taken: IntArray) -> int:
    kinds, best, least = len(sim.waiting), -1, np.inf
    for k in range(kinds):
        kind = (sim.world[0].memory + k) % kinds if rule == MRU else k
        if sim.waiting[kind] <= taken[kind]:
            continue
        if rule == FIFO:
            since = _since(sim, kind, taken[kind])
            if since < least:
                best, least = kind, since
        elif rule == MRU:
            sim.world[0].memory = kind
            return int(kind)
        else:
            best = kind
    return int(best)


@njit_inline
def _since(sim: PublishedTables, kind: int, place: int) -> float:
    """Return the arrival of the task at a place of the heap, or of the queue in order."""
    queue = sim.queue[kind]
    if sim.config[0].heap_order == 1:
        return float(queue[place].since)
    for i in range(sim.waiting[kind]):
        before = 0
        for j in range(sim.waiting[kind]):
            before += _before(queue, j, i)
        if before == place:
            return float(queue[i].since)
    return np.inf
