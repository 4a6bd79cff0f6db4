"""Read-only numpy columns from user input, with errors that name the column and the value."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that a shared column cannot be changed behind anyone's back."""
    view = array.view()
    view.flags.writeable = False
    return view


def assign(target: object, **columns: object) -> None:
    """Set fields of a frozen dataclass while it validates itself."""
    for key, value in columns.items():
        object.__setattr__(target, key, value)


def floats(values: ArrayLike, what: str, *, shape: tuple[int, ...]) -> FloatArray:
    """Return a contiguous float64 column of the given shape; a scalar fills it."""
    array = as_floats(values, what)
    if array.ndim == 0:
        array = np.full(shape, float(array))
    if array.shape != shape:
        raise InvalidInput(f"{what} has shape {array.shape}, expected {shape}")
    return _own(array, values)


def integers(values: ArrayLike, what: str, *, shape: tuple[int, ...]) -> IntArray:
    """Return a contiguous int64 column; a scalar fills it, a fraction is refused."""
    array = np.asarray(values)
    if array.dtype != np.int64:
        as_float = as_floats(values, what)
        whole = (np.abs(as_float) < 2.0**63) & (as_float == np.floor(as_float))
        if not whole.all():
            raise InvalidInput(
                f"{what} must hold whole numbers; found {as_float[~whole].flat[0]!s}"
            )
        array = as_float.astype(np.int64)
    if array.ndim == 0:
        array = np.full(shape, int(array))
    if array.shape != shape:
        raise InvalidInput(f"{what} has shape {array.shape}, expected {shape}")
    return _own(array, values)


def _own(array: NDArray[Any], given: ArrayLike) -> NDArray[Any]:
    """Freeze the array; copy it first where the caller could still write to it."""
    column = np.ascontiguousarray(array)
    if (
        isinstance(given, np.ndarray)
        and given.flags.writeable
        and np.may_share_memory(column, given)
    ):
        column = column.copy()
    return frozen(column)


def as_floats(values: ArrayLike, what: str) -> FloatArray:
    """Return an array of float64, of any shape; what holds no numbers is refused."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(f"{what} must hold numbers: {error}") from None
