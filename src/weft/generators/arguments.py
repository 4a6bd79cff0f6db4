"""Checks of generator options, with errors that name the option, its value and the rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsFloat

from weft.errors import InvalidInput, UnknownName
from weft.registry import closest


def whole(value: object, option: str, *, least: int = 1) -> int:
    """Return a whole number of at least `least`.

    Examples
    --------
    >>> whole(0, "tasks")
    Traceback (most recent call last):
    ...
    weft.errors.InvalidInput: tasks is 0; it must be a whole number, 1 or more
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < least:
        raise InvalidInput(f"{option} is {value}; it must be a whole number, {least} or more")
    return int(value.__index__())


def number(
    value: object, option: str, *, low: float = 0.0, high: float = math.inf, above: bool = False
) -> float:
    """Return a finite number between `low` (itself not allowed when `above`) and `high`."""
    found = (
        float(value) if isinstance(value, SupportsFloat) else math.nan
    )  # other values are refused below
    if not math.isfinite(found) or found < low or found > high or (above and found == low):
        floor = f"above {low:g}" if above else f"{low:g} or more"
        raise InvalidInput(
            f"{option} is {value}; it must be a number {floor}"
            + (f", at most {high:g}" if math.isfinite(high) else "")
        )
    return found


def one_of(value: str, option: str, known: Sequence[str]) -> str:
    """Return a word that must be one of the known ones."""
    if value not in known:
        raise UnknownName(f"{option} is '{value}'{closest(str(value), known)}")
    return value
