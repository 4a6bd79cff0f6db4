"""`weft.Executor`: concurrent.futures on local processes that may differ."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from concurrent.futures import BrokenExecutor, Future
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput, Unsupported
from weft.model import Cluster
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.backends.local.pool import SharedBackend, shared_backend
from weft.runtime.costs.estimates import estimated_problem
from weft.runtime.costs.history import History, history_for_run
from weft.runtime.costs.keys import function_identity
from weft.runtime.executors.dispatcher import Dispatcher, Submitted
from weft.runtime.executors.function_table import ArgumentRows
from weft.runtime.inputs.functions import application_of
from weft.runtime.inputs.promises import Task
from weft.typed import typed

R = TypeVar("R")

_living: weakref.WeakSet[Dispatcher] = weakref.WeakSet()


class Executor(futures.Executor):
    """An executor whose devices may differ.

    Each call goes to the device where it is predicted to end first.

    Predictions come from the project's history and from the calls so far, by function and sizes of
    arguments. The processes are those of `weft.run`, and are kept for the next executor or run. A
    call whose process dies fails with `BrokenExecutor`; all others are not affected.

    Parameters
    ----------
    devices : the number of processes, or one `LocalDevice` each; default: one per processor core
        and per GPU
    max_workers : the number of processes, as in other executors
    history : measurements of earlier runs, as for `weft.run`

    Examples
    --------
    >>> with Executor(1, history=False) as executor:
    ...     executor.submit(pow, 2, 10).result(), list(executor.map(abs, [-1, 2]))
    (1024, [1, 2])
    """

    @typed
    def __init__(
        self,
        devices: int | Sequence[LocalDevice] | None = None,
        *,
        max_workers: int | None = None,
        history: History | str | Path | bool = True,
    ) -> None:
        if max_workers is not None:
            if devices is not None:
                raise InvalidInput("devices and max_workers are given; give one of the two")
            if max_workers < 1:
                raise InvalidInput("max_workers must be greater than 0")
            devices = max_workers
        if isinstance(devices, Cluster):
            raise Unsupported(
                f"the devices are the cluster '{devices.name}'; an executor does not share the "
                "capacities of nodes: give a number or a list of LocalDevice, or use weft.run"
            )
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._begun = False
        self._allowed: dict[tuple[Any, ...], frozenset[int] | None] = {}
        backend: SharedBackend = shared_backend(devices)
        self._cluster = backend.devices()
        self._dispatcher = Dispatcher(backend, history_for_run(history))
        weakref.finalize(self, self._dispatcher.close).atexit = False

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices."""
        return self._cluster.names

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Run a call on a device; `weft.task(fn).options(device=...)` sets its needs."""
        future: Future[R] = Future()
        if isinstance(fn, Task):
            call = self._with_needs(future, fn, args, kwargs)
        else:
            call = Submitted(future, fn, args, kwargs)
        if args and type(args[0]) is ArgumentRows:
            call.kind = f"{call.kind or function_identity(call.function)} in chunks"
        self._put(call)
        return future

    def map(
        self,
        fn: Callable[..., R],
        /,
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[R]:
        """Map a function over iterables; `chunksize` calls go to a device at once."""
        if not isinstance(chunksize, int | np.integer) or chunksize < 1:
            raise ValueError(f"chunksize is {shown(chunksize)}; it must be at least 1, and whole")
        if chunksize == 1:
            return super().map(fn, *iterables, timeout=timeout)
        rows = zip(*iterables, strict=False)  # as the builtin map
        chunks = iter(lambda: ArgumentRows(islice(rows, chunksize)), ())
        mapped: Any = super().map(fn, chunks, timeout=timeout)  # a list of results per chunk
        return chain.from_iterable(mapped)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End when all calls are done, or with `cancel_futures` all that have begun."""
        with self._lock:
            self._closed = True
        self._dispatcher.close(cancel=cancel_futures)
        if wait and self._begun and self._dispatcher.thread is not threading.current_thread():
            self._dispatcher.thread.join()

    # -- inside -------------------------------------------------------------

    def put_call(self, function: Callable[..., Any], *, kind: str) -> Future[Any]:
        """Run a call without arguments under a name in the history."""
        future: Future[Any] = Future()
        self._put(Submitted(future, function, (), {}, kind=kind))
        return future

    def _put(self, call: Submitted) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError("this executor belongs to the parent process; make one here")
        with self._lock:
            if self._dispatcher.broken:
                raise BrokenExecutor(f"the executor broke: {self._dispatcher.broken}")
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if not self._begun:
                self._begin()
            self._dispatcher.put(call)

    def _begin(self) -> None:
        self._begun = True
        _living.add(self._dispatcher)
        self._dispatcher.thread.start()

    def _with_needs(
        self, future: Future[Any], task: Task, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Submitted:
        settings = task.settings
        if "choices" in settings:
            raise InvalidInput("an executor runs single calls; a task with choices needs weft.run")
        needs = tuple(settings.get(name) for name in ("device", "gpu", "memory", "cores", "work"))
        if needs not in self._allowed:
            app = application_of(Task(task.function, settings)())
            problem = estimated_problem(app.workflow, self._cluster, None, devices=app.devices)
            fits = np.flatnonzero(np.isfinite(problem.durations()[0])).tolist()
            self._allowed[needs] = frozenset(fits) if len(fits) < self._cluster.p else None
        return Submitted(
            future,
            task.function,
            args,
            kwargs,
            allowed=self._allowed[needs],
            work=float(settings.get("work", 0.0)),
            kind=str(settings.get("kind", "")),
        )


def _finish_all() -> None:
    """Complete all calls before this process ends, as concurrent.futures does."""
    for dispatcher in list(_living):
        dispatcher.close()
        if dispatcher.thread.is_alive():
            dispatcher.thread.join()


atexit.register(_finish_all)
