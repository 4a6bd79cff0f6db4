"""How much of its budget a search has used: seconds, or moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_timers: list[Callable[[], float]] = [time.perf_counter]


def now() -> float:
    """Seconds, from whenever: the wall clock, unless told otherwise."""
    return _timers[-1]()


@contextmanager
def processor_time() -> Iterator[None]:
    """Let time limits count the processor time of this thread: for measurements on a busy machine, of searches in one thread.

    Examples
    --------
    >>> with processor_time():
    ...     clock = Clock(1.0)
    ...     time.sleep(0.02)
    ...     clock.share() < 0.01
    True
    """
    _timers.append(time.thread_time)
    try:
        yield
    finally:
        _timers.pop()


class Clock:
    """Runs from the moment it is made; without seconds it never gets anywhere, so that results depend on moves alone."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.begin = now()

    def elapsed(self) -> float:
        """Seconds since it was made."""
        return now() - self.begin

    def share(self) -> float:
        """Share of the time that is used; 0 without a limit."""
        return 0.0 if self.seconds is None else self.elapsed() / self.seconds

    def left(self) -> float:
        """Seconds that are left; inf without a limit."""
        return float("inf") if self.seconds is None else self.seconds - self.elapsed()
