"""Commitments of instances to devices, and forecasts of devices, compiled.

Part of the event kernel; see "Committing" and "What a policy sees" in `docs/simulator.md`.
"""

from __future__ import annotations

import numpy as np

from weft.sim.kernel.extensions import capacities, has_network, has_setup
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import (
    batch_growth,
    batch_limit,
    enqueue,
    expected_arrival,
    input_arrival,
    task_of,
    try_start,
)
from weft.sim.kernel.ready_heap import pool_add, pool_remove, pool_top
from weft.sim.kernel.setup import forecast_from_now, load_kind, setup_seconds
from weft.sim.kernel.tables import COMMITTED, Sim
from weft.sim.kernel.traffic import send_inputs


@njit_inline
def is_idle(sim: Sim, d: int) -> bool:
    """Return whether a device is up, not blocked, and has nothing running or queued."""
    device = sim.device[d]
    return bool(
        device.running < 0
        and device.head < 0
        and device.slowdown < np.inf
        and sim.world[0].now >= device.blocked_until
    )


@njit_inline
def any_idle(sim: Sim) -> bool:
    """Return whether a device could start a task now."""
    for d in range(len(sim.device)):  # noqa: SIM110  # a generator expression does not compile
        if is_idle(sim, d):
            return True
    return False


@njit_inline
def can_run(sim: Sim, instance: int, d: int) -> bool:
    """Return whether a device can run an instance at all."""
    return bool(sim.grid[sim.task[task_of(sim, instance)].row, d] < np.inf)


@njit_inline
def expected_seconds(sim: Sim, instance: int, d: int) -> float:
    """Return the expected duration at the present slowdown of the device."""
    g = task_of(sim, instance)
    return float(sim.task[g].work * sim.grid[sim.task[g].row, d] * sim.device[d].slowdown)


@njit_inline
def free_at(sim: Sim, d: int) -> float:
    """Return when a device is expected to finish its commitments; inf when down."""
    if sim.device[d].slowdown == np.inf:
        return np.inf
    now = sim.world[0].now
    overdue = sim.device[d].running >= 0 and now > sim.device[d].expected
    # On a network, or where groups wait for room, they may start later than expected.
    overdue = overdue or has_network(sim) or capacities(sim) > 0
    if sim.device[d].stale == 1 or overdue or sim.device[d].head < 0:
        t = now
        if sim.device[d].running >= 0:
            t = max(now, sim.device[d].expected)
        t = max(t, sim.device[d].blocked_until)
        if has_setup(sim):
            forecast_from_now(sim, d)
        entry = sim.device[d].head
        while entry >= 0:
            t = max(t, expected_arrival(sim, entry, d)) + _group_seconds(sim, entry, d)
            entry = sim.entry[entry].next
        sim.device[d].free = t
        sim.device[d].stale = 0
    return float(sim.device[d].free)


@njit_inline
def seconds_with_setup(sim: Sim, instance: int, d: int) -> float:
    """Return the expected set-up and duration behind the queue of a device.

    `free_at` must have updated the forecast of the queue.
    """
    seconds = expected_seconds(sim, instance, d)
    if not has_setup(sim):
        return seconds
    kind = sim.task[task_of(sim, instance)].kind
    return seconds + setup_seconds(sim, len(sim.device) + d, d, kind)


@njit_inline
def _group_seconds(sim: Sim, entry: int, d: int) -> float:
    """Return the expected set-up and duration of a group behind the forecast queue."""
    longest, size = 0.0, 0
    instance = sim.entry[entry].instance
    kind = sim.task[task_of(sim, instance)].kind
    while instance >= 0:
        longest = max(longest, expected_seconds(sim, instance, d))
        instance = sim.inst[instance].partner
        size += 1
    longest *= batch_growth(sim, kind, d, size)
    if has_setup(sim):
        row = len(sim.device) + d
        longest += setup_seconds(sim, row, d, kind)
        load_kind(sim, row, d, kind)
    return longest


@njit_inline
def expected_finish(sim: Sim, instance: int, d: int) -> float:
    """Return the expected finish of a ready instance if committed to a device now."""
    now = sim.world[0].now
    begin = max(free_at(sim, d), input_arrival(sim, instance, d, now), now)
    return float(begin + seconds_with_setup(sim, instance, d))


@njit_inline
def commit(sim: Sim, instance: int, d: int) -> None:
    """Commit a ready instance, fill its batch from the pool, and start it if possible."""
    if sim.world[0].copies == 1:
        sim.entry[len(sim.inst) + instance].instance = -1
    _commit_group(sim, instance, d)


@njit_noalloc
def commit_with_copy(sim: Sim, instance: int, d: int, parent: int) -> None:
    """Commit a copy of a done parent and the instance behind it.

    The tables must have room for copies.
    """
    copy = len(sim.inst) + instance
    sim.entry[copy].instance = parent
    sim.inst[parent].partner = -1  # instances of the same batch are not copied
    sim.inst[instance].decided = sim.world[0].now
    _append(sim, copy, d)
    _commit_group(sim, instance, d)


@njit_inline
def _commit_group(sim: Sim, instance: int, d: int) -> None:
    kind = sim.task[task_of(sim, instance)].kind
    _claim(sim, kind, instance)
    if sim.device[d].batch > 1:
        _fill_batch(sim, kind, instance, d)
    sim.entry[instance].instance = instance
    sim.world[0].decisions += 1
    _append(sim, instance, d)


@njit_inline
def _append(sim: Sim, entry: int, d: int) -> None:
    queued = sim.device[d].running >= 0 or sim.device[d].head >= 0
    if queued:  # update `free` before the queue grows: one addition keeps it exact to the last bit
        t = free_at(sim, d)
        sim.device[d].free = max(t, expected_arrival(sim, entry, d)) + _group_seconds(sim, entry, d)
    else:
        sim.device[d].stale = 1
    if has_network(sim):
        send_inputs(sim, entry, d)
    enqueue(sim, entry, d)
    try_start(sim, d)


@njit_inline
def _claim(sim: Sim, kind: int, instance: int) -> None:
    pool_remove(sim, kind, instance)
    sim.inst[instance].status = COMMITTED
    sim.inst[instance].decided = sim.world[0].now
    sim.inst[instance].partner = -1


@njit_noalloc
def _fill_batch(sim: Sim, kind: int, instance: int, d: int) -> None:
    room = sim.device[d].memory - sim.task[task_of(sim, instance)].memory
    size, last, put_aside = 1, instance, 0
    most = batch_limit(sim, kind, d)
    while size < most and sim.kind[kind].ready > 0:
        other = pool_top(sim, kind)
        if not can_run(sim, other, d):
            pool_remove(sim, kind, other)
            sim.inst[put_aside].aside = other
            put_aside += 1
            continue
        need = sim.task[task_of(sim, other)].memory
        if need > room or not _leaves_room(sim, instance, other, d):
            break
        room -= need
        _claim(sim, kind, other)
        sim.inst[last].partner = other
        last = other
        size += 1
    for k in range(put_aside):
        pool_add(sim, kind, sim.inst[k].aside)


@njit_noalloc
def _leaves_room(sim: Sim, first: int, other: int, d: int) -> bool:
    """Return whether a batch that begins with `first` fits the node with `other`."""
    for c in range(capacities(sim)):
        left, instance = sim.room[len(sim.room) // 2 + sim.device[d].node, c], first
        while instance >= 0:
            left -= sim.need[task_of(sim, instance), c]
            instance = sim.inst[instance].partner
        if left - sim.need[task_of(sim, other), c] < 0.0:
            return False
    return True


@njit_noalloc
def block(sim: Sim, d: int, until: float) -> None:
    """Keep a device idle until a time; its end is an event."""
    sim.device[d].blocked_until = until
    sim.device[d].stale = 1
    if sim.device[d].running < 0:
        sim.due[d] = until
