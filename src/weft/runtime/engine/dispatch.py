"""Dispatch of groups to devices: a window of orders per device, and reservations.

A backend that models transfers gets one group per device at a time, once its inputs have arrived,
as in the simulator. A real backend gets the first `window` groups of each queue ahead of time, like
the ring buffer of a GPU, so that a device never waits for the driver. Where tasks share capacities
of a node, a group is sent once it can start: when the device is free and the node has room.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import inf

from weft.runtime.backends.protocol import Backend, Failed, Finished, Order, Started
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.service.budgets import Reservations
from weft.sim.device_state import Group, Start, Wake
from weft.sim.story import State

RESERVED = -2
"""Batch number of a group between its reservation and its start, which assigns a real number."""


@dataclass(eq=False, slots=True)
class SentOrder:
    """An order that a device holds; `at` is the time it was sent."""

    order: Order
    group: Group
    at: float
    overdue: bool = False


class Dispatch:
    """The orders that devices hold, in the order they were sent."""

    def __init__(
        self,
        life: LiveLifecycle,
        backend: Backend,
        *,
        window: int,
        reservations: Reservations | None = None,
    ) -> None:
        self.life = life
        self.backend = backend
        self.reservations = reservations
        self.window = 1 if life.modelled or life.planned else window
        devices = range(len(life.machines))
        self.sent: list[deque[SentOrder]] = [deque() for _ in devices]
        self.wakes = [inf for _ in devices]
        """Device -> time of its next check."""
        self._free = [0.0 for _ in devices]
        """Device -> end of its last order."""
        self._numbers = 0

    def grow(self, devices: int) -> None:
        """Add devices."""
        for _ in range(len(self.sent), devices):
            self.sent.append(deque())
            self.wakes.append(inf)
            self._free.append(0.0)

    # -- sending ------------------------------------------------------------

    @property
    def independent(self) -> bool:
        """Whether only its own events and decisions let a device receive more orders."""
        life = self.life
        return not (life.modelled or life.planned or life.contended or self.reservations)

    def fill(self, device: int, now: float) -> None:
        """Send a device the groups it has room for, or set the time of its next check."""
        machine, sent = self.life.machines[device], self.sent[device]
        self.wakes[device] = inf
        if self.life.modelled:
            self._start_due(device, now)
            return
        if machine.slowdown == inf or (now < machine.blocked_until and machine.running is None):
            self.wakes[device] = machine.blocked_until if machine.slowdown < inf else inf
            return
        if not machine.queue:
            return
        state = self.life.stories.state
        packed = self.life.contended
        while len(sent) < (1 if packed else self.window):
            k = len(sent) - (machine.running is not None)
            if k >= len(machine.queue):
                break
            group = machine.queue[k]
            if packed and not self.life.room.fits(group.members, device):
                break  # until something ends on the node
            if any(state[i] is State.WAITING for i in group.members) or not self._reserve(
                group, device, now
            ):
                break
            self._send(group, device, now)
        self.begin_next(device)

    def begin_next(self, device: int) -> None:
        """Mark the next order as running, as devices go on without the driver."""
        sent = self.sent[device]
        if sent and self.life.machines[device].running is None and not self.life.modelled:
            self.life.begin(device, max(self._free[device], sent[0].at))

    def _start_due(self, device: int, now: float) -> None:
        machine = self.life.machines[device]
        if (
            self.reservations is not None
            and machine.queue
            and machine.running is None
            and machine.slowdown < inf
        ):
            ready = not any(
                self.life.stories.state[i] is State.WAITING for i in machine.queue[0].members
            )
            if ready and not self._reserve(machine.queue[0], device, now):
                return
        due = self.life.start_due(device, now)
        if isinstance(due, Wake):
            self.wakes[device] = due.at
        elif isinstance(due, Start):
            self._send(due.group, device, now)

    def _send(self, group: Group, device: int, now: float) -> None:
        members, life = tuple(group.members), self.life
        inputs = tuple([life.sources(i) for i in members])
        if life.conditional:
            chooses = tuple([bool(life.choices_of(i)) for i in members])
        else:
            chooses = (False,) * len(members)
        order = Order(self._numbers, members, inputs, chooses)
        self._numbers += 1
        self.sent[device].append(SentOrder(order, group, now))
        self.backend.submit(order, device, float(order.number))

    # -- ends ---------------------------------------------------------------

    def take(self, event: Finished | Failed) -> SentOrder | None:
        """Remove and return the order that an event ends; None if it was cancelled before."""
        sent = self.sent[event.device]
        return sent.popleft() if sent and sent[0].order.number == event.number else None

    def take_all(self, device: int) -> deque[SentOrder]:
        """Remove and return all orders of a device."""
        orders, self.sent[device] = self.sent[device], deque()
        return orders

    def corrected_times(self, group: Group, event: Finished | Failed, now: float) -> float:
        """Set the start of a group and return its end, both within plausible bounds.

        A group starts after it was sent and after the group ahead of it ended; it ends before the
        report of its end. So no task seems to start before its inputs exist, even if clocks of
        devices are wrong.
        """
        if self.life.modelled:
            return event.finish
        if group.start < event.start <= now:
            group.start = event.start
        finish = self._free[group.device] = max(group.start, min(event.finish, now))
        return finish

    def started(self, event: Started, now: float) -> None:
        """Correct the start of a running order; its time limit counts from there."""
        sent, running = self.sent[event.device], self.life.machines[event.device].running
        if (
            sent
            and sent[0].order.number == event.number
            and running is sent[0].group
            and not self.life.modelled
        ):
            running.start = max(running.start, min(event.time, now))

    def strays(self) -> list[tuple[int, SentOrder, bool]]:
        """Remove and return (device, order, running) of orders whose group has left it."""
        found = []
        for device, machine in enumerate(self.life.machines):
            kept = [machine.running, *machine.queue]
            first = self.sent[device][0] if self.sent[device] else None
            removed = [
                sent for sent in self.sent[device] if not any(sent.group is group for group in kept)
            ]
            self.sent[device] = deque(sent for sent in self.sent[device] if sent not in removed)
            found += [(device, sent, sent is first) for sent in removed]
        return found

    # -- reservations -------------------------------------------------------

    def settle(self, group: Group, seconds: float, now: float) -> None:
        """Charge the seconds of an ended group to the budget of its application."""
        if self.reservations is not None:
            first = group.members[0]
            self.reservations.settle(
                first, group.device, job=self.life.place[first][0], seconds=seconds, now=now
            )

    def release(self, sent: SentOrder, device: int) -> None:
        """Release the reservation of an order that never ran."""
        if self.reservations is not None:
            self.reservations.release(sent.order.members[0], device)
            sent.group.batch = -1 if sent.group.batch == RESERVED else sent.group.batch

    def _reserve(self, group: Group, device: int, now: float) -> bool:
        """Reserve the cost of a group; without budget, set the time of the next check."""
        if self.reservations is None or group.batch == RESERVED:
            return True
        job, first = self.life.place[group.members[0]][0], group.members[0]
        predicted = self.life.expected(group.members, device)
        again = self.reservations.admit(first, device, job=job, predicted=predicted, now=now)
        if again is not None:
            self.wakes[device] = again
            return False
        group.batch = RESERVED
        return True
