"""Those who watch a run: the journal, the history, the progress bar. They are told, and change nothing."""

from __future__ import annotations

from collections.abc import Mapping

from weft.runtime.backends.protocol import DeviceAdded, DeviceLost, Finished, Started
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.device_state import Group


class Observer:
    """Sees everything and, unless a method is overridden, does nothing."""

    def started(self, life: LiveLifecycle, event: Started) -> None:
        """An order began."""

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """A group is done."""

    def failed(self, life: LiveLifecycle, instance: int, device: int, text: str) -> None:
        """An attempt of an instance failed by its own fault."""

    def lost(self, life: LiveLifecycle, event: DeviceLost) -> None:
        """A device is gone."""

    def added(self, life: LiveLifecycle, event: DeviceAdded) -> None:
        """A device is back."""

    def ended(self, life: LiveLifecycle, now: float) -> None:
        """The run is over."""

    def close(self) -> None:
        """Nothing more comes, however the run ended."""
