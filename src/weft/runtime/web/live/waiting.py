"""Waiting tasks by reason over time, in a bounded number of samples."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from math import inf
from typing import Any

from weft.errors import WeftError

SAMPLES = 240
"""Most samples; with more, every second one is dropped and the gaps between them double."""

SHARE = 0.02
"""Most of the time that taking samples may cost."""


Later = Callable[[float, Callable[[], None]], object]
"""Calls a function after some seconds, without waiting for it."""


def _call_later(seconds: float, function: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()


class WaitingHistory:
    """Counts of waiting tasks by reason, sampled during a run; safe for threads.

    For a look within the gap after a sample, the sample is taken at the end of the gap: after the
    last event of a burst nothing may happen for long, and the state after it is the one that lasts.

    Parameters
    ----------
    gap : least seconds between two samples
    clock : wall-clock seconds, for the cost of a sample
    later : calls a function after some seconds

    Examples
    --------
    >>> history = WaitingHistory(gap=1.0)
    >>> for now in (0.0, 0.5, 1.0):
    ...     history.look(now, lambda: {"for inputs": 3})
    >>> history.as_dict()
    {'time': [0.0, 1.0], 'counts': {'for inputs': [3, 3]}}
    """

    def __init__(
        self,
        *,
        gap: float = 0.25,
        clock: Callable[[], float] = time.perf_counter,
        later: Later = _call_later,
    ) -> None:
        self._gap = gap
        self._clock = clock
        self._later = later
        self._due = False
        self._rows: list[tuple[float, Mapping[str, int]]] = []
        self._next = -inf
        self._lock = threading.Lock()

    def look(self, now: float, count: Callable[[], Mapping[str, int]]) -> None:
        """Take a sample now, or at the end of the gap after the last sample.

        If counting takes long, the gap grows, so that samples take at most `SHARE` of the time.
        """
        if now < self._next:
            with self._lock:
                if self._due:
                    return
                self._due = True
            self._later(self._next - now, lambda: self._take_late(count))
            return
        self._take(now, count)

    def _take_late(self, count: Callable[[], Mapping[str, int]]) -> None:
        with self._lock:
            self._due = False
        with suppress(RuntimeError, LookupError, WeftError):  # the run goes on or has ended
            self._take(self._next, count)

    def _take(self, now: float, count: Callable[[], Mapping[str, int]]) -> None:
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
