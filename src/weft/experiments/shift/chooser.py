"""A device per task, by expected durations from one online model per device.

Offline data is the start of the models. A device that looks slow is not used, so it would look slow
for ever. Therefore its uncertainty grows while it is unobserved, and it is probed once it may be
the faster one. The cost of probes, in multiples of the task's expected time, has a budget that
grows by a small share per task: a slow device cannot ruin the total, and short tasks are probed
with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput

LARGEST_SCALE = 3.0
"""Largest standard deviation that counts for the bonus: nothing is 20 times faster than expected.
"""


class LogNormalPrediction(Protocol):
    """Centre and scale of the logarithm of the seconds."""

    @property
    def centre(self) -> float:
        """Median of the logarithm."""
        ...

    @property
    def scale(self) -> float:
        """Standard deviation of the logarithm."""
        ...


class OnlineModel(Protocol):
    """A model of durations on one device: `DurationProcess` or `DurationModel`."""

    def predict(self, features: ArrayLike) -> LogNormalPrediction:
        """Predict the duration of one task."""
        ...

    def observe(self, features: ArrayLike, seconds: float) -> object:
        """Learn from one duration."""
        ...


@dataclass(eq=False)
class HybridChooser:
    """Choice of a device per task, with models that learn from every duration.

    Parameters
    ----------
    models : one per device, fitted to offline data
    bonus : standard deviations by which an uncertain device counts as faster
    probing : budget of probes as a share of the expected time, on average over all tasks so far;
        0 never probes
    drift : standard deviation of the logarithm of a device's speed after one decision without an
        observation of it; it grows with the square root of their number
    optimism : standard deviations below its median at which a device is considered for a probe

    Examples
    --------
    >>> from weft.policies.hybrid.duration_process import DurationProcess
    >>> cpu, gpu = (DurationProcess(("size",), logs=("size",)) for _ in range(2))
    >>> cpu.fit([[1.0], [2.0], [4.0]], [1.0, 2.0, 4.0])
    >>> gpu.fit([[1.0], [2.0], [4.0]], [0.5, 1.0, 2.0])
    >>> chooser = HybridChooser([cpu, gpu])
    >>> chooser.choose([2.0])  # the second device has always been faster
    1
    >>> for _ in range(3):
    ...     chooser.observe([2.0], 1, 9.0)
    >>> chooser.choose([2.0])  # it no longer is
    0
    """

    models: Sequence[OnlineModel]
    bonus: float = 0.5
    probing: float = 0.015
    drift: float = 0.1
    optimism: float = 2.0
    probes: int = field(default=0, init=False)
    probe_seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        """Check the values and reset the state."""
        if not self.models:
            raise InvalidInput("a hybrid chooser needs at least one device model")
        if not 0 <= self.probing < 1:
            raise InvalidInput(
                f"probing is {self.probing}; it must be a share of the time, from 0 to below 1"
            )
        self._budget = 0.0
        self._unseen = np.zeros(len(self.models))
        self._instead: tuple[float, float] | None = None
        self._usual = np.inf

    def choose(self, features: ArrayLike) -> int:
        """Return the device with the least time, uncertain ones first, or one to probe."""
        predictions = [model.predict(features) for model in self.models]
        centre = np.array([p.centre for p in predictions])
        scale = np.minimum([p.scale for p in predictions], LARGEST_SCALE)
        best = int((centre - self.bonus * scale).argmin())
        self._instead = None
        if self.probing == 0:
            return best
        wide = np.sqrt(scale**2 + self.drift**2 * self._unseen)
        other = int((centre - self.optimism * wide).argmin())
        if other == best or self._unseen[other] == 0:
            return best
        # In units of this task or of a usual one, whichever is shorter: long tasks do not probe.
        seconds = np.exp(centre)
        unit = min(float(seconds[best]), self._usual)
        if seconds[other] - seconds[best] > self._budget * unit:
            return best
        self._instead = float(seconds[best]), unit
        return other

    def observe(self, features: ArrayLike, device: int, seconds: float) -> None:
        """Learn from the seconds of a task on the device chosen for it."""
        self._budget += self.probing
        if self._instead is not None:
            usual, unit = self._instead
            loss = max(0.0, seconds - usual)
            self.probes += 1
            self.probe_seconds += loss
            self._budget -= loss / unit
            self._instead = None
        self._usual = seconds if np.isinf(self._usual) else 0.95 * self._usual + 0.05 * seconds
        self._unseen += 1
        self._unseen[device] = 0
        self.models[device].observe(features, seconds)
