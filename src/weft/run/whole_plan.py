"""A plan that is handed to the backend at once, where that can do without the driver; what does not go as planned is left to the driver.

When measured and predicted times drift apart, what has not begun is taken back, planned anew and handed over again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from weft.run.backend import Finished
from weft.run.driver import Driver
from weft.run.journal import Record
from weft.run.plan_mode import PlanGuide
from weft.sim.machine import Group

Tell = Callable[[int, Finished], bool]
"""Told of every instance that is finished, parents first; False: no more of this plan, let what runs end."""


class Row(NamedTuple):
    """A task of a plan: the instance, its device, and the instances it reads, parents by number."""

    instance: int
    device: int
    parents: tuple[int, ...]


@runtime_checkable
class WholePlans(Protocol):
    """A backend that can run a plan by itself, and whether it shall; None: wherever it can."""

    whole: bool | None

    def run_plan(self, rows: Sequence[Row], tell: Tell, *, fixed: bool) -> None:
        """Run a plan, or as much of it as goes as planned; unless it is `fixed`, only until there is a new device."""
        ...


def run_whole(driver: Driver, guide: object) -> None:
    """Run the plan of a guide as a whole, if guide and backend can, and tell the driver; `Driver.run` comes next, for the rest."""
    backend, life = driver.backend, driver.life
    if not isinstance(backend, WholePlans) or backend.whole is False or not isinstance(guide, PlanGuide) or driver.replaced:
        return
    workload = life.workload
    if workload.jobs != 1 or workload.problems[0].workflow.conditional or driver.terms.timeout is not None:
        return  # what happens depends on what is found out meanwhile
    watch = _Watch(driver, driver.drift is not None and guide.replan)
    plan = guide.first_plan()
    while plan:
        watch.drifted = False
        backend.run_plan([Row(i, device, watch.parents(i)) for i, device in plan], watch.tell, fixed=not guide.replan)
        if not watch.drifted or driver.drift is None:
            return
        life.estimate(driver.drift.corrected())
        plan = guide.plan_of_the_rest(life, driver.now)


class _Watch:
    """Tells the driver what happens, and sees whether it was as predicted."""

    def __init__(self, driver: Driver, minds: bool) -> None:
        self.driver = driver
        self.minds = minds
        self.drifted = False
        self._workflow = driver.life.workload.problems[0].workflow

    def parents(self, instance: int) -> tuple[int, ...]:
        w = self._workflow
        return tuple(w.src[w.pred_edge[w.pred_ptr[instance] : w.pred_ptr[instance + 1]]].tolist())

    def tell(self, instance: int, event: Finished) -> bool:
        driver, life = self.driver, self.driver.life
        expected = life.expected([instance], event.device)
        device = life.workload.cluster.names[event.device]
        driver.resume([Record(instance, device, 0.0, event.start, event.finish, {}, None)], lambda _: Path())
        group = Group([instance], event.device, 0.0, start=event.start)
        for observer in driver.observers:
            observer.finished(life, group, event, {})
        if self.minds and driver.drift is not None and driver.drift.finished(instance, event.device, event.finish - event.start, expected):
            self.drifted = True
        return not self.drifted
