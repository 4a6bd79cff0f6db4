"""Weighted fair sharing: the application with the least usage per share goes next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf

from weft.errors import InvalidInput
from weft.runtime.backends.protocol import Finished
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.service.budgets import Reservations
from weft.sim.device_state import Group
from weft.sim.view import Block, Decision, Policy

TRIES = 16
"""Tasks of a job to try when the device that the policy chooses has no room."""


class Shares:
    """Usage of applications per share; the one with the least goes next.

    An application that returns gets no credit for the time it was idle (start-time fair queueing,
    Goyal, Vin and Cheng, 1996).

    Parameters
    ----------
    shares : application -> its share, 1 by default

    Examples
    --------
    >>> shares = Shares({"big": 2.0})
    >>> shares.join("big"), shares.join("small")
    (None, None)
    >>> shares.charge("big", 3.0), shares.charge("small", 3.0)
    (None, None)
    >>> shares.used("big"), shares.used("small")
    (1.5, 3.0)
    """

    def __init__(self, shares: Mapping[str, float] | None = None) -> None:
        for name, share in (shares or {}).items():
            if not 0 < share < float("inf"):
                raise InvalidInput(
                    f"the share of '{name}' is {share}; it must be finite and above zero"
                )
        self.of = dict(shares or {})
        self._used: dict[str, float] = {}
        self._clock = 0.0
        """Usage of the application that was served last."""

    def used(self, application: str) -> float:
        """Return the usage of an application per share."""
        return self._used.get(application, 0.0)

    def join(self, application: str) -> None:
        """Add an application that was idle."""
        self._used[application] = max(self.used(application), self._clock)

    def charge(self, application: str, cost: float) -> None:
        """Charge a cost to an application."""
        self._clock = max(self._clock, self.used(application))
        self.correct(application, cost)

    def correct(self, application: str, cost: float) -> None:
        """Correct the cost of an application by a difference."""
        self._used[application] = self.used(application) + cost / self.of.get(application, 1.0)


class FairShareDecider(Observer):
    """Decides by job priority, then by least usage per share; the policy decides within a job.

    The policy sees the ready tasks of one job only. Devices get few groups ahead of time, so that
    later jobs do not wait behind all earlier ones; a job whose budget is used up does not block
    others.

    Parameters
    ----------
    ahead : groups a device may hold, including the running one
    reservations : budgets of applications; None: there are none
    """

    def __init__(
        self,
        policy: Policy,
        shares: Shares,
        *,
        ahead: int,
        reservations: Reservations | None = None,
    ) -> None:
        self.policy = policy
        self.name = policy.name
        self.shares = shares
        self.ahead = ahead
        self.reservations = reservations
        self.applications: list[str] = []
        """Job -> application."""
        self.numbers: list[int] = []
        """Job -> number of its submission: the oldest goes first among equals."""
        self.wake = inf
        """Time of the next budget replenishment that matters."""
        self._charged: dict[int, float] = {}
        """Instance -> seconds charged when it was committed."""

    def begin(self, life: LiveLifecycle) -> None:
        """Give the workload to the policy."""
        self._known = life.workload
        self.policy.begin(life.workload)

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """Do nothing: the view shows it."""

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """Do nothing: the next decision restarts the policy if devices or jobs changed."""

    def join(self, job: int, application: str, number: int, instances: Iterable[int]) -> None:
        """Set application and submission of a job: a new one, or in the place of an ended one."""
        self.applications[job : job + 1] = [application]
        self.numbers[job : job + 1] = [number]
        for i in instances:
            self._charged.pop(i, None)

    def decide(self, life: LiveLifecycle, now: float) -> Decision | Block | None:
        """Ask the policy about one job after the other until it finds room."""
        self.wake = inf
        room = [
            d
            for d, m in enumerate(life.machines)
            if m.pace < inf and len(m.queue) + (m.running is not None) < self.ahead
        ]
        if not room:
            return None
        if life.workload is not self._known:
            self.begin(life)
        for job, ready in self._in_turn(life):
            decision = self._of_job(life, now, job, ready, room)
            if decision is not None:
                return decision
        return None

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Correct the charged seconds by the measured ones."""
        for i in group.members:
            charged = self._charged.pop(i, None)
            if charged is not None:
                self.shares.correct(
                    self.applications[life.place[i][0]], event.finish - event.start - charged
                )

    def _in_turn(self, life: LiveLifecycle) -> list[tuple[int, list[int]]]:
        """Return (job, its ready instances), the next job first."""
        ready: dict[int, list[int]] = {}
        for i in life.ready:
            ready.setdefault(life.place[i][0], []).append(i)
        urgency = life.workload.priority.tolist()
        turns = [
            (-urgency[job], self.shares.used(self.applications[job]), self.numbers[job], job)
            for job in ready
        ]
        return [(job, ready[job]) for *_, job in sorted(turns)]

    def _of_job(
        self, life: LiveLifecycle, now: float, job: int, ready: list[int], room: list[int]
    ) -> Decision | Block | None:
        for _ in range(min(TRIES, len(ready))):
            decision = self.policy.decide(life.view(now, ready))
            if not isinstance(decision, Decision) or int(decision.instance) not in ready:
                return decision  # it waits, or is invalid and will be replaced
            instance, device = int(decision.instance), int(decision.device)
            if device in room or not 0 <= device < len(life.machines):
                return decision if self._affords(life, job, instance, device, now) else None
            ready.remove(instance)
        return None

    def _affords(
        self, life: LiveLifecycle, job: int, instance: int, device: int, now: float
    ) -> bool:
        """Charge the application if its budget allows the task; return whether it does."""
        if life.refusal(instance, device) is not None:
            return True  # invalid: `FallbackDecider` refuses it
        seconds = life.expected([instance], device)
        again = None if self.reservations is None else self.reservations.affords(job, seconds, now)
        if again is not None:
            self.wake = min(self.wake, again)
            return False
        if instance not in self._charged:
            self._charged[instance] = seconds
            self.shares.charge(self.applications[job], seconds)
        return True
