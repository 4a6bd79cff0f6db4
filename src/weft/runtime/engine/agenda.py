"""What is due in a run whatever its devices do: jobs that arrive, jobs that are called off."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf

from weft.model import Workload
from weft.runtime.engine.live_lifecycle import LiveLifecycle


class JobTimers:
    """When jobs come and go.

    Parameters
    ----------
    cancels : when each job is called off; inf: never

    Examples
    --------
    >>> from weft.model import Problem, Workload
    >>> life = LiveLifecycle(Workload.of(Problem.from_arrays([[1.0]]), arrival=[0.0, 2.0]))
    >>> agenda = JobTimers(life, [inf, 3.0])
    >>> agenda.arrivals(0.0), agenda.next(), agenda.arrivals(2.5), agenda.next()
    ([0], 2.0, [1], 3.0)
    """

    def __init__(self, life: LiveLifecycle, cancels: Sequence[float]) -> None:
        self.life = life
        self.cancels = list(cancels)
        self._coming = deque(
            sorted((at, job) for job, at in enumerate(life.workload.arrival.tolist()))
        )
        self._doomed = [job for job, at in enumerate(self.cancels) if at < inf]

    def extend(self, workload: Workload) -> None:
        """More jobs come, behind those there are."""
        new = range(len(self.cancels), workload.jobs)
        self.cancels.extend(inf for _ in new)
        self._coming.extend((float(workload.arrival[job]), job) for job in new)

    def next(self) -> float:
        """When something is due; inf: never."""
        while self._coming and self.life.ended(self._coming[0][1]):
            self._coming.popleft()  # called off before it came
        due = self._coming[0][0] if self._coming else inf
        return (
            min((due, *(self.cancels[j] for j in self._doomed if not self.life.ended(j))))
            if self._doomed
            else due
        )

    def arrivals(self, now: float) -> list[int]:
        """Jobs that are here by now, and were not told before, by number."""
        due = []
        while self._coming and self._coming[0][0] <= now:
            due.append(self._coming.popleft()[1])
        return [job for job in sorted(due) if not self.life.ended(job)]

    def cancellations(self, now: float) -> list[int]:
        """Jobs to be called off by now."""
        if self._doomed:
            self._doomed = [job for job in self._doomed if not self.life.ended(job)]
        return [job for job in self._doomed if self.cancels[job] <= now]
