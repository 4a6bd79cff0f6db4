"""Waiting tasks by reason over time, in a bounded number of samples."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Any

SAMPLES = 240
"""Most samples; with more, every second one is dropped and the gaps between them double."""

SHARE = 0.02
"""Most of the time that taking samples may cost."""


class WaitingHistory:
    """How many tasks waited for what, sampled while a run or a service goes on; safe for threads.

    Parameters
    ----------
    gap : least seconds between two samples
    clock : wall-clock seconds, for the cost of a sample

    Examples
    --------
    >>> history = WaitingHistory(gap=1.0)
    >>> for now in (0.0, 0.5, 1.0):
    ...     history.look(now, lambda: {"for inputs": 3})
    >>> history.as_dict()
    {'time': [0.0, 1.0], 'counts': {'for inputs': [3, 3]}}
    """

    def __init__(
        self, *, gap: float = 0.25, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._gap = gap
        self._clock = clock
        self._rows: list[tuple[float, Mapping[str, int]]] = []
        self._next = -inf
        self._lock = threading.Lock()

    def look(self, now: float, count: Callable[[], Mapping[str, int]]) -> None:
        """Take a sample, unless the last one is recent; a costly one is taken less often."""
        if now < self._next:
            return
        begin = self._clock()
        counted = count()
        cost = self._clock() - begin
        with self._lock:
            if self._rows and now <= self._rows[-1][0]:
                return
            self._rows.append((now, counted))
            if len(self._rows) > SAMPLES:
                self._rows = self._rows[::2]
                self._gap *= 2.0
            self._next = now + max(self._gap, cost / SHARE)

    def as_dict(self) -> dict[str, Any]:
        """Return times, and reason -> count at each of them."""
        with self._lock:
            rows = list(self._rows)
        reasons = dict.fromkeys(reason for _, counts in rows for reason in counts)
        return {
            "time": [now for now, _ in rows],
            "counts": {reason: [counts.get(reason, 0) for _, counts in rows] for reason in reasons},
        }
