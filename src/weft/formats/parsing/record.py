"""`Record`: a JSON object or NPZ folder; errors name key and value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.arguments import shown, unique_names
from weft.errors import InvalidInput, UnknownName
from weft.formats.parsing.limits import RECORD_CELLS, check_cells
from weft.formats.parsing.quantity import quantity
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.registry import closest

INFINITE = {"inf": np.inf, "-inf": -np.inf}
"""Infinities in strict JSON, which has no literal for them; NaN is null."""

_REQUIRED: Any = object()


class Record:
    """Typed access to one object of a file.

    Examples
    --------
    >>> r = Record({"work": [1, 2.5], "memory": "inf"}, "workflow")
    >>> r.floats("work").tolist(), float(r.floats("memory"))
    ([1.0, 2.5], inf)
    """

    def __init__(self, content: object, where: str = "") -> None:
        if not isinstance(content, dict):
            raise InvalidInput(
                f"{where or 'the content'} is {shown(content)}; it must be an object with keys"
            )
        self.content = content
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self.content.get(key) is not None

    def only(self, known: Iterable[str]) -> None:
        """Refuse keys that are not known, with the closest one that is."""
        known = list(known)
        for key in self.content:
            if key not in known:
                inside = f" in {self.where}" if self.where else ""
                raise UnknownName(f"unknown key '{key}'{inside}{closest(str(key), known)}")

    def raw(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return the value of a key unchanged; null counts as absent."""
        value = self.content.get(key)
        if value is None:
            if default is _REQUIRED:
                raise InvalidInput(
                    f"key '{key}' is missing{f' in {self.where}' if self.where else ''}"
                )
            return default
        return value

    def child(self, key: str) -> Record:
        """Return the object under a key."""
        return Record(self.raw(key), self.path(key))

    def children(self, key: str) -> list[Record]:
        """Return the objects of a list (in NPZ: of folders named 0, 1, ...)."""
        value = self.raw(key)
        if isinstance(value, dict):
            numbers = [str(i) for i in range(len(value))]
            if set(numbers) != set(value):
                raise InvalidInput(
                    f"{self.path(key)} must have the entries 0 to {len(value) - 1}; it has "
                    f"{shown(sorted(value))}"
                )
            value = [value[i] for i in numbers]
        if not isinstance(value, list):
            raise InvalidInput(f"{self.path(key)} is {shown(value)}; it must be a list of objects")
        return records(value, self.path(key))

    def text(self, key: str, default: str = _REQUIRED) -> str:
        """Return a string."""
        value = self.raw(key, default)
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = _unicode(value, self.path(key))
        if not isinstance(value, str):
            raise InvalidInput(f"{self.path(key)} is {shown(value)}; it must be a string")
        return valid_text(value, self.path(key))

    def flag(self, key: str, *, default: bool) -> bool:
        """Return True or False."""
        value = self.raw(key, default)
        if isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype == np.bool_:
            value = bool(value)
        if not isinstance(value, bool):
            raise InvalidInput(f"{self.path(key)} is {shown(value)}; it must be true or false")
        return value

    def quantity(self, key: str, dimension: str, default: object = _REQUIRED) -> float:
        """Return a number, which may have a unit; see `weft.formats.parsing.quantity`."""
        return quantity(self.raw(key, default), dimension, self.path(key))

    def quantities(self, dimensions: Mapping[str, str]) -> dict[str, float]:
        """Return the quantities that are given, by key."""
        return {key: self.quantity(key, what) for key, what in dimensions.items() if key in self}

    def finite(self, key: str, default: object = _REQUIRED) -> float:
        """Return a finite number of seconds, bytes or the like."""
        value = self.quantity(key, "seconds", default)
        if not np.isfinite(value):
            raise InvalidInput(f"{self.path(key)} is {value:g}; it must be finite")
        return value

    def count(self, key: str, default: object = _REQUIRED) -> int:
        """Return a whole number, 1 or more, of at most 32 bits."""
        value = self.raw(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
            large = type(value) is int and value >= 2**31
            rule = f"at most {2**31 - 1}" if large else "a whole number, 1 or more"
            raise InvalidInput(f"{self.path(key)} is {shown(value)}; it must be {rule}")
        return value

    def strings(self, key: str, default: Sequence[str] = _REQUIRED) -> list[str]:
        """Return a list of strings."""
        value = self.raw(key, default)
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = [] if value.size == 0 else _unicode(value, self.path(key))
        if not isinstance(value, (list, tuple)):
            raise InvalidInput(f"{self.path(key)} is {shown(value)}; it must be a list of strings")
        if set(map(type, value)) - {str}:
            i, entry = next((i, e) for i, e in enumerate(value) if not isinstance(e, str))
            raise InvalidInput(f"{self.path(key)}[{i}] is {shown(entry)}; it must be a string")
        valid_text("".join(value), self.path(key))
        return list(value)

    def floats(self, key: str, default: object = _REQUIRED, *, rank: int = 1) -> FloatArray:
        """Return numbers in a list (rank 1) or a list of lists (rank 2); one fills all."""
        value = self.raw(key, default)
        if isinstance(value, np.ndarray):
            return _float_array(value, rank, self.path(key))
        flat, shape = _flatten(value, rank, self.path(key))
        return _to_floats(flat, self.path(key)).reshape(shape)

    def integers(self, key: str, default: object = _REQUIRED, *, rank: int = 1) -> IntArray:
        """Return whole numbers, shaped as in `floats`."""
        value = self.raw(key, default)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.ndim in {0, rank}:
            if value.size and int(value.max()) > np.iinfo(np.int64).max:
                raise InvalidInput(f"{self.path(key)} holds {value.max()}, which is too large")
            return value.astype(np.int64)
        if isinstance(value, np.ndarray):
            return _whole(_float_array(value, rank, self.path(key)), self.path(key))
        flat, shape = _flatten(value, rank, self.path(key))
        if not set(map(type, flat)) - {int}:
            return _to_int64(flat, self.path(key)).reshape(shape)
        return _whole(_to_floats(flat, self.path(key)), self.path(key)).reshape(shape)

    def booleans(self, key: str, default: object = _REQUIRED) -> BoolArray:
        """Return a list of true and false; a single one stands for all."""
        value = self.raw(key, default)
        if isinstance(value, np.ndarray):
            if value.dtype != np.bool_ or value.ndim > 1:
                raise InvalidInput(
                    f"{self.path(key)} is {shown(value)}; it must hold true and false"
                )
            return value
        flat, shape = _flatten(value, 1, self.path(key))
        if set(map(type, flat)) - {bool}:
            i, entry = next((i, e) for i, e in enumerate(flat) if not isinstance(e, bool))
            raise InvalidInput(f"{self.path(key)}[{i}] is {shown(entry)}; it must be true or false")
        return np.array(flat, bool).reshape(shape)

    def table(self, names: str, values: str) -> dict[str, FloatArray]:
        """Return name -> row, from a list of names and a row of numbers for each."""
        if names not in self:
            if values in self:
                raise InvalidInput(f"{self.path(values)} is given without {self.path(names)}")
            return {}
        labels = self.strings(names)
        unique_names(labels, f"{self.path(names)} entry")
        rows = self.floats(values, rank=2)
        if rows.ndim != 2 or len(rows) != len(labels):
            raise InvalidInput(
                f"{self.path(values)} has shape {rows.shape}; it must have {len(labels)} rows, one "
                f"for each of {self.path(names)}"
            )
        return dict(zip(labels, rows, strict=True))

    def path(self, key: str) -> str:
        """Return the full name of a key, for messages."""
        return f"{self.where}.{key}" if self.where else key


def records(rows: list[Any], where: str) -> list[Record]:
    """Return the objects of a list; refuse a list of too many."""
    check_cells(RECORD_CELLS * len(rows), f"{where or 'a list'} of {len(rows)} objects")
    return [Record(row, f"{where}[{i}]") for i, row in enumerate(rows)]


def _flatten(value: object, rank: int, where: str) -> tuple[list[Any], tuple[int, ...]]:
    if not isinstance(value, (list, tuple)):
        if isinstance(value, dict):
            raise InvalidInput(f"{where} is {shown(value)}; it must be a list of numbers")
        return [value], ()
    if rank == 1:
        return list(value), (len(value),)
    width = len(value[0]) if value and isinstance(value[0], list) else 0
    for i, row in enumerate(value):
        if not isinstance(row, list) or len(row) != width:
            raise InvalidInput(f"{where}[{i}] is {shown(row)}; it must be a row of {width} numbers")
    return list(chain.from_iterable(value)), (len(value), width)


def _to_floats(flat: list[Any], where: str) -> FloatArray:
    spelled = bool(set(map(type, flat)) - {int, float})
    if spelled:
        flat = [_number(entry, i, where) for i, entry in enumerate(flat)]
    try:
        array = np.array(flat, np.float64)
    except OverflowError:
        raise InvalidInput(f"{where} holds a number too large to be used") from None
    if not spelled and np.isinf(array).any():  # 1e999 overflows; infinity is written "inf"
        i = int(np.flatnonzero(np.isinf(array))[0])
        raise InvalidInput(f"{where}[{i}] is too large to be used")
    return array


def _number(entry: object, i: int, where: str) -> float:
    if entry is None:
        return np.nan
    if isinstance(entry, str) and entry in INFINITE:
        return INFINITE[entry]
    if isinstance(entry, bool) or not isinstance(entry, (int, float)):
        raise InvalidInput(
            f"{where}[{i}] is {shown(entry)}; "
            'it must be a number (null for NaN, "inf" for infinity)'
        )
    try:
        value = float(entry)
    except OverflowError:
        value = np.inf
    if np.isinf(value):
        raise InvalidInput(f"{where}[{i}] is too large to be used")
    return value


def _float_array(value: NDArray[Any], rank: int, where: str) -> FloatArray:
    if value.dtype.kind not in "fiu" or value.ndim not in {0, rank}:
        raise InvalidInput(
            f"{where} is {shown(value)}; it must hold numbers in {rank} "
            f"dimension{'s' if rank > 1 else ''}"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        return value.astype(np.float64)


def _to_int64(flat: list[Any], where: str) -> IntArray:
    try:
        return np.array(flat, np.int64)
    except OverflowError:
        raise InvalidInput(f"{where} holds a whole number too large to be used") from None


def _whole(values: FloatArray, where: str) -> IntArray:
    flat = values.reshape(-1)
    bad = ~((np.abs(flat) < 2.0**53) & (flat == np.floor(flat)))
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise InvalidInput(f"{where}[{i}] is {flat[i]}; it must be a whole number")
    return values.astype(np.int64)


def _unicode(value: NDArray[Any], where: str) -> Any:
    if value.dtype.kind != "U":
        raise InvalidInput(f"{where} is {shown(value)}; it must hold text")
    return value.tolist()


def valid_text(value: str, where: str) -> str:
    """Return a string; refuse one that cannot be written."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidInput(f"{where} holds text that is not valid Unicode") from None
    return value
