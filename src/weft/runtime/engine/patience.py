"""How much a run puts up with from each task: attempts, crashes under it, back-off, and how long it may run."""

from __future__ import annotations

from math import inf

from weft.runtime.backends.protocol import DeviceLost, Fault
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.options import RunOptions
from weft.sim.device_state import Group


class RetryTracker:
    """Counts what went wrong with each instance, and holds it against the terms of the run."""

    def __init__(self, terms: RunOptions, life: LiveLifecycle) -> None:
        self.terms = terms
        self.held: dict[int, float] = {}
        """Instance -> when its next attempt is due."""
        self.timed = terms.timeout is not None
        self._limits: list[float] = []
        self._attempts: dict[int, int] = {}
        self._crashes: dict[int, int] = {}
        self.extend(life)

    def extend(self, life: LiveLifecycle) -> None:
        """Look up the limits of instances that are not known yet."""
        if self.timed:
            new = range(len(self._limits), len(life.place))
            self._limits.extend(
                self.terms.limit(life.problem(i).workflow, life.place[i][1]) for i in new
            )

    def failed(self, instance: int, now: float, *, final: bool = False) -> float | None:
        """An attempt failed by its own fault: when the next one is due, None to give up."""
        attempts = self._attempts[instance] = self._attempts.get(instance, 0) + 1
        if final or attempts > self.terms.retries:
            return None
        return now + self.terms.backoff * 2.0 ** (attempts - 1)

    def lost(
        self, instance: int, event: DeviceLost, *, overdue: bool, ours: bool
    ) -> tuple[Fault, str] | None:
        """A device was lost under an instance: what that is to be blamed for; None: it runs again, as if nothing had been.

        `overdue`: because it ran too long; `ours`: because the driver called something off.
        """
        if overdue:
            return "timeout", f"it ran longer than its limit of {self.limit(instance):g} s"
        if ours:
            return None
        if event.fault == "exited":
            return "exited", event.text
        crashes = self._crashes[instance] = self._crashes.get(instance, 0) + 1
        return (
            ("killed", f"{event.text}, {crashes} times under this task")
            if crashes >= self.terms.crashes
            else None
        )

    def attempts(self, instance: int, *, crashes: bool) -> int:
        """How often an instance ran."""
        return self._attempts.get(instance, 0) + (self._crashes.get(instance, 0) if crashes else 0)

    def limit(self, instance: int) -> float:
        """Seconds an instance may run."""
        return self._limits[instance] if self.timed else inf

    def deadline(self, group: Group) -> float:
        """When a group that runs must be done."""
        return group.start + max(self.limit(i) for i in group.members)

    def released(self, now: float) -> list[int]:
        """Instances whose next attempt is due; they are held no more."""
        due = [i for i, at in self.held.items() if at <= now]
        for i in due:
            del self.held[i]
        return due
