"""Plans that a backend executes as a whole, without the driver.

If a task fails or a device is lost, the driver takes over. If measured times depart so far from
predicted ones that another plan is better, the backend retracts the tasks that have not begun and
receives the new plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from weft.runtime.backends.protocol import Finished
from weft.runtime.deciders.plan import OPEN, PlanDecider
from weft.runtime.engine.driver import Driver
from weft.runtime.journal import JournalEntry
from weft.sim.device_state import Group

GAIN, CHANGE = 0.25, 0.05
"""Share and seconds of the remaining time that a new plan must save.

The change costs time, results move again, and the measurements that suggest it are noisy."""

OnFinish = Callable[[int, Finished], bool]
"""Callback for finished instances, parents first; it returns False to stop this plan."""


class PlanRow(NamedTuple):
    """A planned task: instance, device and the instances it reads."""

    instance: int
    device: int
    parents: tuple[int, ...]


class ParentsFirst:
    """The ends of a plan, parents first: reports of several devices come in any order."""

    def __init__(self, rows: Iterable[PlanRow]) -> None:
        self._open = {row.instance: row.parents for row in rows}
        self._ended: dict[int, Finished] = {}

    def add(self, instance: int, event: Finished) -> None:
        """Add an end."""
        self._ended[instance] = event

    def take(self) -> Iterator[tuple[int, Finished]]:
        """Yield ends whose parents were yielded before or are not part of the plan."""
        while ready := [i for i in self._ended if self._open.keys().isdisjoint(self._open[i])]:
            for instance in ready:
                del self._open[instance]
                yield instance, self._ended.pop(instance)


@runtime_checkable
class WholePlans(Protocol):
    """Protocol of backends that can execute a whole plan.

    `whole`: True, False, or None for "if possible".
    """

    whole: bool | None

    def run_plan(self, rows: Sequence[PlanRow], on_finish: OnFinish, *, fixed: bool) -> None:
        """Run a plan until something deviates; unless `fixed`, also until a device is new."""
        ...


@runtime_checkable
class OwnPlacement(Protocol):
    """Protocol of backends whose engine can place the tasks of a graph itself."""

    def run_graph(self, rows: Sequence[PlanRow], on_finish: OnFinish) -> bool:
        """Run all tasks where the engine likes, until one fails or a device is lost.

        Return False if the engine cannot, as the devices hold all that it needs.
        """
        ...


def run_whole(
    driver: Driver, decider: object, *, measured: bool = True, called: Sequence[int] = ()
) -> None:
    """Run the plan of a decider as a whole, if possible; `Driver.run` does the rest.

    If nothing is `measured`, a plan is a guess. Then the engine places the tasks, if it can, since
    it sees sizes of results and idle workers during the run. It receives the tasks in the order in
    which the user `called` them, if that is known. The next run has the measurements of this one.
    """
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
        or life.contended
    ):
        return  # branches, timeouts and capacities need the driver
    monitor = _PlanMonitor(driver, decider)
    anywhere = bool(np.isfinite(workload.problems[0].per_work).all())
    if not measured and anywhere and decider.replan and isinstance(backend, OwnPlacement):
        rows = [PlanRow(i, device, monitor.parents(i)) for i, device in monitor.plan]
        if called:
            rows.sort(key=lambda row: called[row.instance])
        if backend.run_graph(rows, monitor.record):
            return
    while monitor.plan:
        plan = [
            (i, device) for i, device in monitor.plan if life.stories.state[i] in OPEN
        ]  # without instances that ended meanwhile
        monitor.plan = []
        backend.run_plan(
            [PlanRow(i, device, monitor.parents(i)) for i, device in plan],
            monitor.callback(plan),
            fixed=not decider.replan,
        )


class _PlanMonitor:
    """Forwards ends to the driver, and looks for a better plan after a drift."""

    def __init__(self, driver: Driver, decider: PlanDecider) -> None:
        self.driver = driver
        self.decider = decider
        self.plan = decider.first_plan()
        """The plan to run next."""
        self._workflow = driver.life.workload.problems[0].workflow

    def parents(self, instance: int) -> tuple[int, ...]:
        w = self._workflow
        return tuple(w.src[w.pred_edge[w.pred_ptr[instance] : w.pred_ptr[instance + 1]]].tolist())

    def callback(self, plan: list[tuple[int, int]]) -> OnFinish:
        """Return the callback for the ends of a plan."""

        def on_finish(instance: int, event: Finished) -> bool:
            drifted = self._record_end(instance, event)
            if drifted and not self.plan and self.decider.replan:
                self.plan = self._better(plan)
            return not self.plan

        return on_finish

    def record(self, instance: int, event: Finished) -> bool:
        """Record an end, and go on."""
        self._record_end(instance, event)
        return True

    def _record_end(self, instance: int, event: Finished) -> bool:
        """Record an end; return whether the estimates have drifted."""
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
        """Return a new plan if it saves more than the change costs; else an empty one."""
        driver, life = self.driver, self.driver.life
        assert driver.drift is not None
        life.estimate(driver.drift.corrected())
        rest = self.decider.rest(life, driver.now)
        if rest is None:
            return []
        left = set(rest.instances)
        here = rest.seconds([(i, device) for i, device in plan if i in left])
        other, seconds = self.decider.plan_of(rest)
        return other if seconds < (1 - GAIN) * here - CHANGE else []
