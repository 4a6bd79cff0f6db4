"""A plan that is handed to the backend at once, where that can do without the driver; what does not go as planned is left to the driver.

When measured and predicted times drift apart so much that another plan would be better, what has not begun is taken back, and the new plan
handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from weft.runtime.backends.protocol import Finished
from weft.runtime.deciders.plan import OPEN, PlanDecider
from weft.runtime.engine.driver import Driver
from weft.runtime.journal import JournalEntry
from weft.sim.device_state import Group

GAIN, CHANGE = 0.1, 0.05
"""The part, and the seconds, of what is left that a new plan must save: to hand it over costs some, and devices wait meanwhile."""

Tell = Callable[[int, Finished], bool]
"""Told of every instance that is finished, parents first; False: no more of this plan, let what runs end."""


class PlanRow(NamedTuple):
    """A task of a plan: the instance, its device, and the instances it reads, parents by number."""

    instance: int
    device: int
    parents: tuple[int, ...]


@runtime_checkable
class WholePlans(Protocol):
    """A backend that can run a plan by itself, and whether it shall; None: wherever it can."""

    whole: bool | None

    def run_plan(self, rows: Sequence[PlanRow], tell: Tell, *, fixed: bool) -> None:
        """Run a plan, or as much of it as goes as planned; unless it is `fixed`, only until there is a new device."""
        ...


def run_whole(driver: Driver, decider: object) -> None:
    """Run the plan of a decider as a whole, if decider and backend can, and tell the driver; `Driver.run` comes next, for the rest."""
    backend, life = driver.backend, driver.life
    if (
        not isinstance(backend, WholePlans)
        or backend.whole is False
        or not isinstance(decider, PlanDecider)
        or driver.replaced
    ):
        return
    workload = life.workload
    if (
        workload.jobs != 1
        or workload.problems[0].workflow.conditional
        or driver.options.timeout is not None
    ):
        return  # what happens depends on what is found out meanwhile
    watch = _Watch(driver, decider)
    while watch.plan:
        plan = [
            (i, device) for i, device in watch.plan if life.stories.state[i] in OPEN
        ]  # without what ended since it was made
        watch.plan = []
        backend.run_plan(
            [PlanRow(i, device, watch.parents(i)) for i, device in plan],
            watch.teller(plan),
            fixed=not decider.replan,
        )


class _Watch:
    """Tells the driver what happens; when it is not as predicted, looks whether another plan would be better."""

    def __init__(self, driver: Driver, decider: PlanDecider) -> None:
        self.driver = driver
        self.decider = decider
        self.plan = decider.first_plan()
        """What to run next."""
        self._workflow = driver.life.workload.problems[0].workflow

    def parents(self, instance: int) -> tuple[int, ...]:
        w = self._workflow
        return tuple(w.src[w.pred_edge[w.pred_ptr[instance] : w.pred_ptr[instance + 1]]].tolist())

    def teller(self, plan: list[tuple[int, int]]) -> Tell:
        """Of what becomes of a plan."""

        def tell(instance: int, event: Finished) -> bool:
            drifted = self._took(instance, event)
            if drifted and not self.plan and self.decider.replan:
                self.plan = self._better(plan)
            return not self.plan

        return tell

    def _took(self, instance: int, event: Finished) -> bool:
        """Whether estimates are off."""
        driver, life = self.driver, self.driver.life
        expected = life.expected([instance], event.device)
        device = life.workload.cluster.names[event.device]
        driver.resume(
            [JournalEntry(instance, device, 0.0, event.start, event.finish, {}, None)],
            lambda _: Path(),
        )
        group = Group([instance], event.device, 0.0, start=event.start)
        for observer in driver.observers:
            observer.finished(life, group, event, {})
        return driver.drift is not None and driver.drift.finished(
            instance, event.device, event.finish - event.start, expected
        )

    def _better(self, plan: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """A new plan, if by the corrected estimates it is worth more than the change costs; else nothing."""
        driver, life = self.driver, self.driver.life
        assert driver.drift is not None
        life.estimate(driver.drift.corrected())
        other = self.decider.plan_of_the_rest(life, driver.now)
        left = {i for i, _ in other}
        rest = [(i, device) for i, device in plan if i in left]
        return other if self._span(other) < (1 - GAIN) * self._span(rest) - CHANGE else []

    def _span(self, plan: list[tuple[int, int]]) -> float:
        """Seconds the rest of a plan should take from now, each device in the order of the plan."""
        life = self.driver.life
        free = dict.fromkeys((device for _, device in plan), 0.0)
        finish: dict[int, tuple[int, float]] = {}
        w, problem = self._workflow, life.workload.problems[0]
        for i, device in plan:
            start = free[device]
            for e in w.pred_edge[w.pred_ptr[i] : w.pred_ptr[i + 1]].tolist():
                source, there = finish.get(int(w.src[e]), (device, 0.0))
                start = max(start, there + problem.transfer(e, source, device))
            free[device] = start + life.expected([i], device)
            finish[i] = (device, free[device])
        return max(free.values(), default=0.0)
