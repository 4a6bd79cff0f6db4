"""Rules for jobs with deadlines and priorities: whose task goes first.

`edf`, `least-slack` and `priority-first` have an order that does not change with time, so they run
inside the compiled kernel. `critical-ratio` and `las` sort the ready tasks at every decision. All
of them use the idle device that finishes the task first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from weft.model import Problem, Workload
from weft.model.columns import FloatArray, IntArray
from weft.policies.policy import POLICIES
from weft.policies.rules import RulePolicy, each_problem, per_instance
from weft.sim.rule import Rule
from weft.sim.view import Decision, View
from weft.typed import typed_class, typed_dataclass

FAMILY = "service levels"


def shortest_rest(problem: Problem) -> FloatArray:
    """Return (n,) least seconds from the start of each task to the workflow's end.

    Each task takes its shortest duration, nothing moves, and the longest branch is taken.

    Examples
    --------
    >>> shortest_rest(Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]])).tolist()
    [4.0, 3.0]
    """
    w, rest = problem.workflow, problem.work * problem.best_per_work[problem.row]
    for u in w.order[::-1].tolist():
        rest[u] += rest[w.children(u)].max(initial=0.0)
    return np.asarray(rest)


def _job_of(workload: Workload) -> IntArray:
    return np.repeat(np.arange(workload.jobs), np.diff(workload.first_instance))


def _places(*columns: FloatArray) -> FloatArray:
    """Return the place of each row, sorted by the first column, then by the next ones."""
    order = np.lexsort(columns[::-1])
    rows = np.column_stack(columns)[order]
    new = np.concatenate(([False], (rows[1:] != rows[:-1]).any(axis=1)))
    places = np.zeros(len(order))
    places[order] = np.cumsum(new)[: len(order)]
    return places


def by_deadline(workload: Workload) -> FloatArray:
    """Order by deadline, then by priority, the highest first."""
    job = _job_of(workload)
    return _places(workload.deadline[job], -workload.priority[job])


def by_slack(workload: Workload) -> FloatArray:
    """Order by the latest start that can still make the deadline."""
    job = _job_of(workload)
    latest = workload.deadline[job] - per_instance(workload, each_problem(workload, shortest_rest))
    return _places(latest, -workload.priority[job])


def by_priority(workload: Workload) -> FloatArray:
    """Order by priority, the highest first, then by deadline."""
    job = _job_of(workload)
    return _places(-workload.priority[job], workload.deadline[job])


@typed_dataclass(frozen=True, eq=False)
class JobRule(RulePolicy):
    """A rule whose order depends on the jobs, not only on their workflows."""

    order: Callable[[Workload], FloatArray] = by_deadline
    by_job = True

    def rule(self, workload: Workload) -> Rule:
        """Return the rule for the compiled kernel."""
        return Rule(self.name, self.placement, self.order(workload))


@typed_class
class LiveOrder:
    """A rule whose order depends on the time and on what jobs have received."""

    def __init__(self, name: str) -> None:
        self.name = name

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Compute the numbers that stay the same for the workload."""
        self._workload = workload
        self._job = _job_of(workload)
        self._rest = per_instance(workload, each_problem(workload, shortest_rest))

    def decide(self, view: View) -> Decision | None:
        """Take the first task in the present order for which a device is idle."""
        if not view.idle.any():
            return None
        if view.workload is not self._workload:  # jobs came or left
            self.begin(view.workload)
        urgency = self.urgency(view)
        for k in np.lexsort((view.ready, urgency)).tolist():
            instance = int(view.ready[k])
            devices = [
                d
                for d in np.flatnonzero(view.idle).tolist()
                if view.duration(instance, d) < np.inf and view.has_room(instance, d)
            ]
            if devices:
                return Decision(instance, min(devices, key=lambda d: view.finish(instance, d)))
        return None

    def urgency(self, view: View) -> FloatArray:
        """Return (r,) keys of the ready tasks, the lowest first."""
        raise NotImplementedError


@typed_class
class CriticalRatio(LiveOrder):
    """Time left over time needed: the job that runs the greatest risk goes first."""

    def urgency(self, view: View) -> FloatArray:
        """Return time left / time needed; tasks that cannot make it come last."""
        left = view.workload.deadline[self._job[view.ready]] - view.now
        needed = np.maximum(self._rest[view.ready], 1e-12)
        late = left < needed
        with np.errstate(invalid="ignore"):
            ratio = np.where(np.isinf(left), np.inf, left / needed)
        most = ratio[np.isfinite(ratio)].max(initial=1.0)
        ratio[np.isinf(ratio)] = 2.0 * most
        return np.where(late, 4.0 * most - ratio, ratio)


@typed_class
class LeastAttainedService(LiveOrder):
    """The job with the least device time goes first; durations are not needed."""

    def urgency(self, view: View) -> FloatArray:
        """Return the device seconds that the job of each ready task has had."""
        end = np.where(np.isnan(view.finished_at), view.now, view.finished_at)
        had = np.where(np.isnan(view.started_at), 0.0, np.maximum(end - view.started_at, 0.0))
        attained = np.bincount(self._job, weights=had, minlength=view.workload.jobs)
        return np.asarray(attained[self._job[view.ready]])


for _name, _order, _summary in (
    ("edf", by_deadline, "The job with the earliest deadline first."),
    (
        "least-slack",
        by_slack,
        "The task with the least time between now and its latest start that makes the deadline.",
    ),
    (
        "priority-first",
        by_priority,
        "The job of the highest priority first, then the earliest deadline.",
    ),
):
    POLICIES.register(_name, family=FAMILY, summary=_summary)(
        partial(JobRule, _name, "earliest", shortest_rest, order=_order)
    )


@POLICIES.register("critical-ratio", family=FAMILY)
def critical_ratio() -> CriticalRatio:
    """The greatest risk of missing the deadline first: time left over time needed."""
    return CriticalRatio("critical-ratio")


@POLICIES.register("las", family=FAMILY)
def least_attained_service() -> LeastAttainedService:
    """The job that has had the least device time first: no durations are needed."""
    return LeastAttainedService("las")
