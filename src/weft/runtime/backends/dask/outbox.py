"""Messages of the driver to the Dask scheduler: orders, and results to release.

A client of Dask that holds a future receives a message when the result exists, and sends a message
when it releases the future. Here the plugin of the run holds the results, which saves both.
"""

from __future__ import annotations

import pickle
from math import inf
from typing import Any

from weft.runtime.backends.dask.plugin import QUICK, PackedOrder

RELEASED_TOGETHER = 100
"""Results that are released together: a release takes a message per worker and an answer."""

RELEASED_BYTES = 1 << 20
"""Bytes of results from which they are released before there are `RELEASED_TOGETHER`."""


class HeldResult:
    """The result of an order, which the scheduler keeps until it is released."""

    def __init__(self, key: str, outbox: Outbox) -> None:
        self.key = key
        self.size = inf
        """Bytes; infinite until the result exists, so that it is then released at once."""
        self._outbox = outbox

    def release(self) -> None:
        """Let the scheduler drop it."""
        self._outbox.release(self)


class Outbox:
    """Messages to the plugin of a run; those of one moment are sent as one."""

    def __init__(self, client: Any, run: str) -> None:
        self._client, self._run = client, run
        self._orders: list[PackedOrder] = []
        self._released: list[str] = []
        self._bytes = 0.0
        """Size of the results that are to be released."""

    def submit(self, order: PackedOrder) -> HeldResult:
        """Add an order; return its result."""
        self._orders.append(order)
        return self.held(order.key)

    def held(self, key: str) -> HeldResult:
        """Return the result of a task that the plugin holds for the run."""
        return HeldResult(key, self)

    def release(self, result: HeldResult) -> None:
        """Add a result that is not needed any more."""
        self._released.append(result.key)
        self._bytes += result.size

    def send(self) -> None:
        """Send orders, and results to release if they are many or large.

        They go through the stream of the client, as a graph for each order would cost far more. The
        message is pickled as a whole, because Dask inspects every value in other messages several
        times.
        """
        due = self._bytes >= RELEASED_BYTES or len(self._released) >= RELEASED_TOGETHER
        if not (self._orders or due):
            return
        released: list[str] = []
        if due:
            released, self._released, self._bytes = self._released, [], 0.0
        data = pickle.dumps((self._orders, released))
        message = {"op": self._run, "data": data}
        self._client._send_to_scheduler(message)  # noqa: SLF001  # no public way
        self._orders = []


class ClientPace:
    """The interval at which a Dask client sends messages in batches, usually 10 ms."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._before: float | None = None

    def shorten_interval(self) -> None:
        """Shorten it to 1 ms, until `restore`."""
        comm: Any = getattr(self._client, "scheduler_comm", None)
        if hasattr(comm, "interval") and self._before is None:
            self._before, comm.interval = comm.interval, min(comm.interval, QUICK)

    def restore(self) -> None:
        """Set the interval as before."""
        comm: Any = getattr(self._client, "scheduler_comm", None)
        if hasattr(comm, "interval") and self._before is not None:
            comm.interval = self._before
        self._before = None
