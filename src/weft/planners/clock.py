"""How much of its budget a search has used: seconds, or moves."""

from __future__ import annotations

import time


class Clock:
    """Runs from the moment it is made; without seconds it never gets anywhere, so that results depend on moves alone."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.begin = time.perf_counter()

    def elapsed(self) -> float:
        """Seconds since it was made."""
        return time.perf_counter() - self.begin

    def share(self) -> float:
        """Share of the time that is used; 0 without a limit."""
        return 0.0 if self.seconds is None else self.elapsed() / self.seconds

    def left(self) -> float:
        """Seconds that are left; inf without a limit."""
        return float("inf") if self.seconds is None else self.seconds - self.elapsed()
