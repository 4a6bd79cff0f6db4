"""`hybrid`: decisions by expected time, from one online time model per device.

Offline data is the prior of the models. A device that looks slow is not used, so it would look slow
for ever. Therefore its uncertainty grows while it is unobserved, and it is probed once it may be
the faster one. The cost of probes, in multiples of the task's expected time, has a budget that
grows by a small share per task: a slow device cannot ruin the total, and short tasks are probed
with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.learn.durations.model import DurationModel
from weft.model import Workload
from weft.model.columns import FloatArray
from weft.sim.view import Decision, View


@dataclass(eq=False)
class HybridChooser:
    """Choice of a device per task, with models that learn from every duration.

    Parameters
    ----------
    models : one per device, fitted to offline data
    probing : budget of probes as a share of the expected time, on average over all tasks so far;
        0 never probes
    drift : standard deviation of the logarithm of a device's speed after one decision without an
        observation of it; it grows with the square root of their number
    optimism : standard deviations below its median at which a device is considered for a probe

    Examples
    --------
    >>> cpu, gpu = (DurationModel(("size",), logs=("size",)) for _ in range(2))
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

    models: Sequence[DurationModel]
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
        """Return the device with the least expected time, or one to probe."""
        guesses = [model.predict(features) for model in self.models]
        expected = np.array([guess.expected for guess in guesses])
        best = int(expected.argmin())
        self._instead = None
        wide = np.sqrt(
            np.array([guess.scale for guess in guesses]) ** 2 + self.drift**2 * self._unseen
        )
        hopeful = np.array([guess.centre for guess in guesses]) - self.optimism * wide
        other = int(hopeful.argmin())
        if other == best or self._unseen[other] == 0:
            return best
        # In units of this task or of a usual one, whichever is shorter: long tasks do not probe.
        unit = min(float(expected[best]), self._usual)
        if expected[other] - expected[best] > self._budget * unit:
            return best
        self._instead = float(expected[best]), unit
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


@dataclass(eq=False)
class HybridPolicy:
    """The policy for simulations and runs: expected times by one online model per device kind.

    An idle device takes the ready task with its largest advantage over the other kinds (as in
    HeteroPrio: Agullo et al. 2016), unless another kind would finish it earlier even as the last of
    all ready tasks. The durations of the problem are ignored.

    Parameters
    ----------
    models : device kind -> model
    features : workload -> (instances, k), one row per task instance
    learning : whether the models learn from finished tasks
    """

    models: Mapping[str, DurationModel]
    features: Callable[[Workload], FloatArray]
    name: str = "hybrid"
    learning: bool = True

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Read the features; the models keep their state."""
        self._kinds = tuple(dict.fromkeys(workload.cluster.kinds))
        missing = [kind for kind in self._kinds if kind not in self.models]
        if missing:
            raise InvalidInput(
                f"policy '{self.name}' has no model of device kind '{missing[0]}'; "
                f"its models: {', '.join(self.models)}"
            )
        self._rows = np.asarray(self.features(workload), float)
        if len(self._rows) != workload.instances:
            raise InvalidInput(
                f"policy '{self.name}' got {len(self._rows)} rows of features "
                f"for {workload.instances} tasks"
            )
        self._kind = np.array(
            [self._kinds.index(kind) for kind in workload.cluster.kinds], np.int64
        )
        # instance -> device, start, expected finish
        self._running: dict[int, tuple[int, float, float]] = {}
        fits = [np.isfinite(problem.pace[problem.row]) for problem in workload.problems]
        self._fits = np.concatenate([fits[t] for t in workload.template.tolist()])  # (instances, p)

    def decide(self, view: View) -> Decision | None:
        """Learn from finished tasks, then start a task on an idle device."""
        self._learn(view)
        seconds = self._seconds(view)
        for device in np.flatnonzero(view.idle).tolist():
            can = self._fits[view.ready, device]
            if not can.any():
                continue
            own = int(self._kind[device])
            elsewhere = np.delete(seconds, own, axis=1).min(axis=1, initial=np.inf)
            place = int(np.where(can, elsewhere / seconds[:, own], -np.inf).argmax())
            took = float(seconds[place, own])
            if view.now + took <= self._sooner(view, seconds, own, place):
                instance = int(view.ready[place])
                start = max(view.now, view.arrival(instance, device))
                self._running[instance] = (device, start, start + took)
                return Decision(instance, device)
        return None

    def _learn(self, view: View) -> None:
        for instance in [i for i in self._running if not np.isnan(view.finished_at[i])]:
            device, start, _ = self._running.pop(instance)
            if self.learning and int(view.ran_on[instance]) == device:
                self.models[self._kinds[self._kind[device]]].observe(
                    self._rows[instance], float(view.finished_at[instance]) - start
                )

    def _seconds(self, view: View) -> FloatArray:
        """(ready, kinds) expected seconds; inf without a live device that can run the task."""
        columns = []
        for k, kind in enumerate(self._kinds):
            up = np.flatnonzero((self._kind == k) & np.isfinite(view.pace))
            can = self._fits[np.ix_(view.ready, up)].any(axis=1)
            columns.append(
                np.where(can, self.models[kind].expected(self._rows[view.ready]), np.inf)
            )
        return np.column_stack(columns)

    def _sooner(self, view: View, seconds: FloatArray, own: int, place: int) -> float:
        """Return when another kind would finish a task as the last of all ready tasks."""
        best = np.inf
        for k in range(len(self._kinds)):
            devices = np.flatnonzero((self._kind == k) & np.isfinite(view.pace))
            if k == own or not len(devices) or not np.isfinite(seconds[place, k]):
                continue
            due = {device: end for device, _, end in self._running.values()}
            free = np.array([max(view.now, due.get(d, view.now)) for d in devices.tolist()])
            rest = float(seconds[np.isfinite(seconds[:, k]), k].sum()) - float(seconds[place, k])
            best = min(best, float(free.mean()) + rest / len(devices) + float(seconds[place, k]))
        return best
