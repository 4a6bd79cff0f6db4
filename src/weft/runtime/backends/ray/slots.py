"""The actors of devices with their calls, and an estimator of transfer times."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any

from weft.runtime.backends.protocol import Order, Transfer

LEAST = 3
"""Calls with local inputs that must be observed before others are compared."""


@dataclass(eq=False)
class SentCall:
    """A call to an actor; the driver reads `report`, `value` stays with Ray."""

    order: Order
    report: Any
    value: Any
    at: float
    off: bool = False
    """It was cancelled while it waited."""


@dataclass(eq=False)
class ActorSlot:
    """The actor of a device."""

    device: int
    actor: Any
    perform: Any
    hello: Any
    watch: Any
    born: float
    """When it was asked for, on the clock of this process."""
    preloaded: Any = None
    """Reference that is ready when the functions are loaded."""
    ready: bool = False
    ended: bool = False
    """The backend ended it."""
    pid: int = 0
    offset: float = 0.0
    """Seconds to add to its clock."""
    free_at: float = -inf
    """End of its last order."""
    orders: deque[SentCall] = field(default_factory=deque)
    loaded_functions: set[int] = field(default_factory=set)

    @property
    def first(self) -> SentCall | None:
        """Return the current or next call."""
        return next((sent for sent in self.orders if not sent.off), None)

    @property
    def awaited(self) -> list[Any]:
        """Return the references to wait for."""
        if not self.ready:
            return [self.preloaded]
        return [self.orders[0].report, self.watch] if self.orders else [self.watch]


class TransferEstimator:
    """Estimates transfer times from start delays.

    Ray moves inputs before a call and does not report the time. An idle actor starts shortly after
    its inputs exist; the additional delay of inputs from elsewhere is the transfer time.

    Examples
    --------
    >>> transfers = TransferEstimator()
    >>> for k in range(3):  # on the same device: 1 ms late
    ...     transfers.made(k, 0, 1000.0, 1.0)
    ...     _ = transfers.started((k,), 0, since=1.0, free_at=0.5, start=1.001)
    >>> transfers.started((0,), 1, since=2.0, free_at=0.5, start=2.006)  # elsewhere: 6 ms
    (Transfer(source=0, data=1000.0, seconds=0.005),)
    """

    def __init__(self) -> None:
        self._made: dict[int, tuple[int, float, float]] = {}
        self._gaps: deque[float] = deque(maxlen=50)
        """Recent start delays of calls whose inputs were local."""

    def made(self, instance: int, device: int, size: float, finish: float) -> None:
        """Record the device, size and time of a result."""
        self._made[instance] = (device, size, finish)

    def started(
        self,
        inputs: tuple[int | None, ...],
        device: int,
        *,
        since: float,
        free_at: float,
        start: float,
    ) -> tuple[Transfer, ...]:
        """Estimate the transfers of an order from its start delay; empty if unknown."""
        known = [self._made[i] for i in inputs if i is not None and i in self._made]
        due = max([since, *(finish for *_, finish in known)])
        if free_at > due:
            return ()  # inputs arrived while it was busy
        moved = [(size, source) for source, size, _ in known if source != device]
        gap = start - due
        if not moved:
            self._gaps.append(gap)
            return ()
        if len(self._gaps) < LEAST:
            return ()
        seconds = round(gap - median(self._gaps), 9)
        return (
            (Transfer(max(moved)[1], sum(size for size, _ in moved), seconds),)
            if seconds > 0
            else ()
        )
