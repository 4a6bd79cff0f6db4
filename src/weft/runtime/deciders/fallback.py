"""Asks the guide for decisions, and puts greedy in its place when it errs, makes no sense or waits for ever."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from math import inf

from weft.runtime.deciders.policy import Decider, greedy
from weft.runtime.engine.failure import PolicyReplaced
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.view import Block, Decision


class FallbackDecider:
    """Who decides in a run, for as long as it does so sensibly."""

    def __init__(
        self, life: LiveLifecycle, guide: Decider, spare: Callable[[], Decider] = greedy
    ) -> None:
        self.life = life
        self.guide = guide
        self._spare = spare
        self.replaced = ""
        """Why the policy was replaced; empty while it was not."""
        self.begun = False

    def begin(self) -> None:
        """Let the guide think before the clock runs: plans, ranks, compilation."""
        self.begun = True
        try:
            self.guide.begin(self.life)
        except Exception as error:  # noqa: BLE001  # whatever a policy does, the run goes on
            self._replace(f"it does not begin: {type(error).__name__}: {error}")

    def changed(self, now: float) -> None:
        """The world is another: there are more devices or jobs, estimates are new. A guide that cannot cope is replaced."""
        try:
            self.guide.changed(self.life, now)
        except Exception as error:
            if self.replaced:
                raise
            self._replace(f"{type(error).__name__}: {error}")

    def ask(self, now: float) -> Decision | Block | None:
        """What the guide says; if it errs or makes no sense, greedy takes its place for the rest of the run."""
        while True:
            try:
                said = self.guide.decide(self.life, now)
                why = "" if said is None else self._nonsense(said, now)
            except Exception as error:
                if self.replaced:
                    raise
                why = f"{type(error).__name__}: {error}"
            if not why:
                return said
            self._replace(why)

    def unstick(self) -> bool:
        """Nothing runs and nothing is due: if something could be decided, the guide was wrong to wait."""
        could = any(m.pace < inf for m in self.life.machines) and bool(self.life.ready)
        if not could or self.replaced or self.life.planned:
            return False
        self._replace(f"it waits, though nothing runs and {len(self.life.ready)} tasks are ready")
        return True

    def why_stuck(self, name: str, now: float) -> str:
        """Say what a run waits for in vain."""
        jobs, names = self.life.jobs_here(), self.life.workload.cluster.names
        down = [n for n, m in zip(names, self.life.machines, strict=True) if m.pace == inf]
        why = (
            f"devices down for good: {', '.join(down)}"
            if down
            else f"{len(self.life.ready)} tasks are ready"
        )
        return f"'{name}' is stuck at {now:g} s: nothing runs or is due, but {len(jobs)} jobs are not finished ({why})"

    def _nonsense(self, said: object, now: float) -> str:
        if not isinstance(said, Decision | Block):
            return f"it returned {said!r}; it must return a Decision, a Block or None"
        device = int(said.device)
        if not 0 <= device < len(self.life.machines):
            return f"it chose device {device}; there are devices 0 to {len(self.life.machines) - 1}"
        if isinstance(said, Block):
            return (
                ""
                if now < said.until < inf
                else f"it blocks a device until {said.until}; now it is {now:g}"
            )
        instance = int(said.instance)
        if not 0 <= instance < len(self.life.place):
            return (
                f"it chose instance {instance}; there are instances 0 to {len(self.life.place) - 1}"
            )
        why = self.life.refusal(instance, device)
        if why is None and instance in self.life.held:
            why = "it waits for its next attempt"
        if why is None and said.copy >= 0:
            why = self.life.copy_refusal(int(said.copy), instance, device)
        return f"it committed {self.life.stories.names[instance]}: {why}" if why else ""

    def _replace(self, why: str) -> None:
        self.replaced = why
        warnings.warn(
            f"policy '{self.guide.name}' is replaced by greedy earliest finish time: {why}",
            PolicyReplaced,
            stacklevel=2,
        )
        self.guide = self._spare()
        self.guide.begin(self.life)
