"""The state of a device: its queue, its running group, commands and executions."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, nan
from struct import Struct
from typing import Any, NamedTuple, overload

import numpy as np


@dataclass(eq=False, slots=True)
class Group:
    """Instances that run together on a device."""

    members: list[int]
    device: int
    decided: float
    copy: bool = False
    copied: int = -1
    """The parent that is copied ahead of this group; -1: none."""
    batch: int = -1
    start: float = nan
    expected: float = nan
    """The expected finish."""
    setup: float = 0.0
    """Seconds of set-up at the start of the group."""


@dataclass(frozen=True)
class Start:
    """A command: run this group on its device, now."""

    group: Group


@dataclass(frozen=True)
class Wake:
    """A command: look at this device again at that time."""

    device: int
    at: float


class Execution(NamedTuple):
    """One row of the later trace."""

    instance: int
    device: int
    decided: float
    start: float
    finish: float
    status: int
    batch: int
    copy: bool


_ROW = Struct("=iidddiib")
"""An `Execution` in 41 bytes, in the order of its fields."""

_TYPES = ("i4", "i4", "f8", "f8", "f8", "i4", "i4", "i1")
_COLUMNS = np.dtype(list(zip(Execution._fields, _TYPES, strict=True)))


class ExecutionColumns(Sequence[Execution]):
    """Executions in 41 bytes each, in columns that make a trace without a loop.

    Examples
    --------
    >>> rows = ExecutionColumns()
    >>> rows.append(Execution(3, 0, 0.0, 1.0, 2.5, 0, 7, False))
    >>> len(rows), rows[0].finish, [row.batch for row in rows[-1:]], rows.column("start").tolist()
    (1, 2.5, [7], [1.0])
    """

    def __init__(self) -> None:
        self._rows = bytearray()
        self.total = 0
        """Rows that were ever added."""

    def append(self, row: tuple[int, int, float, float, float, int, int, bool]) -> None:
        """Add the fields of an `Execution`; other threads read whole rows only."""
        self.total += 1
        self._rows += _ROW.pack(*row)

    def clear(self) -> None:
        """Remove all rows."""
        self._rows.clear()

    def __len__(self) -> int:
        return len(self._rows) // _ROW.size

    @overload
    def __getitem__(self, at: int) -> Execution: ...

    @overload
    def __getitem__(self, at: slice) -> list[Execution]: ...

    def __getitem__(self, at: int | slice) -> Execution | list[Execution]:
        """Return a row, or a list of rows."""
        if isinstance(at, slice):
            return [self[k] for k in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        row = Execution._make(_ROW.unpack_from(self._rows, at % len(self) * _ROW.size))
        return row._replace(copy=bool(row.copy))

    def column(self, name: str) -> np.ndarray[Any, Any]:
        """Return a column by its name in `Execution`."""
        return np.frombuffer(bytes(self._rows), _COLUMNS)[name].copy()


@dataclass
class Machine:
    """A device at work."""

    slowdown: float = 1.0
    blocked_until: float = -inf
    running: Group | None = None
    queue: deque[Group] = field(default_factory=deque)
    last_kind: int = -1
    """Kind of the group it started last; -1 before the first."""
