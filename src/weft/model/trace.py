"""`Trace`: a simulated or real execution, a row per task run and an entry per job."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from weft.display import Displayed
from weft.model.columns import BoolArray, FloatArray, IntArray, frozen
from weft.model.network.transfers import Transfers
from weft.model.scenario import Scenario
from weft.model.workload import Workload

DONE, LOST, CANCELLED = 0, 1, 2
STATUS = ("done", "lost", "cancelled")
"""How an execution ended: finished, cut off by a device failure, or cancelled with its job."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TraceColumns:
    """Columns of executions; `Trace` describes them."""

    job: IntArray
    task: IntArray
    device: IntArray
    decided: FloatArray
    start: FloatArray
    finish: FloatArray
    status: IntArray
    copy: BoolArray


@dataclass(frozen=True, eq=False)
class Trace(TraceColumns, Displayed):
    """Executions in order of (start, device, job, task), and when each job ended.

    Attributes
    ----------
    job, task, device : (x,) job, task and device of each execution
    decided, start, finish : (x,) when it was committed to the device, began and ended
    status : (x,) DONE, LOST or CANCELLED
    batch : (x,) executions with the same number ran together
    copy : (x,) True for a duplicate of a task that is done elsewhere too
    job_finish : (jobs,) when the last task of the job ended; NaN when it never did
    eager : data starts to move when it is produced (True) or when its consumer is committed (False)
    measured : times were reported by the devices of a run; they do not follow from the scenario
    transfers : when data moved between the nodes of a network; None without one
    """

    workload: Workload
    scenario: Scenario
    batch: IntArray
    job_finish: FloatArray
    eager: bool = True
    policy: str = ""
    measured: bool = False
    transfers: Transfers | None = None

    def __post_init__(self) -> None:
        """Sort the rows, so that the same events give the same bytes."""
        order = np.lexsort((self.task, self.job, self.device, self.start))
        for key in self.columns():
            object.__setattr__(self, key, frozen(np.ascontiguousarray(getattr(self, key)[order])))

    @staticmethod
    def columns() -> tuple[str, ...]:
        """Return the names of the execution columns."""
        return ("job", "task", "device", "decided", "start", "finish", "status", "batch", "copy")

    def __len__(self) -> int:
        return len(self.task)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the execution columns by name."""
        return {key: getattr(self, key).copy() for key in self.columns()}

    def named(self, policy: str) -> Trace:
        """Return the same trace under another policy name."""
        return replace(self, policy=policy)

    @cached_property
    def completed(self) -> BoolArray:
        """(jobs,) whether the job came to its end."""
        return frozen(np.isfinite(self.job_finish))

    @cached_property
    def job_completion(self) -> FloatArray:
        """(jobs,) job completion time: end minus arrival; NaN for jobs that did not end."""
        return frozen(self.job_finish - self.workload.arrival)

    @property
    def jct(self) -> np.float64:
        """Mean job completion time over the jobs that ended."""
        done = self.job_completion[self.completed]
        return np.float64(done.mean()) if len(done) else np.float64(np.nan)

    @property
    def makespan(self) -> float:
        """From the first arrival to the last finish."""
        if not len(self):
            return 0.0
        return float(self.finish.max() - self.workload.arrival.min())

    @cached_property
    def busy(self) -> FloatArray:
        """(p,) seconds each device was running something; a batch counts once."""
        _, first, group = np.unique(self.batch, return_index=True, return_inverse=True)
        length = np.zeros(len(first))
        # One member of a batch may be cancelled before the others end.
        np.maximum.at(length, group.reshape(-1), self.finish - self.start)
        return frozen(
            np.bincount(self.device[first], weights=length, minlength=self.workload.cluster.p)
        )

    @property
    def energy(self) -> float:
        """Joules from the first arrival to the last finish."""
        return self.workload.cluster.energy(self.busy, self.makespan)

    @property
    def cost(self) -> float:
        """Money for the rent of all devices from the first arrival to the last finish."""
        return self.workload.cluster.rent(self.makespan)

    @property
    def utilisation(self) -> float:
        """Share of the makespan that devices were busy, over all devices."""
        span = self.makespan
        return float(self.busy.mean() / span) if span > 0 else 0.0


def beside_originals(
    instance: IntArray, status: IntArray, device: IntArray, finish: FloatArray, copy: BoolArray
) -> BoolArray:
    """Return the marks of copies, without those that took the place of an original.

    The first end of a task that only copies finished is no copy. A replayed job is over when each
    task has ended once, even if only a copy ended: the original that a plan schedules later then
    never runs, and the copy takes its place.

    Examples
    --------
    >>> task, done, on, ends = np.array([0, 0, 1, 1]), np.zeros(4, int), np.arange(4), np.ones(4)
    >>> beside_originals(task, done, on, ends, np.array([False, True, True, True])).tolist()
    [False, True, False, True]
    """
    if not copy.any():
        return copy
    rows = np.flatnonzero(status == DONE)
    rows = rows[np.lexsort((device[rows], finish[rows], copy[rows], instance[rows]))]
    first = rows[np.diff(instance[rows], prepend=-1) != 0]
    copy = copy.copy()
    copy[first] = False
    return copy
