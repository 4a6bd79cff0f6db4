"""A decider with a fallback: greedy replaces one that fails or waits without end."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import inf

from weft.errors import WeftError
from weft.runtime.deciders.policy import Decider, greedy
from weft.runtime.engine.failure import PolicyReplaced
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.view import Block, Decision


class FallbackDecider:
    """The current decider of a run; greedy takes over when it fails."""

    def __init__(
        self, life: LiveLifecycle, decider: Decider, fallback: Callable[[], Decider] = greedy
    ) -> None:
        self.life = life
        self.current = decider
        self._fallback = fallback
        self.replaced = ""
        """Why the policy was replaced; empty: it was not."""
        self.begun = False

    def begin(self, *, refuses: bool = True) -> None:
        """Let the decider plan, rank and compile before the clock starts.

        With `refuses`, a decider that refuses the workload ends the run before it begins, because
        the user chose it for this workload; otherwise it is replaced, as after other errors.
        """
        self.begun = True
        try:
            self.current.begin(self.life)
        except Exception as error:
            if refuses and isinstance(error, WeftError):
                raise
            self._replace(f"its start failed: {type(error).__name__}: {error}")

    def changed(self, now: float) -> None:
        """Notify the decider that devices, jobs or estimates changed."""
        try:
            self.current.changed(self.life, now)
        except Exception as error:
            if self.replaced:
                raise
            self._replace(f"{type(error).__name__}: {error}")

    def ask(self, now: float) -> Decision | Block | None:
        """Return the next valid decision; replace a decider that fails or decides wrongly."""
        while True:
            try:
                decision = self.current.decide(self.life, now)
                why = decision_fault(self.life, decision, now)
            except Exception as error:
                if self.replaced:
                    raise
                why = f"{type(error).__name__}: {error}"
            if not why:
                return decision
            self._replace(why)

    def unstick(self) -> bool:
        """Replace a decider that waits although nothing runs; return whether that helped."""
        could = any(m.slowdown < inf for m in self.life.machines) and bool(self.life.ready)
        if not could or self.replaced or self.life.planned:
            return False
        self._replace(f"it waits, though nothing runs and {len(self.life.ready)} tasks are ready")
        return True

    def why_stuck(self, name: str, now: float) -> str:
        """Describe why a run cannot continue."""
        jobs, names = self.life.jobs_here(), self.life.workload.cluster.names
        down = [n for n, m in zip(names, self.life.machines, strict=True) if m.slowdown == inf]
        why = (
            f"devices down for good: {', '.join(down)}"
            if down
            else f"{len(self.life.ready)} tasks are ready"
        )
        return (
            f"'{name}' is stuck at {now:g} s: nothing runs or is due, "
            f"but {len(jobs)} jobs are not finished ({why})"
        )

    def _replace(self, why: str) -> None:
        self.replaced = why
        warnings.warn(
            f"policy '{self.current.name}' is replaced by greedy earliest finish time: {why}",
            PolicyReplaced,
            stacklevel=2,
        )
        self.current = self._fallback()
        self.current.begin(self.life)


def decision_fault(life: LiveLifecycle, decision: object, now: float) -> str:
    """Return what is wrong with a decision; empty: nothing is."""
    if decision is None:
        return ""
    if not isinstance(decision, (Decision, Block)):
        return f"it returned {decision!r}; it must return a Decision, a Block or None"
    device, devices, instances = int(decision.device), len(life.machines), len(life.place)
    if not 0 <= device < devices:
        return f"it chose device {device}; there are devices 0 to {devices - 1}"
    if isinstance(decision, Block):
        wrong = f"it blocks a device until {decision.until}; now it is {now:g}"
        return "" if now < decision.until < inf else wrong
    instance = int(decision.instance)
    if not 0 <= instance < instances:
        return f"it chose instance {instance}; there are instances 0 to {instances - 1}"
    why = life.refusal(instance, device)
    if why is None and instance in life.held:
        why = "it waits for its next attempt"
    if why is None and decision.copy >= 0:
        why = life.copy_refusal(int(decision.copy), instance, device)
    return f"it committed {life.stories.names[instance]}: {why}" if why else ""
