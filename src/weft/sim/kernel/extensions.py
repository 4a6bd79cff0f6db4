"""Extensions of machines: capacities, batch curves, set-up, a network.

`sim.extended` is None on machines without any of these, and its type is part of the signature of a
kernel. So on plain machines the compiler knows the answers below and leaves out the code of the
extensions, which then costs nothing.
"""

from __future__ import annotations

from weft.sim.kernel.jit import njit_inline
from weft.sim.kernel.tables import Sim


@njit_inline
def capacities(sim: Sim) -> int:
    """Return the number of capacities that tasks share on their node."""
    return 0 if sim.extended is None else sim.need.shape[1]


@njit_inline
def has_curves(sim: Sim) -> bool:
    """Return whether batches take longer when they are fuller."""
    return sim.extended is not None and sim.world[0].curve >= 0


@njit_inline
def has_setup(sim: Sim) -> bool:
    """Return whether devices load kinds of tasks before they run them."""
    return sim.extended is not None and sim.world[0].setup >= 0


@njit_inline
def has_network(sim: Sim) -> bool:
    """Return whether transfers share links."""
    return sim.extended is not None and sim.world[0].network > 0
