"""The wait queue: bounded, by priority, with fair shares among equals."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Generic, TypeVar

from weft.errors import InvalidInput, WeftError
from weft.runtime.service.fair_share import Shares

T = TypeVar("T")
Allowed = Callable[[str, float], bool]
"""(application, priority) -> whether such an item may be taken."""


class QueueFull(WeftError):
    """The wait queue is full; submit again later or wait."""


@dataclass(frozen=True)
class Waiting(Generic[T]):
    """A waiting item; `cost` counts against the share of its application."""

    application: str
    item: T
    priority: float
    cost: float
    number: int


Line = dict[float, OrderedDict[int, Waiting[T]]]
"""Priority -> number -> waiting item, the oldest first."""


class WaitQueue(Generic[T]):
    """A bounded queue for several applications; safe for threads.

    The highest priority goes first; among equals the application with the least usage per share
    (see `Shares`), then the oldest item.

    Parameters
    ----------
    capacity : items that may wait; `put` blocks when it is full
    shares : application -> its share, 1 by default

    Examples
    --------
    >>> queue = WaitQueue(capacity=8, shares={"big": 2.0})
    >>> for k in range(3):
    ...     _ = queue.put("big", f"big {k}"), queue.put("small", f"small {k}")
    >>> [queue.take().item for _ in range(6)]
    ['big 0', 'small 0', 'big 1', 'small 1', 'big 2', 'small 2']
    """

    def __init__(self, capacity: int = 1000, *, shares: Mapping[str, float] | None = None) -> None:
        if capacity < 1:
            raise InvalidInput(f"capacity is {capacity}; it must be at least 1")
        self.capacity = capacity
        self.shares = Shares(shares)
        self._lines: dict[str, Line[T]] = {}
        """Application -> its waiting items."""
        self._count = 0
        self._numbers = 0
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._count

    def put(
        self,
        application: str,
        item: T,
        *,
        priority: float = 0.0,
        cost: float = 1.0,
        timeout: float | None = 0.0,
    ) -> int:
        """Add an item; return its number.

        If the queue is full, wait for room at most `timeout` seconds (None: forever), then raise
        `QueueFull`.
        """
        if not 0 < cost < float("inf"):
            raise InvalidInput(
                f"the cost of an item of '{application}' is {cost}; it must be finite and above "
                "zero"
            )
        if not isfinite(priority):
            raise InvalidInput(f"the priority of '{application}' is {priority}; it must be finite")
        with self._changed:
            if self._count >= self.capacity and not self._changed.wait_for(
                lambda: self._count < self.capacity or self._closed, timeout
            ):
                raise QueueFull(
                    f"the wait queue is full ({self.capacity} submissions); '{application}' must "
                    "submit again later"
                )
            if self._closed:
                raise QueueFull(f"the wait queue is closed; '{application}' cannot submit")
            line = self._lines.setdefault(application, {})
            if not line:
                self.shares.join(application)
            number = self._numbers
            waiting = Waiting(application, item, priority, cost, number)
            line.setdefault(priority, OrderedDict())[number] = waiting
            self._numbers += 1
            self._count += 1
            self._changed.notify_all()
            return number

    def take(
        self, timeout: float | None = 0.0, *, allowed: Allowed = lambda _, __: True
    ) -> Waiting[T]:
        """Return the next item that is allowed: by its application and priority.

        Where a priority is allowed, all higher ones must be. Wait at most `timeout` seconds (None:
        forever), then raise `IndexError`.
        """
        with self._changed:
            lines = self._allowed(allowed)
            if not lines and timeout != 0.0:
                self._changed.wait_for(lambda: self._closed or self._allowed(allowed), timeout)
                lines = self._allowed(allowed)
            if not lines:
                raise IndexError("nothing waits")
            return self._take(lines)

    def remove(self, number: int) -> bool:
        """Remove a waiting item by its number, at no cost; return whether it waited."""
        with self._changed:
            for line in self._lines.values():
                priority = next((p for p, items in line.items() if number in items), None)
                if priority is not None:
                    self._pop(line, priority, number)
                    return True
            return False

    def close(self) -> None:
        """Close the queue; waiting calls return."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _allowed(self, allowed: Allowed) -> dict[str, Line[T]]:
        """Return the lines of the applications that may have their next item taken."""
        return {
            name: line for name, line in self._lines.items() if line and allowed(name, max(line))
        }

    def _take(self, lines: Mapping[str, Line[T]]) -> Waiting[T]:
        urgent = max(priority for line in lines.values() for priority in line)
        names = [name for name, line in lines.items() if urgent in line]
        oldest = {name: next(iter(lines[name][urgent])) for name in names}
        name = min(names, key=lambda name: (self.shares.used(name), oldest[name]))
        found = self._pop(lines[name], urgent, oldest[name])
        self.shares.charge(name, found.cost)
        return found

    def _pop(self, line: Line[T], priority: float, number: int) -> Waiting[T]:
        found = line[priority].pop(number)
        if not line[priority]:
            del line[priority]
        self._count -= 1
        self._changed.notify_all()
        return found
