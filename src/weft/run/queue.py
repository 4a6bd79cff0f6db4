"""The wait queue: what several applications want to run, bounded, by priority, and shared fairly among equals."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from weft.errors import InvalidInput, WeftError

T = TypeVar("T")


class QueueFull(WeftError):
    """There is no room in the wait queue: whoever submits is to wait, or to come again later."""


@dataclass(frozen=True)
class Waiting(Generic[T]):
    """Something that waits; `cost` is what it takes of its application's share."""

    application: str
    item: T
    priority: float
    cost: float
    number: int


@dataclass(eq=False)
class _Line(Generic[T]):
    share: float
    used: float = 0.0
    """Cost served so far over the share: the application with the least is next."""
    waiting: dict[float, deque[Waiting[T]]] = field(default_factory=dict)


class WaitQueue(Generic[T]):
    """A bounded queue for several applications; safe for threads.

    The highest priority goes first. Among equals, the application that got least for its share so far; then the oldest. An application that
    comes back after a while is owed nothing for the time it did not ask (start-time fair queueing, Goyal, Vin and Cheng, 1996).

    Parameters
    ----------
    capacity : things that may wait; whoever puts more has to wait
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
            raise InvalidInput(f"a wait queue with room for {capacity}; it needs room for one at least")
        for name, share in (shares or {}).items():
            if not 0 < share < float("inf"):
                raise InvalidInput(f"the share of '{name}' is {share}; it must be finite and above zero")
        self.capacity = capacity
        self._shares = dict(shares or {})
        self._lines: dict[str, _Line[T]] = {}
        self._count = 0
        self._numbers = 0
        self._clock = 0.0
        self._closed = False
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return self._count

    def put(self, application: str, item: T, *, priority: float = 0.0, cost: float = 1.0, timeout: float | None = 0.0) -> int:
        """Add something; return its number.

        When the queue is full: wait for room, at most `timeout` seconds (None: for ever), then raise `QueueFull`.
        """
        if not 0 < cost < float("inf"):
            raise InvalidInput(f"the cost of what '{application}' submits is {cost}; it must be finite and above zero")
        with self._changed:
            if not self._changed.wait_for(lambda: self._count < self.capacity or self._closed, timeout):
                raise QueueFull(f"the wait queue is full ({self.capacity}); '{application}' has to wait or come again later")
            if self._closed:
                raise QueueFull(f"the wait queue is closed; '{application}' comes too late")
            line = self._lines.setdefault(application, _Line(self._shares.get(application, 1.0)))
            if not line.waiting:
                line.used = max(line.used, self._clock)
            number = self._numbers
            line.waiting.setdefault(priority, deque()).append(Waiting(application, item, priority, cost, number))
            self._numbers += 1
            self._count += 1
            self._changed.notify_all()
            return number

    def take(self, timeout: float | None = 0.0) -> Waiting[T]:
        """The next one; waits for it at most `timeout` seconds (None: for ever), then raises `IndexError`."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._count > 0 or self._closed, timeout) or not self._count:
                raise IndexError("nothing waits")
            return self._take()

    def close(self) -> None:
        """Nothing more comes in; those who wait for room or for something are told."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _take(self) -> Waiting[T]:
        urgent = max(priority for line in self._lines.values() for priority in line.waiting)
        lines = [line for line in self._lines.values() if urgent in line.waiting]
        line = min(lines, key=lambda x: (x.used, x.waiting[urgent][0].number))
        found = line.waiting[urgent].popleft()
        if not line.waiting[urgent]:
            del line.waiting[urgent]
        self._clock = max(self._clock, line.used)
        line.used += found.cost / line.share
        self._count -= 1
        self._changed.notify_all()
        return found
