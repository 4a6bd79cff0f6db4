"""Set-up of devices, compiled: seconds before a group runs, and what stays loaded.

Part of the event kernel; see "Set-up" in `docs/simulator.md`.
"""

from __future__ import annotations

import numpy as np

from weft.model.machines.setup import MEMORY, PINNED, SECONDS
from weft.sim.kernel.extensions import has_setup
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.tables import Sim

COLUMNS = 3
"""Rows of `grid` per kind: seconds, bytes, whether pinned. Rows of cache and switch follow."""


@njit_inline
def setup_seconds(sim: Sim, row: int, d: int, kind: int) -> float:
    """Return the seconds of set-up before a group of a kind runs on a device.

    The loaded kinds are those of a row of `loaded`.
    """
    if not has_setup(sim):
        return 0.0
    base, kinds, seconds = sim.world[0].setup, len(sim.kind), 0.0
    if sim.loaded[row, kind] == 0:
        seconds = sim.grid[base + COLUMNS * kind + SECONDS, d]
    last = sim.loaded[row, kinds]
    if last >= 0 and last != kind:
        seconds += sim.grid[base + COLUMNS * kinds + 1, d]
    slowdown = sim.device[d].slowdown
    return float(seconds * slowdown) if slowdown < np.inf else np.inf


@njit_noalloc
def load_kind(sim: Sim, row: int, d: int, kind: int) -> None:
    """Load a kind into a row of `loaded`; make room by least recent use."""
    base, kinds, latest = sim.world[0].setup, len(sim.kind), 0
    for k in range(kinds):
        latest = max(latest, sim.loaded[row, k])
    sim.loaded[row, kind] = latest + 1
    sim.loaded[row, kinds] = kind
    while True:
        used, oldest = 0.0, -1
        for k in range(kinds):
            if sim.loaded[row, k] == 0:
                continue
            memory = sim.grid[base + COLUMNS * k + MEMORY, d]
            used += memory
            fixed = k == kind or memory == 0.0 or sim.grid[base + COLUMNS * k + PINNED, d] > 0.0
            if not fixed and (oldest < 0 or sim.loaded[row, k] < sim.loaded[row, oldest]):
                oldest = k
        if oldest < 0 or used <= sim.grid[base + COLUMNS * kinds, d]:
            return
        sim.loaded[row, oldest] = 0


@njit_noalloc
def empty_cache(sim: Sim, d: int) -> None:
    """Drop all but the pinned kinds: the device failed."""
    if not has_setup(sim):
        return
    base, kinds = sim.world[0].setup, len(sim.kind)
    for k in range(kinds):
        sim.loaded[d, k] = 1 if sim.grid[base + COLUMNS * k + PINNED, d] > 0.0 else 0
    sim.loaded[d, kinds] = -1


@njit_noalloc
def forecast_from_now(sim: Sim, d: int) -> int:
    """Copy the loaded kinds to the row that a forecast writes; return its number."""
    row = len(sim.device) + d
    for k in range(sim.loaded.shape[1]):
        sim.loaded[row, k] = sim.loaded[d, k]
    return row
