"""Waits that end with an event; their limits are reached only when a test fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

WAIT_LIMIT = 600.0
"""Seconds for waits that take milliseconds: on a busy machine a process may not run for long."""

T = TypeVar("T")


def wait_until(true: Callable[[], T], seconds: float = WAIT_LIMIT) -> T:
    """Call a function until its result is true; return the result."""
    limit = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < limit, f"still {found!r} after {seconds:g} s"
        time.sleep(0.01)
    return found
