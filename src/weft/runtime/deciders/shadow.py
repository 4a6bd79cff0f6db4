"""Shadow mode: a second policy decides too, is compared, and never followed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from weft.errors import WeftError
from weft.runtime.deciders.policy import Decider
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.view import Block, Decision, Policy, View

LOGGED = 100_000
"""Number of latest decisions that a report covers."""


@dataclass(frozen=True)
class ShadowReport:
    """Comparison of a shadow policy with the policy in charge.

    Attributes
    ----------
    asked : number of decisions
    same_task, same_device, same : number of decisions that agree
    waited : number of decisions at which the shadow would have waited
    erred : how often it raised an error or made an invalid decision
    gain : mean seconds by which its choice was expected to finish earlier, for the same task
    """

    policy: str
    asked: int
    same_task: int
    same_device: int
    same: int
    waited: int
    erred: int
    gain: float

    def __str__(self) -> str:
        """Return one line."""
        share = f"{self.same / self.asked:.0%}" if self.asked else "none"
        return (
            f"{self.policy} in the shadow: asked {self.asked} times, the same decision in {share}, "
            f"waited {self.waited}, erred {self.erred}, expected gain {self.gain:.3g} s per task"
        )


class ShadowedDecider:
    """A decider in charge, and a shadow policy."""

    def __init__(self, decider: Decider, shadow: Policy, *, seed: int = 0) -> None:
        self.decider = decider
        self.shadow = shadow
        self.seed = seed
        self.name = decider.name
        self._log: deque[tuple[Decision, object, float]] = deque(maxlen=LOGGED)

    def begin(self, life: LiveLifecycle) -> None:
        """Start both; a shadow that refuses raises, one that fails stays silent."""
        self.decider.begin(life)
        self._begin(life)
        if isinstance(self._fault, WeftError):
            raise self._fault

    def _begin(self, life: LiveLifecycle) -> None:
        self._devices = life.workload.cluster.p
        self._fault: Exception | None = None
        try:
            self.shadow.begin(life.workload, seed=self.seed)
        except Exception as error:  # noqa: BLE001  # the shadow must not affect the run
            self._fault = error

    def arrived(self, life: LiveLifecycle, job: int, now: float) -> None:
        """Forward the arrival."""
        self.decider.arrived(life, job, now)

    def changed(self, life: LiveLifecycle, now: float) -> None:
        """Forward the change; restart the shadow if there are more devices."""
        self.decider.changed(life, now)
        if life.workload.cluster.p != self._devices:
            self._begin(life)

    def decide(self, life: LiveLifecycle, now: float) -> Decision | Block | None:
        """Return the decision of the decider; ask the shadow for the same view."""
        view = life.view(now)
        decision = self.decider.decide(life, now)
        if isinstance(decision, Decision):
            other, gain = self._ask(view, decision)
            self._log.append((decision, other, gain))
        return decision

    def report(self) -> ShadowReport:
        """Return the comparison."""
        both = [(a, b) for a, b, _ in self._log if isinstance(b, Decision)]
        gains = [gain for *_, gain in self._log if gain == gain]  # noqa: PLR0124  # not NaN
        return ShadowReport(
            policy=self.shadow.name,
            asked=len(self._log),
            same_task=sum(a.instance == b.instance for a, b in both),
            same_device=sum(a.device == b.device for a, b in both),
            same=sum(a == b for a, b in both),
            waited=sum(b is None or isinstance(b, Block) for _, b, _ in self._log),
            erred=sum(isinstance(b, Exception) for _, b, _ in self._log),
            gain=float(np.mean(gains)) if gains else 0.0,
        )

    def _ask(self, view: View, decision: Decision) -> tuple[object, float]:
        if self._fault is not None:
            return self._fault, float("nan")
        try:
            other = self.shadow.decide(view)
            if isinstance(other, Decision) and (
                other.instance not in view.ready or not 0 <= other.device < len(view.slowdown)
            ):
                return ValueError("nonsense"), float("nan")
            same = isinstance(other, Decision) and other.instance == decision.instance
            gain = (
                view.finish(decision.instance, decision.device)
                - view.finish(decision.instance, other.device)
                if same and other
                else float("nan")
            )
        except Exception as error:  # noqa: BLE001  # the shadow must not affect the run
            return error, float("nan")
        return other, gain
