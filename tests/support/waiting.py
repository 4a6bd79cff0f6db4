"""Waits that end with an event; their limits are reached only when a test fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 120.0
"""Seconds for what takes milliseconds: on a busy machine a process may not run for a while."""

T = TypeVar("T")


def wait_until(true: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Ask again and again until the answer is true; return the answer."""
    limit = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < limit, f"still {found!r} after {seconds:g} s"
        time.sleep(0.01)
    return found
