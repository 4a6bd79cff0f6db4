"""Devices that are actors of Ray, here or on a cluster. Results stay in Ray's object store and go from actor to actor.

The choices that matter, and why:

- *No restarts, no retries by Ray* (`max_restarts=0`, `max_task_retries=0`). An actor that Ray restarts keeps its handle, and a call may run
  twice without anybody knowing; here every process has a handle of its own, a dead one is told to the driver as a lost device, and a new
  actor takes its place. What runs again, and where, is decided by weft.
- *The driver owns all results*: they are what calls return, never `ray.put` in an actor. The owner of an object is the process that made
  the reference; what an actor puts dies with it, what it returns survives it.
- *One pending call that never returns* in each actor tells when its process dies, even while it is idle.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import Any, Self

from weft.errors import InvalidInput, WeftError
from weft.model import Cluster, Workload
from weft.run.backend import Call, DeviceAdded, DeviceLost, Event, Failed, Finished, Input, Order, Started
from weft.run.calls import with_slots
from weft.run.parcel import drop, load, make_folder, pack, save, unpack
from weft.run.ray_actor import Packed, Station, machine, packed, pickling, unpacked
from weft.run.ray_session import Devices, Session

START_LIMIT = 120.0
"""Seconds an actor may take to say hello."""

MOST_STARTS = 3
"""Times the actor of a device may die at its start before the run is given up."""

TAUGHT = 100
"""Functions an actor is sent before the clock runs."""

GROUPS = {"control": 1, "watch": 1}
"""Calls that go beside the one that runs."""

PINGS = 5
"""Round trips by which the clock of another machine is compared with ours; the quickest counts."""


@dataclass(eq=False)
class _Sent:
    """An order an actor has. `report` is for the driver, `value` stays where it is."""

    order: Order
    report: Any
    value: Any
    at: float
    off: bool = False
    """It was called off while it waited."""


@dataclass(eq=False)
class _Seat:
    """The actor of a device."""

    device: int
    actor: Any
    perform: Any
    hello: Any
    watch: Any
    taught: Any = None
    """Done when it knows the functions."""
    ready: bool = False
    ended: bool = False
    """It was ended by us."""
    pid: int = 0
    offset: float = 0.0
    """Seconds from its clock to ours."""
    free_at: float = -inf
    """When it finished its last order."""
    orders: deque[_Sent] = field(default_factory=deque)
    knows: set[int] = field(default_factory=set)

    @property
    def first(self) -> _Sent | None:
        """What runs, or runs next."""
        return next((sent for sent in self.orders if not sent.off), None)


class RayBackend:
    """Devices that are actors of Ray. Use it in a ``with`` block to keep the actors for several runs.

    Parameters
    ----------
    devices : a number, or one `RayDevice` each; by default one a processor core, and one a GPU
    address : of a running Ray. By default the one this process is connected to or $RAY_ADDRESS; else Ray is started on this machine,
        reachable from this machine only, and ended by `close`. A Ray that was there before stays.
    processors : how many a Ray that is started here shall have; by default what the devices ask for

    Tasks run at least once: when a process dies, what ran there runs again elsewhere.
    """

    name = "ray"
    modelled = False

    def __init__(self, devices: Devices = None, *, address: str | None = None, processors: int | None = None) -> None:
        self._session = Session(devices, address, processors)
        self._ray = self._session.ray
        self.specs = self._session.specs
        self._cluster = Cluster(
            name="ray",
            speed=[d.speed for d in self.specs],  # type: ignore[arg-type]  # a list becomes a column
            names=tuple(d.name for d in self.specs),
            kinds=tuple(d.kind for d in self.specs),
        )
        self._remote = self._ray.remote(max_restarts=0, max_task_retries=0, concurrency_groups=GROUPS)(Station)
        self._dumps = pickling()
        self._dead = (self._ray.exceptions.RayActorError, self._ray.exceptions.OutOfMemoryError)
        self._seats: list[_Seat | None] = [None] * len(self.specs)
        self._starts = [0] * len(self.specs)
        """How often in a row the process of a device died before it could work."""
        self._results: dict[int, Any] = {}
        self._orders: dict[int, tuple[_Sent, _Seat]] = {}
        self._news: list[Event] = []
        self._origin = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def devices(self) -> Cluster:
        """The actors as a cluster; moving data between them is taken to cost nothing: Ray does not tell what it took."""
        return self._cluster

    def pids(self) -> list[int]:
        """The processes of the actors that are up, each on its own machine."""
        return [seat.pid for seat in self._seats if seat is not None and seat.ready and not seat.ended]

    # -- a run --------------------------------------------------------------

    def begin(self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0) -> None:
        """Start the actors, or take those of the run before; the clock starts when all are up."""
        if calls is None or len(calls) != workload.instances:
            given = 0 if calls is None else len(calls)
            raise InvalidInput(f"'{workload.name}' has {workload.instances} tasks, but functions are given for {given}")
        self._calls = list(calls)
        self._functions: dict[int, tuple[int, bytes]] = {}
        self._news = []
        for call in self._calls:
            self._pickled(call)  # a function that cannot be sent is told before anything runs
        for device, seat in enumerate(self._seats):
            if seat is None:
                self._seats[device] = self._spawn(device)
            else:
                self._teach(seat)
        for device in range(len(self.specs)):
            self._prepare(device)
        self._origin = time.perf_counter() - since

    def extend(self, workload: Workload, calls: Sequence[Call] | None) -> None:  # noqa: ARG002
        """Know the functions of more instances; an actor is told one when it first needs it."""
        for call in calls or ():
            self._pickled(call)
        self._calls.extend(calls or ())

    def clock(self) -> float:
        """Seconds since `begin`."""
        return time.perf_counter() - self._origin

    def submit(self, order: Order, device: int, priority: float) -> None:  # noqa: ARG002  # orders come in the order they shall run
        """Call the actor; its calls run in the order they are made."""
        seat = self._seats[device]
        assert seat is not None
        call = self._calls[order.members[0]]
        number, data = self._pickled(call)
        new = number not in seat.knows
        seat.knows.add(number)
        inputs = [None if i is None else self._results[i] for i in order.inputs[0]]
        report, value = seat.perform.remote(order.number, number, data if new else None, self._arguments(call), order.chooses[0], *inputs)
        sent = _Sent(order, report, value, self.clock())
        if seat.first is None:
            self._news.append(Started(order.number, device, sent.at))
        seat.orders.append(sent)
        self._orders[order.number] = (sent, seat)

    def cancel(self, number: int) -> None:
        """Take back an order that waits; if it runs, end its process: the device is lost for a moment."""
        if number not in self._orders:
            return
        sent, seat = self._orders[number]
        if seat.first is sent:
            self._end(seat)
            return
        # ray.cancel would not do: it reports the call as cancelled, and the actor runs it all the same.
        del self._orders[number]
        sent.off = True
        seat.actor.drop.options(concurrency_group="control").remote(number)

    def wait(self, until: float) -> list[Event]:
        """Wait for what the actors run first, for those that start, and for those that die."""
        while not self._news:
            timeout = None if until == inf else max(0.0, until - self.clock())
            seats = [seat for seat in self._seats if seat is not None]
            if timeout is None and not any(seat.orders or not seat.ready for seat in seats):
                break
            watched = {ref: seat for seat in seats for ref in _awaited(seat)}
            found, _ = self._ray.wait(list(watched), num_returns=1, timeout=timeout)
            if found and len(watched) > 2:  # what else there is, the reports before the deaths
                found, _ = self._ray.wait(list(watched), num_returns=len(watched), timeout=0)
            for ref in found:
                self._hear(watched[ref], ref)
            if not found and timeout is not None and self.clock() >= until:
                break
        news, self._news = self._news, []
        return news

    def fetch(self, instance: int) -> Any:
        """A result, copied: what Ray maps into this process is gone when the connection ends."""
        try:
            data, buffers = self._ray.get(self._results[instance])
        except self._ray.exceptions.RayError as error:
            raise WeftError(f"the result of instance {instance} is lost, with the node of Ray that kept it: {_first_line(error)}") from None
        return unpacked((data, [bytes(memoryview(buffer)) for buffer in buffers]))

    def forget(self, instance: int) -> None:
        """Drop the reference."""
        self._results.pop(instance, None)

    def store(self, instance: int, path: Path) -> None:
        """Write a result to disk, as every backend does."""
        parcel = pack(self.fetch(instance), path.with_suffix(".buffers"))
        save(parcel, path)
        drop(parcel)

    def restore(self, instance: int, path: Path) -> None:
        """Read a result from disk, and hand it to Ray."""
        folder = make_folder()
        parcel = load(path, folder / "restored")
        self._results[instance] = self._ray.put(packed(unpack(parcel), self._dumps))
        drop(parcel)
        folder.rmdir()

    def finish(self) -> None:
        """End the actors that are still busy, and drop all references."""
        for device, seat in enumerate(self._seats):
            if seat is not None and seat.orders:
                self._end(seat)
                self._seats[device] = None
        self._results.clear()
        self._orders.clear()
        self._news = []

    def close(self) -> None:
        """End all actors, and Ray if it was started here."""
        seats, self._seats = self._seats, [None] * len(self.specs)
        for seat in seats:
            if seat is not None and self._ray.is_initialized():
                self._end(seat)
        self._results.clear()
        self._orders.clear()
        self._session.close()

    # -- inside -------------------------------------------------------------

    def _pickled(self, call: Call) -> tuple[int, bytes]:
        """Number and pickle of a function, made once."""
        key = id(call.function)
        if key not in self._functions:
            try:
                data = self._dumps(call.function)
            except Exception as error:  # noqa: BLE001  # pickling runs code of the user
                name = getattr(call.function, "__qualname__", repr(call.function))
                raise InvalidInput(f"function '{name}' cannot be sent to another process: {_first_line(error)}") from None
            self._functions[key] = (len(self._functions), data)
        return self._functions[key]

    def _arguments(self, call: Call) -> Packed:
        if not call.kwargs and all(type(arg) is Input for arg in call.args):  # nothing but results: the same for many tasks
            return _slots_only(call.args)
        return packed(with_slots((call.args, dict(call.kwargs))), self._dumps)

    def _spawn(self, device: int) -> _Seat:
        spec = self.specs[device]
        surroundings = {"runtime_env": {"env_vars": dict(spec.environment)}} if spec.environment else {}
        actor = self._remote.options(
            num_cpus=spec.cpus,
            num_gpus=spec.gpus,
            resources=dict(spec.resources) or None,
            **surroundings,
        ).remote(spec.name, spec.cores)
        watch = actor.watch.options(concurrency_group="watch").remote()
        seat = _Seat(device, actor, actor.perform.options(num_returns=2), actor.hello.remote(), watch)
        self._teach(seat)
        return seat

    def _prepare(self, device: int) -> None:
        """Wait until an actor is up and knows the functions; one that dies meanwhile is replaced, but not for ever."""
        text = ""
        for _ in range(MOST_STARTS):
            seat = self._seats[device]
            assert seat is not None
            try:
                self._greet(seat, START_LIMIT)
            except self._ray.exceptions.GetTimeoutError:
                text = f"Ray found no place for it within {START_LIMIT:g} s; free are {self._session.free()}"
                break
            except self._dead as error:
                text = _cause(error)
                self._seats[device] = self._spawn(device)
            else:
                return
        self.close()
        raise WeftError(f"the actor of device '{self.specs[device].name}' did not start: {text}")

    def _greet(self, seat: _Seat, limit: float) -> None:
        self._ray.get(seat.taught, timeout=limit)
        seat.pid, where, _ = self._ray.get(seat.hello)
        if where != machine() and not seat.ready:
            seat.offset = self._offset(seat)
        seat.ready = True

    def _offset(self, seat: _Seat) -> float:
        """From the clock of an actor to ours: the middle of a round trip is when it looked, as in NTP."""
        trips: list[tuple[float, float]] = []
        for _ in range(PINGS):
            begin = time.perf_counter()
            _, _, there = self._ray.get(seat.actor.hello.remote())
            end = time.perf_counter()
            trips.append((end - begin, (begin + end) / 2 - there))
        return min(trips)[1]

    def _teach(self, seat: _Seat) -> None:
        """Send the functions beforehand, so that the import of their modules is not part of the run; many of them one by one, in time."""
        functions = dict(self._functions.values()) if len(self._functions) <= TAUGHT else {}
        seat.taught = seat.actor.learn.remote([p for p in sys.path if p], functions)
        seat.knows = set(functions)
        seat.free_at = -inf

    def _hear(self, seat: _Seat, ref: Any) -> None:
        if self._seats[seat.device] is not seat:
            return  # buried a moment ago
        if ref == seat.watch:
            while seat.orders and self._seats[seat.device] is seat and self._ray.wait([seat.orders[0].report], timeout=0)[0]:
                self._collect(seat)  # what it finished before it died
            if self._seats[seat.device] is seat:
                self._bury(seat, seat.watch)
        elif not seat.ready:
            with self._burial(seat):
                self._greet(seat, START_LIMIT)
                self._news.append(DeviceAdded(seat.device, self.clock()))
        elif seat.orders and ref == seat.orders[0].report:
            self._collect(seat)

    def _collect(self, seat: _Seat) -> None:
        """Take the report of the first order of an actor."""
        sent = seat.orders[0]
        with self._burial(seat):
            try:
                word, begin, end, *rest = self._ray.get(sent.report)
            except self._dead:
                raise
            except self._ray.exceptions.RayError as error:  # what the actor was given could not be had
                now = time.perf_counter() - seat.offset
                word, begin, end, rest = "failed", now, now, ["raised", f"Ray could not hand over its inputs: {_first_line(error)}", ""]
            seat.orders.popleft()
            start = max(begin + seat.offset - self._origin, sent.at, seat.free_at)
            seat.free_at = finish = max(start, min(end + seat.offset - self._origin, self.clock()))
            if not sent.off:
                del self._orders[sent.order.number]
                self._news.append(self._event(sent, seat.device, start, finish, word, rest))
            following = seat.first
            if following is not None:
                self._news.append(Started(following.order.number, seat.device, finish))

    def _event(self, sent: _Sent, device: int, start: float, finish: float, word: str, rest: list[Any]) -> Event:
        if word == "failed":
            return Failed(sent.order.number, device, start, finish, *rest)
        size, branches = rest
        self._results[sent.order.members[0]] = sent.value
        return Finished(sent.order.number, device, start, finish, (float(size),), (branches,))

    @contextlib.contextmanager
    def _burial(self, seat: _Seat) -> Any:
        try:
            yield
        except self._dead as error:
            self._bury(seat, error)

    def _bury(self, seat: _Seat, error: Any) -> None:
        """An actor is dead: say so, and start another."""
        if not isinstance(error, BaseException):
            try:
                self._ray.get(error)
            except self._ray.exceptions.RayError as why:
                error = why
        for sent in seat.orders:
            self._orders.pop(sent.order.number, None)
        text = "its process was ended" if seat.ended else _cause(error)
        if seat.ready:
            self._news.append(DeviceLost(seat.device, self.clock(), text))
        self._end(seat)  # one that Ray cannot reach may still live
        self._starts[seat.device] = 0 if seat.ready else self._starts[seat.device] + 1
        if self._starts[seat.device] >= MOST_STARTS:
            raise WeftError(f"the actor of device '{self.specs[seat.device].name}' dies before it can work, again and again: {text}")
        self._seats[seat.device] = self._spawn(seat.device)

    def _end(self, seat: _Seat) -> None:
        seat.ended = True
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(seat.actor, no_restart=True)


def _awaited(seat: _Seat) -> list[Any]:
    if not seat.ready:
        return [seat.taught]
    return [seat.orders[0].report, seat.watch] if seat.orders else [seat.watch]


@lru_cache(maxsize=1000)
def _slots_only(args: tuple[Input, ...]) -> Packed:
    return packed((with_slots(args), {}), pickle.dumps)


def _cause(error: BaseException) -> str:
    said = str(error)
    if type(error).__name__ == "OutOfMemoryError" or "low on memory" in said:
        return "Ray ended its process: its node ran low on memory"
    if "node" in said and "died" in said and "worker process has died" not in said:
        return "the node of Ray it ran on is gone"
    return "its process ended itself or was killed; Ray does not tell which (often: out of memory)"


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
