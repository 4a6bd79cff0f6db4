"""Priority rules inside the kernel. See "Rules" in `docs/simulator.md`."""

from __future__ import annotations

import numpy as np

from weft.sim.kernel.commit import (
    any_idle,
    can_run,
    commit,
    expected_finish,
    free_at,
    is_idle,
    seconds_with_setup,
)
from weft.sim.kernel.events import MOMENT, advance
from weft.sim.kernel.extensions import has_setup
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import has_room, task_of
from weft.sim.kernel.ready_heap import before, pool_add, pool_first, pool_remove
from weft.sim.kernel.tables import OUTSIDE, Sim
from weft.sim.rule import PLACEMENTS

FIRST, FASTEST, EARLIEST, EFT, MRU = range(5)
assert PLACEMENTS == ("first", "fastest", "earliest", "eft", "mru")


@njit_noalloc
def run_to_end(sim: Sim) -> int:
    """Simulate and decide until the end; return ENDED or STUCK."""
    while True:
        answer = advance(sim)
        if answer != MOMENT:
            return answer
        decide(sim)


@njit_noalloc
def replay(sim: Sim) -> int:
    """Simulate a plan until the end; return ENDED or STUCK."""
    answer = advance(sim)
    while answer == MOMENT:
        answer = advance(sim)
    return answer


@njit_inline
def decide(sim: Sim) -> None:
    """Make all decisions of this moment by the simulation's rule."""
    placement = sim.world[0].mode
    while sim.world[0].ready > 0 and placement != OUTSIDE:
        if not (
            _decide_by_device(sim) if placement == MRU else _decide_by_instance(sim, placement)
        ):
            return


@njit_inline
def _decide_by_instance(sim: Sim, placement: int) -> bool:
    if placement != EFT and not any_idle(sim):
        return False
    put_aside, device, instance = 0, -1, -1
    while sim.world[0].ready > 0:
        instance = pool_first(sim)
        device = _place(sim, instance, placement)
        if device >= 0:
            break
        pool_remove(sim, sim.task[task_of(sim, instance)].kind, instance)
        sim.inst[put_aside].aside = instance
        put_aside += 1
    for k in range(put_aside):
        other = sim.inst[k].aside
        pool_add(sim, sim.task[task_of(sim, other)].kind, other)
    if device >= 0:
        commit(sim, instance, device)
    return device >= 0


@njit_inline
def _place(sim: Sim, instance: int, placement: int) -> int:
    best, least = -1, np.inf
    for d in range(len(sim.device)):
        if not can_run(sim, instance, d) or sim.device[d].slowdown == np.inf:
            continue
        if placement != EFT and not (is_idle(sim, d) and has_room(sim, instance, d)):
            continue
        if placement == FIRST:
            return d
        if has_setup(sim):
            free_at(sim, d)  # forecasts which kinds are loaded when the device is free
        cost = seconds_with_setup(sim, instance, d)
        if placement != FASTEST:
            # Inputs can only delay the start further, so skip devices that are too late without
            # them.
            if best >= 0 and max(free_at(sim, d), sim.world[0].now) + cost >= least:
                continue
            cost = expected_finish(sim, instance, d)
        if cost < least or best < 0:
            best, least = d, cost
    return best


@njit_inline
def _decide_by_device(sim: Sim) -> bool:
    """Commit by most recent use: a device stays with its kind while it can."""
    kinds = len(sim.kind)
    for d in range(len(sim.device)):
        if not is_idle(sim, d):
            continue
        start = max(sim.device[d].last_kind, 0)
        for step in range(kinds):
            instance = first_runnable(sim, (start + step) % kinds, d)
            if instance >= 0:
                commit(sim, instance, d)
                return True
    return False


@njit_inline
def first_runnable(sim: Sim, kind: int, d: int) -> int:
    """Return the first ready instance of a kind that a device can run, or -1.

    Usually that is the top of the heap; otherwise all are searched.
    """
    best = -1
    base, size = sim.kind[kind].pool, sim.kind[kind].ready
    for k in range(size):
        instance = sim.inst[base + k].pool
        able = can_run(sim, instance, d) and has_room(sim, instance, d)
        if able and (best < 0 or before(sim.inst, instance, best)):
            best = instance
            if k == 0:
                break
    return best
