"""A backend with a virtual clock, driven by a scenario and scripted faults."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput
from weft.model import Cluster, Scenario, Workload
from weft.runtime.backends import protocol
from weft.runtime.backends.protocol import Call, Event, Order
from weft.runtime.backends.result_file import save_value
from weft.sim.cache import KindCache
from weft.typed import typed_class


@dataclass(eq=False)
class _DeviceOrders:
    """The orders of a device; the first one runs."""

    orders: deque[Order] = field(default_factory=deque)
    start: float = 0.0
    end: float = inf
    slowdown: float = 1.0


@typed_class
class FakeBackend:
    """A backend that runs nothing: the scenario gives all durations.

    Parameters
    ----------
    scenario : durations, failures and branches; None: as estimated, without failures
    modelled : devices wait for the estimated arrival of inputs, as in the simulator
    faults : instance -> the faults of its first executions, one each
    hangs : instances that never end by themselves

    Examples
    --------
    >>> from weft.model import Problem
    >>> workload = Workload.of(Problem.from_arrays([[2.0]]))
    >>> fake = FakeBackend(workload.cluster)
    >>> fake.begin(workload, None)
    >>> fake.submit(Order(0, (0,), ((),), (False,)), 0, 0.0)
    >>> [type(event).__name__ for event in fake.wait(9.0)], fake.clock()
    (['Started', 'Finished'], 2.0)
    """

    name = "fake"

    def __init__(
        self,
        cluster: Cluster,
        scenario: Scenario | None = None,
        *,
        modelled: bool = True,
        faults: Mapping[int, Sequence[protocol.Fault]] | None = None,
        hangs: Sequence[int] = (),
    ) -> None:
        self.cluster = cluster
        self.scenario = scenario
        self.modelled = modelled
        self.submitted: list[tuple[float, int, tuple[int, ...]]] = []
        """(time, device, members) of every order, for tests."""
        self._script = {instance: list(faults[instance]) for instance in faults} if faults else {}
        self._hangs = frozenset(hangs)
        self._now = 0.0

    def devices(self) -> Cluster:
        """Return the cluster."""
        return self.cluster

    def begin(
        self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0
    ) -> None:
        """Start the clock; functions are not called."""
        if workload.cluster.names != self.cluster.names:
            raise InvalidInput(
                f"'{workload.name}' is bound to cluster '{workload.cluster.name}', the fake "
                f"backend is '{self.cluster.name}'"
            )
        self.workload = workload
        self.future = self.scenario or Scenario.of(workload)
        rows = (
            self.future.change_time.tolist(),
            self.future.change_device.tolist(),
            self.future.change_slowdown.tolist(),
        )
        self._changes = deque(zip(*rows, strict=True))
        self._lanes = [_DeviceOrders() for _ in range(self.cluster.p)]
        devices = range(self.cluster.p) if workload.cluster.has_setup else ()
        self._caches = [KindCache(workload, d) for d in devices]
        self._events: list[Event] = []
        self._now = since
        self._number_kinds()

    def extend(self, workload: Workload, calls: Sequence[Call] | None, first: int) -> None:
        """Add a job; a scenario must cover its instances."""
        if self.scenario is not None and len(self.scenario.factor) < workload.instances:
            raise InvalidInput(
                f"the scenario covers {len(self.scenario.factor)} instances; '{workload.name}' "
                f"has {workload.instances} now"
            )
        self.workload = workload
        self.future = self.scenario or Scenario.of(workload)
        self._number_kinds()

    def _number_kinds(self) -> None:
        numbers = {kind: k for k, kind in enumerate(self.workload.kinds)}
        self._kinds = [
            [numbers[k] for k in problem.workflow.kinds] for problem in self.workload.problems
        ]

    def clock(self) -> float:
        """Return the virtual time."""
        return self._now

    def submit(self, order: Order, device: int, priority: float) -> None:
        """Queue an order; an idle device starts it at once."""
        self.submitted.append((self._now, device, order.members))
        lane = self._lanes[device]
        lane.orders.append(order)
        if len(lane.orders) == 1:
            self._start(device)

    def cancel(self, number: int) -> None:
        """Remove an order, running or not."""
        for device, lane in enumerate(self._lanes):
            numbers = [order.number for order in lane.orders]
            if number in numbers:
                del lane.orders[numbers.index(number)]
                if numbers[0] == number:
                    self._next(device)

    def wait(self, until: float) -> list[Event]:
        """Advance to the next event, at most to `until`."""
        due = min(
            *(lane.end for lane in self._lanes), self._changes[0][0] if self._changes else inf
        )
        if min(due, until) == inf:
            return self._taken()
        self._now = max(self._now, min(due, until))
        for device, lane in enumerate(self._lanes):
            if lane.end <= self._now:
                self._events.append(self._ending(lane.orders.popleft(), device, lane))
                self._next(device)
        while self._changes and self._changes[0][0] <= self._now:
            self._change(*self._changes.popleft()[1:])
        return self._taken()

    def fetch(self, instance: int) -> Any:
        """Return the number of the instance in place of a result."""
        return instance

    def release(self, instance: int) -> None:
        """Do nothing."""

    def store(self, instance: int, path: Path) -> None:
        """Write the number."""
        save_value(instance, path)

    def restore(self, instance: int, path: Path) -> None:
        """Do nothing."""

    def finish(self) -> None:
        """Drop all orders."""
        self._lanes = [_DeviceOrders() for _ in range(self.cluster.p)]

    def close(self) -> None:
        """Do nothing."""

    # -- inside -------------------------------------------------------------

    def _taken(self) -> list[Event]:
        news, self._events = self._events, []
        return news

    def _start(self, device: int) -> None:
        lane = self._lanes[device]
        order = lane.orders[0]
        lane.start = self._now
        hangs = not self._hangs.isdisjoint(order.members)
        lane.end = inf if hangs else self._now + self._seconds(order, device)
        self._events.append(protocol.Started(order.number, device, self._now))

    def _next(self, device: int) -> None:
        self._lanes[device].end = inf
        if self._lanes[device].orders:
            self._start(device)

    def _ending(self, order: Order, device: int, lane: _DeviceOrders) -> Event:
        for i in order.members:
            if self._script.get(i):
                fault = self._script[i].pop(0)
                return protocol.Failed(
                    order.number, device, lane.start, self._now, fault, f"scripted: {fault}"
                )
        branches = tuple(self._branches(i) for i in order.members)
        data = tuple(0.0 for _ in order.members)
        return protocol.Finished(order.number, device, lane.start, self._now, data, branches)

    def _branches(self, instance: int) -> tuple[int, ...]:
        job, task = self.workload.task_of(instance)
        choices = self.workload.problem_of(job).workflow.choices
        first = int(self.workload.first_choice[job])
        return tuple(
            int(self.future.outcome[first + c])
            for c in range(len(choices))
            if choices.task[c] == task
        )

    def _change(self, device: int, slowdown: float) -> None:
        lane = self._lanes[device]
        old, lane.slowdown = lane.slowdown, slowdown
        if slowdown == inf:
            if self._caches:
                self._caches[device].empty()
            lane.orders.clear()
            lane.end = inf
            self._events.append(protocol.DeviceLost(device, self._now, "scripted"))
            return
        if lane.end < inf:
            lane.end = self._now + (lane.end - self._now) * (slowdown / old)
        self._events.append(protocol.DeviceAdded(device, self._now, slowdown))

    def _seconds(self, order: Order, device: int) -> float:
        """Return the true seconds of a group, in the order of steps of docs/simulator.md."""
        longest = 0.0
        for i in order.members:
            job, task = self.workload.task_of(i)
            problem = self.workload.problem_of(job)
            kind = self._kinds[int(self.workload.template[job])][int(problem.workflow.kind[task])]
            seconds = float(problem.work[task]) * float(problem.per_work[problem.row[task], device])
            seconds = seconds * float(self.future.factor[i]) * float(self.future.bias[kind, device])
            longest = max(longest, seconds * self._lanes[device].slowdown)
        growth = self.workload.batch_growth[kind, device]
        longest *= float(growth[min(len(order.members), len(growth)) - 1])
        if self._caches:
            cache, name = self._caches[device], self.workload.kinds[kind]
            longest += cache.seconds(name) * self._lanes[device].slowdown
            cache.load(name)
        return longest
