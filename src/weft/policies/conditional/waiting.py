"""Waiting: corrected actions and masks, and the error of a run without an end."""

from __future__ import annotations

import numpy as np

from weft.errors import Stuck
from weft.model.columns import BoolArray, IntArray
from weft.model.conditional_stream import ConditionalStream
from weft.sim.kernel.commit import is_idle
from weft.sim.kernel.events import next_time
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.queues import batch_limit
from weft.sim.kernel.tables import Sim
from weft.sim.vector.state import BatchTables, StepState, sim_of, state_of


def stuck(name: str, stream: ConditionalStream) -> Stuck:
    """Return the error of a policy that waits forever."""
    return Stuck(f"policy '{name}' waits in '{stream.name}', but nothing is in flight or due")


@njit_inline
def forbid_standstill(sim: Sim, mask: BoolArray) -> None:
    """Forbid a unit to wait if it can act and nothing else is in flight or due.

    With the published mask all units could wait forever.
    """
    kinds = mask.shape[1] - 1
    if next_time(sim) < np.inf:
        return
    for d in range(mask.shape[0]):
        for k in range(kinds):
            if mask[d, k]:
                mask[d, kinds] = False


@njit_inline
def shorten_waits(sim: Sim, state: StepState, actions: IntArray) -> None:
    """Let units wait for the next event, not 10 ms, if another unit empties a queue.

    In the published environment, a unit that chooses a queue that is empty by its turn waits for
    the next event. Every policy could use that; here all policies do.
    """
    if state.config[0].blocking == 0:
        return
    kinds, left = len(sim.kind), state.scratch
    for k in range(kinds):
        left[k] = sim.kind[k].ready
    for d in range(len(sim.device)):
        if not is_idle(sim, d):
            continue
        kind = actions[d]
        if kind < kinds:
            left[kind] -= min(left[kind], batch_limit(sim, kind, d))
            continue
        for k in range(kinds):
            if sim.kind[k].ready > 0 and left[k] == 0:
                actions[d] = k


@njit_noalloc
def forbid_standstills(tables: BatchTables, mask: BoolArray) -> None:
    """Apply `forbid_standstill` to all simulations."""
    for s in range(len(mask)):
        forbid_standstill(sim_of(tables, s), mask[s])


@njit_noalloc
def shorten_all_waits(tables: BatchTables, actions: IntArray) -> None:
    """Apply `shorten_waits` to all simulations."""
    for s in range(len(actions)):
        shorten_waits(sim_of(tables, s), state_of(tables, s), actions[s])
