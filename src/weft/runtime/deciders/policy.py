"""The decider protocol, and policies as deciders."""

from __future__ import annotations

from typing import Protocol

from weft.model import Workload
from weft.policies import POLICIES, RulePolicy
from weft.runtime.deciders.rules import RuleDecider
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.view import Block, Decision, Policy


class Decider(Protocol):
    """Source of decisions: what runs where, one at a time."""

    @property
    def name(self) -> str:
        """Return the name in traces and warnings."""
        ...

    def begin(self, life: LiveLifecycle) -> None:
        """Prepare for a run."""
        ...

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """Handle the arrival of a job."""
        ...

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """Handle new or lost devices, lost tasks and new estimates."""
        ...

    def decide(self, life: LiveLifecycle, now: float) -> Decision | Block | None:
        """Return a decision, a block, or None to wait for the next event."""
        ...


class PolicyDecider:
    """A policy, asked at every event."""

    def __init__(self, policy: Policy, *, seed: int = 0) -> None:
        self.policy = policy
        self.seed = seed
        self.name = policy.name

    def begin(self, life: LiveLifecycle) -> None:
        """Give the workload to the policy."""
        self._known = (life.workload.cluster.p, life.workload.jobs)
        self.policy.begin(life.workload, seed=self.seed)

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """Do nothing, as the view shows the change."""

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """Restart the policy if there are more devices or jobs than before."""
        if (life.workload.cluster.p, life.workload.jobs) != self._known:
            self.begin(life)

    def decide(self, life: LiveLifecycle, now: float) -> Decision | Block | None:
        """Ask the policy."""
        return self.policy.decide(life.view(now))


def adaptive(policy: Policy, *, seed: int = 0) -> RuleDecider | PolicyDecider:
    """Return the decider of a policy; `RuleDecider` makes the same decisions faster."""
    return RuleDecider(policy) if type(policy) is RulePolicy else PolicyDecider(policy, seed=seed)


def greedy() -> RuleDecider | PolicyDecider:
    """Return the fallback: earliest finish time."""
    return adaptive(POLICIES.create("eft"))


def batch_keys(policy: object, workload: Workload) -> list[float] | None:
    """Return the keys by which instances join a batch; None: the policy is no rule."""
    return policy.rule(workload).keys.tolist() if isinstance(policy, RulePolicy) else None
