"""Drives the life cycle with a backend: events in, orders out. The moments are those of docs/simulator.md, the clock is the backend's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Protocol

import numpy as np

from weft.errors import InvalidInput, Stuck
from weft.model import Cluster, Scenario, Trace, Workload
from weft.runtime.backends.protocol import (
    Backend,
    Call,
    DeviceAdded,
    DeviceLost,
    Event,
    Failed,
    Fault,
    Finished,
    Started,
)
from weft.runtime.costs.drift import DriftDetector
from weft.runtime.deciders.fallback import FallbackDecider
from weft.runtime.deciders.policy import Decider, greedy
from weft.runtime.engine.agenda import JobTimers
from weft.runtime.engine.dispatch import Dispatch, SentOrder
from weft.runtime.engine.failure import Failure
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.engine.observer import Observer
from weft.runtime.engine.outcome import in_turn, of_members, outcomes_of
from weft.runtime.engine.patience import RetryTracker
from weft.runtime.engine.readers import ResultRefs
from weft.runtime.engine.resume import take_over
from weft.runtime.journal import JournalEntry
from weft.runtime.options import RunOptions
from weft.runtime.service.budgets import Reservations
from weft.sim.device_state import Group
from weft.sim.view import Block

LOOK = 0.02
"""Seconds after which a run that takes in more jobs looks whether there are any."""


class Intake(Protocol):
    """Where a run gets more jobs from while it goes on."""

    def take(self, driver: Driver) -> bool:
        """Add jobs that are to begin now (`Driver.add`), and see to those that have ended; whether any were added."""
        ...

    def due(self) -> float:
        """When it wants decisions to be asked for again; inf: not before something happens."""
        ...


class Driver:
    """One run of a workload on a backend."""

    def __init__(
        self,
        life: LiveLifecycle,
        backend: Backend,
        guide: Decider,
        *,
        terms: RunOptions | None = None,
        cancels: Sequence[float] | None = None,
        drift: DriftDetector | None = None,
        reservations: Reservations | None = None,
        wanted: frozenset[int] = frozenset(),
        observers: Sequence[Observer] = (),
        grown: Callable[[Cluster], Workload] | None = None,
        intake: Intake | None = None,
        spare: Callable[[], Decider] = greedy,
    ) -> None:
        """`grown` makes the same workload for more devices; without it, those that were not there from the start are left alone.

        `intake` adds jobs while the run goes on; then a task that is given up stops its own job only. `spare` makes the guide that takes
        over from one that errs.
        """
        self.life = life
        self.backend = backend
        self.name = guide.name
        self.terms = terms or RunOptions()
        self.workload = life.workload
        self.drift = drift
        self.grown = grown
        self.intake = intake
        self.observers = list(observers)
        self.failures: list[Failure] = []
        self.changes: list[tuple[float, int, float]] = []
        self.now = 0.0
        self.decider = FallbackDecider(life, guide, spare)
        self.dispatch = Dispatch(life, backend, window=self.terms.window, reservations=reservations)
        self.patience = RetryTracker(self.terms, life)
        self.readers = ResultRefs(life, wanted)
        self.agenda = JobTimers(life, [inf] * self.workload.jobs if cancels is None else cancels)
        self._devices = range(self.workload.cluster.p)
        self._sacrificed: set[int] = set()
        """Devices the driver ended itself, with an order it called off: nobody else is to blame for their loss."""
        self._early: list[int] = []
        """Jobs that were here before `run`: those of a run that goes on."""

    @property
    def replaced(self) -> str:
        """Why the policy was replaced; empty while it was not."""
        return self.decider.replaced

    def prepare(self) -> None:
        """Let the guide think before the clock runs: plans, ranks, compilation."""
        self.decider.begin()

    def run(self) -> None:
        """Live moment after moment until every job is finished, failed or cancelled."""
        if not self.decider.begun:
            self.prepare()
        for job in self._early:
            self.decider.guide.arrived(self.life, job, self.now)
            self._changed()
        if self._early:
            self._moment([])
        while self._jobs_left():
            until = self._next_due()
            events = self.backend.wait(until)
            if not events and until == inf and not self.decider.unstick():
                raise Stuck(self.decider.why_stuck(self.name, self.now))
            self.now = self.backend.clock()
            if (
                events
                and self.now < until
                and not self.life.modelled
                and all(type(event) is Started for event in events)
            ):
                for event in events:  # nothing to decide by that
                    self._started(event)  # type: ignore[arg-type]
            else:
                self._moment(events)
        for observer in self.observers:
            observer.ended(self.life, self.now)

    def resume(self, records: Sequence[JournalEntry], path: Callable[[int], Path]) -> None:
        """Take over what an earlier process finished; `path` tells where each result is. Comes after the backend has begun."""
        self.now = self.backend.clock()
        self._early += self._take_arrivals()
        groups = take_over(self.life, records)
        for group in groups:
            self._forget(self.readers.done(group.members))
        for group in groups:
            if self.readers.needed(group.members[0]):
                self.backend.restore(group.members[0], path(group.members[0]))

    def add(
        self, workload: Workload, calls: Sequence[Call] | None, *, wanted: Iterable[int] = ()
    ) -> None:
        """More jobs come: the same workload with others behind, and the calls of the new instances. They arrive when it says so.

        Not with `drift`: estimates are those the jobs come with.
        """
        self.backend.extend(workload, calls)  # refuses what cannot be sent
        self.workload = workload
        self.life.extend(workload)
        self.agenda.extend(workload)
        self.patience.extend(self.life)
        self.readers.extend(wanted)
        self._changed()

    def stop(self) -> None:
        """Call everything off, now."""
        for job in range(self.workload.jobs):
            if not self.life.ended(job):
                self._cancel(job)

    def trace(self) -> Trace:
        """What happened so far, with the branches that were taken as its scenario."""
        outcome = np.maximum(self.life.outcome, 0)
        cancel = [
            self.now if failed else at
            for failed, at in zip(self.life.failed, self.agenda.cancels, strict=True)
        ]
        if (
            not self.life.modelled
        ):  # a job may be done just before the driver gets to calling it off
            cancel = [
                inf if done < inf else at
                for done, at in zip(self.life.job_finish, cancel, strict=True)
            ]
        scenario = Scenario.of(
            self.workload,
            outcome=outcome,
            changes=np.array(self.changes, float).reshape(-1, 3),
            cancel=np.array(cancel),
        )
        # With the estimates the run began with, so that predicted and measured can be compared.
        trace = replace(self.life.trace(scenario, self.name), workload=self.workload)
        return trace.named(f"{self.name}, then eft") if self.replaced else trace

    # -- the steps of a moment ----------------------------------------------

    def _moment(self, events: list[Event]) -> None:
        for end in in_turn(events):
            self._ended(end)
        for event in events:
            if isinstance(event, DeviceLost):
                self._lost(event)
            elif isinstance(event, DeviceAdded):
                self._added(event)
            elif isinstance(event, Started):
                self._started(event)
        if self.patience.timed:
            self._overdue()
        for job in self.agenda.cancellations(self.now):
            self._cancel(job)
        for job in self._take_arrivals():
            self.decider.guide.arrived(self.life, job, self.now)
        if self.patience.held:
            self._releases()
        for device in self._devices:
            self.dispatch.fill(device, self.now)
        if self.life.ready:
            self._decisions()

    def _jobs_left(self) -> bool:
        if self.intake is not None:
            self.now = self.backend.clock()
            if self.intake.take(self):
                self._moment([])
        return self.life.jobs_left > 0

    def _next_due(self) -> float:
        due = min(*self.dispatch.wakes, self.agenda.next())
        if self.patience.held:
            due = min(due, *self.patience.held.values())
        if self.patience.timed:
            due = min(due, *(self._deadline(d) for d in self._devices))
        if self.intake is None:
            return due
        due = min(due, self.intake.due())
        looks = not self.life.modelled and (due < inf or any(self.dispatch.sent))
        return min(due, self.now + LOOK) if looks else due

    def _ended(self, event: Finished | Failed) -> None:
        sent = self.dispatch.take(event)
        if sent is None:
            return  # of an order that was called off
        device, group = event.device, sent.group
        self._sacrificed.discard(device)  # it lives
        finish = self.dispatch.believed(group, event, self.now)
        outcomes: dict[int, int] = {}
        if isinstance(event, Finished):
            event = of_members(event, sent.order.members, group.members)
            try:
                outcomes = outcomes_of(self.life, group, event)
            except InvalidInput as error:
                event = Failed(
                    event.number, device, event.start, event.finish, "outcome", str(error)
                )
        if isinstance(event, Finished):
            self._done(group, event, finish, outcomes)
        else:
            members = list(group.members)
            self.dispatch.settle(group, event.finish - event.start, self.now)
            self.life.lose(device, finish, event.text)
            for i in members:
                self._blame(i, device, event.fault, event.text, event.traceback)
        self.dispatch.begin_next(device)

    def _done(self, group: Group, event: Finished, finish: float, outcomes: dict[int, int]) -> None:
        device = event.device
        expected = self.life.expected(group.members, device)
        self.life.finish(device, finish, outcomes)
        self.dispatch.settle(group, event.finish - event.start, self.now)
        for observer in self.observers:
            observer.finished(self.life, group, event, outcomes)
        self._forget(self.readers.done(group.members))
        if self.drift is not None and self.drift.finished(
            group.members[0], device, finish - group.start, expected
        ):
            self.life.estimate(self.drift.corrected())
            self._changed()

    def _lost(self, event: DeviceLost) -> None:
        device = event.device
        sent = self.dispatch.take_all(device)
        self.changes.append((self._when(event.time), device, inf))
        ran = self.life.machines[device].running
        members = list(ran.members) if ran is not None else []
        self.life.change_pace(device, inf, self.now)
        if ran is not None:
            self.dispatch.settle(ran, max(self.now - ran.start, 0.0), self.now)
        for ahead in sent:
            self.dispatch.release(ahead, device)
        for observer in self.observers:
            observer.lost(self.life, event)
        for i in (
            () if self.life.modelled else members
        ):  # the failures of a scenario are nobody's fault
            blame = self.patience.lost(
                i, event, overdue=bool(sent) and sent[0].overdue, ours=device in self._sacrificed
            )
            if blame is not None:
                self._blame(i, device, *blame, "", final=blame[0] == "killed")
        self._sacrificed.discard(device)
        self._changed()

    def _added(self, event: DeviceAdded) -> None:
        if event.device >= len(self._devices) and not self._grow(event.device):
            return
        down = self.life.machines[event.device].pace == inf
        self.life.change_pace(event.device, event.pace, self.now)
        self.changes.append((self._when(event.time), event.device, event.pace))
        if down:
            for observer in self.observers:
                observer.added(self.life, event)
            self._changed()

    def _grow(self, device: int) -> bool:
        """A device is there that was not before: the run knows it from now on, as one that was down so far."""
        cluster = self.backend.devices()
        if self.grown is None or device >= cluster.p:
            return False
        self.changes += [(0.0, new, inf) for new in range(len(self._devices), cluster.p)]
        self.workload = self.grown(cluster)
        self.life.grow(self.workload)
        self.dispatch.grow(cluster.p)
        self._devices = range(cluster.p)
        if self.drift is not None:
            self.drift.workload = self.workload
            self.life.estimate(self.drift.corrected())
        return True

    def _started(self, event: Started) -> None:
        self.dispatch.started(event, self.now)
        for observer in self.observers:
            observer.started(self.life, event)

    def _overdue(self) -> None:
        for device in self._devices:
            if self._deadline(device) <= self.now:
                sent = self.dispatch.sent[device][0]
                sent.overdue = True
                self.backend.cancel(sent.order.number)

    def _deadline(self, device: int) -> float:
        running, sent = self.life.machines[device].running, self.dispatch.sent[device]
        return (
            inf
            if running is None or not sent or sent[0].overdue
            else self.patience.deadline(running)
        )

    def _take_arrivals(self) -> list[int]:
        due = self.agenda.arrivals(self.now)
        for job in due:
            self.life.arrive(job, self.now)
        return due

    def _releases(self) -> None:
        due = self.patience.released(self.now)
        for i in due:
            self.life.release(i)
        if due:
            self._changed()

    def _decisions(self) -> None:
        while self.life.ready:
            said = self.decider.ask(self.now)
            if said is None:
                return
            device = int(said.device)
            if isinstance(said, Block):
                self.life.block(device, float(said.until))
            elif (
                said.copy >= 0 and self.life.modelled
            ):  # elsewhere data is there soon enough, and the inputs of a parent may be gone
                self.life.commit_with_copy(
                    self.life.batch(int(said.instance), device), device, self.now, int(said.copy)
                )
            else:
                self.life.commit(self.life.batch(int(said.instance), device), device, self.now)
            self.dispatch.fill(device, self.now)

    # -- failures -----------------------------------------------------------

    def _blame(
        self,
        instance: int,
        device: int,
        fault: Fault,
        text: str,
        traceback: str,
        *,
        final: bool = False,
    ) -> None:
        """A task failed by its own fault: it runs again later, or is given up."""
        again = self.patience.failed(instance, self.now, final=final)
        for observer in self.observers:
            observer.failed(self.life, instance, device, text)
        if again is not None:
            self._back_off(instance, device, again)
            return
        attempts = self.patience.attempts(instance, crashes=final)
        self.failures.append(
            Failure.of(self.life, instance, device, fault, text, traceback, attempts)
        )
        self.life.give_up(instance, self.now, text)
        if self.terms.on_error == "stop" and self.intake is not None:
            self._cancel(self.life.place[instance][0])
        elif self.terms.on_error == "stop":
            self.stop()
        else:
            self._call_off_strays()

    def _back_off(self, instance: int, device: int, until: float) -> None:
        if self.life.planned:
            self.life.block(device, until)
        else:
            self.life.hold(instance)
            self.patience.held[instance] = until
        self._changed()

    def _cancel(self, job: int) -> None:
        self.agenda.cancels[job] = self.now
        self.life.cancel(job, self.now)
        for i in self.life.instances(job):
            self.patience.held.pop(i, None)
        self._call_off_strays()

    def _call_off_strays(self) -> None:
        """Tell the backend of every order whose group is no longer on its device."""
        strays: list[tuple[int, SentOrder, bool]] = self.dispatch.strays()
        for device, sent, ran in strays:
            self.dispatch.release(sent, device)
            if ran and not self.life.modelled:
                self._sacrificed.add(device)
            self.backend.cancel(sent.order.number)
        for device in self._devices:
            self.dispatch.begin_next(device)

    # -- small things -------------------------------------------------------

    def _changed(self) -> None:
        self.decider.changed(self.now)

    def _forget(self, instances: Sequence[int]) -> None:
        for i in instances:
            self.backend.forget(i)

    def _when(self, said: float) -> float:
        return max(0.0, min(said, self.now))
