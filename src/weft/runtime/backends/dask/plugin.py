"""Code that runs inside Dask: a scheduler plugin that reports, and task execution on workers.

Dask imports this module on its scheduler and workers; here only the Dask backend does.
"""

# ruff: noqa: S301  # pickles of this run's own processes
from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from multiprocessing.connection import wait
from typing import Any, NamedTuple

from dask._task_spec import Task, TaskRef
from distributed import Worker, get_worker, secede
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.protocol.pickle import dumps

from weft.runtime.backends.local.worker import at_device, attempt, cannot_be_pickled, fill, loaded

NOTED_FROM = 4096
"""Smallest transfer in bytes that is reported."""

PREFETCHED_FROM = 65536
"""Smallest result in bytes that moves before all inputs of its reader exist."""

PLACED_BY_DASK = "own"
"""How the names of tasks begin that Dask places, and whose results the run holds."""

SOME_WORK = 150_000
"""Steps of a loop that takes about 10 ms of a processor core."""

QUICK = 0.001
"""Seconds for which messages are batched during a run."""

Facts = dict[str, Any]
Report = dict[str, Any]


@dataclass(frozen=True)
class TaskMessage:
    """The message of a Dask task.

    Attributes
    ----------
    run, number : the run and the order
    device : name of the device
    home : id of the intended worker; if that one is lost, Dask may run the task anywhere. Empty in
    a
        whole plan, where Dask holds all dependents too
    before : order that must end on the device first; -1: none
    function, arguments : pickles
    inputs : key of the result of each slot; None: edge not taken
    """

    run: str
    number: int
    device: str
    home: str
    before: int
    function: bytes
    arguments: bytes
    inputs: tuple[str | None, ...]
    chooses: bool

    def __dask_tokenize__(self) -> tuple[str, int]:
        """Return a token, so that Dask does not hash every byte."""
        return self.run, self.number


# -- on the workers -----------------------------------------------------------


class OrderSequencer:
    """Runs the orders of a device in the order they were sent.

    Dask runs tasks as they become ready, so one whose inputs are in transfer is overtaken. Here a
    task that comes too early leaves its thread to others and waits.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ended: dict[tuple[str, str], int] = {}
        self._dropped: dict[tuple[str, int], int] = {}
        self._over: dict[str, None] = {}

    def take(self, message_of: TaskMessage) -> bool:
        """Wait for earlier orders; return False if this one was cancelled."""
        with self._changed:
            early = not self._may(message_of)
        if early:
            secede()
        with self._changed:
            self._changed.wait_for(lambda: self._may(message_of))
            return (
                message_of.run not in self._over
                and (message_of.run, message_of.number) not in self._dropped
            )

    def end(self, message_of: TaskMessage) -> None:
        """Let the next order proceed."""
        device = (message_of.run, message_of.device)
        with self._changed:
            self._ended[device] = max(self._ended.get(device, -1), message_of.number)
            self._changed.notify_all()

    def drop(self, run: str, number: int, before: int) -> None:
        """Skip an order: the one behind it waits for the order before."""
        with self._changed:
            self._dropped[run, number] = before
            self._changed.notify_all()

    def close(self, run: str) -> None:
        """End a run: release all waiting orders without running them."""
        with self._changed:
            self._over[run] = None
            self._ended = {key: last for key, last in self._ended.items() if key[0] != run}
            self._dropped = {key: before for key, before in self._dropped.items() if key[0] != run}
            self._changed.notify_all()

    def _may(self, message_of: TaskMessage) -> bool:
        before = message_of.before
        while (message_of.run, before) in self._dropped:
            before = self._dropped[message_of.run, before]
        return message_of.run in self._over or before <= self._ended.get(
            (message_of.run, message_of.device), -1
        )


SEQUENCER = OrderSequencer()
_reported: dict[tuple[float, str], None] = {}
"""Reported transfers: several tasks may read the same input."""


class TaskError(Exception):
    """A failed task of a whole plan; its dependents must fail too."""


def perform(message_of: TaskMessage, *values: Any) -> Any:
    """Run a task; its report travels with Dask's own message about its end."""
    worker = get_worker()
    home = worker.id == message_of.home
    if home and not SEQUENCER.take(message_of):
        return None
    try:
        with at_device(message_of.device):
            value, report = _result(message_of, values)
    finally:
        if home:
            SEQUENCER.end(message_of)
    if "fault" in report and not message_of.home:
        raise TaskError(report["text"])  # dependents must not run
    report["transfers"] = _transfers(worker, message_of)
    packed = pickle.dumps(report)  # a single value for all messages that carry it
    worker.state.tasks[worker.get_current_task()].metadata["weft"] = packed
    return value


def perform_packed(data: bytes, *values: Any) -> Any:
    """Run a task whose message the scheduler did not unpack."""
    return perform(pickle.loads(data), *values)


def unpacked_report(message: Mapping[str, Any]) -> Report | None:
    """Return the report in a message about the end of a task; None: there is none."""
    packed = message.get("report")
    report: Report | None = None if packed is None else pickle.loads(packed)
    return report


def _result(message_of: TaskMessage, values: Sequence[Any]) -> tuple[Any, Report]:
    begin = time.perf_counter()
    function = _function(message_of.function)
    if isinstance(function, str):
        return None, _failed(begin, "function", f"its function cannot be loaded here: {function}")
    rest = iter(values)
    inputs = [None if key is None else next(rest) for key in message_of.inputs]

    def call() -> Any:
        args, kwargs = pickle.loads(message_of.arguments)
        return function(*fill(args, inputs), **fill(kwargs, inputs))

    branches, value, trouble = attempt(call, chooses=message_of.chooses)
    if trouble is not None:
        return None, _failed(begin, "raised", *trouble)
    try:
        size = size_of(value)
    except BaseException as error:  # noqa: BLE001  # pickling runs code of the user
        return None, _failed(begin, "unpicklable", cannot_be_pickled(value, error))
    return value, {
        "start": begin,
        "finish": time.perf_counter(),
        "size": size,
        "branches": branches,
    }


def _failed(begin: float, fault: str, text: str, trace: str = "") -> Report:
    return {
        "start": begin,
        "finish": time.perf_counter(),
        "fault": fault,
        "text": " ".join(text.split()),
        "traceback": trace,
    }


@lru_cache(maxsize=10_000)
def _function(data: bytes) -> Any:
    return loaded(data)


def size_of(value: Any) -> int:
    """Return the pickled size; raises if a value cannot be pickled."""
    buffers: list[pickle.PickleBuffer] = []
    return len(dumps(value, buffer_callback=buffers.append)) + sum(
        buffer.raw().nbytes for buffer in buffers
    )


def _transfers(worker: Any, message_of: TaskMessage) -> list[tuple[str, float, float]]:
    """Return (worker, bytes, seconds) of transfers for this task that are not reported yet."""
    found = []
    try:
        for entry in islice(reversed(worker.transfer_incoming_log), 50):
            transfer = (entry["start"], entry["who"])
            if (
                transfer not in _reported
                and entry["total"] >= NOTED_FROM
                and any(key in entry["keys"] for key in message_of.inputs)
            ):
                _reported[transfer] = None
                found.append((entry["who"], float(entry["total"]), float(entry["duration"])))
    except RuntimeError:  # the log grew while it was read: next time
        pass
    return found


def given(data: bytes) -> Any:
    """Return a known result; as a task, Dask can repeat it on another worker."""
    return pickle.loads(data)


def handshake(functions: Sequence[bytes], cores: Sequence[int]) -> dict[str, Any]:
    """Preload functions and pin cores; return the process id and the seconds of some work."""
    for data in functions:
        _function(data)
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    return {"pid": os.getpid(), "seconds": work_seconds()}


@lru_cache(maxsize=1)
def work_seconds() -> float:
    """Return the seconds that this process takes for a small piece of work, measured once.

    It is some milliseconds of computing: longer than the share of a period that a processor quota
    grants at once.
    """
    begin, total = time.perf_counter(), 0
    for number in range(SOME_WORK):
        total += number * number
    return time.perf_counter() - begin


async def drop(run: str, number: int, before: int) -> None:
    """Cancel a waiting order (a coroutine: only those run without waiting)."""
    SEQUENCER.drop(run, number, before)


async def close(run: str) -> None:
    """Cancel all orders of a run."""
    SEQUENCER.close(run)


async def die() -> None:
    """Kill this process; its nanny starts another."""
    os.kill(os.getpid(), signal.SIGKILL)


# -- on the scheduler ---------------------------------------------------------


class PackedOrder(NamedTuple):
    """An order as it travels to the scheduler: plain values, and the task as bytes."""

    key: str
    worker: str
    priority: float
    inputs: Sequence[str]
    resources: dict[str, float]
    message_of: bytes


class Reporter(SchedulerPlugin):  # type: ignore[misc]  # Dask is not typed everywhere
    """Takes the orders of a run, and reports ends of tasks and changes of workers to its client.

    Results of orders are held in the name of the run, as if it were a client of its own. During a
    run stealing is off, and messages to workers are batched for 1 ms instead of 5 ms.
    """

    def __init__(self, run: str, client: str) -> None:
        self.run = run
        self.name = run
        self.client = client
        self.stole = False
        self.paces: dict[str, float] = {}
        """Worker -> original batching interval."""

    async def start(self, scheduler: Any) -> None:
        """Stop stealing, which would undo decisions."""
        self.scheduler = scheduler
        self.stole = "stealing" in scheduler.periodic_callbacks
        if self.stole:
            await scheduler.extensions["stealing"].stop()
        for worker in scheduler.workers:
            self._hurry(worker)
        scheduler.client_desires_keys(keys=[], client=self.run)
        scheduler.stream_handlers[self.run] = self.take_message

    def take_message(self, client: str, data: bytes) -> None:
        """Take orders, and release results that are not needed any more."""
        orders, released = pickle.loads(data)
        if orders:
            self.take_orders(orders)
        if released:
            self.scheduler.client_releases_keys(keys=released, client=self.run)

    def take_orders(self, orders: Sequence[PackedOrder]) -> None:
        """Create the tasks of orders.

        A graph of one task would cost several times as much as the task: it is unpickled, converted
        and ordered in threads of the scheduler.
        """
        tasks, recommended, new = self.scheduler.tasks, {}, []
        for order in orders:
            if not all(key in tasks for key in order.inputs):
                self._report_error(order.key, "Dask has dropped one of its inputs")
                continue
            refs = [TaskRef(key) for key in order.inputs]
            spec = Task(order.key, perform_packed, order.message_of, *refs)
            task = self.scheduler.new_task(order.key, spec, "released")
            task.priority = (order.priority, self.scheduler.generation, 0)
            task.worker_restrictions = {order.worker}
            task.resource_restrictions = order.resources
            for key in order.inputs:
                task.add_dependency(tasks[key])
            recommended[order.key] = "waiting"
            if not task.group.span_id:
                new.append(task)
        spans = self.scheduler.extensions.get("spans")
        if new and spans is not None:  # workers measure by span; one for all tasks of a kind
            spans.observe_tasks(new, code=(), span_metadata={"collections": []})
        self.scheduler.client_desires_keys(keys=list(recommended), client=self.run)
        self.scheduler.transitions(recommended, f"weft-orders-{time.time()}")

    def update_graph(
        self, scheduler: Any, *, keys: Collection[Any], tasks: Sequence[Any], **_: Any
    ) -> None:
        """Hold the results of a graph that Dask places; its client asks for the last ones only."""
        name = f"-{self.run}-{PLACED_BY_DASK}"
        held = [k for k in tasks if isinstance(k, str) and name in k and k not in keys]
        scheduler.client_desires_keys(keys=held, client=self.run)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **facts: Any) -> None:
        """Report a task that is done or failed."""
        if finish not in ("memory", "erred") or not isinstance(key, str) or self.run not in key:
            return
        if finish == "memory":
            # A lost result may be computed anywhere. A loose pin would not do: when all workers
            # were lost at once, Dask does not try pinned tasks on new ones.
            self.scheduler.set_restrictions({key: None})
            message = {"word": "done", "key": key, "worker": facts.get("worker", "")}
            message["report"] = (facts.get("metadata") or {}).get("weft")
            self.scheduler.log_event(self.run, message)
            self._prefetch(key)
        else:
            text = str(facts.get("exception_text") or "its workers died repeatedly")
            self._report_error(key, text, str(facts.get("traceback_text") or ""))

    def _report_error(self, key: str, text: str, traceback: str = "") -> None:
        message = {"word": "erred", "key": key, "worker": "", "text": text}
        self.scheduler.log_event(self.run, {**message, "traceback": traceback})

    def _prefetch(self, key: str) -> None:
        """Let workers fetch a result that a task planned for them will read.

        Dask moves the inputs of a task once all of them exist; so a transfer would wait for the
        slowest of the others, and the worker for the transfer. A fetch ahead gives way to others.
        """
        done = self.scheduler.tasks.get(key)
        if done is None or not done.who_has or done.nbytes < PREFETCHED_FROM:
            return
        here = {worker.address for worker in done.who_has}
        readers = {
            address: None
            for reader in done.dependents
            if reader.state == "waiting" and len(reader.worker_restrictions or ()) == 1
            for address in reader.worker_restrictions
            if address not in here and address in self.scheduler.stream_comms
        }
        for address in readers:
            self.scheduler.request_acquire_replicas(
                address, [key], stimulus_id=f"weft-prefetch-{time.time()}"
            )

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """Report a new worker."""
        self._hurry(worker)
        self.scheduler.log_event(self.run, {"word": "added", **_facts(scheduler.workers[worker])})

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Release all results of a run whose client is gone."""
        if client == self.client:
            release_all(scheduler, self.run)

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        """Report a lost worker."""
        self.paces.pop(worker, None)
        scheduler.log_event(self.run, {"word": "lost", "worker": worker})

    def _hurry(self, worker: str) -> None:
        comm = self.scheduler.stream_comms.get(worker)
        if comm is not None:
            self.paces.setdefault(worker, comm.interval)
            comm.interval = min(comm.interval, QUICK)


def list_workers(dask_scheduler: Any) -> list[Facts]:
    """Return the workers by name, from the scheduler: a client's view is late."""
    return sorted(
        (_facts(worker) for worker in dask_scheduler.workers.values()),
        key=lambda facts: (len(facts["name"]), facts["name"]),
    )


def _facts(worker: Any) -> Facts:
    return {
        "name": str(worker.name),
        "worker": worker.address,
        "id": worker.server_id,
        "host": worker.host,
        "threads": worker.nthreads,
        "memory": worker.memory_limit,
        "resources": dict(worker.resources),
    }


async def leave(dask_scheduler: Any, run: str) -> None:
    """Remove the reporter of a run; the last one restores stealing and batching."""
    reporter = dask_scheduler.plugins.get(run)
    if reporter is None:
        return
    dask_scheduler.remove_plugin(run)
    dask_scheduler.stream_handlers.pop(run, None)
    release_all(dask_scheduler, run)
    dask_scheduler.clients.pop(run, None)
    others = [plugin for plugin in dask_scheduler.plugins.values() if isinstance(plugin, Reporter)]
    for other in others:
        other.stole |= reporter.stole
        other.paces = {
            **other.paces,
            **reporter.paces,
        }  # the first reporter has the original intervals
    if reporter.stole and not others:
        await dask_scheduler.extensions["stealing"].start()
    for worker, pace in reporter.paces.items() if not others else ():
        if worker in dask_scheduler.stream_comms:
            dask_scheduler.stream_comms[worker].interval = pace
    broker = getattr(dask_scheduler, "_broker", None)
    if broker is not None:
        broker.truncate(run)


def release_all(scheduler: Any, run: str) -> None:
    """Release all results that are held in the name of a run."""
    if run in scheduler.clients:
        keys = [task.key for task in scheduler.clients[run].wants_what]
        scheduler.client_releases_keys(keys=keys, client=run)


async def let_steal(dask_scheduler: Any, run: str, allowed: bool) -> None:
    """Allow or forbid stealing during a run, if Dask was stealing before it."""
    reporter = dask_scheduler.plugins.get(run)
    if reporter is None or not reporter.stole:
        return
    stealing = dask_scheduler.extensions["stealing"]
    await (stealing.start() if allowed else stealing.stop())


class DeviceTable:
    """A task annotation: key -> value."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __call__(self, key: str) -> Any:
        """Return the value of a task."""
        return self.values[key]


# -- the process of a worker that weft started --------------------------------

SILENT = 60
"""Log level above all others."""


def serve(name: str, scheduler: str, scratch: str, memory: int) -> None:
    """Run a worker until the scheduler or the parent process ends."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C is the driver's business: it ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()

    async def live() -> None:
        options = {
            "host": "127.0.0.1",
            "nthreads": 1,
            "memory_limit": memory,
            "dashboard": False,
            "silence_logs": SILENT,
        }
        async with Worker(scheduler, name=name, local_directory=scratch, **options) as worker:
            await worker.finished()

    asyncio.run(live())
    os._exit(0)  # regardless of threads of tasks


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
