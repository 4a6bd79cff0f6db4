"""Read-only numpy columns from user input; errors name the column and the value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import InvalidInput

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Float32Array = NDArray[np.float32]
Numbers = NDArray[np.floating[Any]]
"""Floats of either precision."""


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that no code changes a column that others read."""
    view = array.view()
    view.flags.writeable = False
    return view


def assign(target: object, **columns: object) -> None:
    """Set fields of a frozen dataclass while it validates itself."""
    for key, value in columns.items():
        object.__setattr__(target, key, value)


def offsets(sizes: ArrayLike) -> IntArray:
    """Return where consecutive groups of these sizes begin, and where the last ends.

    Examples
    --------
    >>> offsets([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)


def floats(values: ArrayLike, what: str, *, shape: tuple[int, ...]) -> FloatArray:
    """Return a contiguous float64 column of the given shape; a scalar fills it."""
    return _column(as_floats(values, what), values, what, shape)


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
    return _column(array, values, what, shape)


def _column(
    array: NDArray[Any], given: ArrayLike, what: str, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Fill and freeze a column; copy it first if the caller could still write to it."""
    if array.ndim == 0:
        array = np.full(shape, array.item())
    if array.shape != shape:
        raise InvalidInput(f"{what} has shape {array.shape}, expected {shape}")
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


def equal(one: object, other: object) -> bool:
    """Return whether two fields of the model are equal; NaN is equal to NaN."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)
