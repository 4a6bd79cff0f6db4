"""The local backend: one process and pipe per device; dead processes are replaced."""

# ruff: noqa: S301  # pickles of this run's own processes, and of the user's own results
from __future__ import annotations

import contextlib
import os
import pickle
import select
import time
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any

from weft.model import Cluster, Workload
from weft.runtime.backends import protocol
from weft.runtime.backends.calls import Calls, CallTable, pickled_function
from weft.runtime.backends.leftover_processes import end_descendants
from weft.runtime.backends.local import worker
from weft.runtime.backends.local.device import (
    LocalDevices,
    device_cluster,
    local_devices,
    with_nodes_of,
)
from weft.runtime.backends.local.poll import FilePoll
from weft.runtime.backends.local.process import WorkerLink
from weft.runtime.backends.local.workers import WorkerDevices
from weft.runtime.backends.payload import (
    Payload,
    clear_folder,
    drop,
    inline,
    make_folder,
    pack,
    pickled,
    remove_folder,
    unpack,
)
from weft.runtime.backends.protocol import Call, Event, Order
from weft.runtime.backends.result_file import load, save
from weft.typed import typed_class

ENOUGH = 2
"""Orders per device that keep it busy while a round of `LocalBackend.wait` goes on."""


@typed_class
class LocalBackend(WorkerDevices):
    """Devices that are processes of this machine.

    Tasks run at least once: a task whose process dies runs again elsewhere.

    Parameters
    ----------
    devices : a number, one `LocalDevice` each, or a `Cluster` with a process per device, whose
        nodes have capacities; by default one per processor core and per GPU
    round_seconds : least time from one call of `wait` to the next while devices have enough to do,
        so that a driver handles many events of small tasks at once
    """

    name = "local"

    def __init__(self, devices: LocalDevices = None, *, round_seconds: float = 0.0) -> None:
        self.round_seconds = round_seconds
        self._next_round = 0.0
        super().__init__(local_devices(devices))
        self._cluster = with_nodes_of(device_cluster(self.specs), devices)
        self._results: dict[int, Payload] = {}
        self._events: list[Event] = []
        self._orders: dict[int, tuple[Order, WorkerLink]] = {}
        self._single = False
        """Whether calls are those of an executor: each is one order, whose start is not
        reported."""
        self._runs = 0
        self._waker: tuple[int, int] | None = None
        """Ends of the pipe of `wake`; None: there is no other thread."""
        self._woken = False
        self._origin = time.perf_counter()

    def devices(self) -> Cluster:
        """Return the cluster of processes."""
        return self._cluster

    # -- a run --------------------------------------------------------------

    def begin(
        self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0
    ) -> None:
        """Start the processes, or reuse those of the run before; then start the clock."""
        self._new_run()
        self._single = False
        self._start(
            Calls(workload, calls, pickle_function=pickled_function, pack=self.packed), since
        )

    def start(self, calls: CallTable) -> None:
        """Begin without a workload: calls are looked up in a table; `wake` ends a `wait`."""
        self._new_run()
        self._single = True
        if self._waker is None:
            self._waker = os.pipe()
            for end in self._waker:
                os.set_blocking(end, False)
            self._poll.register(self._waker[0])
        self._start(calls, 0.0)

    def wake(self) -> None:
        """End a `wait` of another thread, now or as soon as it begins."""
        if self._waker is not None:
            with contextlib.suppress(BlockingIOError):
                os.write(self._waker[1], b"\0")

    def replace_function(self, number: int) -> None:
        """Send a function again to workers that have another one under its number."""
        for w in self._workers:
            if w is not None:
                w.loaded_functions.discard(number)

    def _new_run(self) -> None:
        if self._folder is None:
            self._folder = make_folder()
        self._runs += 1
        self._prefix = f"{self._folder}/{self._runs}-"
        self._arguments: dict[int, Payload] = {}
        self._runs_on: dict[int, int] = {}
        self._cancelled: set[int] = set()
        self._events = []
        self._starts, self.left_out = [0] * len(self.specs), {}

    def _start(self, calls: CallTable, since: float) -> None:
        self._calls = calls
        for device, known in enumerate(self._workers):
            if known is None:
                self._spawn(device)
            self._worker(device).preload(self._calls.preload())
        lost = {d: text for d in range(len(self.specs)) if (text := self._prepare(d))}
        self._origin = time.perf_counter() - since
        self._events = [protocol.DeviceLost(d, since, text) for d, text in lost.items()]

    def extend(self, workload: Workload, calls: Sequence[Call] | None, first: int) -> None:
        """Set the calls of a job; a worker receives a function with its first call."""
        assert isinstance(self._calls, Calls)
        self._calls.extend(workload, calls, first)

    def submit(self, order: Order, device: int, priority: float) -> None:
        """Queue an order, in the order of execution; the next `wait` sends it."""
        w = self._workers[device]
        if w is None:
            self._lose_again(device)
            return
        instance = order.members[0]
        number = self._calls.function[instance]
        inputs = [None if i is None else self._results[i] for i in order.inputs[0]]
        if number not in w.loaded_functions:
            w.send_function(number, self._calls.functions[number])
        payload = self._calls.arguments(instance)
        if not w.shares_memory:
            inputs = [None if p is None else inline(p) for p in inputs]
            payload = inline(payload)
        w.box.put(
            pickle.dumps(
                (
                    "run",
                    order.number,
                    number,
                    tuple(payload),  # pickling a plain tuple takes a fifth of the time
                    [None if p is None else tuple(p) for p in inputs],
                    order.chooses[0],
                    f"{self._prefix}{order.number}" if w.shares_memory else "",
                )
            )
        )
        self._unsent[w] = None
        w.orders.append(order)
        self._orders[order.number] = (order, w)
        if len(w.orders) == 1 and not self._single:
            self._events.append(protocol.Started(order.number, device, self.clock()))

    def _lose_again(self, device: int) -> None:
        """Report the loss of an order on a device without a process, once per `wait`."""
        lost = (e.device for e in self._events if isinstance(e, protocol.DeviceLost))
        if device not in lost:
            text = f"device '{self.specs[device].name}' is left out: its process does not start"
            self._events.append(protocol.DeviceLost(device, self.clock(), text))

    def cancel(self, number: int) -> None:
        """Cancel an order that waits; if it runs, kill its process, which is replaced."""
        if number not in self._orders:
            return
        order, w = self._orders[number]
        if w.orders[0] is order:
            w.kill()
            return
        w.orders.remove(order)
        del self._orders[number]
        self._cancelled.add(number)
        w.box.put(worker.DROP + str(number).encode())
        self._unsent[w] = None

    def wait(self, until: float) -> list[Event]:
        """Send queued messages and return the next events."""
        self._flush()
        if self.round_seconds and len(self._orders) > ENOUGH * len(self.specs):
            time.sleep(max(0.0, self._next_round - time.perf_counter()))
            self._next_round = time.perf_counter() + self.round_seconds
        if self._events:
            self._receive_all(0.0)  # all events that have arrived
        while not self._events:
            timeout = inf if until == inf else max(0.0, until - self.clock())
            if (
                timeout == inf
                and self._waker is None
                and not self._orders
                and all(w is None or w.ready for w in self._workers)
            ):
                break  # idle workers are watched too: a dead one is replaced before it is needed
            if (not self._receive_all(timeout) and self.clock() >= until) or self._woken:
                self._woken = False
                break
        news, self._events = self._events, []
        return news

    def fetch(self, instance: int) -> Any:
        """Return a result."""
        return unpack(self._results[instance])

    def release(self, instance: int) -> None:
        """Drop a result and its file."""
        for table in (self._results, self._arguments):
            payload = table.pop(instance, None)
            if payload is not None and payload.path is not None:
                drop(payload)
        self._runs_on.pop(instance, None)

    def store(self, instance: int, path: Path) -> None:
        """Write a result to disk."""
        save(self._results[instance], path)

    def restore(self, instance: int, path: Path) -> None:
        """Read a result from disk."""
        self._results[instance] = load(path, Path(f"{self._prefix}r{instance}"))
        self._runs_on[instance] = -1

    def finish(self) -> None:
        """Kill busy processes and remove all files."""
        for w in self._workers:
            if w is not None and (w.orders or self._cancelled):  # a cancelled order may still run
                self._dismiss(w)
        self._close_waker()
        self._end_children()
        self._results.clear()
        self._orders.clear()
        self._events = []
        if self._folder is not None:
            clear_folder(self._folder)

    def close(self) -> None:
        """Kill all processes and remove the folder."""
        for w in self._workers:
            if w is not None:
                self._dismiss(w)
        if self._spawned and os.getpid() == self._owner:
            end_descendants(self._token)
            self._spawned = 0
        if self._folder is not None and os.getpid() == self._owner:
            remove_folder(self._folder)
            self._folder = None
        self._close_waker()

    def abandon(self) -> None:
        """Close this process's ends of all pipes, in a forked child: its parent uses them."""
        for w in self._workers:
            if w is not None:
                w.box.close()
        self._workers = [None] * len(self.specs)
        self._folder = None
        self._close_waker()
        self._poll = FilePoll()

    def _close_waker(self) -> None:
        if self._waker is not None:
            self._poll.unregister(self._waker[0])
            for end in self._waker:
                os.close(end)
        self._waker, self._woken = None, False

    # -- messages -----------------------------------------------------------

    def _replace_dead(self, w: WorkerLink) -> None:
        """Report a dead worker, remove its unfinished files, and start another."""
        self._forget_worker(w)
        text, fault = w.end_cause()
        for order in w.orders:
            self._orders.pop(order.number, None)
            Path(f"{self._prefix}{order.number}").unlink(missing_ok=True)
        if w.ready or w.orders:
            self._events.append(protocol.DeviceLost(w.device, self.clock(), text, fault))
        if w.ready:
            self._starts[w.device] = 0
        elif self._left_out(w, text, fault):
            self._woken = self._single  # the caller of `wait` must see that the device is left out
            return
        self._spawn(w.device)

    def _receive_all(self, seconds: float) -> bool:
        """Receive messages for at most `seconds`; return whether there were any."""
        found = self._poll.wait(seconds)
        heard = [
            (self._at[file], file, what) for file, what in found if file in self._at
        ]  # before a replacement reuses file descriptors
        if self._waker is not None and len(heard) < len(found):
            os.read(self._waker[0], 4096)
            self._woken = True
        if len(heard) > 1:
            heard.sort(key=lambda news: news[1] == news[0].watch)
        for w, file, what in heard:
            if not w.ended and what & ~select.POLLOUT:
                self._receive(w, dead=file == w.watch)
        if self._unsent:
            self._flush()
        return bool(found)

    def _receive(self, w: WorkerLink, *, dead: bool) -> None:
        """Handle the next messages of a worker; if its process is dead, all that remain."""
        try:
            for message in w.box.take():
                self._handle(w, pickle.loads(message))
            while dead and w.box.readable():
                for message in w.box.take():
                    self._handle(w, pickle.loads(message))
        except EOFError:
            dead = True
        if dead:
            self._replace_dead(w)

    def _handle(self, w: WorkerLink, message: tuple[Any, ...]) -> None:
        if message[0] == "handshake":
            w.record_handshake(message)
            if not w.ready:
                w.ready = True
                self._events.append(protocol.DeviceAdded(w.device, self.clock()))
            return
        word, number, begin, end, *rest = message
        zero = self._origin - w.offset
        start, finish = begin - zero, end - zero
        if number in self._cancelled:
            Path(f"{self._prefix}{number}").unlink(missing_ok=True)
            return
        order = w.orders.popleft()
        assert order.number == number
        del self._orders[number]
        if word == "done":
            self._events.append(self._finished(order, w.device, start, finish, *rest))
        else:
            fault, text, trace = rest
            self._events.append(
                protocol.Failed(number, w.device, start, finish, fault, text, trace)
            )
        if w.orders and not self._single:
            self._events.append(protocol.Started(w.orders[0].number, w.device, finish))

    def packed(self, value: Any, instance: int | None) -> Payload:
        """Pack arguments; once per instance, however often it runs."""
        if instance is None:
            return Payload(pickled(value)[0])
        if instance not in self._arguments:
            self._arguments[instance] = pack(value, f"{self._prefix}a{instance}")
        return self._arguments[instance]

    def _finished(
        self,
        order: Order,
        device: int,
        start: float,
        finish: float,
        packed: tuple[Any, ...],
        branches: tuple[Any, ...],
        loads: list[Any],
    ) -> protocol.Finished:
        instance, parents = order.members[0], order.inputs[0]
        payload = self._results[instance] = Payload(*packed)
        if instance in self._arguments and (
            self._single or not any(instance in other.members for other, _ in self._orders.values())
        ):
            drop(self._arguments.pop(instance))
        self._runs_on[instance] = device
        moved = tuple(
            [
                protocol.Transfer(self._runs_on.get(parents[k] or 0, device), size, took)
                for k, size, took in loads
            ]
        )
        w = self._workers[device]
        return protocol.Finished(
            order.number,
            device,
            start,
            finish,
            (float(payload.size),),
            (branches,),
            moved,
            worker="" if w is None else w.token,
        )
