"""The compiled event kernel, defined by `docs/simulator.md`.

`sim/reference.py` is its twin. A moment is all events of one time: finishes, changes of slowdown,
cancellations, arrivals, starts. `advance` simulates one moment; decisions come between moments,
from a rule (`sim/kernel/rules.py`), a policy in Python or a learner.
"""

from __future__ import annotations

import numpy as np

from weft.model.trace import CANCELLED as X_CANCELLED
from weft.model.trace import DONE as X_DONE
from weft.model.trace import LOST as X_LOST
from weft.sim.kernel.extensions import capacities, has_network
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import decided_at, edge_taken, enqueue, task_of, try_start
from weft.sim.kernel.ready_heap import pool_add, pool_remove
from weft.sim.kernel.setup import empty_cache
from weft.sim.kernel.tables import (
    CANCELLED,
    DONE,
    JOB_AHEAD,
    JOB_CANCELLED,
    JOB_ENDED,
    JOB_HERE,
    READY,
    REPLAY,
    SKIPPED,
    Sim,
)
from weft.sim.kernel.traffic import begin_transfer, drop_inputs, end_transfers, next_transfer

MOMENT, ENDED, STUCK = 0, 1, 2
"""Results of `advance`."""


@njit_inline
def advance(sim: Sim) -> int:
    """Simulate the next moment, up to its decisions."""
    if sim.world[0].open_jobs == 0:
        return ENDED
    now = next_time(sim)
    if now == np.inf:
        return STUCK
    sim.world[0].now = now
    for d in range(len(sim.due)):
        if sim.due[d] == now and sim.device[d].running >= 0:
            _finish(sim, d)
    _change(sim)
    _cancel(sim)
    _arrive(sim)
    if has_network(sim) and sim.world[0].moving > 0:
        end_transfers(sim)
    # With copies or a plan, a copy may have brought data sooner, so every device looks again.
    look = sim.world[0].mode == REPLAY or sim.world[0].copies == 1
    for d in range(len(sim.due)):
        if (sim.due[d] == now or look) and sim.device[d].running < 0:
            try_start(sim, d)
    return MOMENT


@njit_inline
def next_time(sim: Sim) -> float:
    """Return the time of the next moment; inf: never."""
    due = np.inf
    for d in range(len(sim.due)):
        due = min(due, sim.due[d])
    jobs = len(sim.job) - 1
    world = sim.world[0]
    if has_network(sim) and world.moving > 0:
        due = min(due, next_transfer(sim))
    # The arrival of a cancelled job and the cancellation of an ended one are no events.
    while world.next_arrival < jobs and sim.job[world.next_arrival].state != JOB_AHEAD:
        world.next_arrival += 1
    while (
        world.next_cancel < jobs and sim.job[sim.job[world.next_cancel].called_off].state > JOB_HERE
    ):
        world.next_cancel += 1
    if world.next_arrival < jobs:
        due = min(due, sim.job[world.next_arrival].arrival)
    if world.next_change < len(sim.change):
        due = min(due, sim.change[world.next_change].time)
    if world.next_cancel < jobs:
        due = min(due, sim.job[sim.job[world.next_cancel].called_off].cancel)
    return due


# -- 1. finishes -------------------------------------------------------------


@njit_inline
def _finish(sim: Sim, d: int) -> None:
    entry = sim.device[d].running
    sim.device[d].running = -1
    if sim.world[0].now != sim.device[d].expected:
        sim.device[d].stale = 1
    if sim.world[0].copies == 1 and sim.entry[entry].copy == 1:
        for other in range(len(sim.device)):
            sim.device[other].stale = 1  # there is one more place to read the result from
    instance = sim.entry[entry].instance
    while instance >= 0:
        x = _record(sim, entry, instance, d, X_DONE)
        sim.execution[x].before = sim.inst[instance].result
        sim.inst[instance].result = x
        if sim.inst[instance].status != DONE:
            sim.inst[instance].status = DONE
            sim.inst[instance].ran_on = d
            sim.inst[instance].done_at = sim.world[0].now
            _settle(sim, instance)
        instance = sim.inst[instance].partner


@njit_inline
def _record(sim: Sim, entry: int, instance: int, d: int, status: int) -> int:
    if capacities(sim) > 0:
        _release(sim, instance, d)
    x = sim.world[0].executions
    sim.world[0].executions = x + 1
    sim.execution[x].instance = instance
    sim.execution[x].device = d
    sim.execution[x].decided = decided_at(sim, entry, instance)
    sim.execution[x].start = sim.device[d].start
    sim.execution[x].finish = sim.world[0].now
    sim.execution[x].status = status
    sim.execution[x].batch = sim.device[d].group
    sim.execution[x].copy = sim.entry[entry].copy
    sim.execution[x].before = -1
    return int(x)


@njit_noalloc
def _release(sim: Sim, instance: int, d: int) -> None:
    """Return the capacities that an execution took; devices of its node look again."""
    node, g = sim.device[d].node, task_of(sim, instance)
    for c in range(capacities(sim)):
        sim.room[node, c] += sim.need[g, c]
    for other in range(len(sim.device)):
        device = sim.device[other]
        if device.node == node and device.running < 0 and device.head >= 0:
            sim.due[other] = sim.world[0].now


@njit_inline
def _settle(sim: Sim, instance: int) -> None:
    """Decide the outgoing edges of a done instance, and of skipped ones."""
    job = sim.inst[instance].job
    shift = sim.job[job].shift
    depth = 0
    sends = has_network(sim) and sim.world[0].mode == REPLAY
    sim.inst[0].aside = instance  # `aside` serves as a stack, as no decision is being made
    while depth >= 0:
        i = sim.inst[depth].aside
        depth -= 1
        alive = sim.inst[i].status == DONE
        sim.job[job].remaining -= 1
        g = i - shift
        for e in range(sim.task[g].succ, sim.task[g + 1].succ):
            v = sim.edge[e].target + shift
            sim.inst[v].pending -= 1
            if alive and edge_taken(sim, job, e):
                sim.inst[v].taken += 1
                if sends:
                    begin_transfer(sim, v, e, sim.inst[i].ran_on, sim.inbound[v].device)
            if sim.inst[v].pending == 0:
                if sim.inst[v].taken > 0:
                    make_ready(sim, v)
                else:
                    sim.inst[v].status = SKIPPED
                    depth += 1
                    sim.inst[depth].aside = v
    if sim.job[job].remaining == 0:
        sim.job[job].state = JOB_ENDED
        sim.job[job].finish = sim.world[0].now
        sim.world[0].open_jobs -= 1


@njit_inline
def make_ready(sim: Sim, instance: int) -> None:
    """Put an instance whose inputs exist into the pool, unless a plan committed it."""
    sim.inst[instance].status = READY
    if sim.world[0].mode != REPLAY:
        pool_add(sim, sim.task[task_of(sim, instance)].kind, instance)


# -- 2. changes of slowdown ------------------------------------------------------


@njit_noalloc
def _change(sim: Sim) -> None:
    while (
        sim.world[0].next_change < len(sim.change)
        and sim.change[sim.world[0].next_change].time == sim.world[0].now
    ):
        c = sim.world[0].next_change
        sim.world[0].next_change = c + 1
        d, new, old = (
            sim.change[c].device,
            sim.change[c].slowdown,
            sim.device[sim.change[c].device].slowdown,
        )
        sim.device[d].slowdown = new
        sim.device[d].stale = 1
        if new == np.inf:
            _fail(sim, d)
        elif sim.device[d].running >= 0:
            sim.due[d] = sim.world[0].now + (sim.due[d] - sim.world[0].now) * (new / old)
            if sim.device[d].expected > sim.world[0].now:
                sim.device[d].expected = sim.world[0].now + (
                    sim.device[d].expected - sim.world[0].now
                ) * (new / old)
        elif old == np.inf:
            sim.due[d] = sim.world[0].now  # up again: look at its queue


@njit_noalloc
def _fail(sim: Sim, d: int) -> None:
    entry = sim.device[d].running
    sim.due[d] = np.inf
    empty_cache(sim, d)
    if entry >= 0:
        instance = sim.entry[entry].instance
        while instance >= 0:
            _record(sim, entry, instance, d, X_LOST)
            instance = sim.inst[instance].partner
        sim.device[d].running = -1
        sim.entry[entry].next = sim.device[d].head
        sim.device[d].head = entry
        if sim.device[d].tail < 0:
            sim.device[d].tail = entry
    if sim.world[0].mode != REPLAY:
        _give_back(sim, d)


@njit_noalloc
def _give_back(sim: Sim, d: int) -> None:
    """Make all instances queued on a failed device ready again; drop copies."""
    entry = sim.device[d].head
    while entry >= 0:
        instance = sim.entry[entry].instance if sim.entry[entry].copy == 0 else -1
        while instance >= 0:
            after = sim.inst[instance].partner
            sim.inst[instance].partner = -1
            if has_network(sim):
                drop_inputs(sim, instance)
            make_ready(sim, instance)
            instance = after
        entry = sim.entry[entry].next
    sim.device[d].head = -1
    sim.device[d].tail = -1


# -- 3. cancellations --------------------------------------------------------


@njit_noalloc
def _cancel(sim: Sim) -> None:
    while sim.world[0].next_cancel < len(sim.job) - 1:
        job = sim.job[sim.world[0].next_cancel].called_off
        if sim.job[job].cancel != sim.world[0].now:
            return
        sim.world[0].next_cancel += 1
        if sim.job[job].state == JOB_ENDED:
            continue
        sim.job[job].state = JOB_CANCELLED
        sim.world[0].open_jobs -= 1
        for i in range(sim.job[job].first, sim.job[job + 1].first):
            if sim.inst[i].status == DONE or sim.inst[i].status == SKIPPED:
                continue
            if sim.inst[i].place >= 0:
                pool_remove(sim, sim.task[task_of(sim, i)].kind, i)
            sim.inst[i].status = CANCELLED
        for d in range(len(sim.device)):
            _drop_cancelled(sim, d)


@njit_noalloc
def _drop_cancelled(sim: Sim, d: int) -> None:
    sim.device[d].stale = 1
    entry = sim.device[d].running
    if entry >= 0:
        instance = sim.entry[entry].instance
        while instance >= 0:
            if sim.inst[instance].status == CANCELLED:
                _record(sim, entry, instance, d, X_CANCELLED)
            instance = sim.inst[instance].partner
        if not _keep_members(sim, entry):
            sim.device[d].running = -1
    last, entry = -1, sim.device[d].head
    while entry >= 0:
        after = sim.entry[entry].next
        if _keep_members(sim, entry):
            last = entry
        elif last < 0:
            sim.device[d].head = after
        else:
            sim.entry[last].next = after
        entry = after
    sim.device[d].tail = last
    if sim.device[d].running < 0 and sim.device[d].slowdown < np.inf:
        sim.due[d] = sim.world[0].now  # its running group or awaited input may be gone


@njit_noalloc
def _keep_members(sim: Sim, entry: int) -> bool:
    """Take cancelled members out of a group; return False if no member is left."""
    first, last, instance = -1, -1, sim.entry[entry].instance
    while instance >= 0:
        after = sim.inst[instance].partner
        if sim.inst[instance].status != CANCELLED:
            if last < 0:
                first = instance
            else:
                sim.inst[last].partner = instance
            last = instance
        instance = after
    if last < 0:
        return False
    sim.inst[last].partner = -1
    sim.entry[entry].instance = first
    return True


# -- 4. arrivals -------------------------------------------------------------


@njit_inline
def _arrive(sim: Sim) -> None:
    while (
        sim.world[0].next_arrival < len(sim.job) - 1
        and sim.job[sim.world[0].next_arrival].arrival == sim.world[0].now
    ):
        job = sim.world[0].next_arrival
        sim.world[0].next_arrival = job + 1
        if sim.job[job].state != JOB_AHEAD:
            continue
        sim.job[job].state = JOB_HERE
        for i in range(sim.job[job].first, sim.job[job + 1].first):
            if sim.inst[i].pending == 0:
                make_ready(sim, i)
        if sim.world[0].mode == REPLAY:
            for e in range(sim.job[job].entry, sim.job[job + 1].entry):
                sim.inst[sim.entry[e].instance].decided = sim.world[0].now
                if has_network(sim):
                    sim.inbound[sim.entry[e].instance].device = sim.entry[e].device
                enqueue(sim, e, sim.entry[e].device)
        if sim.job[job].remaining == 0:  # a workflow without tasks
            sim.job[job].state = JOB_ENDED
            sim.job[job].finish = sim.world[0].now
            sim.world[0].open_jobs -= 1
