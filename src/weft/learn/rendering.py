"""The state of a simulation as text, for ``render_mode="ansi"``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.errors import InvalidInput

RENDERING: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 4}
"""What Gymnasium asks of an environment."""


def check_render_mode(mode: str | None) -> str | None:
    """Return a render mode, or refuse one that is not offered."""
    if mode is not None and mode not in RENDERING["render_modes"]:
        raise InvalidInput(f"render_mode is '{mode}'; it must be None or 'ansi'")
    return mode


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
