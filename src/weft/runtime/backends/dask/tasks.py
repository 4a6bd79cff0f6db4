"""Tasks on the workers of Dask: their order, their execution, and their reports.

Dask imports this module on its workers; here only the Dask backend does.
"""

# ruff: noqa: S301  # pickles of this run's own processes
from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from distributed import get_worker, secede
from distributed.protocol.pickle import dumps

from weft.runtime.backends.local.worker import at_device, execute, fill, loaded_once

NOTED_FROM = 4096
"""Smallest transfer in bytes that is reported."""

SOME_WORK = 150_000
"""Steps of a loop that takes about 10 ms of a processor core."""

Report = dict[str, Any]


@dataclass(frozen=True)
class TaskMessage:
    """The message of a Dask task.

    Attributes
    ----------
    run, number : the run and the order
    device : name of the device
    home : id of the intended worker; if that worker is lost, Dask may run the task anywhere. Empty
        in a whole plan, whose dependents Dask holds, too
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


class OrderSequencer:
    """Runs the orders of a device in the order they were sent.

    Dask runs tasks as they become ready, so a later task may overtake one whose inputs still move.
    Here a task that comes too early waits and leaves its thread to others.
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
        """Skip an order: the order behind it then waits for the order before it."""
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
    rest = iter(values)
    inputs = [None if key is None else next(rest) for key in message_of.inputs]

    def call(function: Callable[..., Any]) -> Any:
        args, kwargs = pickle.loads(message_of.arguments)
        return function(*fill(args, inputs), **fill(kwargs, inputs))

    def done(begin: float, value: Any, branches: tuple[Any, ...]) -> tuple[Any, Report]:
        size = size_of(value)
        times = {"start": begin, "finish": time.perf_counter()}
        return value, {**times, "size": size, "branches": branches}

    def failed(begin: float, fault: str, text: str, trace: str) -> tuple[Any, Report]:
        times = {"start": begin, "finish": time.perf_counter()}
        return None, {**times, "fault": fault, "text": text, "traceback": trace}

    function = loaded_once(message_of.function)
    return execute(function, call, done, failed, chooses=message_of.chooses)


def size_of(value: Any) -> int:
    """Return the pickled size; raises if a value cannot be pickled."""
    buffers: list[pickle.PickleBuffer] = []
    return len(dumps(value, buffer_callback=buffers.append)) + sum(
        buffer.raw().nbytes for buffer in buffers
    )


def _transfers(worker: Any, message_of: TaskMessage) -> list[tuple[str, float, float]]:
    """Return (worker, bytes, seconds) of this task's transfers not reported yet."""
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
    except RuntimeError:  # the log grew while it was read; the next task reports its transfers
        pass
    return found


def given(data: bytes) -> Any:
    """Return a known result; as a task, Dask can repeat it on another worker."""
    return pickle.loads(data)


def handshake(functions: Sequence[bytes], cores: Sequence[int]) -> dict[str, Any]:
    """Preload functions and pin cores; return process id and seconds of some work."""
    for data in functions:
        loaded_once(data)
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    return {"pid": os.getpid(), "seconds": work_seconds()}


@lru_cache(maxsize=1)
def work_seconds() -> float:
    """Return the seconds of a small piece of work in this process, measured once.

    It is some milliseconds of computing, which is longer than a processor quota grants at once.
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
