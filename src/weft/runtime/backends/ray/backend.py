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
import sys
import time
from collections.abc import Iterable, Sequence
from math import inf
from pathlib import Path
from typing import Any, Self

from weft.errors import InvalidInput, WeftError
from weft.model import Cluster, Workload
from weft.runtime.backends.payload import drop, load, make_folder, pack, save, unpack
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
from weft.runtime.backends.ray.actor import DeviceActor, machine, packed, unpacked
from weft.runtime.backends.ray.calls import Functions, first_line
from weft.runtime.backends.ray.plan import WholeCalls
from weft.runtime.backends.ray.session import Devices, Session
from weft.runtime.backends.ray.slots import ActorSlot, SentCall, TransferEstimator
from weft.runtime.deciders.whole_plan import PlanRow, Tell

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


class RayBackend:
    """Devices that are actors of Ray. Use it in a ``with`` block to keep the actors for several runs.

    Parameters
    ----------
    devices : a number, or one `RayDevice` each; by default one a processor core, and one a GPU
    address : of a running Ray. By default the one this process is connected to or $RAY_ADDRESS; else Ray is started on this machine,
        reachable from this machine only, and ended by `close`. A Ray that was there before stays.
    processors : how many a Ray that is started here shall have; by default what the devices ask for
    whole : make the calls of a plan ahead of what they need, where that is possible (see docs/running.md); False: task by task

    Tasks run at least once: when a process dies, what ran there runs again elsewhere.
    """

    name = "ray"
    modelled = False

    def __init__(
        self,
        devices: Devices = None,
        *,
        address: str | None = None,
        processors: int | None = None,
        whole: bool | None = None,
    ) -> None:
        self.whole = whole
        self._session = Session(devices, address, processors)
        self._ray = self._session.ray
        self.specs = self._session.specs
        self._cluster = Cluster(
            name="ray",
            speed=[d.speed for d in self.specs],  # type: ignore[arg-type]  # a list becomes a column
            names=tuple(d.name for d in self.specs),
            kinds=tuple(d.kind for d in self.specs),
        )
        self._remote = self._ray.remote(
            max_restarts=0, max_task_retries=0, concurrency_groups=GROUPS
        )(DeviceActor)
        self._dead = (self._ray.exceptions.RayActorError, self._ray.exceptions.OutOfMemoryError)
        self._seats: list[ActorSlot | None] = [None] * len(self.specs)
        self._starts = [0] * len(self.specs)
        """How often in a row the process of a device died before it could work."""
        self._results: dict[int, Any] = {}
        self._orders: dict[int, tuple[SentCall, ActorSlot]] = {}
        self._news: list[Event] = []
        self._plan_calls = 0
        self._moves = TransferEstimator()
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
        return [
            seat.pid for seat in self._seats if seat is not None and seat.ready and not seat.ended
        ]

    # -- a run --------------------------------------------------------------

    def begin(
        self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0
    ) -> None:
        """Start the actors, or take those of the run before; the clock starts when all are up."""
        if calls is None or len(calls) != workload.instances:
            given = 0 if calls is None else len(calls)
            raise InvalidInput(
                f"'{workload.name}' has {workload.instances} tasks, but functions are given for {given}"
            )
        self._functions = Functions(calls)  # one that cannot be sent is told before anything runs
        self._news = []
        self._moves = TransferEstimator()
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
        self._functions.extend(calls or ())

    def clock(self) -> float:
        """Seconds since `begin`."""
        return time.perf_counter() - self._origin

    def submit(self, order: Order, device: int, priority: float) -> None:  # noqa: ARG002  # orders come in the order they shall run
        """Call the actor; its calls run in the order they are made."""
        self._call(
            order, device, [None if i is None else self._results[i] for i in order.inputs[0]]
        )

    def cancel(self, number: int) -> None:
        """Take back an order that waits; if it runs, end its process: the device is lost for a moment."""
        if number not in self._orders:
            return
        sent, seat = self._orders[number]
        if seat.first is sent:
            self._end(seat)
            return
        # ray.cancel would not do: it reports the call as cancelled, and the actor runs it all the same.
        self._retract([sent])

    def wait(self, until: float) -> list[Event]:
        """Wait for what the actors run first, for those that start, and for those that die."""
        while not self._news:
            timeout = None if until == inf else max(0.0, until - self.clock())
            seats = [seat for seat in self._seats if seat is not None]
            if timeout is None and not any(seat.orders or not seat.ready for seat in seats):
                break
            watched = {ref: seat for seat in seats for ref in seat.awaited}
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
            raise WeftError(
                f"the result of instance {instance} is lost, with the node of Ray that kept it: {first_line(error)}"
            ) from None
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
        """Read a result from disk, and hand it to Ray; one that Ray has stays there."""
        if instance in self._results:
            return
        folder = make_folder()
        parcel = load(path, folder / "restored")
        self._results[instance] = self._ray.put(packed(unpack(parcel), self._functions.dumps))
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

    def run_plan(self, rows: Sequence[PlanRow], tell: Tell, *, fixed: bool) -> None:  # noqa: ARG002  # no device is ever new
        """Make the calls of a plan before what they need is there; Ray hands results from one to the other.

        When something is not as planned (a task fails, an actor is lost), the rest is for the driver; what happened is told next.
        """
        values: dict[int, Any] = {}

        def call(row: PlanRow) -> SentCall:
            self._plan_calls -= 1  # numbers of the driver's own orders begin at 0
            order = Order(self._plan_calls, (row.instance,), (row.parents,), (False,))
            # A result may be there of a call that was taken back and ran all the same: what this plan calls comes first.
            sent = self._call(
                order,
                row.device,
                [values[i] if i in values else self._results[i] for i in row.parents],
            )
            values[row.instance] = sent.value
            return sent

        def told(instance: int, event: Finished) -> bool:
            del values[instance]  # it is among the results, for as long as it is needed
            return tell(instance, event)

        plan = WholeCalls(rows, call, self._retract)
        others = plan.follow(
            self.wait, lambda: [seat.first for seat in self._seats if seat is not None], told
        )
        self._news = [
            *(event for event in others if isinstance(event, DeviceLost | DeviceAdded)),
            *self._news,
        ]

    # -- inside -------------------------------------------------------------

    def _call(self, order: Order, device: int, inputs: list[Any]) -> SentCall:
        seat = self._seats[device]
        assert seat is not None
        number, data = self._functions.of(order.members[0])
        new = number not in seat.knows
        seat.knows.add(number)
        arguments = self._functions.arguments(order.members[0])
        at = self.clock()  # before the call: it may have run by the time this process goes on
        report, value = seat.perform.remote(
            order.number, number, data if new else None, arguments, order.chooses[0], *inputs
        )
        sent = SentCall(order, report, value, at)
        if seat.first is None:
            self._news.append(Started(order.number, device, sent.at))
        seat.orders.append(sent)
        self._orders[order.number] = (sent, seat)
        return sent

    def _retract(self, orders: Iterable[SentCall]) -> None:
        """Take back orders that actors still have; should one run already, nobody listens to what comes of it."""
        numbers: dict[ActorSlot, list[int]] = {}
        for sent in orders:
            _, seat = self._orders.pop(sent.order.number, (sent, None))
            if seat is not None:
                sent.off = True
                numbers.setdefault(seat, []).append(sent.order.number)
        for seat, gone in numbers.items():
            seat.actor.drop.options(concurrency_group="control").remote(gone)

    def _spawn(self, device: int) -> ActorSlot:
        spec = self.specs[device]
        surroundings = (
            {"runtime_env": {"env_vars": dict(spec.environment)}} if spec.environment else {}
        )
        actor = self._remote.options(
            num_cpus=spec.cpus,
            num_gpus=spec.gpus,
            resources=dict(spec.resources) or None,
            **surroundings,
        ).remote(spec.name, spec.cores)
        watch = actor.watch.options(concurrency_group="watch").remote()
        seat = ActorSlot(
            device, actor, actor.perform.options(num_returns=2), actor.hello.remote(), watch
        )
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

    def _greet(self, seat: ActorSlot, limit: float) -> None:
        self._ray.get(seat.taught, timeout=limit)
        seat.pid, where, _ = self._ray.get(seat.hello)
        if where != machine() and not seat.ready:
            seat.offset = self._offset(seat)
        seat.ready = True

    def _offset(self, seat: ActorSlot) -> float:
        """From the clock of an actor to ours: the middle of a round trip is when it looked, as in NTP."""
        trips: list[tuple[float, float]] = []
        for _ in range(PINGS):
            begin = time.perf_counter()
            _, _, there = self._ray.get(seat.actor.hello.remote())
            end = time.perf_counter()
            trips.append((end - begin, (begin + end) / 2 - there))
        return min(trips)[1]

    def _teach(self, seat: ActorSlot) -> None:
        """Send the functions beforehand, so that the import of their modules is not part of the run; many of them one by one, in time."""
        functions = self._functions.all()
        functions = functions if len(functions) <= TAUGHT else {}
        seat.taught = seat.actor.learn.remote([p for p in sys.path if p], functions)
        seat.knows = set(functions)
        seat.free_at = -inf

    def _hear(self, seat: ActorSlot, ref: Any) -> None:
        if self._seats[seat.device] is not seat:
            return  # buried a moment ago
        if ref == seat.watch:
            while (
                seat.orders
                and self._seats[seat.device] is seat
                and self._ray.wait([seat.orders[0].report], timeout=0)[0]
            ):
                self._collect(seat)  # what it finished before it died
            if self._seats[seat.device] is seat:
                self._bury(seat, seat.watch)
        elif not seat.ready:
            with self._burial(seat):
                self._greet(seat, START_LIMIT)
                self._news.append(DeviceAdded(seat.device, self.clock()))
        elif seat.orders and ref == seat.orders[0].report:
            self._collect(seat)

    def _collect(self, seat: ActorSlot) -> None:
        """Take the report of the first order of an actor."""
        sent = seat.orders[0]
        with self._burial(seat):
            try:
                word, begin, end, *rest = self._ray.get(sent.report)
            except self._dead:
                raise
            except (
                self._ray.exceptions.RayError
            ) as error:  # what the actor was given could not be had
                now = time.perf_counter() - seat.offset
                word, begin, end, rest = (
                    "failed",
                    now,
                    now,
                    ["raised", f"Ray could not hand over its inputs: {first_line(error)}", ""],
                )
            seat.orders.popleft()
            start = max(begin + seat.offset - self._origin, sent.at, seat.free_at)
            moved = self._moves.started(
                sent.order.inputs[0], seat.device, since=sent.at, free_at=seat.free_at, start=start
            )
            seat.free_at = finish = max(start, min(end + seat.offset - self._origin, self.clock()))
            if not sent.off:
                del self._orders[sent.order.number]
                self._news.append(self._event(sent, seat.device, start, finish, word, rest, moved))
            following = seat.first
            if following is not None:
                self._news.append(Started(following.order.number, seat.device, finish))

    def _event(
        self,
        sent: SentCall,
        device: int,
        start: float,
        finish: float,
        word: str,
        rest: list[Any],
        moved: tuple[Transfer, ...],
    ) -> Event:
        if word == "failed":
            return Failed(sent.order.number, device, start, finish, *rest)
        size, branches = rest
        instance = sent.order.members[0]
        self._results[instance] = sent.value
        self._moves.made(instance, device, float(size), finish)
        return Finished(
            sent.order.number, device, start, finish, (float(size),), (branches,), moved
        )

    @contextlib.contextmanager
    def _burial(self, seat: ActorSlot) -> Any:
        try:
            yield
        except self._dead as error:
            self._bury(seat, error)

    def _bury(self, seat: ActorSlot, error: Any) -> None:
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
            raise WeftError(
                f"the actor of device '{self.specs[seat.device].name}' dies before it can work, again and again: {text}"
            )
        self._seats[seat.device] = self._spawn(seat.device)

    def _end(self, seat: ActorSlot) -> None:
        seat.ended = True
        with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(seat.actor, no_restart=True)


def _cause(error: BaseException) -> str:
    said = str(error)
    if type(error).__name__ == "OutOfMemoryError" or "low on memory" in said:
        return "Ray ended its process: its node ran low on memory"
    if "node" in said and "died" in said and "worker process has died" not in said:
        return "the node of Ray it ran on is gone"
    return "its process ended itself or was killed; Ray does not tell which (often: out of memory)"
