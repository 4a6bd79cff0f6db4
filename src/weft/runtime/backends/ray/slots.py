"""Actors of devices: their calls, clocks, causes of loss and estimated transfers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf
from statistics import median
from typing import Any, NamedTuple

from weft.runtime.backends.protocol import Order, Transfer

PINGS = 5
"""Round trips that compare the clock of another machine; the fastest counts."""

LEAST = 3
"""Calls with local inputs that must be observed before calls with other inputs are compared."""


class _Result(NamedTuple):
    device: int
    size: float
    finish: float


@dataclass(eq=False)
class SentCall:
    """A call to an actor; the driver reads `report`, `value` stays with Ray."""

    order: Order
    report: Any
    value: Any
    at: float
    cancelled: bool = False
    """Whether it was cancelled while it waited."""


@dataclass(eq=False)
class ActorSlot:
    """The actor of a device."""

    device: int
    actor: Any
    perform: Any
    handshake: Any
    watch: Any
    born: float
    """When weft asked Ray for the actor, on the clock of this process."""
    preloaded: Any = None
    """Reference that is ready when the functions are loaded."""
    ready: bool = False
    ended: bool = False
    """Whether the backend ended it."""
    pid: int = 0
    node: str = ""
    """The node of Ray that it runs on."""
    offset: float = 0.0
    """Seconds to add to its clock."""
    free_at: float = -inf
    """End of its last order."""
    orders: deque[SentCall] = field(default_factory=deque)
    loaded_functions: set[int] = field(default_factory=set)

    @property
    def process(self) -> str:
        """Return a unique name of its process."""
        return f"{self.node}-{self.pid}"

    @property
    def first(self) -> SentCall | None:
        """Return the current or next call."""
        return next((sent for sent in self.orders if not sent.cancelled), None)

    @property
    def awaited(self) -> list[Any]:
        """Return the references to wait for."""
        if not self.ready:
            return [self.preloaded]
        return [self.orders[0].report, self.watch] if self.orders else [self.watch]


class TransferEstimator:
    """Estimates transfer times from start delays.

    Ray moves inputs before a call and does not report the time. An idle actor starts shortly after
    its inputs exist; the additional delay of inputs from other devices is the transfer time. An
    input that an earlier call has read is already there. An input that existed before the others
    may have begun to move before them: its time counts from then, so that no link looks quicker
    than it is.

    Examples
    --------
    >>> transfers = TransferEstimator()
    >>> for k in range(3):  # on the same device: 1 ms late
    ...     transfers.made(k, 0, 1000.0, 1.0)
    ...     _ = transfers.started((k,), 0, since=1.0, free_at=0.5, start=1.001)
    >>> transfers.started((0,), 1, since=2.0, free_at=0.5, start=2.006)  # elsewhere: 6 ms
    (Transfer(source=0, data=1000.0, seconds=0.005),)
    >>> transfers.started((0,), 1, since=3.0, free_at=2.5, start=3.006)  # it is there
    ()
    """

    def __init__(self, probes: Iterable[tuple[int, Transfer]] = ()) -> None:
        self._probes: dict[int, list[Transfer]] = {}
        """Device -> transfers to it that were measured before the run."""
        for device, transfer in probes:
            self._probes.setdefault(device, []).append(transfer)
        self._made: dict[int, _Result] = {}
        self._gaps: deque[float] = deque(maxlen=50)
        """Recent start delays of calls whose inputs were local."""
        self._copies: set[tuple[int, int]] = set()
        """Results and devices that have received them."""

    def made(self, instance: int, device: int, size: float, finish: float) -> None:
        """Record the device, size and time of a result."""
        self._made[instance] = _Result(device, size, finish)

    def finish_of(self, instance: int) -> float:
        """Return when a result existed; 0: it is not known."""
        return self._made[instance].finish if instance in self._made else 0.0

    def started(
        self,
        inputs: tuple[int | None, ...],
        device: int,
        *,
        since: float,
        free_at: float,
        start: float,
    ) -> tuple[Transfer, ...]:
        """Return the transfers to a device that are new: probes, and those of an order."""
        known = {i: self._made[i] for i in inputs if i is not None and i in self._made}
        moved = self._moved(known, device, since, free_at, start)
        return (*self._probes.pop(device, ()), *moved)

    def _moved(
        self, known: dict[int, _Result], device: int, since: float, free_at: float, start: float
    ) -> tuple[Transfer, ...]:
        """Estimate the transfers of an order from its start delay; empty if unknown."""
        due = max([since, *(result.finish for result in known.values())])
        moved = {
            i: max(since, result.finish)
            for i, result in known.items()
            if result.device != device and (i, device) not in self._copies
        }
        self._copies.update((i, device) for i in moved)
        if free_at > due:
            return ()  # inputs arrived while it was busy
        if not moved:
            self._gaps.append(start - due)
            return ()
        if len(self._gaps) < LEAST:
            return ()
        seconds = round(start - min(moved.values()) - median(self._gaps), 9)
        if seconds <= 0:
            return ()
        _, source = max((known[i].size, known[i].device) for i in moved)
        return (Transfer(source, sum(known[i].size for i in moved), seconds),)


def clock_offset(ray: Any, slot: ActorSlot) -> float:
    """Return the offset of an actor's clock, by the middle of a round trip as in NTP."""
    trips: list[tuple[float, float]] = []
    for _ in range(PINGS):
        begin = time.perf_counter()
        _, _, there = ray.get(slot.actor.handshake.remote())
        end = time.perf_counter()
        trips.append((end - begin, (begin + end) / 2 - there))
    return min(trips)[1]


def cause_of_loss(error: BaseException) -> str:
    """Return why the process of an actor ended, in words."""
    text = str(error)
    if type(error).__name__ == "OutOfMemoryError" or "low on memory" in text:
        return "Ray ended its process: its node ran low on memory"
    if "node" in text and "died" in text and "worker process has died" not in text:
        return "the node of Ray it ran on is gone"
    return (
        "its process ended itself or was killed; Ray does not report which (often: out of memory)"
    )
