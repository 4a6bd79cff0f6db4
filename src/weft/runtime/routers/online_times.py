"""Completion times of requests on servers, learned from their answers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from math import exp, sqrt
from typing import TypeVar

S = TypeVar("S", bound=Hashable)
KEPT = 20
"""Answers that are kept of a server."""
LEAST = 3
"""Answers before a server is judged. The first does not count: it often has to load something."""
HALF_LIFE = 10.0
"""Seconds without an answer after which an idle server is expected to be twice as fast."""
MEMORY = 10.0
"""Seconds over which the rate of requests is measured."""
BUSIEST = 0.95
"""Highest share of its time for which a server is expected to be busy."""


@dataclass(frozen=True)
class SentRequest:
    """A request under way: its size, its start, and the sizes of requests before it."""

    server: Hashable
    size: float
    at: float
    ahead: float


@dataclass
class ServerTimes:
    """Measured times of a server, per unit of size.

    Attributes
    ----------
    gaps : seconds between two answers while requests wait, and the size of the second
    waits : seconds that a request took beyond those of the requests before it, at the pace of that
        time, and its size
    """

    open_size: float = 0.0
    open_requests: int = 0
    busy_from: float = 0.0
    last: float = 0.0
    answers: int = 0
    gaps: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=KEPT))
    waits: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=KEPT))
    pace: float = 0.0
    latency: float = 0.0

    @property
    def judged(self) -> bool:
        """Return whether there are answers enough."""
        return self.answers >= LEAST

    def learn(self, request: SentRequest, now: float) -> None:
        """Add the answer of a request."""
        self.answers += 1
        if self.answers == 1:
            return
        begin = max(self.last, self.busy_from, 0.0 if request.ahead else request.at)
        self.gaps.append((max(now - begin, 0.0), request.size))
        self.pace = _ratio(self.gaps)
        self.waits.append((max(now - request.at - request.ahead * self.pace, 0.0), request.size))
        self.latency = _ratio(self.waits)

    def seconds(self, size: float, now: float) -> float:
        """Return the expected seconds until a further request is answered."""
        expected = max(self.latency * size, self.backlog(now) + size * self.pace)
        idle = 0.0 if self.open_requests else max(0.0, now - self.last)
        return float(expected * 0.5 ** (idle / HALF_LIFE))

    def backlog(self, now: float) -> float:
        """Return the seconds until all requests are answered, at the pace of its answers."""
        if not self.open_requests:
            return 0.0
        passed = now - max(self.last, self.busy_from)
        return max(self.open_size * self.pace - passed, 0.0)


def _ratio(rows: deque[tuple[float, float]]) -> float:
    return sum(seconds for seconds, _ in rows) / sum(size for _, size in rows)


class OnlineTimes:
    """Predicted times of answers, from the requests and answers of servers.

    A server may work on one request at a time or on many, and may serve others too: its pace is
    that of its answers. Sizes are in any unit, e.g. tokens. A server that gave few answers counts
    as fast as the best, and an idle one is tried again after a while, so that none is left out for
    good. For one thread.

    `best` and `ranked` add to the predicted time the delay that a request causes to later ones: the
    first policy iteration for queues with general service times, from requests that are split at
    random so that the mean time is least (Krishnan 1987; Hyytiä et al. 2012).

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
    >>> times.best(["slow", "fast"], at=12.0)
    'slow'
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._servers: dict[Hashable, ServerTimes] = {}
        self._since = 0.0
        self._recent = self._recent_size = 0.0
        """Requests and sizes sent, those of `MEMORY` seconds ago by a factor e less."""

    def sent(self, server: Hashable, size: float = 1.0, *, at: float | None = None) -> SentRequest:
        """Add a request to those of a server."""
        now = self._clock() if at is None else at
        known = self._servers.setdefault(server, ServerTimes())
        request = SentRequest(server, size, now, known.open_size)
        faded = self._faded(now)
        self._recent, self._recent_size = (
            self._recent * faded + 1.0,
            self._recent_size * faded + size,
        )
        self._since = max(now, self._since)
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
        """Drop the measurements of a server that is gone."""
        self._servers.pop(server, None)

    def predicted(self, server: Hashable, size: float = 1.0, *, at: float | None = None) -> float:
        """Return the expected seconds until a server answers a request sent now."""
        now = self._clock() if at is None else at
        known = self._servers.get(server)
        if known is not None and known.judged:
            return known.seconds(size, now)
        waiting = 0.0 if known is None else known.open_size
        paces = [other.pace for other in self._servers.values() if other.judged]
        return (waiting + size) * min(paces, default=1.0) if waiting else 0.0

    def best(self, servers: Iterable[S], size: float = 1.0, *, at: float | None = None) -> S:
        """Return the server to send a request to; the first of equals."""
        return self.ranked(servers, size, at=at)[0]

    def ranked(
        self, servers: Iterable[S], size: float = 1.0, *, at: float | None = None
    ) -> list[S]:
        """Return the servers, the best one first."""
        now = self._clock() if at is None else at
        rates = self._rates(now)
        return sorted(servers, key=lambda server: self._cost(server, size, now, rates))

    def _faded(self, now: float) -> float:
        return exp(-max(0.0, now - self._since) / MEMORY)

    def _cost(
        self, server: Hashable, size: float, now: float, rates: dict[Hashable, float]
    ) -> float:
        """Return the seconds of a request, and those by which it delays later ones."""
        own = self.predicted(server, size, at=now)
        known = self._servers.get(server)
        if known is None or not known.judged:
            return own
        rate, seconds = rates[server], size * known.pace
        busy = min(rate * known.pace, BUSIEST)
        requests = rate * self._recent / self._recent_size
        squares = seconds * (2.0 * known.backlog(now) + seconds)
        return own + requests / (2.0 * (1.0 - busy)) * squares

    def _rates(self, now: float) -> dict[Hashable, float]:
        """Return the size per second of each server for which the mean time is least."""
        total = self._recent_size * self._faded(now) / MEMORY
        speed = {
            name: 1.0 / max(known.pace, 1e-9)
            for name, known in self._servers.items()
            if known.judged
        }
        used = dict(speed)
        while used:
            free = max(sum(used.values()) - total, 0.0) / sum(map(sqrt, used.values()))
            idle = [name for name, v in used.items() if v < sqrt(v) * free]
            if not idle:
                return {
                    name: v - sqrt(v) * free if name in used else 0.0 for name, v in speed.items()
                }
            for name in idle:
                del used[name]
        return dict.fromkeys(speed, 0.0)
