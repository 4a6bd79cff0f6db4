"""Stages that take the time of a device and use no processor: a request is two numbers below 1.

A stage is unsure if its number is below one half; it appends its seconds to the numbers. A lock per
device stands for the device, so that several processes can share it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from pathlib import Path
from typing import Any

SECONDS = {"small": 0.010, "medium": 0.030, "large": 0.120}
"""Of one request on the GPU."""
GROWTH = {"gpu": 0.3, "cpu": 1.0}
"""Share of a whole request that each further one of a batch adds."""
SLOWNESS = {"gpu": 1.0, "cpu": 2.0}
HALF = 0.5


class EmulatedDevice:
    """A device, which runs one batch at a time."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = os.open(
            Path(tempfile.gettempdir()) / f"weft-emulated-{os.getuid()}-{name}",
            os.O_RDWR | os.O_CREAT,
            0o600,
        )

    def run(self, stage: str, size: int) -> float:
        """Wait for the device, then for the time of a batch; return that time."""
        seconds = SECONDS[stage] * SLOWNESS[self.name] * (1.0 + GROWTH[self.name] * (size - 1))
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        try:
            time.sleep(seconds)
        finally:
            fcntl.flock(self.lock, fcntl.LOCK_UN)
        return seconds


def load(unit: Any) -> EmulatedDevice:
    return EmulatedDevice(unit.name)


def small(device: EmulatedDevice, batch: list[list[float]]) -> list[tuple[Any, str | None]]:
    took = device.run("small", len(batch))
    return [([*x, took], "unsure" if x[0] < HALF else "sure") for x in batch]


def medium(device: EmulatedDevice, batch: list[list[float]]) -> list[tuple[Any, str | None]]:
    took = device.run("medium", len(batch))
    return [([*x, took], "unsure" if x[1] < HALF else "sure") for x in batch]


def large(device: EmulatedDevice, batch: list[list[float]]) -> list[tuple[Any, str | None]]:
    took = device.run("large", len(batch))
    return [([*x, took], None) for x in batch]
