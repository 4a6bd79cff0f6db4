"""`Workload`: a stream of jobs, each one of a few problems on one cluster."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import fields
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike

from weft.arguments import refuse, refuse_negative
from weft.errors import InvalidInput
from weft.model.cluster import Cluster
from weft.model.columns import (
    FloatArray,
    IntArray,
    as_floats,
    assign,
    equal,
    floats,
    frozen,
    integers,
    offsets,
)
from weft.model.problem import Problem
from weft.model.variants import refuse_variants
from weft.typed import typed, typed_dataclass


@typed_dataclass(frozen=True, eq=False)
class Workload:
    """Jobs in order of arrival. Job `j` runs `problems[template[j]]`.

    An *instance* is one task of one job; instances are numbered job by job, in order of arrival.

    Examples
    --------
    >>> p = Problem.from_arrays([[1.0]])
    >>> w = Workload.of(p, arrival=[0.0, 5.0])
    >>> w.jobs, w.instances, w.task_of(1)
    (2, 2, (1, 0))
    """

    problems: tuple[Problem, ...]
    template: IntArray
    arrival: FloatArray
    deadline: FloatArray
    priority: FloatArray
    name: str = "workload"

    @classmethod
    @typed
    def of(
        cls,
        problems: Problem | Sequence[Problem],
        *,
        arrival: ArrayLike = 0.0,
        template: ArrayLike | None = None,
        deadline: ArrayLike = np.inf,
        priority: ArrayLike = 0.0,
        name: str | None = None,
    ) -> Workload:
        """Make a workload; jobs are sorted by arrival.

        Without `template`, one problem serves all jobs, or each job has its own.
        """
        problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        if not problems:
            raise InvalidInput("a workload needs at least one problem")
        for problem in problems:
            refuse_variants(problem.workflow)
        jobs = max(
            np.size(arrival), np.size(template) if template is not None else max(1, len(problems))
        )
        if template is None:
            template = np.arange(jobs) if len(problems) > 1 else np.zeros(jobs, np.int64)
        if np.size(arrival) == 1:
            arrival = float(as_floats(arrival, "arrival").flat[0])
        columns = {
            "template": integers(template, "template", shape=(jobs,)),
            "arrival": floats(arrival, "arrival", shape=(jobs,)),
            "deadline": floats(deadline, "deadline", shape=(jobs,)),
            "priority": floats(priority, "priority", shape=(jobs,)),
        }
        order = np.argsort(columns["arrival"], kind="stable")
        made = {key: frozen(np.ascontiguousarray(column[order])) for key, column in columns.items()}
        return cls(problems=problems, name=name or problems[0].name, **made)

    def __post_init__(self) -> None:
        """Refuse jobs with an unknown problem, an invalid arrival, or other machines."""

        def job(j: int) -> str:
            return f"job {j}"

        refuse(
            (self.template < 0) | (self.template >= len(self.problems)),
            self.template,
            "template",
            f"0 to {len(self.problems) - 1}",
            job,
        )
        refuse_negative(self.arrival, "arrival", job)
        refuse(np.isnan(self.deadline), self.deadline, "deadline", "a time", job)
        refuse(~np.isfinite(self.priority), self.priority, "priority", "a finite number", job)
        if (np.diff(self.arrival) < 0).any():
            raise InvalidInput("jobs must be sorted by arrival; Workload.of sorts them")
        refuse_other_machines(self.problems)

    def with_problem(self, job: int, problem: Problem, priority: float) -> Workload:
        """Return the workload with another problem of the same size for one job.

        The job must be the only one of its template. Only the new job is checked, as a service
        replaces one thousand jobs per second.
        """
        known, k = self.problem_of(job), int(self.template[job])
        sizes = [(p.n, len(p.workflow.choices)) for p in (known, problem)]
        if sizes[0] != sizes[1] or problem.cluster is not self.cluster or not isfinite(priority):
            raise InvalidInput(
                f"problem '{problem.name}' cannot replace '{known.name}': it needs the same "
                f"cluster and size, and a finite priority (it is {priority})"
            )
        priorities = self.priority.copy()
        priorities[job] = priority
        made = copy(self)
        for cached in ("kinds", "batch_growth", "batch_limit", "setup"):
            vars(made).pop(cached, None)
        assign(
            made,
            problems=(*self.problems[:k], problem, *self.problems[k + 1 :]),
            priority=frozen(priorities),
        )
        return made

    @property
    def cluster(self) -> Cluster:
        """The cluster all jobs share."""
        return self.problems[0].cluster

    @property
    def jobs(self) -> int:
        """Number of jobs."""
        return len(self.arrival)

    @cached_property
    def first_instance(self) -> IntArray:
        """(jobs + 1,) number of each job's first instance."""
        sizes = np.array([p.n for p in self.problems], np.int64)[self.template]
        return frozen(offsets(sizes))

    @cached_property
    def _first_instances(self) -> list[int]:
        """`first_instance` as a list: `task_of` is called several times per decision."""
        return self.first_instance.tolist()  # type: ignore[no-any-return]  # of whole numbers

    @cached_property
    def first_choice(self) -> IntArray:
        """(jobs + 1,) number of each job's first choice."""
        sizes = np.array([len(p.workflow.choices) for p in self.problems], np.int64)[self.template]
        return frozen(offsets(sizes))

    @property
    def instances(self) -> int:
        """Number of task instances over all jobs."""
        return int(self.first_instance[-1])

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Names of the task kinds over all problems, in order of first appearance."""
        return tuple(dict.fromkeys(k for p in self.problems for k in p.workflow.kinds))

    @cached_property
    def batch_growth(self) -> FloatArray:
        """(kinds, p, largest batch) seconds of a batch over those of one task."""
        return self.cluster.batch_growth(self.kinds)

    @cached_property
    def batch_limit(self) -> IntArray:
        """(kinds, p) the most tasks of a batch: the number with the least time per task."""
        if not self.cluster.batch_curve:
            return frozen(np.tile(self.cluster.batch, (len(self.kinds), 1)))
        most = self.batch_growth.shape[2]
        per_task = self.batch_growth / np.arange(1.0, most + 1.0)
        beyond = np.arange(most)[None, None, :] >= self.cluster.batch[None, :, None]
        return frozen(np.where(beyond, np.inf, per_task).argmin(axis=2) + 1)

    @cached_property
    def setup(self) -> FloatArray:
        """(kinds, p, 3) set-up of each kind on each device, see `Cluster.setup_of`."""
        return self.cluster.setup_of(self.kinds)

    def problem_of(self, job: int) -> Problem:
        """Return the problem that a job runs."""
        return self.problems[int(self.template[job])]

    def by_problem(self, job: IntArray) -> Iterator[tuple[IntArray, Problem]]:
        """Yield each problem with the positions in `job` of the jobs that run it."""
        template = self.template[job]
        for t, problem in enumerate(self.problems):
            yield np.flatnonzero(template == t), problem

    def task_of(self, instance: int) -> tuple[int, int]:
        """Return (job, task) of an instance."""
        job = bisect_right(self._first_instances, instance) - 1
        return job, instance - self._first_instances[job]


OF_PROBLEMS = frozenset({"name", "speed", "throughput"})
"""Fields of clusters that may differ, as the costs of each problem contain the speeds."""


def refuse_other_machines(problems: Sequence[Problem]) -> None:
    """Raise `InvalidInput` for a problem on other machines than the first one."""
    first = problems[0].cluster
    for problem in problems[1:]:
        if problem.cluster is not first and (field := _difference(problem.cluster, first)):
            raise InvalidInput(
                f"problem '{problem.name}' is bound to cluster '{problem.cluster.name}', the first "
                f"one to '{first.name}', which differs in {field}; bind all problems to one cluster"
            )


def _difference(one: Cluster, other: Cluster) -> str:
    """Return the first field in which two clusters differ; "": none, except speeds."""
    compared = ("names", *(f.name for f in fields(Cluster) if f.name not in OF_PROBLEMS))
    return next((f for f in compared if not equal(getattr(one, f), getattr(other, f))), "")
