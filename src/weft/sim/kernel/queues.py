"""Device queues, compiled: entries, the arrival of their inputs, their start.

Part of the event kernel; see "Starting" in `docs/simulator.md`.
"""

from __future__ import annotations

import numpy as np

from weft.sim.kernel.extensions import capacities, has_curves, has_network, has_setup
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.setup import load_kind, setup_seconds
from weft.sim.kernel.tables import DONE, REPLAY, RUNNING, SKIPPED, Sim


@njit_inline
def task_of(sim: Sim, instance: int) -> int:
    """Return the global task of an instance."""
    return int(instance - sim.job[sim.inst[instance].job].shift)


@njit_inline
def edge_taken(sim: Sim, job: int, edge: int) -> bool:
    """Return whether a finished source takes this edge."""
    choice = sim.edge[edge].choice
    return bool(choice < 0 or sim.outcome[sim.job[job].choice + choice] == sim.edge[edge].branch)


@njit_inline
def enqueue(sim: Sim, entry: int, d: int) -> None:
    """Put an entry at the end of a device's queue."""
    sim.entry[entry].next = -1
    if sim.device[d].tail >= 0:
        sim.entry[sim.device[d].tail].next = entry
    else:
        sim.device[d].head = entry
    sim.device[d].tail = entry


@njit_inline
def try_start(sim: Sim, d: int) -> None:
    """Start the head of a device's queue, or note when to look again."""
    now = sim.world[0].now
    if sim.device[d].running >= 0:
        return
    sim.due[d] = np.inf
    if sim.device[d].slowdown == np.inf:
        return
    if now < sim.device[d].blocked_until:
        sim.due[d] = sim.device[d].blocked_until
        return
    entry = sim.device[d].head
    if sim.world[0].mode == REPLAY:
        while entry >= 0 and sim.inst[sim.entry[entry].instance].status == SKIPPED:
            entry = sim.entry[entry].next
        sim.device[d].head = entry
        if entry < 0:
            sim.device[d].tail = -1
        elif sim.inst[sim.entry[entry].instance].pending > 0:
            return
    if entry < 0:
        return
    ready_at = _inputs_there(sim, entry) if has_network(sim) else group_arrival(sim, entry, d)
    if ready_at > now:
        sim.due[d] = ready_at
    if ready_at > now or not _group_has_room(sim, entry, d):
        return  # without room, wait until something ends on the node
    sim.device[d].head = sim.entry[entry].next
    if sim.device[d].head < 0:
        sim.device[d].tail = -1
    _start(sim, entry, d)


@njit_noalloc
def _inputs_there(sim: Sim, entry: int) -> float:
    """Return when the inputs of a queued group are there; inf during a transfer."""
    latest, instance = 0.0, sim.entry[entry].instance
    while instance >= 0:
        if sim.inbound[instance].moving > 0:
            return np.inf
        latest = max(latest, sim.inbound[instance].there)
        instance = sim.inst[instance].partner
    return latest


@njit_inline
def _start(sim: Sim, entry: int, d: int) -> None:
    now, slowdown = sim.world[0].now, sim.device[d].slowdown
    longest, expected, size = 0.0, 0.0, 0
    instance = sim.entry[entry].instance
    sim.device[d].last_kind = sim.task[task_of(sim, instance)].kind
    while instance >= 0:
        g = task_of(sim, instance)
        seconds = sim.task[g].work * sim.grid[sim.task[g].row, d]
        expected = max(expected, seconds * slowdown)
        longest = max(
            longest,
            seconds
            * sim.inst[instance].factor
            * sim.grid[2 * len(sim.device) + sim.task[g].kind, d]
            * slowdown,
        )
        if sim.inst[instance].status != DONE:
            sim.inst[instance].status = RUNNING
        for c in range(capacities(sim)):
            sim.room[sim.device[d].node, c] -= sim.need[g, c]
        instance = sim.inst[instance].partner
        size += 1
    growth = batch_growth(sim, sim.device[d].last_kind, d, size)
    longest, expected = longest * growth, expected * growth
    if has_setup(sim):
        setup = setup_seconds(sim, d, d, sim.device[d].last_kind)
        longest, expected = longest + setup, expected + setup
        load_kind(sim, d, d, sim.device[d].last_kind)
    sim.device[d].running = entry
    sim.device[d].start = now
    sim.due[d] = now + longest
    sim.device[d].expected = now + expected
    sim.device[d].group = sim.world[0].groups
    sim.world[0].groups += 1


@njit_inline
def has_room(sim: Sim, instance: int, d: int) -> bool:
    """Return whether the node of a device has room for an instance.

    The needs of the instance must be left of every capacity.
    """
    g = task_of(sim, instance)
    for c in range(capacities(sim)):
        if sim.room[sim.device[d].node, c] - sim.need[g, c] < 0.0:
            return False
    return True


@njit_inline
def _group_has_room(sim: Sim, entry: int, d: int) -> bool:
    for c in range(capacities(sim)):
        left, instance = sim.room[sim.device[d].node, c], sim.entry[entry].instance
        while instance >= 0:
            left -= sim.need[task_of(sim, instance), c]
            instance = sim.inst[instance].partner
        if left < 0.0:
            return False
    return True


@njit_inline
def batch_growth(sim: Sim, kind: int, d: int, size: int) -> float:
    """Return the seconds of a batch of tasks over those of one."""
    if not has_curves(sim) or size <= 1:
        return 1.0
    return float(sim.grid[sim.world[0].curve + kind * (sim.world[0].sizes + 1) + size, d])


@njit_inline
def batch_limit(sim: Sim, kind: int, d: int) -> int:
    """Return the most tasks of a kind that a device runs together."""
    if not has_curves(sim):
        return int(sim.device[d].batch)
    return int(sim.grid[sim.world[0].curve + kind * (sim.world[0].sizes + 1), d])


@njit_inline
def transfer_time(sim: Sim, origin: int, d: int, data: float) -> float:
    """Return the seconds to move data from one device to another; 0 on one device."""
    return float(sim.grid[origin, d] + data * sim.grid[len(sim.device) + origin, d])


@njit_inline
def group_arrival(sim: Sim, entry: int, d: int) -> float:
    """Return when the inputs of all members of a queued group are on a device."""
    return _latest_arrival(sim, entry, d, -1)


@njit_inline
def expected_arrival(sim: Sim, entry: int, d: int) -> float:
    """Return `group_arrival`, as if the parent copied ahead of the group were done."""
    copied = -1
    if sim.world[0].copies == 1 and entry < len(sim.inst):
        copied = sim.entry[len(sim.inst) + entry].instance
    return _latest_arrival(sim, entry, d, copied)


@njit_inline
def _latest_arrival(sim: Sim, entry: int, d: int, copied: int) -> float:
    latest = 0.0
    instance = sim.entry[entry].instance
    while instance >= 0:
        latest = max(
            latest, _arrival_without(sim, instance, d, decided_at(sim, entry, instance), copied)
        )
        instance = sim.inst[instance].partner
    return latest


@njit_inline
def decided_at(sim: Sim, entry: int, instance: int) -> float:
    """Return when an entry was committed; for a copy, when the one behind it was."""
    if sim.world[0].copies == 1 and entry >= len(sim.inst):
        return float(sim.inst[entry - len(sim.inst)].decided)
    return float(sim.inst[instance].decided)


@njit_inline
def input_arrival(sim: Sim, instance: int, d: int, decided: float) -> float:
    """Return when the inputs of an instance committed at `decided` are on a device."""
    return _arrival_without(sim, instance, d, decided, -1)


@njit_inline
def _arrival_without(sim: Sim, instance: int, d: int, decided: float, copied: int) -> float:
    job = sim.inst[instance].job
    shift = sim.job[job].shift
    g = instance - shift
    eager = sim.world[0].eager == 1
    latest = 0.0
    for k in range(sim.task[g].pred, sim.task[g + 1].pred):
        e = sim.edge[k].back
        parent = sim.edge[e].source + shift
        x = sim.inst[parent].result
        if x < 0 or parent == copied or not edge_taken(sim, job, e):
            continue
        soonest = np.inf
        while x >= 0:
            sent = sim.execution[x].finish if eager else max(sim.execution[x].finish, decided)
            origin = sim.execution[x].device
            soonest = min(soonest, sent + transfer_time(sim, origin, d, sim.edge[e].data))
            x = sim.execution[x].before
        latest = max(latest, soonest)
    return latest
