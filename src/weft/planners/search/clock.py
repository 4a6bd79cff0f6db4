"""Time budget of a search."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.sim.kernel.jit import planning_clock

_timers: list[Callable[[], float]] = [planning_clock]


def now() -> float:
    """Return seconds of the wall clock, or of the processor within `processor_time`.

    On the wall clock, the compilation of kernels does not count.
    """
    return _timers[-1]()


@contextmanager
def processor_time() -> Iterator[None]:
    """Count the processor time of this thread: for measurements on a busy machine.

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
    """A running clock; without a limit, results depend on moves alone."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.begin = now()

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return now() - self.begin

    def share(self) -> float:
        """Return the used share of the time limit; 0 without a limit."""
        return 0.0 if self.seconds is None else self.elapsed() / self.seconds

    def left(self) -> float:
        """Return the remaining seconds; inf without a limit."""
        return float("inf") if self.seconds is None else self.seconds - self.elapsed()
