"""Shares and lists in sentences."""

from __future__ import annotations


def share_text(value: float, total: float) -> str:
    """Format a share as percent."""
    return f"{100 * value / total:.0f} %" if total > 0 else "0 %"


def list_text(words: list[str]) -> str:
    """Join words with commas and "and"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
