"""Completion times of requests on servers whose speed is only seen in their answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import TypeVar

S = TypeVar("S", bound=Hashable)
KEPT = 9
"""Answers that are kept of a server; their medians count."""
LEAST = 3
"""Answers before a server is judged: the first one often has to load something."""
HALF_LIFE = 10.0
"""Seconds without an answer after which an idle server is expected to be twice as fast."""


@dataclass(frozen=True)
class SentRequest:
    """A request on its way: its size, when it was sent, and the sizes of those before it."""

    server: Hashable
    size: float
    at: float
    ahead: float


@dataclass
class ServerTimes:
    """What is known of a server; times are per unit of size.

    Attributes
    ----------
    paces : seconds between two answers while requests wait
    waits : seconds of requests, and the sizes of those before them
    """

    open_size: float = 0.0
    open_requests: int = 0
    busy_from: float = 0.0
    last: float = 0.0
    paces: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    waits: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=KEPT))
    pace: float = 0.0
    latency: float = 0.0

    @property
    def judged(self) -> bool:
        """Return whether there are answers enough."""
        return len(self.paces) >= LEAST

    def learn(self, request: SentRequest, now: float) -> None:
        """Add the answer of a request."""
        begin = max(self.last, self.busy_from, 0.0 if request.ahead else request.at)
        self.paces.append(max(now - begin, 0.0) / request.size)
        self.pace = median(self.paces)
        self.waits.append(((now - request.at) / request.size, request.ahead / request.size))
        self.latency = median(seconds - ahead * self.pace for seconds, ahead in self.waits)

    def seconds(self, size: float, now: float) -> float:
        """Return the expected seconds until a further request is answered."""
        expected = max(self.latency * size, (self.open_size + size) * self.pace)
        idle = 0.0 if self.open_requests else max(0.0, now - self.last)
        return float(expected * 0.5 ** (idle / HALF_LIFE))


class OnlineTimes:
    """Predicts when servers answer, from the requests they have and the answers they gave.

    A server may work on one request at a time or on many, and may serve others too: its pace is
    that of its answers. Sizes are in any unit, e.g. tokens. A server that gave few answers counts
    as fast as the best, and an idle one is tried again after a while, so that none is left out for
    good. For one thread.

    Examples
    --------
    >>> times = OnlineTimes(clock=lambda: 0.0)
    >>> for start in (0.0, 4.0, 8.0):
    ...     times.answered(times.sent("slow", at=start), at=start + 4.0)
    ...     times.answered(times.sent("fast", at=start + 3.0), at=start + 4.0)
    >>> times.best(["slow", "fast"], at=12.0)
    'fast'
    >>> for _ in range(4):
    ...     request = times.sent("fast", at=12.0)
    >>> times.predicted("fast", at=12.0), times.predicted("slow", at=12.0)
    (5.0, 4.0)
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._servers: dict[Hashable, ServerTimes] = {}

    def sent(self, server: Hashable, size: float = 1.0, *, at: float | None = None) -> SentRequest:
        """Add a request to those of a server."""
        now = self._clock() if at is None else at
        known = self._servers.setdefault(server, ServerTimes())
        request = SentRequest(server, size, now, known.open_size)
        if known.open_requests == 0:
            known.busy_from = now
        known.open_size += size
        known.open_requests += 1
        return request

    def answered(self, request: SentRequest, *, good: bool = True, at: float | None = None) -> None:
        """Remove a request from those of its server, and learn from it unless it failed."""
        now = self._clock() if at is None else at
        known = self._servers.get(request.server)
        if known is None:
            return
        known.open_requests -= 1
        known.open_size = known.open_size - request.size if known.open_requests else 0.0
        if good:
            known.learn(request, now)
        known.last = now

    def drop(self, server: Hashable) -> None:
        """Forget a server that is gone."""
        self._servers.pop(server, None)

    def predicted(self, server: Hashable, size: float = 1.0, *, at: float | None = None) -> float:
        """Return the seconds after which a server is expected to answer a request sent now."""
        now = self._clock() if at is None else at
        known = self._servers.get(server)
        if known is not None and known.judged:
            return known.seconds(size, now)
        waiting = 0.0 if known is None else known.open_size
        paces = [other.pace for other in self._servers.values() if other.judged]
        return (waiting + size) * min(paces, default=1.0) if waiting else 0.0

    def best(self, servers: Iterable[S], size: float = 1.0, *, at: float | None = None) -> S:
        """Return the server that is expected to answer first; the first of equals."""
        return self.ranked(servers, size, at=at)[0]

    def ranked(
        self, servers: Iterable[S], size: float = 1.0, *, at: float | None = None
    ) -> list[S]:
        """Return the servers, the one that is expected to answer first before the others."""
        now = self._clock() if at is None else at
        return sorted(servers, key=lambda server: self.predicted(server, size, at=now))
