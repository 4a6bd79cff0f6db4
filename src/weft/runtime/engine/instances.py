"""Bookkeeping per instance and job: references to results, and timers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from math import inf

import numpy as np

from weft.model import Workflow
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.engine.retries import Retries
from weft.runtime.options import RunOptions


class Instances:
    """References and timers of the instances and jobs of a run.

    Parameters
    ----------
    wanted : instances whose results are returned at the end
    cancels : cancellation time of each job; inf: never

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> problem = Problem.from_arrays([[1.0], [1.0]], [[0, 1]])
    >>> life = LiveLifecycle(Workload.of(problem, arrival=[0.0, 2.0]))
    >>> table = Instances(life, RunOptions(), wanted={1}, cancels=[inf, 3.0])
    >>> table.arrivals(0.0), table.next_timer(), table.arrivals(2.5), table.next_timer()
    ([0], 2.0, [1], 3.0)
    >>> life.inputs[1] = [(0, 0)]
    >>> table.unreferenced([1]), table.needed(0), table.needed(1)
    ([0], False, True)
    """

    def __init__(
        self,
        life: LiveLifecycle,
        options: RunOptions,
        *,
        wanted: Iterable[int] = (),
        cancels: Sequence[float] | None = None,
    ) -> None:
        self.life = life
        self.retries = Retries(options)
        self.wanted: set[int] = set()
        self.cancels: list[float] = []
        self._readers: list[int] = []
        """Instance -> tasks that have yet to read its result."""
        self._counts: dict[int, tuple[Workflow, list[int]]] = {}
        """Template -> its workflow and the tasks that read each of its results."""
        self._arrivals: deque[tuple[float, int]] = deque()
        self.extend(range(life.workload.jobs), wanted)
        if cancels is not None:
            self.cancels = list(cancels)
        self._cancelling = [job for job, at in enumerate(self.cancels) if at < inf]

    def extend(self, jobs: Iterable[int], wanted: Iterable[int] = ()) -> None:
        """Set the rows of jobs, which are new or take the places of ended ones."""
        workload = self.life.workload
        for job in jobs:
            template, rows = int(workload.template[job]), self.life.instances(job)
            w = workload.problem_of(job).workflow
            if template not in self._counts or self._counts[template][0] is not w:
                self._counts[template] = (w, _reader_counts(w))
            self._readers[rows.start : rows.stop] = self._counts[template][1]
            self.cancels[job : job + 1] = [inf]
            self.retries.begin(rows, w)
            self.wanted.difference_update(rows)
        self._arrivals.extend(sorted((float(workload.arrival[job]), job) for job in jobs))
        self.wanted.update(wanted)

    # -- result references --------------------------------------------------

    def needed(self, instance: int) -> bool:
        """Return whether a result will be read again."""
        return self._readers[instance] > 0 or instance in self.wanted

    def unreferenced(self, members: Sequence[int]) -> list[int]:
        """Count the inputs of a finished group as read; return the results to drop.

        In the replay of a schedule there are none: its copies may read an input again.
        """
        dropped: list[int] = []
        if self.life.planned:
            return dropped
        for i in members:
            for parent, _ in self.life.inputs[i]:
                self._readers[parent] -= 1
                if not self._readers[parent] and parent not in self.wanted:
                    dropped.append(parent)
            if not self.life.modelled:  # without copies, no task reads the inputs again
                self.life.inputs[i] = ()
        return dropped

    # -- timers of jobs -----------------------------------------------------

    def next_timer(self) -> float:
        """Return the time of the next arrival or cancellation; inf: none."""
        while self._arrivals and self.life.ended(self._arrivals[0][1]):
            self._arrivals.popleft()  # cancelled before it arrived
        due = self._arrivals[0][0] if self._arrivals else inf
        if not self._cancelling:
            return due
        return min((due, *(self.cancels[j] for j in self._cancelling if not self.life.ended(j))))

    def arrivals(self, now: float) -> list[int]:
        """Remove and return the jobs that have arrived by now."""
        due = []
        while self._arrivals and self._arrivals[0][0] <= now:
            due.append(self._arrivals.popleft()[1])
        return [job for job in sorted(due) if not self.life.ended(job)]

    def cancellations(self, now: float) -> list[int]:
        """Return the jobs to cancel by now."""
        if self._cancelling:
            self._cancelling = [job for job in self._cancelling if not self.life.ended(job)]
        return [job for job in self._cancelling if self.cancels[job] <= now]


def _reader_counts(workflow: Workflow) -> list[int]:
    """Count the tasks that read each result; parallel edges count once.

    Parallel edges are neighbours in the order of edges.
    """
    src, dst = workflow.src, workflow.dst
    new = np.ones(len(src), bool)
    new[1:] = (np.diff(src) != 0) | (np.diff(dst) != 0)
    found: list[int] = np.bincount(src[new], minlength=workflow.n).tolist()
    return found
