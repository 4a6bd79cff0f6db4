"""The state of a simulation as text or as a picture, for Gymnasium's render modes."""

from __future__ import annotations

from collections.abc import Sequence
from colorsys import hsv_to_rgb
from typing import Any

import numpy as np

from weft.errors import InvalidInput

RENDERING: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"], "render_fps": 4}
"""Metadata that Gymnasium needs of an environment."""


def check_render_mode(mode: str | None) -> str | None:
    """Return a render mode, or refuse one that is not offered."""
    if mode is not None and mode not in RENDERING["render_modes"]:
        raise InvalidInput(f"render_mode is '{mode}'; it must be None, 'ansi' or 'rgb_array'")
    return mode


CELL, CELLS = 12, 32
"""Pixels of a square, and squares per row of a picture."""

IDLE, PAPER = 200, 255
"""Grey of an idle device and of the background."""


def render(
    mode: str | None,
    now: float,
    kind: Any,
    device: Any,
    kinds: Sequence[str],
    devices: Sequence[str],
) -> str | np.ndarray[Any, Any] | None:
    """Return the state of a simulation in a mode: text, a picture or nothing."""
    if mode is None:
        return None
    if mode == "rgb_array":
        return render_picture(kind["ready"], device["running"], device["last_kind"])
    return render_text(now, kind, device, kinds, devices)


def render_picture(ready: Any, running: Any, last_kind: Any) -> np.ndarray[Any, Any]:
    """Return a row per kind with a square per ready task, then a row per device.

    A device has the colour of the kind it runs; grey: it is idle.
    """
    kinds, devices = len(ready), len(running)
    colours = [[255 * c for c in hsv_to_rgb(k / kinds, 0.7, 0.8)] for k in range(kinds)]
    cells = np.full((kinds + devices, CELLS, 3), PAPER, np.uint8)
    for k in range(kinds):
        cells[k, : int(ready[k])] = colours[k]
    for d in range(devices):
        cells[kinds + d] = colours[int(last_kind[d])] if running[d] >= 0 else IDLE
    return cells.repeat(CELL, axis=0).repeat(CELL, axis=1)


def render_text(
    now: float, kind: Any, device: Any, kinds: Sequence[str], devices: Sequence[str]
) -> str:
    """Return the time, the ready tasks by kind, and what each device runs.

    `kind` and `device` are tables of a simulation, see `weft.sim.kernel.tables`.
    """
    lines = [f"time {now:g}"]
    lines += [f"  {name}: {int(row['ready'])} ready" for name, row in zip(kinds, kind, strict=True)]
    for name, row in zip(devices, device, strict=True):
        doing = "idle" if row["running"] < 0 else f"runs {kinds[int(row['last_kind'])]}"
        lines.append(f"  {name}: {doing}")
    return "\n".join(lines)
