"""Who decides in a run: a policy at every event, or a schedule that is carried out as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from weft.errors import InvalidInput
from weft.model import Schedule, Workload
from weft.policies import POLICIES, RulePolicy
from weft.runtime.deciders.rules import RuleDecider
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.kernel.tables import replay_order
from weft.sim.view import Block, Decision, Policy


class Decider(Protocol):
    """Decides what runs where, one decision at a time."""

    @property
    def name(self) -> str:
        """What it is called in traces and warnings."""
        ...

    def begin(self, life: LiveLifecycle) -> None:
        """A run begins."""
        ...

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """A job is here."""
        ...

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """Devices came or went, a task was lost, or estimates are new."""
        ...

    def decide(self, life: LiveLifecycle, now: float) -> Decision | Block | None:
        """One decision, a block, or None to wait for the next event."""
        ...


class PolicyDecider:
    """Adaptive: a policy is asked at every event."""

    def __init__(self, policy: Policy, *, seed: int = 0) -> None:
        self.policy = policy
        self.seed = seed
        self.name = policy.name

    def begin(self, life: LiveLifecycle) -> None:
        """Tell the policy the workload."""
        self._known = (life.workload.cluster.p, life.workload.jobs)
        self.policy.begin(life.workload, seed=self.seed)

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """The view shows it."""

    def changed(self, life: LiveLifecycle, now: float) -> None:  # noqa: ARG002
        """The view shows it; with more devices or jobs than before, the policy begins anew."""
        if (life.workload.cluster.p, life.workload.jobs) != self._known:
            self.begin(life)

    def decide(self, life: LiveLifecycle, now: float) -> Decision | Block | None:
        """Ask the policy."""
        return self.policy.decide(life.view(now))


class ReplayDecider:
    """A schedule for each problem, carried out as it is: devices, order and copies. A lost device is waited for."""

    name = "replay"

    def __init__(self, schedules: Schedule | Sequence[Schedule]) -> None:
        self.schedules = [schedules] if isinstance(schedules, Schedule) else list(schedules)

    def begin(self, life: LiveLifecycle) -> None:
        """Put the rows of each schedule in the order of commitment; refuse what does not fit."""
        count = len(life.workload.problems)
        if len(self.schedules) != count:
            raise InvalidInput(
                f"{len(self.schedules)} schedules are given for the {count} problems of '{life.workload.name}'"
            )
        self._rows = [
            _rows(life.workload, k, schedule) for k, schedule in enumerate(self.schedules)
        ]

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """Commit every row."""
        first = int(life.workload.first_instance[job])
        for task, device, copy in self._rows[int(life.workload.template[job])]:
            life.commit([first + task], device, now, copy=copy)

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """A schedule is a schedule."""

    def decide(self, life: LiveLifecycle, now: float) -> None:  # noqa: ARG002
        """All was decided beforehand."""
        return


def adaptive(policy: Policy, *, seed: int = 0) -> RuleDecider | PolicyDecider:
    """A policy as a guide; rules have one of their own, which decides the same more quickly."""
    return RuleDecider(policy) if type(policy) is RulePolicy else PolicyDecider(policy, seed=seed)


def greedy() -> RuleDecider | PolicyDecider:
    """What takes over when a policy fails: earliest finish time."""
    return adaptive(POLICIES.create("eft"))


def batch_keys(policy: object, workload: Workload) -> list[float] | None:
    """The order in which instances join a batch: a rule's own, none otherwise."""
    return policy.rule(workload).keys.tolist() if isinstance(policy, RulePolicy) else None


def _rows(workload: Workload, number: int, schedule: Schedule) -> list[tuple[int, int, bool]]:
    """(task, device, copy) in the order of commitment."""
    problem = workload.problems[number]
    for task, device in zip(schedule.task.tolist(), schedule.device.tolist(), strict=True):
        if not (0 <= task < problem.n and 0 <= device < problem.p):
            raise InvalidInput(
                f"the schedule of '{problem.name}' puts task {task} on device {device}; "
                "one of them does not exist"
            )
    order = replay_order(problem, schedule).tolist()
    return [(int(schedule.task[r]), int(schedule.device[r]), bool(schedule.copy[r])) for r in order]
