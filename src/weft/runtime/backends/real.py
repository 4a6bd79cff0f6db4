"""The part that all backends with real devices share: closing and the clock."""

from __future__ import annotations

import platform
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self


def machine() -> str:
    """Identify the machine: its processes share the clock of `time.perf_counter`."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text() if boot.exists() else platform.node()


class RealBackend(ABC):
    """Devices that exist until `close`; a ``with`` block keeps them for several runs."""

    modelled = False
    _origin: float

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def clock(self) -> float:
        """Return the seconds since `begin`; times of workers are converted to this clock."""
        return time.perf_counter() - self._origin

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""
