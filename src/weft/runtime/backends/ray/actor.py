"""The actor of a device: runs calls; Ray keeps the results.

All values are pickled by Ray's pickler, so that functions and classes of the user's script travel
by value.
"""

# ruff: noqa: S301  # pickles of this run's own processes
from __future__ import annotations

import contextlib
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

from weft.runtime.backends.local.worker import execute, fill, loaded, set_device
from weft.runtime.backends.ray.leading_imports import make_leading_imports
from weft.runtime.backends.real import machine

Pickled = tuple[bytes, list[Any]]
"""A pickle and its large buffers, which Ray keeps in shared memory."""

Performed = tuple[tuple[Any, ...], Pickled | str]
"""The report of a call for the driver, and its result."""

GONE = "gone"
"""Marker in place of the result of a failed call."""


def pickling() -> Callable[..., bytes]:
    """Return Ray's `dumps`, which pickles what belongs to the user's script by value."""
    dumps: Callable[..., bytes] = import_module("ray.cloudpickle").dumps
    return dumps


def packed(value: Any, dumps: Callable[..., bytes]) -> Pickled:
    """Pickle a value by `dumps`, without a copy of its buffers.

    Examples
    --------
    >>> unpacked(packed({"a": [1, 2]}, pickle.dumps))
    {'a': [1, 2]}
    """
    buffers: list[pickle.PickleBuffer] = []
    data = dumps(value, protocol=5, buffer_callback=buffers.append)
    return data, [pickle.PickleBuffer(buffer.raw()) for buffer in buffers]


def unpacked(payload: Pickled) -> Any:
    """Return the value; its arrays are read-only views of Ray's memory."""
    return pickle.loads(payload[0], buffers=payload[1])


def size_of(payload: Pickled) -> int:
    """Return the size in bytes."""
    return len(payload[0]) + sum(memoryview(buffer).nbytes for buffer in payload[1])


class DeviceActor:
    """Runs the calls of one device in the order they were sent.

    `drop` and `watch` run in concurrency groups of their own, beside the current call.
    """

    def __init__(self, device: str, cores: Sequence[int]) -> None:
        set_device(device)
        self.dumps: Callable[..., bytes] = pickling()
        self.functions: dict[int, Callable[..., Any] | str] = {}
        self.dropped: set[int] = set()
        self.cores = cores

    def handshake(self) -> tuple[int, str, float]:
        """Return process id, machine and time; pin the calling thread to its cores."""
        if self.cores and hasattr(os, "sched_setaffinity"):
            with contextlib.suppress(OSError):
                os.sched_setaffinity(0, self.cores)
        return os.getpid(), machine(), time.perf_counter()

    def node(self) -> str:
        """Return the node of Ray that this process runs on."""
        return str(import_module("ray").get_runtime_context().get_node_id())

    def make(self, size: int) -> Any:
        """Return an array of this number of bytes, for a probe of links.

        The reader of an array gets no copy.
        """
        return import_module("numpy").zeros(size, "uint8")

    def fetch(self, refs: Sequence[Any]) -> float:
        """Return the seconds that fetching an object takes."""
        begin = time.perf_counter()
        import_module("ray").get(refs[0])
        return time.perf_counter() - begin

    def preload(self, path: Sequence[str], functions: dict[int, bytes]) -> None:
        """Clear the state of the run before; preload functions and their leading imports."""
        sys.path.extend(p for p in path if p not in sys.path)
        self.dropped.clear()
        self.functions = {number: loaded(data) for number, data in functions.items()}
        for function in self.functions.values():
            make_leading_imports(function)

    def drop(self, numbers: Sequence[int]) -> None:
        """Cancel waiting orders."""
        self.dropped.update(numbers)

    def watch(self) -> None:
        """Never return, so that the pending call fails when the process dies."""
        threading.Event().wait()

    def perform(
        self,
        number: int,
        function: int,
        data: bytes | None,
        arguments: Pickled,
        chooses: bool,
        *inputs: Pickled | str | None,
    ) -> Performed:
        """Call a function; return the report for the driver, and the result.

        Calls of a plan are made before their inputs exist: they fail if an input failed.
        """
        if number in self.dropped:
            begin = time.perf_counter()
            return ("dropped", begin, begin), GONE
        if data is not None:
            self.functions[function] = loaded(data)
        return perform(self.functions[function], arguments, inputs, self.dumps, chooses=chooses)


def perform(
    function: Callable[..., Any] | str,
    arguments: Pickled,
    inputs: Sequence[Pickled | str | None],
    dumps: Callable[..., bytes],
    *,
    chooses: bool,
) -> Performed:
    """Call a function; return the report for the driver, and the result.

    A text in place of a function says why it could not be loaded.
    """

    def call(function: Callable[..., Any]) -> Any:
        values = [None if p is None else unpacked(cast("Pickled", p)) for p in inputs]
        args, kwargs = unpacked(arguments)
        return function(*fill(args, values), **fill(kwargs, values))

    def done(begin: float, value: Any, branches: tuple[Any, ...]) -> Performed:
        result = packed(value, dumps)
        return ("done", begin, time.perf_counter(), size_of(result), branches), result

    def failed(begin: float, *fault: str) -> Performed:
        return ("failed", begin, time.perf_counter(), *fault), GONE

    if GONE in inputs:
        return failed(time.perf_counter(), "raised", "a task that it needs failed", "")
    return execute(function, call, done, failed, chooses=chooses)
