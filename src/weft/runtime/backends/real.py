"""The part that all backends with real devices share: closing and the clock."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Self


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
