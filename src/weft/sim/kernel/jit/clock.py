"""A clock for planning times and time limits, without the time of compiling."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock


class PausedClock:
    """Seconds of the wall clock, without those of any thread within `paused`.

    Examples
    --------
    >>> clock = PausedClock(iter([1.0, 2.0, 9.0]).__next__)
    >>> before = clock()
    >>> with clock.paused():  # from 2 to 9 s
    ...     clock() - before
    1.0
    """

    def __init__(self, timer: Callable[[], float] = time.perf_counter) -> None:
        self._timer, self._lock = timer, Lock()
        self._inside, self._since, self._left_out = 0, 0.0, 0.0

    def __call__(self) -> float:
        """Return the seconds; only differences matter."""
        with self._lock:
            return (self._since if self._inside else self._timer()) - self._left_out

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the seconds of the ``with`` block out of the clock."""
        with self._lock:
            if not self._inside:
                self._since = self._timer()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._left_out += self._timer() - self._since
