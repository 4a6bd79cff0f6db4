"""Drives the life cycle with a backend: events in, orders out. The moments are those of docs/simulator.md, the clock is the backend's.

With a backend that models transfers, every device gets one group at a time, when its inputs have arrived: this is the simulator. With a
real one, a device gets the first groups of its queue ahead of time, `window` of them, so that it never waits for the driver.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import numpy as np

from weft.errors import InvalidInput, Stuck
from weft.model import Scenario, Trace
from weft.run.backend import Backend, DeviceAdded, DeviceLost, Event, Failed, Fault, Finished, Order, Started
from weft.run.drift import Drift
from weft.run.failure import Failure, PolicyReplaced
from weft.run.guide import Guide, greedy
from weft.run.journal import Record
from weft.run.live import LiveLifecycle
from weft.run.observer import Observer
from weft.run.outcome import outcomes_of
from weft.run.reservations import Reservations
from weft.run.terms import Terms
from weft.sim.machine import Group, Start, Wake
from weft.sim.story import State
from weft.sim.view import Block, Decision


@dataclass(eq=False)
class _Sent:
    """An order a device has, and since when."""

    order: Order
    group: Group
    at: float
    overdue: bool = False


class Driver:
    """One run of a workload on a backend."""

    def __init__(
        self,
        life: LiveLifecycle,
        backend: Backend,
        guide: Guide,
        *,
        terms: Terms | None = None,
        cancels: Sequence[float] | None = None,
        drift: Drift | None = None,
        reservations: Reservations | None = None,
        wanted: frozenset[int] = frozenset(),
        observers: Sequence[Observer] = (),
    ) -> None:
        self.life = life
        self.backend = backend
        self.guide = guide
        self.name = guide.name
        self.terms = terms or Terms()
        self.workload = life.workload
        self.cancels = [inf] * self.workload.jobs if cancels is None else list(cancels)
        self.drift = drift
        self.reservations = reservations
        self.wanted = wanted
        self.observers = list(observers)
        self.failures: list[Failure] = []
        self.changes: list[tuple[float, int, float]] = []
        self.now = 0.0
        self.replaced = ""
        """Why the policy was replaced; empty while it was not."""
        self._devices = range(self.workload.cluster.p)
        self._window = 1 if life.modelled or life.planned else self.terms.window
        self._sent: list[deque[_Sent]] = [deque() for _ in self._devices]
        self._wakes = [inf for _ in self._devices]
        self._free = [0.0 for _ in self._devices]
        """When the last order that ended on each device did."""
        self._held: dict[int, float] = {}
        self._numbers = 0
        self._attempts: dict[int, int] = {}
        self._crashes: dict[int, int] = {}
        self._prepared = False
        self._sacrificed: set[int] = set()
        """Devices the driver ended itself, with an order it called off: nobody else is to blame for their loss."""
        self._arrived = [False] * self.workload.jobs
        self._early: list[int] = []
        """Jobs that were here before `run`: those of a run that goes on."""
        self._readers = [len(set(self._children(i))) for i in range(self.workload.instances)]
        self._limits = [self.terms.limit(life.problem(i).workflow, life.place[i][1]) for i in range(self.workload.instances)]
        self._timed = any(limit < inf for limit in self._limits)

    def prepare(self) -> None:
        """Let the guide think before the clock runs: plans, ranks, compilation."""
        self._prepared = True
        try:
            self.guide.begin(self.life)
        except Exception as error:  # noqa: BLE001  # whatever a policy does, the run goes on
            self._replace(f"it does not begin: {type(error).__name__}: {error}")

    def run(self) -> None:
        """Live moment after moment until every job is finished, failed or cancelled."""
        if not self._prepared:
            self.prepare()
        for job in self._early:
            self.guide.arrived(self.life, job, self.now)
            self.guide.changed(self.life, self.now)
        if self._early:
            self._moment([])
        while self.life.jobs_left:
            until = self._next_due()
            events = self.backend.wait(until)
            if not events and until == inf and not self._unstick():
                raise Stuck(self._why_stuck())
            self.now = self.backend.clock()
            self._moment(events)
        for observer in self.observers:
            observer.ended(self.life, self.now)

    def resume(self, records: Sequence[Record], path: Callable[[int], Path]) -> None:
        """Take over what an earlier process finished; `path` tells where each result is. Comes after the backend has begun."""
        self.now = self.backend.clock()
        self._early = self._take_arrivals()
        names = {name: d for d, name in enumerate(self.workload.cluster.names)}
        groups = []
        for record in records:  # as they were written: what a task needed comes before it
            if record.instance not in self.life.ready:
                continue  # what it needed is not there any more: it runs again
            device = names.get(record.device, -1)
            if device < 0 or not self.life.can_run(record.instance, device):
                able = [d for d in self._devices if self.life.can_run(record.instance, d)]
                if not able:
                    continue
                device = able[0]  # its own is gone; the trace must say something
            self.life.commit([record.instance], device, record.decided)
            groups.append(self.life.begin(device, record.start))
            self.life.finish(device, record.finish, record.outcomes)
        for group in groups:
            self._forget_inputs(group)
        for group in groups:
            instance = group.members[0]
            if self._readers[instance] or instance in self.wanted:
                self.backend.restore(instance, path(instance))

    def stop(self) -> None:
        """Call everything off, now."""
        for job in range(self.workload.jobs):
            if not self.life.ended(job):
                self.cancels[job] = self.now
                self._cancel(job)

    def trace(self) -> Trace:
        """What happened so far, with the branches that were taken as its scenario."""
        outcome = np.maximum(self.life.outcome, 0)
        cancel = [self.now if failed else at for failed, at in zip(self.life.failed, self.cancels, strict=True)]
        if not self.life.modelled:  # a job may be done just before the driver gets to calling it off
            cancel = [inf if done < inf else at for done, at in zip(self.life.job_finish, cancel, strict=True)]
        scenario = Scenario.of(
            self.workload, outcome=outcome, changes=np.array(self.changes, float).reshape(-1, 3), cancel=np.array(cancel)
        )
        # With the estimates the run began with, so that predicted and measured can be compared.
        return self._named(replace(self.life.trace(scenario, self.name), workload=self.workload))

    # -- the steps of a moment ----------------------------------------------

    def _moment(self, events: list[Event]) -> None:
        for end in _in_turn(events):
            self._ended(end)
        for event in events:
            if isinstance(event, DeviceLost):
                self._lost(event)
            elif isinstance(event, DeviceAdded):
                self._added(event)
            elif isinstance(event, Started):
                self._tell_started(event)
        self._overdue()
        self._cancellations()
        self._arrivals()
        self._releases()
        for device in self._devices:
            self._fill(device)
        self._decisions()

    def _next_due(self) -> float:
        jobs = [j for j in range(self.workload.jobs) if not self.life.ended(j)]
        cancel = min((self.cancels[j] for j in jobs), default=inf)
        arrival = min((float(self.workload.arrival[j]) for j in jobs if not self._arrived[j]), default=inf)
        return min(*self._wakes, cancel, arrival, min(self._held.values(), default=inf), self._next_timeout())

    def _ended(self, event: Finished | Failed) -> None:
        sent = self._sent[event.device]
        if not sent or sent[0].order.number != event.number:
            return  # of an order that was called off
        device, group = event.device, sent[0].group
        sent.popleft()
        self._sacrificed.discard(device)  # it lives
        finish = event.finish if self.life.modelled else self._believed(group, event)
        outcomes: dict[int, int] = {}
        if isinstance(event, Finished):
            try:
                outcomes = outcomes_of(self.life, group, event)
            except InvalidInput as error:
                event = Failed(event.number, device, event.start, event.finish, "outcome", str(error))
        if isinstance(event, Finished):
            self._done(group, event, finish, outcomes)
        else:
            members = list(group.members)
            self._settle(group, device, event.finish - event.start)
            self.life.lose(device, finish, event.text)
            for i in members:
                self._blame(i, device, event.fault, event.text, event.traceback)
        self._begin_next(device)

    def _believed(self, group: Group, event: Finished | Failed) -> float:
        """Set when a group began, and return when it ended, as far as the clock of its device can be believed.

        Nothing begins before it was sent, or before what was ahead of it ended; nothing ends after its end was reported. So no task
        can seem to run before its inputs were there, whatever the clocks of devices say.
        """
        if group.start < event.start <= self.now:
            group.start = event.start
        finish = self._free[group.device] = max(group.start, min(event.finish, self.now))
        return finish

    def _begin_next(self, device: int) -> None:
        """A device goes on by itself with what it has; what it was sent after it fell idle begins then."""
        if self._sent[device] and self.life.machines[device].running is None and not self.life.modelled:
            self.life.begin(device, max(self._free[device], self._sent[device][0].at))

    def _done(self, group: Group, event: Finished, finish: float, outcomes: dict[int, int]) -> None:
        device = event.device
        seconds = finish - group.start
        expected = self.life.expected(group.members, device)
        self.life.finish(device, finish, outcomes)
        self._settle(group, device, event.finish - event.start)
        for observer in self.observers:
            observer.finished(self.life, group, event, outcomes)
        self._forget_inputs(group)
        if self.drift is not None and self.drift.finished(group.members[0], device, seconds, expected):
            self.life.estimate(self.drift.corrected())
            self.guide.changed(self.life, self.now)

    def _lost(self, event: DeviceLost) -> None:
        device = event.device
        sent, self._sent[device] = self._sent[device], deque()
        self.changes.append((self._when(event.time), device, inf))
        ran = self.life.machines[device].running
        members = list(ran.members) if ran is not None else []
        self.life.change_pace(device, inf, self.now)
        if ran is not None:
            self._settle(ran, device, max(self.now - ran.start, 0.0))
        for ahead in sent:
            self._release(ahead, device)
        for observer in self.observers:
            observer.lost(self.life, event)
        for i in members:
            if self.life.modelled:
                continue  # the scenario's failures are nobody's fault
            if sent and sent[0].overdue:
                self._blame(i, device, "timeout", f"it ran longer than its limit of {self._limits[i]:g} s", "")
            elif device in self._sacrificed:
                continue
            elif event.fault == "exited":
                self._blame(i, device, "exited", event.text, "")
            else:
                self._crashes[i] = self._crashes.get(i, 0) + 1
                if self._crashes[i] >= self.terms.crashes:
                    self._blame(i, device, "killed", f"{event.text}, {self._crashes[i]} times under this task", "", final=True)
        self._sacrificed.discard(device)
        self.guide.changed(self.life, self.now)

    def _added(self, event: DeviceAdded) -> None:
        down = self.life.machines[event.device].pace == inf
        self.life.change_pace(event.device, event.pace, self.now)
        self.changes.append((self._when(event.time), event.device, event.pace))
        if down:
            for observer in self.observers:
                observer.added(self.life, event)
            self.guide.changed(self.life, self.now)

    def _when(self, said: float) -> float:
        return max(0.0, min(said, self.now))

    def _tell_started(self, event: Started) -> None:
        sent, running = self._sent[event.device], self.life.machines[event.device].running
        if sent and sent[0].order.number == event.number and running is sent[0].group and not self.life.modelled:
            running.start = max(running.start, min(event.time, self.now))  # its time limit counts from here
        for observer in self.observers:
            observer.started(self.life, event)

    def _overdue(self) -> None:
        if not self._timed:
            return
        for device in self._devices:
            limit = self._deadline(device)
            if limit <= self.now:
                self._sent[device][0].overdue = True
                self.backend.cancel(self._sent[device][0].order.number)

    def _cancellations(self) -> None:
        for job in range(self.workload.jobs):
            if self.cancels[job] <= self.now and not self.life.ended(job):
                self.cancels[job] = self.now
                self._cancel(job)

    def _arrivals(self) -> None:
        for job in self._take_arrivals():
            self.guide.arrived(self.life, job, self.now)

    def _take_arrivals(self) -> list[int]:
        due = [
            j for j in range(self.workload.jobs) if not self._arrived[j] and self.workload.arrival[j] <= self.now and not self.life.ended(j)
        ]
        for job in due:
            self._arrived[job] = True
            self.life.arrive(job, self.now)
        return due

    def _releases(self) -> None:
        due = [i for i, at in self._held.items() if at <= self.now]
        for i in due:
            del self._held[i]
            self.life.release(i)
        if due:
            self.guide.changed(self.life, self.now)

    # -- giving work to devices ---------------------------------------------

    def _fill(self, device: int) -> None:
        """Send a device what it can take now, or note when to look again."""
        self._wakes[device] = inf
        if self.life.modelled:
            self._start_due(device)
            return
        machine, sent = self.life.machines[device], self._sent[device]
        if machine.pace == inf or (self.now < machine.blocked_until and machine.running is None):
            self._wakes[device] = machine.blocked_until if machine.pace < inf else inf
            return
        while len(sent) < self._window:
            k = len(sent) - (machine.running is not None)
            if k >= len(machine.queue):
                break
            group = machine.queue[k]
            if any(self.life.stories.state[i] is State.WAITING for i in group.members) or not self._reserve(group, device):
                break
            self._send(group, device)
        self._begin_next(device)

    def _start_due(self, device: int) -> None:
        machine = self.life.machines[device]
        if self.reservations is not None and machine.queue and machine.running is None and machine.pace < inf:
            ready = not any(self.life.stories.state[i] is State.WAITING for i in machine.queue[0].members)
            if ready and not self._reserve(machine.queue[0], device):
                return
        due = self.life.start_due(device, self.now)
        if isinstance(due, Wake):
            self._wakes[device] = due.at
        elif isinstance(due, Start):
            self._send(due.group, device)

    def _send(self, group: Group, device: int) -> None:
        order = Order(
            number=self._numbers,
            members=tuple(group.members),
            inputs=tuple(self._inputs(i) for i in group.members),
            chooses=tuple(bool(self.life.choices_of(i)) for i in group.members),
        )
        self._numbers += 1
        self._sent[device].append(_Sent(order, group, self.now))
        self.backend.submit(order, device, float(order.number))

    def _inputs(self, instance: int) -> tuple[int | None, ...]:
        job, task = self.life.place[instance]
        w, first = self.life.problem(instance).workflow, int(self.workload.first_instance[job])
        taken = {parent for parent, _ in self.life.inputs[instance]}
        parents = (first + w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]]).tolist()
        return tuple(p if p in taken else None for p in parents)

    def _reserve(self, group: Group, device: int) -> bool:
        """Whether the reservations let a group start now; otherwise the device looks again when they may."""
        if self.reservations is None or group.batch == RESERVED:
            return True
        job, first = self.life.place[group.members[0]][0], group.members[0]
        memory = sum(float(self.life.problem(i).workflow.memory[self.life.place[i][1]]) for i in group.members)
        predicted = self.life.expected(group.members, device)
        again = self.reservations.admit(first, device, job=job, predicted=predicted, now=self.now, memory=memory)
        if again is not None:
            self._wakes[device] = again
            return False
        group.batch = RESERVED
        return True

    def _settle(self, group: Group, device: int, seconds: float) -> None:
        if self.reservations is not None:
            first = group.members[0]
            self.reservations.settle(first, device, job=self.life.place[first][0], seconds=seconds, now=self.now)

    def _release(self, sent: _Sent, device: int) -> None:
        """What was sent and never ran gives back what it reserved."""
        if self.reservations is not None:
            self.reservations.release(sent.order.members[0], device)
            sent.group.batch = -1 if sent.group.batch == RESERVED else sent.group.batch

    # -- decisions ----------------------------------------------------------

    def _decisions(self) -> None:
        while self.life.ready:
            said = self._ask()
            if said is None:
                return
            if isinstance(said, Block):
                self.life.block(int(said.device), float(said.until))
            else:
                instance, device = int(said.instance), int(said.device)
                self.life.commit(self.life.batch(instance, device), device, self.now)
            self._fill(int(said.device))

    def _ask(self) -> Decision | Block | None:
        """What the guide says; if it errs or makes no sense, greedy takes its place for the rest of the run."""
        while True:
            try:
                said = self.guide.decide(self.life, self.now)
                why = self._nonsense(said)
            except Exception as error:
                if self.replaced:
                    raise
                why = f"{type(error).__name__}: {error}"
            if not why:
                return said
            self._replace(why)

    def _nonsense(self, said: object) -> str:
        if said is None:
            return ""
        if not isinstance(said, Decision | Block):
            return f"it returned {said!r}; it must return a Decision, a Block or None"
        device = int(said.device)
        if not 0 <= device < len(self._devices):
            return f"it chose device {device}; there are devices 0 to {len(self._devices) - 1}"
        if isinstance(said, Block):
            return "" if self.now < said.until < inf else f"it blocks a device until {said.until}; now it is {self.now:g}"
        instance = int(said.instance)
        if not 0 <= instance < self.workload.instances:
            return f"it chose instance {instance}; there are instances 0 to {self.workload.instances - 1}"
        why = self.life.refusal(instance, device)
        if why is None and instance in self.life.held:
            why = "it waits for its next attempt"
        return f"it committed {self.life.stories.names[instance]}: {why}" if why else ""

    def _replace(self, why: str) -> None:
        self.replaced = why
        warnings.warn(f"policy '{self.guide.name}' is replaced by greedy earliest finish time: {why}", PolicyReplaced, stacklevel=2)
        self.guide = greedy()
        self.guide.begin(self.life)

    def _unstick(self) -> bool:
        """Nothing runs and nothing is due: if something could be decided, the guide was wrong to wait."""
        could = any(m.pace < inf for m in self.life.machines) and bool(self.life.ready)
        if not could or self.replaced or self.life.planned:
            return False
        self._replace(f"it waits, though nothing runs and {len(self.life.ready)} tasks are ready")
        return True

    # -- failures -----------------------------------------------------------

    def _blame(self, instance: int, device: int, fault: Fault, text: str, traceback: str, *, final: bool = False) -> None:
        """A task failed by its own fault: it runs again later, or is given up."""
        attempts = self._attempts[instance] = self._attempts.get(instance, 0) + 1
        for observer in self.observers:
            observer.failed(self.life, instance, device, text)
        if not final and attempts <= self.terms.retries:
            self._back_off(instance, device, self.now + self.terms.backoff * 2.0 ** (attempts - 1))
            return
        failure = Failure.of(self.life, instance, device, fault, text, traceback, attempts + self._crashes.get(instance, 0) * final)
        self.failures.append(failure)
        self.life.give_up(instance, self.now, text)
        if self.terms.on_error == "stop":
            self.stop()
        else:
            self._call_off_strays()

    def _back_off(self, instance: int, device: int, until: float) -> None:
        if self.life.planned:
            self.life.block(device, until)
        else:
            self.life.hold(instance)
            self._held[instance] = until
        self.guide.changed(self.life, self.now)

    def _cancel(self, job: int) -> None:
        self.life.cancel(job, self.now)
        for i in self.life.instances(job):
            self._held.pop(i, None)
        self._call_off_strays()

    def _call_off_strays(self) -> None:
        """Tell the backend of every order whose group is no longer on its device."""
        for device in self._devices:
            machine = self.life.machines[device]
            kept = [machine.running, *machine.queue]
            first = self._sent[device][0] if self._sent[device] else None
            strays = [sent for sent in self._sent[device] if not any(sent.group is group for group in kept)]
            self._sent[device] = deque(sent for sent in self._sent[device] if sent not in strays)
            for sent in strays:
                self._release(sent, device)
                if sent is first and not self.life.modelled:
                    self._sacrificed.add(device)
                self.backend.cancel(sent.order.number)
            self._begin_next(device)

    # -- small things -------------------------------------------------------

    def _children(self, instance: int) -> list[int]:
        job, task = self.life.place[instance]
        w = self.life.problem(instance).workflow
        first = int(self.workload.first_instance[job])
        return [first + t for t in w.dst[w.succ_ptr[task] : w.succ_ptr[task + 1]].tolist()]

    def _forget_inputs(self, group: Group) -> None:
        """A result all of whose readers are done can go; a plan with copies may read it again."""
        if self.life.planned:
            return
        for i in group.members:
            for parent, _ in self.life.inputs[i]:
                self._readers[parent] -= 1
                if self._readers[parent] == 0 and parent not in self.wanted:
                    self.backend.forget(parent)

    def _deadline(self, device: int) -> float:
        running = self.life.machines[device].running
        sent = self._sent[device]
        if running is None or not sent or sent[0].overdue:
            return inf
        return running.start + max(self._limits[i] for i in running.members)

    def _next_timeout(self) -> float:
        return min(self._deadline(d) for d in self._devices) if self._timed else inf

    def _named(self, trace: Trace) -> Trace:
        return trace.named(f"{self.name}, then eft") if self.replaced else trace

    def _why_stuck(self) -> str:
        jobs = self.life.jobs_here()
        down = [n for n, m in zip(self.workload.cluster.names, self.life.machines, strict=True) if m.pace == inf]
        why = f"devices down for good: {', '.join(down)}" if down else f"{len(self.life.ready)} tasks are ready"
        return f"'{self.name}' is stuck at {self.now:g} s: nothing runs or is due, but {len(jobs)} jobs are not finished ({why})"


def _in_turn(events: Sequence[Event]) -> list[Finished | Failed]:
    """Ends in order within a device; devices with failures last, since those may call off what others have done."""
    ends = [event for event in events if isinstance(event, Finished | Failed)]
    bad = {event.device for event in ends if isinstance(event, Failed)}
    return sorted(ends, key=lambda end: (end.device in bad, end.device))


RESERVED = -2
"""Batch number of a group whose budget was checked already; a real one is given when it starts."""
