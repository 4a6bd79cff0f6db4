"""Retries and timeouts of tasks, and the task to blame for a lost device."""

from __future__ import annotations

from math import inf

from weft.model import Workflow
from weft.runtime.backends.protocol import DeviceLost, Fault
from weft.runtime.options import RunOptions
from weft.sim.device_state import Group


class Retries:
    """Failed attempts of each instance, and the seconds it may run.

    Examples
    --------
    >>> retries = Retries(RunOptions(retries=1))
    >>> retries.next_attempt(0, 5.0), retries.next_attempt(0, 6.0)  # one retry, after 0.1 s
    (5.1, None)
    """

    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.held: dict[int, float] = {}
        """Instance -> time of its next attempt."""
        self.timed = options.timeout is not None
        self._limits: list[float] = []
        self._attempts: dict[int, int] = {}
        self._crashes: dict[int, int] = {}

    def begin(self, rows: range, workflow: Workflow) -> None:
        """Set the instances of a job to no attempts, and set their time limits."""
        for table in (self._attempts, self._crashes):
            for i in rows if table else ():
                table.pop(i, None)
        if self.timed:
            limits = [self.options.limit(workflow, task) for task in range(workflow.n)]
            self._limits[rows.start : rows.stop] = limits

    def next_attempt(self, instance: int, now: float, *, final: bool = False) -> float | None:
        """Count a failed attempt; return the time of the next one, None to give up."""
        if final:
            return None  # crashes of its process are counted separately
        attempts = self._attempts[instance] = self._attempts.get(instance, 0) + 1
        if attempts > self.options.retries:
            return None
        return now + self.options.backoff * 2.0 ** (attempts - 1)

    def fault_of_loss(
        self, instance: int, event: DeviceLost, *, overdue: bool, ended_by_driver: bool
    ) -> tuple[Fault, str] | None:
        """Return the fault if an instance is to blame for a loss; None: it runs again.

        `overdue`: the driver ended the device because the instance ran too long; `ended_by_driver`:
        to cancel another order.
        """
        if overdue:
            return "timeout", f"it ran longer than its limit of {self.limit(instance):g} s"
        if ended_by_driver:
            return None
        if event.fault == "exited":
            return "exited", event.text
        crashes = self._crashes[instance] = self._crashes.get(instance, 0) + 1
        if crashes < self.options.crashes:
            return None
        return "killed", f"{event.text}, {crashes} times under this task"

    def attempts(self, instance: int) -> int:
        """Return how often an instance ran."""
        return self._attempts.get(instance, 0) + self._crashes.get(instance, 0)

    def limit(self, instance: int) -> float:
        """Return the seconds an instance may run."""
        return self._limits[instance] if self.timed else inf

    def deadline(self, group: Group) -> float:
        """Return the time by which a running group must end."""
        return group.start + max(self.limit(i) for i in group.members)

    def released(self, now: float) -> list[int]:
        """Remove and return the held instances whose next attempt is due."""
        due = [i for i, at in self.held.items() if at <= now]
        for i in due:
            del self.held[i]
        return due
