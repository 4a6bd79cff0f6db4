"""Weighted fair sharing: the application with the least usage per share goes next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop
from itertools import islice
from math import inf

from weft.errors import InvalidInput
from weft.policies import RulePolicy
from weft.runtime.backends.protocol import Finished
from weft.runtime.deciders.rules import RuleWithinJob
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.service.budgets import Reservations
from weft.sim.device_state import Group
from weft.sim.view import Block, Decision, Policy

MOST_AHEAD = 16
"""Groups of small tasks that a device may hold at once."""

SHORT = 0.05
"""Seconds that those groups may take together, so that what is urgent does not wait for long."""

LEAD = 0.02
"""Seconds per share by which an application may lead others that wait, in tasks sent ahead."""

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
        self.usage: dict[str, float] = {}
        """Application -> its usage per share."""
        self._clock = 0.0
        """Usage of the application that was served last."""

    def used(self, application: str) -> float:
        """Return the usage of an application per share."""
        return self.usage.get(application, 0.0)

    def join(self, application: str) -> None:
        """Add an application that was idle."""
        self.usage[application] = max(self.used(application), self._clock)

    def charge(self, application: str, cost: float) -> None:
        """Charge a cost to an application."""
        self._clock = max(self._clock, self.used(application))
        self.correct(application, cost)

    def correct(self, application: str, cost: float) -> None:
        """Correct the cost of an application by a difference."""
        self.usage[application] = self.used(application) + cost / self.of.get(application, 1.0)


class FairShareDecider(Observer):
    """Decider by job priority, then by least usage per share.

    The policy decides within a job: it sees the ready tasks of one job only. Devices get few groups
    ahead of time, so that later jobs do not wait behind all earlier ones; a job whose budget is
    used up does not block others.

    Parameters
    ----------
    ahead : groups a device may hold, including the running one; a device that finished k groups
        at once may hold k - 1 more, so that small tasks do not leave it idle, as long as all that
        it holds takes less than `SHORT`
    reservations : budgets of applications; None: there are none
    backlogged : names the applications with submissions that still wait; where one of them has used
        less, others get no tasks ahead of time
    """

    def __init__(
        self,
        policy: Policy,
        shares: Shares,
        *,
        ahead: int,
        reservations: Reservations | None = None,
        backlogged: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.policy = policy
        self.name = policy.name
        self.shares = shares
        self.ahead = ahead
        self._most = max(ahead, MOST_AHEAD) if ahead > 1 else 1
        self.reservations = reservations
        self.backlogged = backlogged
        self._rule: RuleWithinJob | None = None
        if type(policy) is RulePolicy and policy.placement != "mru":
            self._rule = RuleWithinJob(policy)  # the same decisions, faster
        self.applications: list[str] = []
        """Job -> application."""
        self.numbers: list[int] = []
        """Job -> number of its submission: the oldest goes first among equals."""
        self.wake = inf
        """Time of the next budget replenishment that matters."""
        self._at_once: dict[int, int] = {}
        """Device -> groups that it finished between two rounds of decisions."""
        self._finished: dict[int, int] = {}
        """Device -> groups that it finished since the last decision."""
        self._charged: dict[int, float] = {}
        """Instance -> seconds charged when it was committed."""

    def begin(self, life: LiveLifecycle) -> None:
        """Give the workload to the policy."""
        self._known = life.workload
        if self._rule is None:
            self.policy.begin(life.workload)

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """Do nothing: the view shows it."""

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """Do nothing: the next decision restarts the policy if devices or jobs changed."""

    def join(self, job: int, application: str, number: int, instances: Iterable[int]) -> None:
        """Set application and submission of a job, new or in the place of an ended one."""
        self.applications[job : job + 1] = [application]
        self.numbers[job : job + 1] = [number]
        for i in instances:
            self._charged.pop(i, None)

    def decide(self, life: LiveLifecycle, now: float) -> Decision | Block | None:
        """Ask the policy about one job after the other until it finds room."""
        self.wake = inf
        self._at_once |= self._finished
        self._finished.clear()
        urgency = life.workload.priority.tolist()
        lowest = min(urgency)
        everywhere = self._with_room(life)
        _, any_room = everywhere
        if not any_room and lowest == max(urgency):
            return None
        if life.workload is not self._known:
            self.begin(life)
        most = min(map(self.shares.used, self.backlogged()), default=inf) + LEAD
        for job, ready in self._in_turn(life, urgency):
            urgent = urgency[job] > lowest
            near, room = self._with_room(life, urgency, urgency[job]) if urgent else everywhere
            places = room if self.shares.used(self.applications[job]) <= most else near
            decision = self._of_job(life, now, job, ready, places) if places else None
            if decision is not None:
                return decision
        return None

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Count the end, and correct the charged seconds by the measured ones."""
        self._finished[group.device] = self._finished.get(group.device, 0) + 1
        for i in group.members:
            charged = self._charged.pop(i, None)
            if charged is not None:
                self.shares.correct(
                    self.applications[life.place[i][0]], event.finish - event.start - charged
                )

    def _with_room(
        self, life: LiveLifecycle, urgency: list[float] | None = None, least: float = -inf
    ) -> tuple[list[int], list[int]]:
        """Return the devices with fewer groups than `ahead`, and all that may have more.

        With the `urgency` of jobs, groups below the least one do not count: what is urgent never
        waits for room while others get it.
        """
        near, room = [], []
        for d, machine in enumerate(life.machines):
            if machine.slowdown == inf:
                continue
            groups = [*filter(None, [machine.running]), *machine.queue]
            if urgency is not None:
                groups = [g for g in groups if urgency[life.place[g.members[0]][0]] >= least]
            if len(groups) < self.ahead:
                near.append(d)
                room.append(d)
            elif len(groups) < self._may_hold(d) and (
                sum(life.expected(group.members, d) for group in groups) < SHORT
            ):
                room.append(d)
        return near, room

    def _may_hold(self, device: int) -> int:
        return min(self.ahead - 1 + self._at_once.get(device, 1), self._most)

    def _in_turn(
        self, life: LiveLifecycle, urgency: list[float]
    ) -> Iterator[tuple[int, list[int]]]:
        """Yield (job, its ready instances), the next job first."""
        ready: dict[int, list[int]] = {}
        for i in life.ready:
            ready.setdefault(life.place[i][0], []).append(i)
        used = self.shares.usage
        turns = [
            (-urgency[job], used.get(self.applications[job], 0.0), self.numbers[job], job)
            for job in ready
        ]
        heapify(turns)  # the first one mostly finds room
        while turns:
            job = heappop(turns)[3]
            yield job, ready[job]

    def _of_job(
        self, life: LiveLifecycle, now: float, job: int, ready: list[int], room: list[int]
    ) -> Decision | Block | None:
        offers = self._rule.decisions(life, ready, now) if self._rule else None
        for decision in islice(offers or self._asked(life, now, ready), TRIES):
            if not isinstance(decision, Decision) or int(decision.instance) not in ready:
                return decision  # it waits, or is invalid and will be replaced
            instance, device = int(decision.instance), int(decision.device)
            if device in room or not 0 <= device < len(life.machines):
                return decision if self._affords(life, job, instance, device, now) else None
        return None

    def _asked(
        self, life: LiveLifecycle, now: float, ready: list[int]
    ) -> Iterator[Decision | Block | None]:
        """Yield decisions of the policy, each time without the instances it chose before."""
        while ready:
            decision = self.policy.decide(life.view(now, ready))
            yield decision
            if isinstance(decision, Decision):
                ready.remove(int(decision.instance))

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
