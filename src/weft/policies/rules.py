"""Rules: an order of ready tasks and a placement.

Simulations run them inside the compiled kernel; here they decide by a `View`. See "Rules" in
`docs/simulator.md` for the placements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from weft.model import Problem, Workload
from weft.model.columns import FloatArray, IntArray, assign
from weft.policies.policy import POLICIES
from weft.sim.kernel.ranks import upward_rank
from weft.sim.rule import Placement, Rule
from weft.sim.view import Decision, View
from weft.typed import typed_dataclass

T = TypeVar("T")
N = TypeVar("N", bound=np.generic)


@typed_dataclass(frozen=True, eq=False)
class RulePolicy:
    """A rule as a policy: ready tasks are ordered by `key`, the lowest first."""

    name: str
    placement: Placement
    key: Callable[[Problem], FloatArray]
    by_job = False
    _keys: FloatArray = field(init=False, repr=False)
    _kind: IntArray = field(init=False, repr=False)
    _last: list[int] = field(init=False, repr=False)

    def rule(self, workload: Workload) -> Rule:
        """Return the rule for the compiled kernel."""
        keys = per_instance(workload, each_problem(workload, self.key))
        return Rule(self.name, self.placement, keys)

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Compute the order."""
        kind = per_instance(workload, task_kinds(workload))
        assign(self, _keys=self.rule(workload).keys, _kind=kind, _last=[0] * workload.cluster.p)

    def decide(self, view: View) -> Decision | None:
        """Take the first ready task for which there is a device, or wait."""
        decision = self._by_device(view) if self.placement == "mru" else self._by_task(view)
        if decision is not None:
            self._last[decision.device] = int(self._kind[decision.instance])
        return decision

    def _in_order(self, view: View) -> list[int]:
        return sorted(view.ready.tolist(), key=lambda i: (self._keys[i], i))

    def _by_task(self, view: View) -> Decision | None:
        usable = np.isfinite(view.slowdown) if self.placement == "eft" else view.idle
        devices = np.flatnonzero(usable).tolist()
        for instance in self._in_order(view) if devices else ():
            device = self._place(view, instance, devices)
            if device is not None:
                return Decision(instance, device)
        return None

    def _place(self, view: View, instance: int, usable: list[int]) -> int | None:
        devices = [d for d in usable if view.duration(instance, d) < np.inf]
        if self.placement != "eft":
            devices = [d for d in devices if view.has_room(instance, d)]
        if self.placement == "first":
            return devices[0] if devices else None
        cost = view.seconds if self.placement == "fastest" else view.finish
        return min(devices, key=lambda d: cost(instance, d), default=None)

    def _by_device(self, view: View) -> Decision | None:
        kinds = len(view.workload.kinds)
        for device in np.flatnonzero(view.idle).tolist():
            runnable = [
                i
                for i in self._in_order(view)
                if view.duration(i, device) < np.inf and view.has_room(i, device)
            ]
            if runnable:
                # Kinds in cyclic order from the last one; within a kind, the order of the rule.
                steps = [(int(self._kind[i]) - self._last[device]) % kinds for i in runnable]
                return Decision(runnable[steps.index(min(steps))], device)
        return None


def task_kinds(workload: Workload) -> list[IntArray]:
    """Return, per problem, the kind of each task as a number of the workload's kinds."""
    number = {kind: k for k, kind in enumerate(workload.kinds)}

    def kinds_of(problem: Problem) -> IntArray:
        w = problem.workflow
        return np.array([number[kind] for kind in w.kinds], np.int64)[w.kind]

    return each_problem(workload, kinds_of)


def each_problem(workload: Workload, compute: Callable[[Problem], T]) -> list[T]:
    """Return a value per problem; a problem that jobs share is computed once."""
    known: dict[int, T] = {}
    for problem in workload.problems:
        if id(problem) not in known:
            known[id(problem)] = compute(problem)
    return [known[id(problem)] for problem in workload.problems]


def per_instance(workload: Workload, values: Sequence[NDArray[N]]) -> NDArray[N]:
    """Return (instances,) values of all tasks, from those of each problem."""
    return np.concatenate([values[0][:0], *(values[t] for t in workload.template.tolist())])


def _arrival(problem: Problem) -> FloatArray:
    return np.zeros(problem.n)


def _depth(problem: Problem) -> FloatArray:
    return -problem.workflow.level.astype(float)


def _shortest(problem: Problem) -> FloatArray:
    return problem.work * problem.best_per_work[problem.row]


def _rank(problem: Problem) -> FloatArray:
    return -upward_rank(problem)


RULES: dict[str, tuple[Placement, Callable[[Problem], FloatArray], str]] = {
    "fifo": ("first", _arrival, "Oldest job first, on the first idle device."),
    "depth-first": (
        "first",
        _depth,
        "The task of the highest level first, on the first idle device.",
    ),
    "mru": ("mru", _arrival, "A device runs tasks of the kind it last ran while one is ready."),
    "shortest": (
        "fastest",
        _shortest,
        "The shortest task first, on the idle device that is fastest for it.",
    ),
    "rank-first": (
        "earliest",
        _rank,
        "The highest upward rank first, on the idle device that finishes the task first.",
    ),
    "eft": (
        "eft",
        _arrival,
        "Oldest job first, on the device, busy or not, that finishes the task first.",
    ),
    "rank-eft": (
        "eft",
        _rank,
        "The highest upward rank first, on the device, busy or not, that finishes the task first.",
    ),
}
"""Name -> placement, order (the lowest first) and description."""

for _name, (_placement, _order, _summary) in RULES.items():
    POLICIES.register(_name, family="rules", summary=_summary)(
        partial(RulePolicy, _name, _placement, _order)
    )
