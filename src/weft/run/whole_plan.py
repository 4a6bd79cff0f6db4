"""A plan that is handed to the backend at once, where that can do without the driver; what does not go as planned is left to the driver."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from weft.run.backend import Finished
from weft.run.driver import Driver
from weft.run.journal import Record
from weft.run.plan_mode import PlanGuide
from weft.sim.machine import Group


class Row(NamedTuple):
    """A task of a plan: the instance, its device, and the instances it reads, parents by number."""

    instance: int
    device: int
    parents: tuple[int, ...]


@runtime_checkable
class WholePlans(Protocol):
    """A backend that can run a plan by itself, and whether it was asked to; None: when the plan is not to be changed meanwhile."""

    whole: bool | None

    def run_plan(self, rows: Sequence[Row], wanted: Container[int]) -> list[tuple[int, Finished]]:
        """Run a plan, or as much of it as goes as planned; what was finished, parents first."""
        ...


def run_whole(driver: Driver, guide: object, wanted: Container[int]) -> None:
    """Run the first plan of a guide as a whole, if guide and backend can, and tell the driver; `Driver.run` comes next, for the rest."""
    backend, life = driver.backend, driver.life
    if not isinstance(backend, WholePlans) or not isinstance(guide, PlanGuide) or driver.replaced:
        return
    if backend.whole is False or (backend.whole is None and guide.replan):
        return
    workload = life.workload
    if workload.jobs != 1 or workload.problems[0].workflow.conditional or driver.terms.timeout is not None:
        return  # what happens depends on what is found out meanwhile
    w = workload.problems[0].workflow
    rows = [
        Row(task, device, tuple(w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]].tolist()))
        for task, device in guide.first_plan()
    ]
    ended = backend.run_plan(rows, wanted)
    names = workload.cluster.names
    driver.resume([Record(i, names[e.device], 0.0, e.start, e.finish, {}, None) for i, e in ended], lambda _: Path())
    for instance, event in ended:
        group = Group([instance], event.device, 0.0, start=event.start)
        for observer in driver.observers:
            observer.finished(life, group, event, {})
