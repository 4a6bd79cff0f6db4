"""The part that all backends with real devices share: closing and the clock."""

from __future__ import annotations

import platform
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.runtime.backends.protocol import Event


def machine() -> str:
    """Identify the machine: its processes share the clock of `time.perf_counter`."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text() if boot.exists() else platform.node()


class RealBackend(ABC):
    """Devices that exist until `close`; a ``with`` block keeps them for several runs."""

    modelled = False
    _origin: float
    _events: list[Event]
    """The next events of `wait`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def clock(self) -> float:
        """Return the seconds since `begin`; times of workers are converted to this clock."""
        return time.perf_counter() - self._origin

    def _announces(self, kind: type[Event]) -> bool:
        """Return whether an event of a kind is among the next ones."""
        return any(isinstance(event, kind) for event in self._events)

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""

    def _go_on_without(self, about: str, left: Iterable[object]) -> None:
        """Warn that a device is left out; raise the same if no other is left."""
        if not any(left):
            self.close()
            raise WeftError(f"no device is left: {about}")
        warnings.warn(f"{about}; the run goes on without", stacklevel=3)
