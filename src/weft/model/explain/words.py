"""Seconds, bytes and shares in sentences."""

from __future__ import annotations


def seconds_text(value: float) -> str:
    """Format seconds in a unit that fits."""
    size = abs(value)
    for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if size * scale >= 1 or size == 0:
            return f"{value * scale:,.1f} s" if size >= 1e4 else f"{value * scale:.4g} {unit}"
    return f"{value * 1e9:.4g} ns"


def bytes_text(value: float) -> str:
    """Format bytes in a decimal unit that fits."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value:.4g} B"


def share_text(value: float, total: float) -> str:
    """Format a share as percent."""
    return f"{100 * value / total:.0f} %" if total > 0 else "0 %"


def list_text(words: list[str]) -> str:
    """Join words with commas and "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
