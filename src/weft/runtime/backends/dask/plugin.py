"""What runs inside Dask: on its scheduler a plugin that reports, on its workers the calls of tasks, one after the other for each device.

Only `weft.runtime.backends.dask.backend` and its neighbours import this file here; Dask imports it wherever its scheduler and its workers are.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from multiprocessing.connection import wait
from typing import Any

from distributed import Worker, get_worker, secede
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.protocol.pickle import dumps

from weft.runtime.backends.local.worker import at_device, attempt, cannot_be_pickled, fill, loaded

NOTED_FROM = 4096
"""Bytes from which a transfer is worth a note."""

QUICK = 0.001
"""Seconds for which messages are gathered during a run."""

Facts = dict[str, Any]
Report = dict[str, Any]


@dataclass(frozen=True)
class TaskMessage:
    """What a Dask task is told.

    Attributes
    ----------
    run, number : the run, and the order it carries out
    device : the name of its device
    home : the id of the worker it is meant for; when that one is lost, Dask runs it elsewhere, whenever it likes. Empty in a plan that
        Dask was given whole: whoever depends on it is with Dask already
    before : the order that must have ended on the device first; -1: none
    function, arguments : pickles
    inputs : the key of the result each slot of the arguments gets; None: not taken
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
        """Spares Dask a look at every byte of a graph."""
        return self.run, self.number


# -- on the workers -----------------------------------------------------------


class OrderSequencer:
    """Lets the orders of a device run one after the other, as they were sent.

    Dask runs what is ready: a task whose inputs are on their way is overtaken. Here it is not: whoever comes before its turn leaves the
    thread to others, and waits.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ended: dict[tuple[str, str], int] = {}
        self._dropped: dict[tuple[str, int], int] = {}
        self._over: dict[str, None] = {}

    def take(self, message_of: TaskMessage) -> bool:
        """Wait for the turn; False: it was called off meanwhile."""
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
        """The next one, please."""
        device = (message_of.run, message_of.device)
        with self._changed:
            self._ended[device] = max(self._ended.get(device, -1), message_of.number)
            self._changed.notify_all()

    def drop(self, run: str, number: int, before: int) -> None:
        """An order will not come, or shall not run: what waits for it waits for the one before."""
        with self._changed:
            self._dropped[run, number] = before
            self._changed.notify_all()

    def close(self, run: str) -> None:
        """A run is over: nobody waits any longer, and nothing of it runs."""
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
"""Transfers that were reported already: several tasks may read what came in one."""


class TaskError(Exception):
    """A task of a plan came to nothing; so do those that depend on it."""


def perform(message_of: TaskMessage, *values: Any) -> Any:
    """Do what an message_of says; the value stays here, a report goes to the scheduler with Dask's own message that the task is done."""
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
        raise TaskError(report["text"])  # the others must not run without it
    report["transfers"] = _transfers(worker, message_of)
    worker.state.tasks[worker.get_current_task()].metadata["weft"] = report
    return value


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
    """Bytes of a value on its way; raises when it cannot be sent."""
    buffers: list[pickle.PickleBuffer] = []
    return len(dumps(value, buffer_callback=buffers.append)) + sum(
        buffer.raw().nbytes for buffer in buffers
    )


def _transfers(worker: Any, message_of: TaskMessage) -> list[tuple[str, float, float]]:
    """(worker, bytes, seconds) of what was brought here for this message_of, and not told before."""
    found = []
    try:
        for entry in islice(reversed(worker.transfer_incoming_log), 50):
            told = (entry["start"], entry["who"])
            if (
                told not in _reported
                and entry["total"] >= NOTED_FROM
                and any(key in entry["keys"] for key in message_of.inputs)
            ):
                _reported[told] = None
                found.append((entry["who"], float(entry["total"]), float(entry["duration"])))
    except RuntimeError:  # the log grew while it was read: next time
        pass
    return found


def given(data: bytes) -> Any:
    """A result that is not computed but known; as a task of its own it can be had again when the worker that holds it dies."""
    return pickle.loads(data)


def handshake(functions: Sequence[bytes], cores: Sequence[int]) -> int:
    """Get ready: load functions beforehand, stay on some cores. Return the process id."""
    for data in functions:
        _function(data)
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    return os.getpid()


async def drop(run: str, number: int, before: int) -> None:
    """Call an order off that waits. A coroutine, as are the next: only those run without being waited for."""
    SEQUENCER.drop(run, number, before)


async def close(run: str) -> None:
    """Call everything off."""
    SEQUENCER.close(run)


async def die() -> None:
    """End this process, whatever its threads do; its nanny starts another."""
    os.kill(os.getpid(), signal.SIGKILL)


# -- on the scheduler ---------------------------------------------------------


class Reporter(SchedulerPlugin):  # type: ignore[misc]  # Dask is not typed everywhere
    """Tells the client that subscribed to the topic of a run what happens to its tasks, and to workers.

    Meanwhile stealing is off, and messages to workers, which the scheduler gathers for 5 ms, are gathered for 1 ms.
    """

    def __init__(self, run: str) -> None:
        self.run = run
        self.name = run
        self.stole = False
        self.paces: dict[str, float] = {}
        """Worker -> seconds between messages to it, as they were."""

    async def start(self, scheduler: Any) -> None:
        """Stop the stealing: it would undo what was decided."""
        self.scheduler = scheduler
        self.stole = "stealing" in scheduler.periodic_callbacks
        if self.stole:
            await scheduler.extensions["stealing"].stop()
        for worker in scheduler.workers:
            self._hurry(worker)

    def transition(self, key: Any, start: str, finish: str, *_: Any, **facts: Any) -> None:  # noqa: ARG002
        """A task is done, or Dask could not do it."""
        if finish not in ("memory", "erred") or not isinstance(key, str) or self.run not in key:
            return
        message = {"word": "done", "key": key, "worker": facts.get("worker", "")}
        if finish == "memory":
            # Should it be lost, it may be computed anywhere. A loose pin would not do: when all workers were gone at once, Dask does not
            # try a task with a pin of any kind on new ones.
            self.scheduler.set_restrictions({key: None})
            message["report"] = (facts.get("metadata") or {}).get("weft")
        else:
            message |= {
                "word": "erred",
                "text": str(facts.get("exception_text") or "its workers died again and again"),
            }
            message["traceback"] = str(facts.get("traceback_text") or "")
        self.scheduler.log_event(self.run, message)

    def add_worker(self, scheduler: Any, worker: str) -> None:
        """A worker is there."""
        self._hurry(worker)
        self.scheduler.log_event(self.run, {"word": "added", **_facts(scheduler.workers[worker])})

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        """A worker is gone."""
        self.paces.pop(worker, None)
        scheduler.log_event(self.run, {"word": "lost", "worker": worker})

    def _hurry(self, worker: str) -> None:
        comm = self.scheduler.stream_comms.get(worker)
        if comm is not None:
            self.paces.setdefault(worker, comm.interval)
            comm.interval = min(comm.interval, QUICK)


def list_workers(dask_scheduler: Any) -> list[Facts]:
    """The workers, by name. Asked of the scheduler itself: a client's view is late, and not complete in all versions."""
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
    }


async def leave(dask_scheduler: Any, run: str) -> None:
    """Remove the reporter of a run and what it said; the last one lets the stealing go on."""
    reporter = dask_scheduler.plugins.get(run)
    if reporter is None:
        return
    dask_scheduler.remove_plugin(run)
    others = [plugin for plugin in dask_scheduler.plugins.values() if isinstance(plugin, Reporter)]
    for other in others:
        other.stole |= reporter.stole
        other.paces = {
            **other.paces,
            **reporter.paces,
        }  # of those who came later, the first loaded_functions best
    if reporter.stole and not others:
        await dask_scheduler.extensions["stealing"].start()
    for worker, pace in reporter.paces.items() if not others else ():
        if worker in dask_scheduler.stream_comms:
            dask_scheduler.stream_comms[worker].interval = pace
    broker = getattr(dask_scheduler, "_broker", None)
    if broker is not None:
        broker.truncate(run)


class DeviceTable:
    """An annotation of many tasks: key -> value."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def __call__(self, key: str) -> Any:
        """The value of a task."""
        return self.values[key]


# -- the process of a worker that weft started --------------------------------

SILENT = 60
"""Above every level of the log."""


def serve(name: str, scheduler: str, scratch: str, memory: int) -> None:
    """Be a worker until the scheduler, or the process that started this one, is gone."""
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
    os._exit(0)  # whatever threads a task left behind


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
