"""The local backend: one process for each device and a pipe to it; large arrays through memory both can see; the dead are replaced."""

# ruff: noqa: S301  # pickles of this run's own processes, and of the user's own results
from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from math import inf
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self

from weft.errors import InvalidInput, WeftError
from weft.model import Cluster, Workload
from weft.run import worker
from weft.run.backend import Call, DeviceAdded, DeviceLost, Event, Failed, Finished, Input, Order, Started, Transfer
from weft.run.parcel import Parcel, drop, load, make_folder, pack, save, unpack
from weft.run.profiler import cores_here, discover, relative_speeds

START_LIMIT = 120.0
"""Seconds a worker may take to say hello."""

MOST_STARTS = 3
"""Times the process of a device may die at its start before the run is given up."""

TAUGHT = 100
"""Functions a worker is sent before the clock runs."""

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")


@dataclass(frozen=True)
class LocalDevice:
    """A process of this machine as a device.

    Attributes
    ----------
    kind : devices of one kind share what was learned about them
    cores : the processor cores it stays on; empty: any
    memory : bytes its process may use; a task that wants more gets a MemoryError
    environment : variables of its process, e.g. CUDA_VISIBLE_DEVICES; by default numerical libraries use one thread for each core it has
    """

    name: str
    kind: str = "cpu"
    cores: tuple[int, ...] = ()
    memory: int | None = None
    speed: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class _Worker:
    device: int
    process: BaseProcess
    pipe: Connection
    ready: bool = False
    orders: deque[Order] = field(default_factory=deque)
    knows: set[int] = field(default_factory=set)
    """Functions it was sent."""
    owes: int = 1
    """Hellos it has yet to say: one when it is up, one when it was taught."""


class LocalBackend:
    """Devices that are processes on this machine. Use it in a ``with`` block to keep the processes for several runs.

    Parameters
    ----------
    devices : a number, or one `LocalDevice` each; by default one a processor core, and one a GPU

    Tasks run at least once: when a process dies, what ran there runs again elsewhere.
    """

    name = "local"
    modelled = False

    def __init__(self, devices: int | Sequence[LocalDevice] | None = None) -> None:
        self.specs = _specs(devices)
        self._cluster = Cluster(
            name="local",
            speed=[d.speed for d in self.specs],  # type: ignore[arg-type]  # a list becomes a column
            names=tuple(d.name for d in self.specs),
            kinds=tuple(d.kind for d in self.specs),
            memory=[inf if d.memory is None else d.memory for d in self.specs],  # type: ignore[arg-type]
        )
        self._folder: Path | None = None
        self._workers: list[_Worker | None] = [None] * len(self.specs)
        self._starts = [0] * len(self.specs)
        """How often in a row the process of a device died before it could work."""
        self._owner = os.getpid()
        self._results: dict[int, Parcel] = {}
        self._news: list[Event] = []
        self._orders: dict[int, tuple[Order, int]] = {}
        self._runs = 0
        self._origin = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def devices(self) -> Cluster:
        """The processes as a cluster; moving data between them is taken to cost nothing until it was measured."""
        return self._cluster

    # -- a run --------------------------------------------------------------

    def begin(self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0) -> None:
        """Start the processes, or take those of the run before; the clock starts when all are up."""
        if calls is None or len(calls) != workload.instances:
            given = 0 if calls is None else len(calls)
            raise InvalidInput(f"'{workload.name}' has {workload.instances} tasks, but functions are given for {given}")
        if self._folder is None:
            self._folder = make_folder()
        self._runs += 1
        self._calls = list(calls)
        self._functions: dict[int, tuple[int, bytes]] = {}
        self._arguments: dict[int, Parcel] = {}
        self._runs_on: dict[int, int] = {}
        self._called_off: set[int] = set()
        self._news = []
        for call in self._calls:
            self._pickled(call)  # a function that cannot be sent is told before anything runs
        for device, known in enumerate(self._workers):
            if known is None:
                self._workers[device] = self._spawn(device)
            self._teach(device)
        for device in range(len(self.specs)):
            self._prepare(device)
        self._origin = time.perf_counter() - since

    def clock(self) -> float:
        """Seconds since `begin`; the processes measure with the same clock."""
        return time.perf_counter() - self._origin

    def submit(self, order: Order, device: int, priority: float) -> None:  # noqa: ARG002  # orders come in the order they shall run
        """Send it down the pipe."""
        w = self._workers[device]
        assert w is not None
        instance, call = order.members[0], self._calls[order.members[0]]
        number, data = self._pickled(call)
        run = worker.Run(
            number=order.number,
            function=number,
            arguments=self._packed_arguments(instance, call),
            inputs=tuple(None if i is None else self._results[i] for i in order.inputs[0]),
            chooses=order.chooses[0],
            result=f"{self._folder}/{self._runs}-{order.number}",
        )
        w.orders.append(order)
        self._orders[order.number] = (order, device)
        with contextlib.suppress(OSError):  # a dead worker is noticed in `wait`
            if number not in w.knows:
                w.knows.add(number)
                w.pipe.send_bytes(pickle.dumps(("function", number, data)))
            w.pipe.send_bytes(pickle.dumps(("run", run)))
        if len(w.orders) == 1:
            self._news.append(Started(order.number, device, self.clock()))

    def cancel(self, number: int) -> None:
        """Take an order back that waits in the pipe; if it runs, end its process: the device is lost for a moment."""
        order, device = self._orders.get(number, (None, 0))
        w = self._workers[device]
        if order is None or w is None:
            return
        if w.orders[0] is order:
            w.process.kill()
            return
        w.orders.remove(order)
        del self._orders[number]
        self._called_off.add(number)
        with contextlib.suppress(OSError):
            w.pipe.send_bytes(worker.DROP + str(number).encode())

    def wait(self, until: float) -> list[Event]:
        """Listen to all pipes."""
        while not self._news:
            timeout = None if until == inf else max(0.0, until - self.clock())
            pipes = {w.pipe: w for w in self._workers if w is not None and (w.orders or not w.ready)}
            if not pipes and timeout is None:
                break
            # Idle workers are listened to as well: one may die, and is replaced before it is needed.
            listened = {w.pipe: w for w in self._workers if w is not None}
            found = wait(list(listened), timeout)
            for pipe in found:
                self._hear(listened[pipe])  # type: ignore[index]
            if not found and timeout is not None and self.clock() >= until:
                break
        news, self._news = self._news, []
        return news

    def fetch(self, instance: int) -> Any:
        """Unpack a result."""
        return unpack(self._results[instance])

    def forget(self, instance: int) -> None:
        """Remove its file."""
        parcel = self._results.pop(instance, None)
        if parcel is not None:
            drop(parcel)

    def store(self, instance: int, path: Path) -> None:
        """Write a result to disk."""
        save(self._results[instance], path)

    def restore(self, instance: int, path: Path) -> None:
        """Read a result from disk."""
        self._results[instance] = load(path, self._path(f"{self._runs}-r{instance}"))
        self._runs_on[instance] = -1

    def finish(self) -> None:
        """End the processes that are still busy, and remove all files."""
        for device, w in enumerate(self._workers):
            if w is not None and (w.orders or self._called_off):  # what was called off may still be under way
                _end(w)
                self._workers[device] = None
        self._results.clear()
        self._orders.clear()
        self._news = []
        if self._folder is not None:
            for path in self._folder.iterdir():
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """End all processes and remove the folder."""
        workers, self._workers = self._workers, [None] * len(self.specs)
        for w in workers:
            if w is not None:
                _end(w)
        if self._folder is not None and os.getpid() == self._owner:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    # -- inside -------------------------------------------------------------

    def _path(self, name: str) -> Path:
        assert self._folder is not None
        return self._folder / name

    def _pickled(self, call: Call) -> tuple[int, bytes]:
        """Number and pickle of a function, made once."""
        key = id(call.function)
        if key not in self._functions:
            self._functions[key] = (len(self._functions), pickle_function(call.function))
        return self._functions[key]

    def _packed_arguments(self, instance: int, call: Call) -> Parcel:
        if not call.kwargs and all(type(arg) is Input for arg in call.args):  # nothing but results: the same for many tasks
            return _slots_only(call.args)
        if instance not in self._arguments:
            args = with_slots((call.args, dict(call.kwargs)))
            self._arguments[instance] = pack(args, f"{self._folder}/{self._runs}-a{instance}")
        return self._arguments[instance]

    def _spawn(self, device: int) -> _Worker:
        spec = self.specs[device]
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe(duplex=True)
        extra = tuple(p for p in sys.path if p)
        setting = worker.Setting(spec.name, str(self._folder), spec.cores, spec.memory, extra)
        process = context.Process(target=worker.main, args=(there, setting), name=f"weft-{spec.name}", daemon=True)
        with worker.environment({**ONE_THREAD, **spec.environment}):
            process.start()
        there.close()
        return _Worker(device, process, here)

    def _prepare(self, device: int) -> None:
        """Wait until a worker is up and knows the functions; one that dies meanwhile is replaced, but not for ever."""
        for _ in range(MOST_STARTS):
            w = self._workers[device]
            assert w is not None
            if self._greet(w):
                return
            code = w.process.exitcode
            _end(w)
            self._workers[device] = self._spawn(device)
            self._teach(device)
        self.close()
        hint = "; a script that calls weft.run needs an 'if __name__ == \"__main__\":' around it" if code == 1 else ""
        sign = f"exit code {code}" if code is not None else "no sign of life"
        raise WeftError(f"the process of device '{self.specs[device].name}' did not start ({sign}){hint}")

    def _greet(self, w: _Worker) -> bool:
        """Wait for the hellos a worker owes."""
        deadline = time.perf_counter() + START_LIMIT
        with contextlib.suppress(EOFError, OSError):
            while w.owes and w.pipe.poll(max(0.0, deadline - time.perf_counter())):
                pickle.loads(w.pipe.recv_bytes())
                w.owes -= 1
        w.ready = w.owes == 0
        if not w.ready:
            w.process.join(1.0)
        return w.ready

    def _teach(self, device: int) -> None:
        """Send the functions beforehand, so that the import of their modules is not part of the run; many of them one by one, in time."""
        w = self._workers[device]
        assert w is not None
        w.knows.clear()
        functions = list(self._functions.values())
        with contextlib.suppress(OSError):
            w.pipe.send_bytes(pickle.dumps(("clear",)))
            for number, data in functions if len(functions) <= TAUGHT else ():
                w.pipe.send_bytes(pickle.dumps(("function", number, data)))
                w.knows.add(number)
            w.pipe.send_bytes(pickle.dumps(("ping",)))
        w.owes += 1

    def _hear(self, w: _Worker) -> None:
        if self._workers[w.device] is not w:
            return
        try:
            message = pickle.loads(w.pipe.recv_bytes())
        except (EOFError, OSError):
            self._bury(w)
            return
        if message[0] == "hello":
            w.owes -= 1
            if not w.ready:
                w.ready = True
                self._news.append(DeviceAdded(w.device, self.clock()))
            return
        word, number, begin, end, *rest = message
        start, finish = begin - self._origin, end - self._origin
        if number in self._called_off:
            self._path(f"{self._runs}-{number}").unlink(missing_ok=True)
            return
        order = w.orders.popleft()
        assert order.number == number
        del self._orders[number]
        if word == "done":
            self._news.append(self._finished(order, w.device, start, finish, *rest))
        else:
            fault, text, trace = rest
            self._news.append(Failed(number, w.device, start, finish, fault, text, trace))
        if w.orders:
            self._news.append(Started(w.orders[0].number, w.device, finish))

    def _finished(
        self, order: Order, device: int, start: float, finish: float, parcel: Parcel, branches: tuple[Any, ...], loads: list[Any]
    ) -> Finished:
        instance, parents = order.members[0], order.inputs[0]
        self._results[instance] = parcel
        if instance in self._arguments and not any(instance in other.members for other, _ in self._orders.values()):
            drop(self._arguments.pop(instance))
        self._runs_on[instance] = device
        moved = tuple(Transfer(self._runs_on.get(parents[k] or 0, device), size, took) for k, size, took in loads)
        return Finished(order.number, device, start, finish, (float(parcel.size),), (branches,), moved)

    def _bury(self, w: _Worker) -> None:
        """A worker is dead: say so, remove what it may have left half done, and start another."""
        w.process.join(5.0)
        code = w.process.exitcode
        for order in w.orders:
            self._orders.pop(order.number, None)
            self._path(f"{self._runs}-{order.number}").unlink(missing_ok=True)
        w.pipe.close()
        time_ = self.clock()
        text, fault = cause_of(code)
        if w.ready:
            self._news.append(DeviceLost(w.device, time_, text, fault))  # type: ignore[arg-type]
        self._starts[w.device] = 0 if w.ready else self._starts[w.device] + 1
        if self._starts[w.device] >= MOST_STARTS:
            raise WeftError(f"the process of device '{self.specs[w.device].name}' dies before it can work, again and again: {text}")
        self._workers[w.device] = self._spawn(w.device)


def _specs(devices: int | Sequence[LocalDevice] | None) -> list[LocalDevice]:
    cores = cores_here()
    if devices is None:
        return [*_specs(len(cores)), *_gpus()]
    if isinstance(devices, int):
        if devices < 1:
            raise InvalidInput(f"{devices} devices; at least one is needed")
        return [LocalDevice(f"cpu{i}", cores=(cores[i % len(cores)],)) for i in range(devices)]
    if not devices:
        raise InvalidInput("no devices are given; at least one is needed")
    return list(devices)


def _gpus() -> list[LocalDevice]:
    """A process for each GPU of this machine, which sees that one only; its speed is what was profiled, a prior."""
    gpus = [device for device in discover(thorough=False) if device.kind != "cpu"]
    speeds = relative_speeds() if gpus else {}
    return [
        LocalDevice(g.name, kind=g.kind, speed=speeds.get(g.name, 10.0), environment={"CUDA_VISIBLE_DEVICES": str(g.index)}) for g in gpus
    ]


@lru_cache(maxsize=1000)
def _slots_only(args: tuple[Input, ...]) -> Parcel:
    return pack((with_slots(args), {}), "never-written", shared_from=sys.maxsize)


def with_slots(value: Any) -> Any:
    """Arguments as workers get them: a `Slot` where an `Input` was."""
    if isinstance(value, Input):
        return worker.Slot(value.edge)
    if type(value) in (list, tuple):
        return type(value)(with_slots(v) for v in value)
    if type(value) is dict:
        return {k: with_slots(v) for k, v in value.items()}
    return value


def pickle_function(function: Any, *, richer: str = "cloudpickle") -> bytes:
    """A function as bytes; if pickle cannot, by the richer module, where it is installed."""
    try:
        return pickle.dumps(function)
    except Exception as error:  # noqa: BLE001  # pickling runs code of the user
        name = getattr(function, "__qualname__", repr(function))
        try:
            data: bytes = import_module(richer).dumps(function)
        except Exception:  # noqa: BLE001  # not installed, or no better
            raise InvalidInput(
                f"function '{name}' cannot be sent to another process ({error}); define it at the top of a module, or install cloudpickle"
            ) from None
        return data


def cause_of(code: int | None) -> tuple[str, str]:
    """What an exit code says about the end of a process, and whose fault that is."""
    if code is not None and code >= 0:
        return f"it ended its process with exit code {code}", "exited"
    if code is None:
        return "its process fell silent", "killed"
    name = signal.Signals(-code).name if -code in [s.value for s in signal.Signals] else str(-code)
    memory = " (often: out of memory)" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{memory}", "killed"


def _end(w: _Worker) -> None:
    w.process.kill()
    w.process.join(10.0)
    w.process.close()
    w.pipe.close()
