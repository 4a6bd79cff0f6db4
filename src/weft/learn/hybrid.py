"""`hybrid`: what was learnt offline as a prior, a time model of each device kept up to date by every task, decisions by expected
time.

A device that looks bad is not tried, so it would look bad for ever. Therefore the uncertainty of a device grows while nothing is
seen of it, and when it might by now be the better one it is probed. What probes cost, each as a multiple of the time the task
would have taken, may grow by a small share with every task and no more: a bad device cannot ruin the whole, and the tasks that
are probed with are those that lose least.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.learn.duration_model import DurationModel
from weft.model import Workload
from weft.model.columns import FloatArray
from weft.sim.view import Decision, View


@dataclass(eq=False)
class HybridChooser:
    """Chooses a device for one task after the other, and learns from how long it took.

    Parameters
    ----------
    models : one for each device, fitted to what is known beforehand
    probing : share of its expected time that probes may cost a task, on average over all tasks so far; 0 never probes
    drift : standard deviation of the logarithm of a device's pace after one decision in which nothing was seen of it; it grows with
        the square root of their number
    optimism : how many standard deviations below its median a device is imagined when a probe is considered

    Examples
    --------
    >>> cpu, gpu = DurationModel(("size",), logs=("size",)), DurationModel(("size",), logs=("size",))
    >>> cpu.fit([[1.0], [2.0], [4.0]], [1.0, 2.0, 4.0]); gpu.fit([[1.0], [2.0], [4.0]], [0.5, 1.0, 2.0])
    >>> chooser = HybridChooser([cpu, gpu])
    >>> chooser.choose([2.0])  # the second device has always been faster
    1
    >>> for _ in range(3):
    ...     chooser.observe([2.0], 1, 9.0)
    >>> chooser.choose([2.0])  # it no longer is
    0
    """

    models: Sequence[DurationModel]
    probing: float = 0.01
    drift: float = 0.1
    optimism: float = 2.0
    probes: int = field(default=0, init=False)
    probe_seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        """Nothing has been seen yet."""
        if not self.models:
            raise InvalidInput("a hybrid chooser needs at least one device model")
        if not 0 <= self.probing < 1:
            raise InvalidInput(f"probing is {self.probing}; it must be a share of the time, from 0 to below 1")
        self._budget = 0.0
        self._unseen = np.zeros(len(self.models))
        self._instead: float | None = None

    def choose(self, features: ArrayLike) -> int:
        """The device with the smallest expected time; now and then one that may have become it."""
        guesses = [model.predict(features) for model in self.models]
        expected = np.array([guess.expected for guess in guesses])
        best = int(expected.argmin())
        self._instead = None
        wide = np.sqrt(np.array([guess.scale for guess in guesses]) ** 2 + self.drift**2 * self._unseen)
        hopeful = np.array([guess.centre for guess in guesses]) - self.optimism * wide
        other = int(hopeful.argmin())
        if other == best or self._unseen[other] == 0:
            return best
        if expected[other] / expected[best] - 1.0 > self._budget:
            return best
        self._instead = float(expected[best])
        return other

    def observe(self, features: ArrayLike, device: int, seconds: float) -> None:
        """Learn from a task that took so long on the device that was chosen for it."""
        self._budget += self.probing
        if self._instead is not None:
            loss = max(0.0, seconds - self._instead)
            self.probes += 1
            self.probe_seconds += loss
            self._budget -= loss / self._instead
            self._instead = None
        self._unseen += 1
        self._unseen[device] = 0
        self.models[device].observe(features, seconds)


@dataclass(eq=False)
class HybridPolicy:
    """The same for a simulator or a run with queues and parallelism: earliest finish time by models that learn, one a device kind.

    Every ready task is imagined on the device that would finish it first, oldest first; what falls to an idle device is committed, the rest
    waits for what will be known then. Durations given with the problem are not looked at.

    Parameters
    ----------
    models : device kind -> model
    features : workload -> (instances, k), one row for each task instance
    """

    models: Mapping[str, DurationModel]
    features: Callable[[Workload], FloatArray]
    name: str = "hybrid"
    learning: bool = True
    horizon: int = 64

    def begin(self, workload: Workload, *, seed: int = 0) -> None:  # noqa: ARG002
        """Get the features; the models keep what they know."""
        missing = sorted({kind for kind in workload.cluster.kinds if kind not in self.models})
        if missing:
            raise InvalidInput(f"policy '{self.name}' has no model of device kind '{missing[0]}'; its models: {', '.join(self.models)}")
        self._rows = np.asarray(self.features(workload), float)
        if len(self._rows) != workload.instances:
            raise InvalidInput(f"policy '{self.name}' got {len(self._rows)} rows of features for {workload.instances} tasks")
        self._kinds = workload.cluster.kinds
        self._running: dict[int, tuple[int, float]] = {}  # instance -> device, start

    def decide(self, view: View) -> Decision | None:
        """Learn from what has ended, then commit the first task whose best device is idle."""
        self._learn(view)
        if not view.idle.any():
            return None
        ready = view.ready[: self.horizon]
        seconds = self._seconds(view, ready)
        free = self._free(view)
        for i, instance in enumerate(ready.tolist()):
            ends = free + seconds[i]
            best = int(ends.argmin())
            if np.isfinite(ends[best]) and view.idle[best] and free[best] <= view.now:
                self._running[instance] = (best, max(view.now, view.arrival(instance, best)))
                return Decision(instance, best)
            free[best] = ends[best]
        return None

    def _learn(self, view: View) -> None:
        for instance in [i for i in self._running if not np.isnan(view.finished_at[i])]:
            device, start = self._running.pop(instance)
            if self.learning and int(view.ran_on[instance]) == device:
                self.models[self._kinds[device]].observe(self._rows[instance], float(view.finished_at[instance]) - start)

    def _seconds(self, view: View, ready: np.ndarray) -> FloatArray:
        """(ready, p) expected seconds; inf where a task cannot run or the device is down."""
        by_kind = {kind: self.models[kind].expected(self._rows[ready]) for kind in dict.fromkeys(self._kinds)}
        table = np.column_stack([by_kind[kind] for kind in self._kinds])
        can = np.array([[view.duration(i, d) < np.inf for d in range(len(self._kinds))] for i in ready.tolist()])
        return np.where(can, table, np.inf)

    def _free(self, view: View) -> FloatArray:
        """(p,) when each device should be free, by the models."""
        free = np.where(np.isfinite(view.pace), view.now, np.inf)
        for instance, (device, start) in self._running.items():
            if instance in view.running:
                left = start + self.models[self._kinds[device]].predict(self._rows[instance]).expected
                free[device] = max(view.now, left)
        return free
