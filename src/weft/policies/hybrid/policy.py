"""The policy `hybrid`: expected durations by one online model per device kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.model import Workload
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.policies.hybrid.duration_process import DurationProcess
from weft.policies.policy import POLICIES
from weft.policies.rules import per_instance, task_kinds
from weft.sim.renumbering import Renumbering
from weft.sim.view import Decision, View
from weft.typed import typed_class

FeatureFunction = Callable[[Workload], FloatArray]
"""Workload -> (instances, k), one row per task instance."""
CELLS = 8_192
"""Most ready tasks x devices of one decision: tasks of older jobs come first."""
MOST_GROUPS = 1_000
"""Most sets of able devices for which the groups of like devices are stored."""
LEAST = 1e-9
"""Seconds; the logarithm of a shorter estimate is that of this one."""


@typed_class
class HybridPolicy:
    """Learned durations, and devices that take the tasks they are best at.

    An idle device takes the ready task for which its advantage over the other devices is largest
    (as in HeteroPrio: Agullo et al. 2016), unless another device would finish the task earlier even
    after all other ready tasks. Devices are alike, and share a queue, if they have one kind and
    equal estimates.

    Without `models`, the estimates of the problem (for real runs: the measured history and profile)
    are the prior, and the ratio of measured to estimated durations is learned by task kind, device
    kind and size. With `models`, durations are learned from features, and the estimates are
    ignored.

    Parameters
    ----------
    models : device kind -> model fitted to offline data; the policy works on copies of them
    features : the inputs of the models
    learning : whether the models learn from finished tasks
    """

    def __init__(
        self,
        models: Mapping[str, DurationProcess] | None = None,
        features: FeatureFunction | None = None,
        *,
        name: str = "hybrid",
        learning: bool = True,
    ) -> None:
        if (models is None) != (features is None):
            raise InvalidInput(f"policy '{name}' needs models and features, or neither of them")
        self.name, self.learning = name, learning
        self._given, self._features = models, features

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Read features and estimates; drop the learned durations."""
        kinds = tuple(dict.fromkeys(workload.cluster.kinds))
        self._models = [self._model(kind) for kind in kinds]
        self._kind = np.array([kinds.index(k) for k in workload.cluster.kinds], np.int64)
        self._first = np.asarray(workload.first_instance)
        self._template = np.asarray(workload.template)
        estimates = [problem.durations() for problem in workload.problems]
        self._alike = _alike(np.concatenate([*estimates, self._kind[None]]))
        self._fits = [np.isfinite(seconds) for seconds in estimates]
        ones = [np.where(fits, 1.0, np.inf) for fits in self._fits]
        self._estimates = estimates if self._given is None else ones
        self._group = per_instance(workload, task_kinds(workload))
        self._rows = self._inputs(workload, estimates)
        self._centre = np.zeros((len(kinds), workload.instances))
        self._version = np.full((len(kinds), workload.instances), -1, np.int64)
        # instance -> device, and the seconds that count as 1 for the model
        self._watched: dict[int, tuple[int, float]] = {}
        self._groups: dict[bytes, tuple[IntArray, IntArray, IntArray, IntArray]] = {}
        self._came: dict[int, FloatArray] = {}  # ready instance -> arrival of its inputs by device

    def _model(self, kind: str) -> DurationProcess:
        if self._given is None:
            return DurationProcess(
                ("seconds",), ("seconds",), level=0.5, slope=0.1, group=0.5, era=1.0, window=150
            )
        if kind not in self._given:
            raise InvalidInput(
                f"policy '{self.name}' has no model of device kind '{kind}'; "
                f"its models: {', '.join(self._given)}"
            )
        return deepcopy(self._given[kind])

    def _inputs(self, workload: Workload, estimates: list[FloatArray]) -> FloatArray:
        """Return (instances, k) features; without models, the shortest estimate."""
        if self._features is None:
            shortest = [np.maximum(s.min(axis=1, initial=np.inf), LEAST) for s in estimates]
            finite = [np.where(np.isfinite(s), s, 1.0) for s in shortest]
            return per_instance(workload, finite)[:, None]
        rows = np.asarray(self._features(workload), float)
        if len(rows) != workload.instances:
            raise InvalidInput(
                f"policy '{self.name}' got {len(rows)} rows of features "
                f"for {workload.instances} tasks; give one row per task"
            )
        return rows

    # -- deciding ----------------------------------------------------------------

    def decide(self, view: View) -> Decision | None:
        """Learn from finished tasks, then start a task on an idle device."""
        self._learn(view)
        idle = np.flatnonzero(view.idle).tolist()
        if not idle or not len(view.ready):
            return None
        if len(view.ready) * len(self._kind) > CELLS:
            view = replace(view, ready=view.ready[: max(1, CELLS // len(self._kind))])
        fixed = view.eager and not view.copies  # otherwise arrivals change with time or copies
        known = self._came if fixed else {}
        self._came = {i: known[i] for i in view.ready.tolist() if i in known}
        seconds = self._seconds(view)
        total = np.where(np.isfinite(seconds), seconds, 0.0).sum(axis=0)
        refused: tuple[float, Decision] | None = None
        for device in idle:
            place = self._choose(view, seconds, device)
            if place is None:
                continue
            decision = Decision(int(view.ready[place]), device)
            came = float(self._arrivals(view, decision.instance)[device])
            finish = max(view.now, came) + float(seconds[place, device])
            if finish <= self._sooner(view, seconds, total, place, device):
                return self._watch(view, decision)
            if refused is None or finish < refused[0]:
                refused = finish, decision
        up = np.isfinite(view.slowdown)
        if refused is not None and (view.idle == up).all():  # nothing runs, so no event would come
            return self._watch(view, refused[1])
        return None

    def _choose(self, view: View, seconds: FloatArray, device: int) -> int | None:
        """Return the place of the ready task with the largest advantage on a device."""
        others = seconds[:, self._alike != self._alike[device]].min(axis=1, initial=np.inf)
        own = seconds[:, device]
        can = np.isfinite(own)
        if view.room is not None:
            can &= [view.has_room(i, device) for i in view.ready.tolist()]
        if not can.any():
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            gain = np.where(own > 0, others / own, np.inf)
        return int(np.where(can, gain, -np.inf).argmax())

    def _arrivals(self, view: View, instance: int) -> FloatArray:
        """Return (p,) times when all inputs of a ready instance are on each device."""
        known = self._came.get(instance)
        if known is None:
            known = self._came[instance] = view.arrivals(instance)
        return known

    def _sooner(
        self, view: View, seconds: FloatArray, total: FloatArray, place: int, device: int
    ) -> float:
        """Return when other devices would finish a task as the last of all ready tasks."""
        best, own = np.inf, seconds[place]
        able = np.isfinite(own) & (self._alike != self._alike[device])
        if not able.any():
            return best
        devices, first, of, count = self._alike_among(able)
        free = np.maximum(view.free_at, view.now)[devices]
        ready = np.bincount(of, free) / count + (total[first] - own[first]) / count
        came = np.maximum(ready, self._arrivals(view, int(view.ready[place]))[first])
        return float((came + own[first]).min())

    def _alike_among(self, able: BoolArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Return able devices, the first one of each group, their groups, and group sizes."""
        key = able.tobytes()
        known = self._groups.get(key)
        if known is None:
            devices = np.flatnonzero(able)
            _, begin, of = np.unique(self._alike[devices], return_index=True, return_inverse=True)
            if len(self._groups) > MOST_GROUPS:
                self._groups.clear()
            known = self._groups[key] = devices, devices[begin], of, np.bincount(of)
        return known

    def _seconds(self, view: View) -> FloatArray:
        """Return (ready, devices) expected seconds; inf where a task cannot run."""
        ready = view.ready
        job = np.searchsorted(self._first, ready, side="right") - 1
        task = ready - self._first[job]
        base = np.empty((len(ready), len(self._kind)))
        for t in np.unique(self._template[job]).tolist():
            chosen = self._template[job] == t
            base[chosen] = self._estimates[t][task[chosen]]
        for k, model in enumerate(self._models):
            stale = ready[self._version[k, ready] != model.observed]
            if len(stale):
                rows, groups = self._rows[stale], self._group[stale]
                self._centre[k, stale], _ = model.predict_rows(rows, groups)
                self._version[k, stale] = model.observed
        factor = np.exp(self._centre[:, ready])[self._kind].T
        up = np.isfinite(view.slowdown)
        slowdown = np.where(up, view.slowdown, 1.0) if self._given is None else np.ones(len(up))
        return np.asarray(np.where(up & np.isfinite(base), base * factor * slowdown, np.inf))

    # -- learning ----------------------------------------------------------------

    def _watch(self, view: View, decision: Decision) -> Decision:
        job = int(np.searchsorted(self._first, decision.instance, side="right")) - 1
        task = decision.instance - int(self._first[job])
        base = float(self._estimates[int(self._template[job])][task, decision.device])
        slowdown = float(view.slowdown[decision.device]) if self._given is None else 1.0
        self._watched[decision.instance] = decision.device, base * slowdown
        return decision

    def _learn(self, view: View) -> None:
        ended = [i for i in self._watched if not np.isnan(view.finished_at[i])]
        for instance in ended:
            device, unit = self._watched.pop(instance)
            seconds = float(view.finished_at[instance] - view.started_at[instance])
            if self.learning and unit > 0 and int(view.ran_on[instance]) == device:
                self._models[int(self._kind[device])].observe(
                    self._rows[instance], max(seconds, 0.0) / unit, int(self._group[instance])
                )

    def state(self) -> dict[str, Any]:
        """Return the running tasks and the models."""
        watched = [[i, device, unit] for i, (device, unit) in self._watched.items()]
        return {"watched": watched, "models": [model.state() for model in self._models]}

    def resume(self, state: dict[str, Any], numbers: Renumbering) -> None:
        """Go on from a state, after `begin`."""
        for old, device, unit in state["watched"]:
            if numbers.instances[int(old)] >= 0:
                self._watched[int(numbers.instances[int(old)])] = int(device), float(unit)
        for model, content in zip(self._models, state["models"], strict=True):
            model.resume(content)


def _alike(columns: FloatArray) -> IntArray:
    """Return (p,) numbers of the devices, equal for equal columns."""
    found = np.unique(columns, axis=1, return_inverse=True)[1]
    return np.asarray(found, np.int64).ravel()


@POLICIES.register("hybrid", family="learned durations")
def hybrid() -> HybridPolicy:
    """Devices take the tasks they are best at, by durations of finished tasks."""
    return HybridPolicy()
