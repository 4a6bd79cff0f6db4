"""The actors of devices on Ray, what they were sent, and how long inputs took to get there."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any

from weft.runtime.backends.protocol import Order, Transfer

LEAST = 3
"""Calls whose inputs were there that must have been seen before others are compared with them."""


@dataclass(eq=False)
class SentCall:
    """An order an actor has. `report` is for the driver, `value` stays where it is."""

    order: Order
    report: Any
    value: Any
    at: float
    off: bool = False
    """It was called off while it waited."""


@dataclass(eq=False)
class ActorSlot:
    """The actor of a device."""

    device: int
    actor: Any
    perform: Any
    hello: Any
    watch: Any
    preloaded: Any = None
    """Done when it loaded_functions the functions."""
    ready: bool = False
    ended: bool = False
    """It was ended by us."""
    pid: int = 0
    offset: float = 0.0
    """Seconds from its clock to ours."""
    free_at: float = -inf
    """When it finished its last order."""
    orders: deque[SentCall] = field(default_factory=deque)
    loaded_functions: set[int] = field(default_factory=set)

    @property
    def first(self) -> SentCall | None:
        """What runs, or runs next."""
        return next((sent for sent in self.orders if not sent.off), None)

    @property
    def awaited(self) -> list[Any]:
        """What to listen to."""
        if not self.ready:
            return [self.preloaded]
        return [self.orders[0].report, self.watch] if self.orders else [self.watch]


class TransferEstimator:
    """What it takes to bring inputs to an actor, from how late it starts.

    Ray brings inputs before it calls, and does not tell what that took. An actor that had nothing else to do starts a little after its
    inputs are known; by how much more it is late when inputs come from elsewhere, is what it took to move them.

    Examples
    --------
    >>> estimator = TransferEstimator()
    >>> for k in range(3):
    ...     estimator.made(k, 0, 1000.0, 1.0)
    ...     _ = estimator.started((k,), 0, since=1.0, free_at=0.5, start=1.001)  # on the same device: 1 ms late
    >>> estimator.started((0,), 1, since=2.0, free_at=0.5, start=2.006)  # elsewhere: 6 ms
    (Transfer(source=0, data=1000.0, seconds=0.005),)
    """

    def __init__(self) -> None:
        self._made: dict[int, tuple[int, float, float]] = {}
        self._gaps: deque[float] = deque(maxlen=50)
        """Of late, how late actors started whose inputs were there."""

    def made(self, instance: int, device: int, size: float, finish: float) -> None:
        """A result is on a device."""
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
        """An order, known since then, was started by an actor that was free since then: what was moved, if that can be told."""
        known = [self._made[i] for i in inputs if i is not None and i in self._made]
        due = max([since, *(finish for *_, finish in known)])
        if free_at > due:
            return ()  # inputs came while it did something else
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
