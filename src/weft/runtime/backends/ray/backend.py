"""The Ray backend: devices are actors, on this machine or on a cluster.

Results stay in Ray's object store. The decisions that matter, and why:

- *No restarts or retries by Ray* (`max_restarts=0`, `max_task_retries=0`): a restarted actor keeps
  its handle, and a call may run twice unnoticed. Here every process has its own handle, a dead one
  is a lost device, a new actor replaces it, and weft decides what runs again.
- *The driver owns all results*: they are return values, never `ray.put` in an actor. An object
  belongs to the process that made its reference, and dies with that process.
- *One pending call that never returns* per actor reveals the death of its process, even when idle.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Any

from weft.errors import WeftError
from weft.model import Workload
from weft.runtime.backends.calls import Calls, first_line
from weft.runtime.backends.protocol import (
    Call,
    DeviceAdded,
    DeviceLost,
    Event,
    Failed,
    Finished,
    Order,
    Started,
    Transfer,
)
from weft.runtime.backends.ray.actor import packed, pickling, unpacked
from weft.runtime.backends.ray.actors import TICK, ActorBackend
from weft.runtime.backends.ray.own_tasks import OwnTasks, hosts_of
from weft.runtime.backends.ray.plan import WholeCalls
from weft.runtime.backends.ray.session import START_TRIES, HeadGone, RayDevices
from weft.runtime.backends.ray.slots import ActorSlot, SentCall, TransferEstimator, cause_of_loss
from weft.runtime.backends.result_file import load_value, save_value
from weft.runtime.deciders.whole_plan import OnFinish, PlanRow
from weft.typed import typed_class


@typed_class
class RayBackend(ActorBackend):
    """Devices that are actors of Ray.

    Tasks run at least once: a task whose process dies runs again elsewhere.

    Parameters
    ----------
    devices : a number, one `RayDevice` each, or a `Cluster`, the capacities of whose nodes Ray
        reserves: cores as CPU, gpu as GPU, memory, and all others as custom resources; by default
        one per processor core and per GPU
    address : of a running Ray. By default the one this process is connected to, or $RAY_ADDRESS;
        else Ray starts on this machine, reachable on loopback only, and ends with `close`
    processors : of a Ray that is started here; by default the number that the devices need
    whole : make the calls of a plan ahead of their inputs, if possible; False: task by task
    """

    name = "ray"

    def __init__(
        self,
        devices: RayDevices = None,
        *,
        address: str | None = None,
        processors: int | None = None,
        whole: bool | None = None,
    ) -> None:
        super().__init__(devices, address=address, processors=processors)
        self.whole = whole
        self._results: dict[int, Any] = {}
        self._orders: dict[int, tuple[SentCall, ActorSlot]] = {}
        self._events: list[Event] = []
        self._plan_calls = 0
        self._transfers = TransferEstimator()
        self._origin = time.perf_counter()

    # -- a run --------------------------------------------------------------

    def begin(
        self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0
    ) -> None:
        """Start the actors, or reuse those of the run before; then start the clock."""
        self._dumps = pickling()
        self._calls = Calls(
            workload,
            calls,
            pickle_function=self._dumps,
            pack=lambda value, _: packed(value, self._dumps),
        )
        for left in reversed(range(START_TRIES)):
            try:
                lost = self._start_actors()
                break
            except HeadGone:  # nothing ran yet
                if not left or not self._session.started:
                    raise
                self._slots = [None] * len(self.specs)
                self._session.restart()
        self._transfers = TransferEstimator(self._probe_links())
        self._origin = time.perf_counter() - since
        self._events = [DeviceLost(d, since, text) for d, text in lost.items()]

    def extend(self, workload: Workload, calls: Sequence[Call] | None, first: int) -> None:
        """Set the calls of a job; an actor receives a function with its first call."""
        self._calls.extend(workload, calls, first)

    def submit(self, order: Order, device: int, priority: float) -> None:
        """Call the actor; its calls run in the order they are made."""
        if self._slots[device] is None:
            return  # its loss is among the next events
        self._call(
            order, device, [None if i is None else self._results[i] for i in order.inputs[0]]
        )

    def cancel(self, number: int) -> None:
        """Cancel an order that waits; if it runs, end its process, which is replaced."""
        if number not in self._orders:
            return
        sent, slot = self._orders[number]
        if slot.first is sent:
            self._end(slot)
            return
        # ray.cancel reports the call as cancelled, but the actor runs it all the same.
        self._retract([sent])

    def wait(self, until: float) -> list[Event]:
        """Wait for the actors: first calls that end, actors that start, actors that die."""
        while not self._events:
            timeout = None if until == inf else max(0.0, until - self.clock())
            self._replace_unstarted()
            slots = [slot for slot in self._slots if slot is not None]
            if timeout is None and not any(slot.orders or not slot.ready for slot in slots):
                break
            watched = {ref: slot for slot in slots for ref in slot.awaited}
            step = TICK if timeout is None else min(timeout, TICK)
            found, _ = self._ray.wait(list(watched), num_returns=1, timeout=step)
            if found and len(watched) > 2:  # read all other references, reports before deaths
                found, _ = self._ray.wait(list(watched), num_returns=len(watched), timeout=0)
            if not found and (dead := self._session.gone()):
                raise HeadGone(f"Ray's {dead} is gone, and with it the results of this run")
            for ref in found:
                self._receive(watched[ref], ref)
            if not found and timeout is not None and self.clock() >= until:
                break
        news, self._events = self._events, []
        return news

    def fetch(self, instance: int) -> Any:
        """Return a copy of a result: memory that Ray maps ends with the connection."""
        try:
            data, buffers = self._ray.get(self._results[instance])
        except self._ray.exceptions.RayError as error:
            raise WeftError(
                f"the result of instance {instance} is lost, with the node of Ray that kept it: "
                f"{first_line(error)}"
            ) from None
        return unpacked((data, [bytes(memoryview(buffer)) for buffer in buffers]))

    def release(self, instance: int) -> None:
        """Drop the reference to a result."""
        self._results.pop(instance, None)

    def store(self, instance: int, path: Path) -> None:
        """Write a result to a file."""
        save_value(self.fetch(instance), path)

    def restore(self, instance: int, path: Path) -> None:
        """Load a result from a file, unless Ray has it."""
        if instance not in self._results:
            self._results[instance] = self._ray.put(packed(load_value(path), self._dumps))

    def finish(self) -> None:
        """End busy actors and drop all references."""
        for device, slot in enumerate(self._slots):
            if slot is not None and slot.orders:
                self._end(slot)
                self._slots[device] = None
        self._results.clear()
        self._orders.clear()
        self._events = []

    def close(self) -> None:
        """End all actors, and Ray if it was started here."""
        slots, self._slots = self._slots, [None] * len(self.specs)
        for slot in slots:
            if slot is not None and self._ray.is_initialized():
                self._end(slot)
        self._results.clear()
        self._orders.clear()
        self._session.close()

    def run_plan(self, rows: Sequence[PlanRow], on_finish: OnFinish, *, fixed: bool) -> None:
        """Make the calls of a plan ahead of their inputs; Ray passes on the results.

        The driver does the rest if a task fails or an actor is lost.
        """
        if self._announces(DeviceLost):
            return
        values: dict[int, Any] = {}

        def call(row: PlanRow) -> SentCall:
            self._plan_calls -= 1  # negative numbers, as the driver's own orders begin at 0
            order = Order(self._plan_calls, (row.instance,), (row.parents,), (False,))
            # A retracted call may have left a result, so values of this plan come first.
            sent = self._call(
                order,
                row.device,
                [values[i] if i in values else self._results[i] for i in row.parents],
            )
            values[row.instance] = sent.value
            return sent

        def recorded(instance: int, event: Finished) -> bool:
            del values[instance]  # it is among the results now
            return on_finish(instance, event)

        plan = WholeCalls(rows, call, self._retract)
        others = plan.follow(
            self.wait, lambda: [slot.first for slot in self._slots if slot is not None], recorded
        )
        self._events = [
            *(event for event in others if isinstance(event, DeviceLost | DeviceAdded)),
            *self._events,
        ]

    def run_graph(self, rows: Sequence[PlanRow], on_finish: OnFinish) -> bool:
        """Run all tasks as Ray's own, which it places.

        Return False if actors hold its processors.

        The driver does the rest if a task fails or an actor is lost.
        """
        if any(spec.cpus or spec.gpus for spec in self.specs) or self._events:
            return False
        graph = OwnTasks(self._ray, hosts_of(self._slots), self._transfers, self._origin)
        calls = self._calls
        graph.submit(
            rows, lambda i: (calls.name(i), calls.functions[calls.function[i]], calls.arguments(i))
        )
        graph.follow(self._lost_some, self._results.__setitem__, on_finish)
        return True

    # -- inside -------------------------------------------------------------

    def _lost_some(self) -> bool:
        """Return whether an actor died; the loss is among the next events."""
        watched = {slot.watch: slot for slot in self._slots if slot is not None}
        for ref in self._ray.wait(list(watched), num_returns=len(watched), timeout=0)[0]:
            self._receive(watched[ref], ref)
        if dead := self._session.gone():
            raise HeadGone(f"Ray's {dead} is gone, and with it the results of this run")
        return self._announces(DeviceLost)

    def _call(self, order: Order, device: int, inputs: list[Any]) -> SentCall:
        slot = self._slots[device]
        assert slot is not None
        number = self._calls.function[order.members[0]]
        new = number not in slot.loaded_functions
        slot.loaded_functions.add(number)
        arguments = self._calls.arguments(order.members[0])
        at = self.clock()  # before the call, which may run before this process continues
        report, value = slot.perform.remote(
            order.number,
            number,
            self._calls.functions[number] if new else None,
            arguments,
            order.chooses[0],
            *inputs,
        )
        sent = SentCall(order, report, value, at)
        if slot.first is None:
            self._events.append(Started(order.number, device, sent.at))
        slot.orders.append(sent)
        self._orders[order.number] = (sent, slot)
        return sent

    def _retract(self, orders: Iterable[SentCall]) -> None:
        """Retract orders; the result of one that runs already is ignored."""
        numbers: dict[ActorSlot, list[int]] = {}
        for sent in orders:
            _, slot = self._orders.pop(sent.order.number, (sent, None))
            if slot is not None:
                sent.cancelled = True
                numbers.setdefault(slot, []).append(sent.order.number)
        for slot, gone in numbers.items():
            slot.actor.drop.options(concurrency_group="control").remote(gone)

    def _receive(self, slot: ActorSlot, ref: Any) -> None:
        if self._slots[slot.device] is not slot:
            return  # it was replaced a moment ago
        if ref == slot.watch:
            while (
                slot.orders
                and self._slots[slot.device] is slot
                and self._ray.wait([slot.orders[0].report], timeout=0)[0]
            ):
                self._collect(slot)  # orders that ended before its death
            if self._slots[slot.device] is slot:
                self._replace_dead(slot, slot.watch)
        elif not slot.ready:
            with self._replacing_dead(slot):
                self._handshake(slot)
                self._events.append(DeviceAdded(slot.device, self.clock()))
        elif slot.orders and ref == slot.orders[0].report:
            self._collect(slot)

    def _collect(self, slot: ActorSlot) -> None:
        """Process the report of an actor's first order."""
        sent = slot.orders[0]
        with self._replacing_dead(slot):
            try:
                word, begin, end, *rest = self._ray.get(sent.report)
            except self._dead:
                raise
            except self._ray.exceptions.RayError as error:  # an input of the call was lost
                now = time.perf_counter() - slot.offset
                word, begin, end, rest = (
                    "failed",
                    now,
                    now,
                    ["raised", f"Ray could not hand over its inputs: {first_line(error)}", ""],
                )
            slot.orders.popleft()
            start = max(begin + slot.offset - self._origin, sent.at, slot.free_at)
            moved = self._transfers.started(
                sent.order.inputs[0], slot.device, since=sent.at, free_at=slot.free_at, start=start
            )
            slot.free_at = finish = max(start, min(end + slot.offset - self._origin, self.clock()))
            if not sent.cancelled:
                del self._orders[sent.order.number]
                self._events.append(self._event(sent, slot, start, finish, word, rest, moved))
            upcoming = slot.first
            if upcoming is not None:
                self._events.append(Started(upcoming.order.number, slot.device, finish))

    def _event(
        self,
        sent: SentCall,
        slot: ActorSlot,
        start: float,
        finish: float,
        word: str,
        rest: list[Any],
        moved: tuple[Transfer, ...],
    ) -> Event:
        if word == "failed":
            return Failed(sent.order.number, slot.device, start, finish, *rest)
        size, branches = rest
        instance = sent.order.members[0]
        self._results[instance] = sent.value
        self._transfers.made(instance, slot.device, float(size), finish)
        return Finished(
            sent.order.number,
            slot.device,
            start,
            finish,
            (float(size),),
            (branches,),
            moved,
            slot.process,
        )

    @contextlib.contextmanager
    def _replacing_dead(self, slot: ActorSlot) -> Any:
        try:
            yield
        except self._dead as error:
            self._replace_dead(slot, error)

    def _replace_dead(self, slot: ActorSlot, error: Any) -> None:
        """Report a dead actor and start another."""
        if not isinstance(error, BaseException):
            try:
                self._ray.get(error)
            except self._ray.exceptions.RayError as why:
                error = why
        for sent in slot.orders:
            self._orders.pop(sent.order.number, None)
        text = "its process was ended" if slot.ended else cause_of_loss(error)
        if slot.ready:
            self._events.append(DeviceLost(slot.device, self.clock(), text))
            self._starts[slot.device] = 0
        self._end(slot)  # an unreachable actor may still be alive
        if not slot.ready and self._left_out(slot.device, text):
            return
        self._slots[slot.device] = self._spawn(slot.device)
