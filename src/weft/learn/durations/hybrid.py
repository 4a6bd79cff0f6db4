"""`hybrid`: offline knowledge as a prior, a time model of each device updated by every task, decisions by expected time.

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
from weft.learn.durations.model import DurationModel
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
    probing: float = 0.015
    drift: float = 0.1
    optimism: float = 2.0
    probes: int = field(default=0, init=False)
    probe_seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        """Nothing has been seen yet."""
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
        """The device with the smallest expected time; now and then one that may have become it."""
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
        # In units of this task or of a usual one, whichever is shorter: long tasks are not for probing.
        unit = min(float(expected[best]), self._usual)
        if expected[other] - expected[best] > self._budget * unit:
            return best
        self._instead = float(expected[best]), unit
        return other

    def observe(self, features: ArrayLike, device: int, seconds: float) -> None:
        """Learn from a task that took so long on the device that was chosen for it."""
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
    """The same for a simulator or a run with queues and parallelism: expected times by models that learn, one a device kind.

    An idle device takes the ready task it is best at, compared with the other kinds (as in HeteroPrio: Agullo et al. 2016), unless the
    others would have done it sooner, even as the last of all that is ready. Durations that came with the problem are not looked at.

    Parameters
    ----------
    models : device kind -> model
    features : workload -> (instances, k), one row for each task instance
    learning : whether the models learn from what ends; else they stay as they came
    """

    models: Mapping[str, DurationModel]
    features: Callable[[Workload], FloatArray]
    name: str = "hybrid"
    learning: bool = True

    def begin(self, workload: Workload, *, seed: int = 0) -> None:  # noqa: ARG002
        """Get the features; the models keep what they know."""
        self._kinds = tuple(dict.fromkeys(workload.cluster.kinds))
        missing = [kind for kind in self._kinds if kind not in self.models]
        if missing:
            raise InvalidInput(
                f"policy '{self.name}' has no model of device kind '{missing[0]}'; its models: {', '.join(self.models)}"
            )
        self._rows = np.asarray(self.features(workload), float)
        if len(self._rows) != workload.instances:
            raise InvalidInput(
                f"policy '{self.name}' got {len(self._rows)} rows of features for {workload.instances} tasks"
            )
        self._kind = np.array(
            [self._kinds.index(kind) for kind in workload.cluster.kinds], np.int64
        )
        self._running: dict[
            int, tuple[int, float, float]
        ] = {}  # instance -> device, start, expected end
        fits = [np.isfinite(problem.pace[problem.row]) for problem in workload.problems]
        self._fits = np.concatenate([fits[t] for t in workload.template.tolist()])  # (instances, p)

    def decide(self, view: View) -> Decision | None:
        """Learn from what has ended, then give an idle device the task it is best at."""
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
        """(ready, kinds) expected seconds; inf where no device of the kind is up, or the task cannot run on one."""
        columns = []
        for k, kind in enumerate(self._kinds):
            up = np.flatnonzero((self._kind == k) & np.isfinite(view.pace))
            can = self._fits[np.ix_(view.ready, up)].any(axis=1)
            columns.append(
                np.where(can, self.models[kind].expected(self._rows[view.ready]), np.inf)
            )
        return np.column_stack(columns)

    def _sooner(self, view: View, seconds: FloatArray, own: int, place: int) -> float:
        """When another kind of device would have done a task, if it came last of all that is ready."""
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
