"""Checks of columns; an error names the entry, its value and the rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.model.columns import FloatArray

Namer = Callable[[int], str]
"""Index of an entry -> its name in an error."""


def refuse(bad: NDArray[np.bool_], values: NDArray[Any], what: str, rule: str, name: Namer) -> None:
    """Raise `InvalidInput` for the first entry where `bad` holds.

    The message names the entry and its value.
    """
    if bad.any():
        first = int(np.flatnonzero(bad)[0])
        raise InvalidInput(f"{what} of {name(first)} is {values.flat[first]!s}; it must be {rule}")


def refuse_negative(values: FloatArray, what: str, name: Namer, *, finite: bool = True) -> None:
    """Raise unless every entry is zero or more, and not NaN.

    Entries must be finite unless `finite` is off.
    """
    bad = ~(values >= 0) | (np.isinf(values) if finite else np.zeros(values.shape, bool))
    refuse(bad, values, what, "a finite number, zero or more" if finite else "zero or more", name)


def refuse_not_positive(values: FloatArray, what: str, name: Namer, *, finite: bool = True) -> None:
    """Raise unless every entry is above zero, and not NaN.

    Entries must be finite unless `finite` is off.
    """
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
