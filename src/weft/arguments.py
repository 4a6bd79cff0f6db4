"""Checks of options and columns; errors name the entry, its value and the rule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput, UnknownName
from weft.registry import closest


def shown(value: object) -> str:
    """Show a value in an error message in a few words, whatever it is.

    Examples
    --------
    >>> shown("12"), shown(1.5), shown(True), shown([1, 2]), shown({"a": 1})
    ("'12'", '1.5', 'true', 'a list of 2 entries', 'an object of 1 entries')
    >>> shown(10**400), shown(np.zeros(3)), shown(shown)
    ('a whole number of 1329 bits', 'an array of float64 of shape (3,)', 'a function')
    """
    if isinstance(value, dict | list | tuple | set):
        kind = "an object" if isinstance(value, dict) else f"a {type(value).__name__}"
        return f"{kind} of {len(value)} entries"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} of shape {value.shape}"
    if isinstance(value, bool):
        return f"{value}".lower()
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a whole number of {value.bit_length()} bits"
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= 60 else f"'{value[:56]} ...'"
    plain = value is None or isinstance(value, float | int | np.number)
    return f"{value}" if plain else f"a {type(value).__name__}"


def whole(value: object, option: str, *, least: int = 1, most: int | None = None) -> int:
    """Return a whole number of at least `least`, and at most `most`.

    Examples
    --------
    >>> whole(0, "tasks")
    Traceback (most recent call last):
    ...
    weft.errors.InvalidInput: tasks is 0; it must be a whole number, 1 or more
    """
    able = hasattr(value, "__index__") and not isinstance(value, bool | type)
    found = value.__index__() if able else None  # type: ignore[attr-defined]  # it has the method
    if found is None or found < least or (most is not None and found > most):
        limit = "" if most is None else f", at most {most}"
        raise InvalidInput(
            f"{option} is {shown(value)}; it must be a whole number, {least} or more{limit}"
        )
    return int(found)


def number(
    value: object, option: str, *, low: float = 0.0, high: float = math.inf, above: bool = False
) -> float:
    """Return a finite number from `low` to `high`; with `above`, `low` is excluded."""
    found = as_float(value)
    if not math.isfinite(found) or found < low or found > high or (above and found == low):
        floor = f"above {low:g}" if above else f"{low:g} or more"
        raise InvalidInput(
            f"{option} is {shown(value)}; it must be a number {floor}"
            + (f", at most {high:g}" if math.isfinite(high) else "")
        )
    return found


def valid_seed(value: object) -> int:
    """Return a seed: a whole number of at most 128 bits, as numpy's entropy has."""
    return whole(value, "seed", least=0, most=2**128 - 1)


def flag(value: object, option: str) -> bool:
    """Return True or False; refuse anything else."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{option} is {shown(value)}; it must be True or False")
    return bool(value)


def positive(value: object, option: str) -> float | None:
    """Return a limit of seconds or money: above zero, infinity, or None."""
    if value is None:
        return None
    if not (found := as_float(value)) > 0:
        raise InvalidInput(f"{option} is {shown(value)}; it must be above zero")
    return found


def as_float(value: object) -> float:
    """Return a number as a float; NaN if it is none, or too large to be one."""
    if isinstance(value, bool) or not isinstance(value, SupportsFloat):
        return math.nan
    try:
        return float(value)
    except (OverflowError, TypeError, ValueError):  # 10**400; arrays
        return math.nan


def one_of(value: str, option: str, known: Sequence[str]) -> str:
    """Return a word that must be one of the known ones."""
    if value not in known:
        raise UnknownName(f"{option} is {shown(value)}{closest(str(value), known)}")
    return value


# -- columns ---------------------------------------------------------------------------

Namer = Callable[[int], str]
"""Index of an entry -> its name in an error."""


def refuse(bad: NDArray[np.bool_], values: NDArray[Any], what: str, rule: str, name: Namer) -> None:
    """Raise `InvalidInput` for the first entry where `bad` holds, with its value."""
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise InvalidInput(f"{what} of {name(first)} is {values.flat[first]!s}; it must be {rule}")


def refuse_negative(
    values: NDArray[np.float64], what: str, name: Namer, *, finite: bool = True
) -> None:
    """Raise unless every entry is zero or more, and (unless `finite` is off) finite."""
    bad = ~(values >= 0) | (np.isinf(values) if finite else np.zeros(values.shape, bool))
    refuse(bad, values, what, "a finite number, zero or more" if finite else "zero or more", name)


def refuse_not_positive(
    values: NDArray[np.float64], what: str, name: Namer, *, finite: bool = True
) -> None:
    """Raise unless every entry is above zero, and (unless `finite` is off) finite."""
    bad = ~(values > 0) | (np.isinf(values) if finite else np.zeros(values.shape, bool))
    refuse(bad, values, what, "a finite number above zero" if finite else "above zero", name)


def unique_names(names: Sequence[str], what: str) -> dict[str, int]:
    """Return name -> index, refusing a name given twice."""
    index: dict[str, int] = {}
    for i, name in enumerate(names):
        if name in index:
            raise InvalidInput(f"{what} '{name}' is given twice (numbers {index[name]} and {i})")
        index[name] = i
    return index
