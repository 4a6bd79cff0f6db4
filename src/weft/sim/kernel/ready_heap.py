"""The pool of ready instances: one binary heap per kind.

The lowest (key, number) comes first.
"""

from __future__ import annotations

from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.tables import RecordTable, Sim


@njit_inline
def before(inst: RecordTable, a: int, b: int) -> bool:
    """Return whether instance a comes before instance b."""
    return bool(inst[a].key < inst[b].key or (inst[a].key == inst[b].key and a < b))


@njit_inline
def _put(inst: RecordTable, base: int, at: int, instance: int) -> None:
    """Place an instance in the heap that begins at `base`."""
    inst[base + at].pool = instance
    inst[instance].place = at


@njit_noalloc
def _rise(inst: RecordTable, base: int, at: int) -> None:
    mine = inst[base + at].pool
    while at > 0:
        up = (at - 1) // 2
        other = inst[base + up].pool
        if not before(inst, mine, other):
            break
        _put(inst, base, at, other)
        at = up
    _put(inst, base, at, mine)


@njit_noalloc
def _sink(inst: RecordTable, base: int, size: int, at: int) -> None:
    mine = inst[base + at].pool
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and before(inst, inst[base + child + 1].pool, inst[base + child].pool):
            child += 1
        other = inst[base + child].pool
        if not before(inst, other, mine):
            break
        _put(inst, base, at, other)
        at = child
    _put(inst, base, at, mine)


@njit_inline
def pool_add(sim: Sim, kind: int, instance: int) -> None:
    """Put an instance into the pool."""
    base, size = sim.kind[kind].pool, sim.kind[kind].ready
    sim.inst[base + size].pool = instance
    sim.kind[kind].ready = size + 1
    sim.world[0].ready += 1
    _rise(sim.inst, base, size)


@njit_inline
def pool_remove(sim: Sim, kind: int, instance: int) -> None:
    """Take an instance out of the pool, at any place of its heap."""
    base, at = sim.kind[kind].pool, sim.inst[instance].place
    last = sim.kind[kind].ready - 1
    sim.kind[kind].ready = last
    sim.world[0].ready -= 1
    sim.inst[instance].place = -1
    if at < last:
        moved = sim.inst[base + last].pool
        _put(sim.inst, base, at, moved)
        _sink(sim.inst, base, last, at)
        _rise(sim.inst, base, sim.inst[moved].place)


@njit_inline
def pool_top(sim: Sim, kind: int) -> int:
    """Return the first ready instance of a kind that has any."""
    return int(sim.inst[sim.kind[kind].pool].pool)


@njit_inline
def pool_first(sim: Sim) -> int:
    """Return the first ready instance over all kinds, or -1."""
    best = -1
    for kind in range(len(sim.kind)):
        if sim.kind[kind].ready > 0:
            top = pool_top(sim, kind)
            if best < 0 or before(sim.inst, top, best):
                best = top
    return best
