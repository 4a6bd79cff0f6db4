"""The driver of a run: backend events in, orders out.

The steps of a moment are those of docs/simulator.md; the clock is the backend's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from time import perf_counter

from weft.errors import InvalidInput, Stuck
from weft.model import Cluster, Trace, Workload
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
from weft.runtime.engine.dispatch import Dispatch
from weft.runtime.engine.events import (
    Intake,
    Observer,
    ordered_ends,
    outcomes_of,
    restricted_to,
    scenario_so_far,
)
from weft.runtime.engine.failure import Failure
from weft.runtime.engine.instances import Instances
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.journal import JournalEntry, replay
from weft.runtime.options import RunOptions
from weft.runtime.service.budgets import Reservations
from weft.sim.device_state import Group
from weft.sim.view import Block

CORRECTING_SHARE = 0.02
"""Largest share of a run in which estimates are corrected."""

INTAKE_SECONDS = 0.02
"""Seconds between two checks of the intake for more jobs."""


class Driver:
    """One run of a workload on a backend."""

    def __init__(
        self,
        life: LiveLifecycle,
        backend: Backend,
        decider: Decider,
        *,
        options: RunOptions | None = None,
        cancels: Sequence[float] | None = None,
        drift: DriftDetector | None = None,
        reservations: Reservations | None = None,
        wanted: frozenset[int] = frozenset(),
        observers: Sequence[Observer] = (),
        grown: Callable[[Cluster], Workload] | None = None,
        intake: Intake | None = None,
        fallback: Callable[[], Decider] = greedy,
    ) -> None:
        """Set up a run.

        `grown` makes the same workload for more devices; without it, new devices stay unused.
        `intake` adds jobs during the run; a failed task then stops its own job only. `fallback`
        makes the decider that replaces a decider that fails.
        """
        self.life = life
        self.backend = backend
        self.name = decider.name
        self.options = options or RunOptions()
        self.workload = life.workload
        self.drift = drift
        self.grown = grown
        self.intake = intake
        self.observers = list(observers)
        self.failures: list[Failure] = []
        self.changes: list[tuple[float, int, float]] = []
        self.now = 0.0
        self.decider = FallbackDecider(life, decider, fallback)
        self.dispatch = Dispatch(
            life, backend, window=self.options.window, reservations=reservations
        )
        self.instances = Instances(life, self.options, wanted=wanted, cancels=cancels)
        self._devices = range(self.workload.cluster.p)
        self._ended_by_driver: set[int] = set()
        """Devices that the driver ended to cancel an order; no task is to blame for their loss."""
        self._early: list[int] = []
        """Jobs that arrived before `run`: those of a resumed run."""
        self._correct_again = -inf
        """When estimates may be corrected again."""
        self._disturbed = True
        """Whether something failed, came or was cancelled, so that any device may take more
        orders."""

    @property
    def replaced(self) -> str:
        """Return why the policy was replaced; empty: it was not."""
        return self.decider.replaced

    def prepare(self, *, refuses: bool = True) -> None:
        """Let the decider plan, rank and compile before the clock starts.

        A decider that refuses the workload raises its `WeftError` if `refuses` is true; otherwise
        greedy earliest finish time replaces it.
        """
        self.decider.begin(refuses=refuses)

    def run(self) -> None:
        """Process events until every job is finished, failed or cancelled."""
        if not self.decider.begun:
            self.prepare()
        for job in self._early:
            self.decider.current.arrived(self.life, job, self.now)
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
                for event in events:  # a start needs no decision
                    self._started(event)  # type: ignore[arg-type]  # the type is checked above
            else:
                self._moment(events)
        for observer in self.observers:
            observer.ended(self.life, self.now)

    def resume(self, entries: Sequence[JournalEntry], path: Callable[[int], Path]) -> None:
        """Replay journal entries, after `begin`; `path` maps an instance to its result."""
        self.now = self.backend.clock()
        self._early += self._take_arrivals()
        groups = replay(self.life, entries)
        for group in groups:
            self._forget(self.instances.unreferenced(group.members))
        for group in groups:
            if self.instances.needed(group.members[0]):
                self.backend.restore(group.members[0], path(group.members[0]))

    def add(
        self,
        workload: Workload,
        calls: Sequence[Call] | None,
        job: int,
        *,
        wanted: Iterable[int] = (),
    ) -> None:
        """Add a job to the workload: at its end, or in the place of an ended one.

        Not with `drift`, which has loaded the first workload only.
        """
        first = int(workload.first_instance[job])
        self.backend.extend(workload, calls, first)  # refuses functions that cannot be sent
        self.workload = workload
        self.life.extend(workload, [job])
        self.instances.extend([job], wanted)
        self._changed()

    def stop(self) -> None:
        """Cancel all jobs now."""
        for job in range(self.workload.jobs):
            if not self.life.ended(job):
                self.cancel(job)

    def cancel(self, job: int) -> None:
        """Cancel a job now; its running tasks are stopped."""
        self.instances.cancels[job] = self.now
        self.life.cancel(job, self.now)
        for i in self.life.instances(job):
            self.instances.retries.held.pop(i, None)
        self._cancel_strays()

    def trace(self) -> Trace:
        """Return the trace so far; its scenario holds the branches that were taken."""
        cancels = self.instances.cancels
        scenario = scenario_so_far(self.life, self.workload, cancels, self.changes, self.now)
        # With the estimates from the start of the run, to compare predicted and measured times.
        plain = self.life.trace(scenario, self.name)
        trace = replace(plain, workload=self.workload, measured=True)
        if not self.replaced:
            return trace
        return trace.named(f"{self.name}, then {self.decider.current.name}")

    # -- the steps of a moment ----------------------------------------------

    def _moment(self, events: list[Event]) -> None:
        for end in ordered_ends(events):
            self._ended(end)
        for event in events:
            if isinstance(event, Started):
                self._started(event)
            elif isinstance(event, DeviceLost):
                self._lost(event)
            elif isinstance(event, DeviceAdded):
                self._added(event)
        if self.instances.retries.timed:
            self._overdue()
        for job in self.instances.cancellations(self.now):
            self.cancel(job)
        for job in self._take_arrivals():
            self.decider.current.arrived(self.life, job, self.now)
        if self.instances.retries.held:
            self._releases()
        for device in self._with_room(events):
            self.dispatch.fill(device, self.now)
        if self.life.ready:
            self._decisions()

    def _with_room(self, events: list[Event]) -> Iterable[int]:
        """Return the devices that may receive more orders, by number."""
        if self._disturbed or not self.dispatch.independent:
            self._disturbed = False
            return self._devices
        due, wakes = {event.device for event in events}, self.dispatch.wakes
        if min(wakes) <= self.now:
            due.update(d for d, at in enumerate(wakes) if at <= self.now)
        return sorted(due)

    def _jobs_left(self) -> bool:
        if self.intake is not None:
            self.now = self.backend.clock()
            if self.intake.take(self):
                self._moment([])
        return self.life.jobs_left > 0

    def _next_due(self) -> float:
        due = min(*self.dispatch.wakes, self.instances.next_timer())
        if self.instances.retries.held:
            due = min(due, *self.instances.retries.held.values())
        if self.instances.retries.timed:
            due = min(due, *(self._deadline(d) for d in self._devices))
        if self.intake is None:
            return due
        due = min(due, self.intake.due())
        looks = not self.life.modelled and (due < inf or any(self.dispatch.sent))
        return min(due, self.now + INTAKE_SECONDS) if looks else due

    def _ended(self, event: Finished | Failed) -> None:
        sent = self.dispatch.take(event)
        if sent is None:
            return  # the order was cancelled
        device, group = event.device, sent.group
        self._ended_by_driver.discard(device)  # it is alive
        finish = self.dispatch.corrected_times(group, event, self.now)
        outcomes: dict[int, int] = {}
        if isinstance(event, Finished):
            event = restricted_to(event, sent.order.members, group.members)
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
            self._disturbed = True
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
        self._forget(self.instances.unreferenced(group.members))
        if (
            self.drift is not None
            and self.drift.finished(group.members[0], device, finish - group.start, expected)
            and self.now >= self._correct_again
        ):
            begin = perf_counter()
            self.life.estimate(self.drift.corrected())
            self._changed()
            if not self.life.modelled:
                self._correct_again = self.now + (perf_counter() - begin) / CORRECTING_SHARE

    def _lost(self, event: DeviceLost) -> None:
        self._disturbed = True
        device = event.device
        sent = self.dispatch.take_all(device)
        self.changes.append((self._noticed(event.time), device, inf))
        ran = self.life.machines[device].running
        members = list(ran.members) if ran is not None else []
        self.life.change_slowdown(device, inf, self.now)
        if ran is not None:
            self.dispatch.settle(ran, max(self.now - ran.start, 0.0), self.now)
        for ahead in sent:
            self.dispatch.release(ahead, device)
        for observer in self.observers:
            observer.lost(self.life, event)
        # No task is to blame for a failure that a scenario scripts.
        for i in () if self.life.modelled else members:
            blame = self.instances.retries.fault_of_loss(
                i,
                event,
                overdue=bool(sent) and sent[0].overdue,
                ended_by_driver=device in self._ended_by_driver,
            )
            if blame is not None:
                self._blame(i, device, *blame, "", final=blame[0] == "killed")
        self._ended_by_driver.discard(device)
        self._changed()

    def _added(self, event: DeviceAdded) -> None:
        self._disturbed = True
        if event.device >= len(self._devices) and not self._grow(event.device):
            return
        down = self.life.machines[event.device].slowdown == inf
        self.life.change_slowdown(event.device, event.slowdown, self.now)
        self.changes.append((self._noticed(event.time), event.device, event.slowdown))
        if down:
            for observer in self.observers:
                observer.added(self.life, event)
            self._changed()

    def _grow(self, device: int) -> bool:
        """Add a new device to the run, as one that was down until now."""
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
            else self.instances.retries.deadline(running)
        )

    def _take_arrivals(self) -> list[int]:
        due = self.instances.arrivals(self.now)
        for job in due:
            self.life.arrive(job, self.now)
        return due

    def _releases(self) -> None:
        self._disturbed = True
        due = self.instances.retries.released(self.now)
        for i in due:
            self.life.release(i)
        if due:
            self._changed()

    def _decisions(self) -> None:
        while self.life.ready:
            decision = self.decider.ask(self.now)
            if decision is None:
                return
            device = int(decision.device)
            if isinstance(decision, Block):
                self.life.block(device, float(decision.until))
            elif decision.copy >= 0 and self.life.modelled:
                # Real backends make no copies, as the inputs of a parent may be dropped already.
                self.life.commit_with_copy(
                    self.life.batch(int(decision.instance), device),
                    device,
                    self.now,
                    int(decision.copy),
                )
            else:
                self.life.commit(self.life.batch(int(decision.instance), device), device, self.now)
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
        """Schedule the next attempt of a failed task, or cancel it and its dependents."""
        again = self.instances.retries.next_attempt(instance, self.now, final=final)
        for observer in self.observers:
            observer.failed(self.life, instance, device, text)
        if again is not None:
            self._back_off(instance, device, again)
            return
        attempts = self.instances.retries.attempts(instance)
        self.failures.append(
            Failure.of(self.life, instance, device, fault, text, traceback, attempts)
        )
        self.life.give_up(instance, self.now, text)
        if self.options.on_error == "stop" and self.intake is not None:
            self.cancel(self.life.place[instance][0])
        elif self.options.on_error == "stop":
            self.stop()
        else:
            self._cancel_strays()

    def _back_off(self, instance: int, device: int, until: float) -> None:
        if self.life.planned:
            self.life.block(device, until)
        else:
            self.life.hold(instance)
            self.instances.retries.held[instance] = until
        self._changed()

    def _cancel_strays(self) -> None:
        """Cancel every order whose group has left its device."""
        self._disturbed = True
        for device, sent, ran in self.dispatch.strays():
            self.dispatch.release(sent, device)
            if ran and not self.life.modelled:
                self._ended_by_driver.add(device)
            self.backend.cancel(sent.order.number)
        for device in self._devices:
            self.dispatch.begin_next(device)

    # -- helpers -------------------------------------------------------

    def _changed(self) -> None:
        self.decider.changed(self.now)

    def _forget(self, instances: Sequence[int]) -> None:
        for i in instances:
            self.backend.release(i)

    def _noticed(self, time: float) -> float:
        """Return the time of a change: running tasks end when the driver notices a loss."""
        return max(0.0, min(time, self.now)) if self.life.modelled else self.now
