"""The status of a cascade for its live page: stages, units, times, policy."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from math import nan
from typing import Any, NamedTuple

import numpy as np

from weft.runtime.cascade.cascade import Cascade
from weft.runtime.cascade.request import DeadlineMissed
from weft.runtime.web.live.waiting import WaitingHistory

KEPT = 2000
"""Ended requests whose completion times are kept."""


class Completion(NamedTuple):
    """The end of a request: its seconds, and whether it kept its deadline.

    NaN seconds: it got no answer.
    """

    seconds: float
    limited: bool
    in_time: bool


class CascadeWatch:
    """Observer of the requests of a cascade; safe for threads."""

    def __init__(self, cascade: Cascade) -> None:
        self.cascade = cascade
        self.waiting = WaitingHistory(gap=1.0)
        """Requests that wait, by stage."""
        self._ended: deque[Completion] = deque(maxlen=KEPT)
        self._lock = threading.Lock()
        self._shift = cascade.state().now - time.monotonic()

    def watch(self, future: Future[Any], timeout: float | None) -> None:
        """Note the end of a request that was submitted just now."""
        begin = self._clock()
        self.waiting.look(begin, lambda: waiting_by_stage(self.cascade))

        def ended(done: Future[Any]) -> None:
            if done.cancelled():
                return
            error, seconds = done.exception(), self._clock() - begin
            if error is None:
                row = Completion(seconds, timeout is not None, True)
            elif isinstance(error, DeadlineMissed):
                row = Completion(nan, True, False)
            else:
                return  # a stage failed: it has no completion time
            with self._lock:
                self._ended.append(row)

        future.add_done_callback(ended)

    def status(self) -> dict[str, Any]:
        """Return everything that the page shows, for JSON."""
        known = self.cascade
        found = known.state()
        self.waiting.look(found.now, lambda: waiting_by_stage(known))
        with self._lock:
            ended = list(self._ended)
        return {
            "cascade": known.description.stream.name,
            **found.as_dict(),
            "counts": dict(known.counts),
            "times": completion_times(ended),
            "policy": known.policy,
            "replaced": known.replaced,
            "proposal": known.proposal,
            "events": [event._asdict() for event in list(known.events)],
        }

    def _clock(self) -> float:
        return time.monotonic() + self._shift


def waiting_by_stage(cascade: Cascade) -> dict[str, int]:
    """Return stage -> requests that wait for a decision or for their unit."""
    return {task: s.waiting + s.queued for task, s in cascade.state().stages.items()}


def completion_times(ended: Sequence[Completion]) -> dict[str, float | int | None]:
    """Return mean, 95th and 99th percentile, and the share of kept deadlines.

    Examples
    --------
    >>> rows = [Completion(1.0, False, True), Completion(3.0, True, True)]
    >>> completion_times([*rows, Completion(nan, True, False)])
    {'count': 2, 'mean': 2.0, 'p95': 2.9, 'p99': 2.98, 'limited': 2, 'in_time': 0.5}
    >>> completion_times([])["mean"] is None
    True
    """
    seconds = np.array([row.seconds for row in ended if row.seconds == row.seconds])
    limited = [row.in_time for row in ended if row.limited]
    return {
        "count": len(seconds),
        "mean": float(seconds.mean()) if len(seconds) else None,
        "p95": float(np.quantile(seconds, 0.95)) if len(seconds) else None,
        "p99": float(np.quantile(seconds, 0.99)) if len(seconds) else None,
        "limited": len(limited),
        "in_time": sum(limited) / len(limited) if limited else None,
    }
