"""One workload and its futures: everybody plays the same, and is measured the same way."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.experiments.gpu_cluster.contenders import YARDSTICK_MOVES, Contender, policy
from weft.generators import minimum_path
from weft.model import Problem, Scenario, Schedule, Trace, Workflow, Workload
from weft.model.columns import FloatArray, IntArray, frozen
from weft.model.metrics import sequential_time
from weft.model.trace import DONE
from weft.planners import PLANNERS, plan
from weft.planners.bounds import lower_bound
from weft.policies import simulate
from weft.policies.replanning.policy import ReplanningPolicy
from weft.sim.view import Policy

FIGURES = (
    "makespan",
    "speedup",
    "slr",
    "jct",
    "misses",
    "fairness",
    "energy",
    "utilisation",
    "over_bound",
)
"""What is measured of every play, in this order; see `Evaluator.measure`."""

Figures = dict[str, float]


@dataclass(eq=False)
class Evaluator:
    """A workload, with all that depends on it alone worked out once: plans, paths, bounds."""

    workload: Workload
    stream: bool = False
    _plans: dict[str, list[Schedule]] = dataclasses.field(default_factory=dict)

    @cached_property
    def merged(self) -> Problem:
        """All jobs as one problem, so that a planner can plan them together."""
        return merge(self.workload)

    @cached_property
    def together(self) -> Workload:
        """The merged problem as a workload of one job."""
        return Workload.of(self.merged)

    @cached_property
    def paths(self) -> FloatArray:
        """(jobs,) critical path of the shortest durations of each job."""
        each = np.array([minimum_path(p) for p in self.workload.problems])
        return each[self.workload.template]

    @cached_property
    def sequential(self) -> float:
        """Seconds of all jobs on the best single device."""
        counts = np.bincount(self.workload.template, minlength=len(self.workload.problems))
        return sequential_time(
            [
                (p, np.full(p.n, float(c)))
                for p, c in zip(self.workload.problems, counts, strict=True)
            ]
        )

    @cached_property
    def bound(self) -> float:
        """No schedule without copies is shorter, if costs are as estimated."""
        return lower_bound(self.merged)

    def play(self, who: Contender, future: Scenario) -> Figures | None:
        """Let a contender play a future; None when it does not get to the end."""
        try:
            if who.kind in {"plan", "yardstick"}:
                return self._replay(who, future)
            return self.play_policy(policy(who.maker), future)
        except WeftError:
            return None

    def play_policy(self, decider: Policy, future: Scenario) -> Figures:
        """Let a policy play a future. Where all jobs are there at once the makespan is what counts; those that can aim at it are told."""
        if self.workload.jobs > 1 and not self.stream and isinstance(decider, ReplanningPolicy):
            decider = decider.aimed_at("makespan")
        return self.measure(
            simulate(self.workload, decider, scenario=future), self.workload.first_instance
        )

    def _replay(self, who: Contender, future: Scenario) -> Figures:
        alone = self.stream or who.apart or self.workload.jobs == 1
        if who.name not in self._plans:
            problems = self.workload.problems if alone else (self.merged,)
            self._plans[who.name] = [make_plan(p, who) for p in problems]
        if alone:
            trace = simulate(self.workload, self._plans[who.name], scenario=future)
            return self.measure(trace, self.workload.first_instance)
        trace = simulate(self.together, self._plans[who.name], scenario=_for_one(future))
        return self.measure(trace, np.array([0, self.workload.instances]))

    def measure(self, trace: Trace, first: IntArray) -> Figures:
        """Figures of a trace; `first` numbers the first instance of its jobs, which are ours or all in one.

        makespan: until the last job is done (a copy nobody needs may run on). speedup: over the best single device. slr: mean of
        completion time / critical path. jct: mean completion time. misses: share of deadlines missed. fairness: Jain's index of the jobs'
        slowdowns, 1 when all are slowed alike (Jain, Chiu and Hawe 1984). energy: joules. utilisation: of the devices. over_bound:
        makespan / the proven bound for the estimated costs.
        """
        work = self.workload
        ended = trace.status == DONE
        done = np.full(work.instances, np.inf)
        np.minimum.at(done, (first[trace.job] + trace.task)[ended], trace.finish[ended])
        finish = np.maximum.reduceat(done, work.first_instance[:-1])
        span = float(finish.max() - work.arrival.min())
        time = finish - work.arrival
        slowdown = time / self.paths
        cluster, due = work.cluster, np.isfinite(work.deadline)
        busy = trace.busy
        return {
            "makespan": span,
            "speedup": self.sequential / span,
            "slr": float(slowdown.mean()),
            "jct": float(time.mean()),
            "misses": float((finish > work.deadline)[due].mean()) if due.any() else 0.0,
            "fairness": float(slowdown.sum() ** 2 / (len(slowdown) * (slowdown**2).sum())),
            "energy": float(
                (cluster.power * busy + cluster.idle_power * np.maximum(span - busy, 0.0)).sum()
            ),
            "utilisation": float(busy.mean()) / span,
            "over_bound": np.nan if self.stream else span / self.bound,
        }


def make_plan(problem: Problem, who: Contender) -> Schedule:
    """Plan beforehand; the yardstick makes so many moves, so that its result is the same on any machine."""
    if who.kind == "yardstick":
        return plan(
            problem,
            PLANNERS.create(who.maker, iterations=YARDSTICK_MOVES, threads=1, progress=_silent),
        ).schedule
    return plan(problem, who.maker).schedule


def _silent(share: float, best: float) -> None:
    """No bar for each of many searches."""


def merge(workload: Workload) -> Problem:
    """All jobs of a workload as one problem, instance by instance; arrivals are left aside.

    Examples
    --------
    >>> problem = Problem.from_arrays([[1.0, 2.0], [2.0, 1.0]], [[0, 1]], [3.0])
    >>> merged = merge(Workload.of([problem, problem]))
    >>> merged.n, merged.workflow.src.tolist(), merged.workflow.dst.tolist()
    (4, [0, 2], [1, 3])
    """
    if workload.jobs == 1:
        return workload.problems[int(workload.template[0])]
    problems = [workload.problem_of(j) for j in range(workload.jobs)]
    kinds = workload.kinds
    kind = [
        np.array([kinds.index(k) for k in p.workflow.kinds], np.int64)[p.workflow.kind]
        for p in problems
    ]
    first = workload.first_instance[:-1]
    columns: dict[str, Any] = {
        "work": np.concatenate([p.work for p in problems]),
        "src": np.concatenate([p.workflow.src + f for p, f in zip(problems, first, strict=True)]),
        "dst": np.concatenate([p.workflow.dst + f for p, f in zip(problems, first, strict=True)]),
        "data": np.concatenate([p.workflow.data for p in problems]),
        "kind": np.concatenate(kind),
        "kinds": kinds,
    }
    rows, row = _common_rows(problems)
    workflow = Workflow(name=f"{workload.jobs} jobs", **columns)
    return Problem(workflow, workload.cluster, workflow.work, frozen(row), frozen(rows))


def _common_rows(problems: Sequence[Problem]) -> tuple[FloatArray, IntArray]:
    """Rows of all pace matrices, each once, and the row of every task."""
    rows, member = np.unique(
        np.concatenate([p.pace for p in problems]), axis=0, return_inverse=True
    )
    at = np.cumsum([0, *(len(p.pace) for p in problems)])
    return np.ascontiguousarray(rows), np.concatenate(
        [member.reshape(-1)[a + p.row] for a, p in zip(at[:-1], problems, strict=True)]
    )


def _for_one(future: Scenario) -> Scenario:
    """The same future for all jobs in one: instances and devices keep their numbers."""
    return dataclasses.replace(future, cancel=np.full(1, np.inf))
