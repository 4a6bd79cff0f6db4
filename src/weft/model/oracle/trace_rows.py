"""The rows of a trace and its batches as the rules read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.oracle.consequences import active_instances
from weft.model.problem import Problem
from weft.model.trace import DONE, Trace
from weft.model.workload import Workload


class TraceRows:
    """The rows of a trace with known numbers, and columns derived from them."""

    def __init__(self, workload: Workload, trace: Trace) -> None:
        known = ~(
            unknown_job(workload, trace)
            | unknown_task(workload, trace)
            | unknown_device(workload, trace)
        )
        self.workload, self.trace = workload, trace
        self.job, self.task, self.device = trace.job[known], trace.task[known], trace.device[known]
        self.decided, self.start = trace.decided[known], trace.start[known]
        self.finish, self.status = trace.finish[known], trace.status[known]
        self.batch, self.copy = trace.batch[known], trace.copy[known]

    def __len__(self) -> int:
        return len(self.task)

    @cached_property
    def instance(self) -> IntArray:
        """The instance of each row."""
        return self.workload.first_instance[self.job] + self.task

    @cached_property
    def active(self) -> BoolArray:
        """Whether each instance is on a branch that is taken."""
        return active_instances(self.workload, self.trace.scenario)

    @cached_property
    def done_at(self) -> FloatArray:
        """(instances,) first finish; inf: never."""
        first = np.full(self.workload.instances, np.inf)
        done = self.status == DONE
        np.minimum.at(first, self.instance[done], self.finish[done])
        return first

    @cached_property
    def job_of(self) -> IntArray:
        """(instances,) the job of each instance."""
        return np.repeat(np.arange(self.workload.jobs), np.diff(self.workload.first_instance))

    @cached_property
    def cancel_at(self) -> FloatArray:
        """(instances,) when each is cancelled with its job; inf: never, or it is done."""
        cancel = np.where(np.isnan(self.trace.job_finish), self.trace.scenario.cancel, np.inf)[
            self.job_of
        ]
        return np.where(self.done_at <= cancel, np.inf, cancel)

    @cached_property
    def kind(self) -> IntArray:
        """Number of each row's kind among the kinds of the workload."""
        names = self.workload.kinds
        kind = np.zeros(len(self), np.int64)
        for rows, problem in self.by_problem():
            number = np.array([names.index(k) for k in problem.workflow.kinds], np.int64)
            kind[rows] = number[problem.workflow.kind[self.task[rows]]]
        return kind

    def by_problem(self) -> Iterator[tuple[IntArray, Problem]]:
        """Yield each problem of the workload with the rows of its jobs."""
        return self.workload.by_problem(self.job)

    def name(self, r: int) -> str:
        """Return a row as messages name it."""
        return self.instance_name(int(self.instance[r]))

    def instance_name(self, i: int) -> str:
        """Return an instance as messages name it."""
        job, task = self.workload.task_of(i)
        return f"task '{self.workload.problem_of(job).workflow.task_name(task)}' of job {job}"

    def place(self, r: int) -> str:
        """Return the device of a row as messages name it."""
        return f"'{self.workload.cluster.names[int(self.device[r])]}'"


@dataclass(frozen=True, eq=False)
class TraceGroups:
    """Executions that ran together: the rows of one batch number."""

    first: IntArray  # (g,) the first row of each group
    of_row: IntArray  # (rows,) the group of each row
    device: IntArray
    decided: FloatArray
    start: FloatArray
    finish: FloatArray  # of the last member
    batch: IntArray

    @classmethod
    def of(cls, rows: TraceRows) -> TraceGroups:
        """Group the rows of a trace by batch."""
        batch, first, of_row = np.unique(rows.batch, return_index=True, return_inverse=True)
        of_row = of_row.reshape(-1)
        finish = np.full(len(first), -np.inf)
        np.maximum.at(finish, of_row, rows.finish)
        return cls(
            first, of_row, rows.device[first], rows.decided[first], rows.start[first], finish, batch
        )


def unknown_job(workload: Workload, trace: Trace) -> BoolArray:
    """Mark rows whose job is not of the workload."""
    return (trace.job < 0) | (trace.job >= workload.jobs)


def unknown_task(workload: Workload, trace: Trace) -> BoolArray:
    """Mark rows whose task is not of their job."""
    sizes = np.diff(workload.first_instance)
    size = sizes[np.where(unknown_job(workload, trace), 0, trace.job)]
    return (trace.task < 0) | (trace.task >= size)


def unknown_device(workload: Workload, trace: Trace) -> BoolArray:
    """Mark rows whose device is not of the cluster."""
    return (trace.device < 0) | (trace.device >= workload.cluster.p)
