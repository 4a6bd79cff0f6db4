"""The worker process of a device: runs calls from a pipe one after the other."""

# ruff: noqa: S301  # pickles of this run's own processes, and of the user's own results
from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from weft.runtime.backends.error_text import error_line, traceback_text
from weft.runtime.backends.leftover_processes import (
    VARIABLE,
    end_all,
    end_descendants,
    end_group,
    family,
)
from weft.runtime.backends.local.pipe import MessagePipe
from weft.runtime.backends.payload import Payload, outlived, pack, pickled, remove_folder, unpack

R = TypeVar("R")

KnownFunctions = dict[int, Callable[..., Any] | str]
"""Number -> function, or the reason why it could not be loaded."""

_HERE = {"device": ""}
_THREAD: ContextVar[str] = ContextVar("device", default="")
"""Device of this thread, in processes with several."""

_OWN = str(Path(__file__).parents[2])
"""Folder of weft.runtime, whose frames are left out of tracebacks."""

_NESTS = frozenset((list, tuple, dict))

CLOSED_PIPE = 97
"""Exit code of a worker whose task closed the pipe to the driver."""

DROP = b"drop "
"""Prefix of a message that cancels an order; it overtakes waiting orders."""


def set_device(name: str) -> None:
    """Declare that this process runs the tasks of a device."""
    _HERE["device"] = name


def current_device() -> str:
    """Return the name of the device that runs this task; empty outside of a run."""
    return _THREAD.get() or _HERE["device"]


@contextlib.contextmanager
def at_device(name: str) -> Iterator[None]:
    """Declare that this thread is a device, in processes that weft did not start.

    Examples
    --------
    >>> with at_device("cpu0"):
    ...     current_device()
    'cpu0'
    >>> current_device()
    ''
    """
    token = _THREAD.set(name)
    try:
        yield
    finally:
        _THREAD.reset(token)


class Chosen(NamedTuple):
    """Branch and value that the function of a choice returns.

    `branch` is a label or a number, or a tuple with one per choice of the task.
    """

    branch: str | int | tuple[str | int, ...]
    value: Any = None


@dataclass(frozen=True)
class Setting:
    """Settings of a worker: device, folder for payloads, cores, memory limit, key.

    Without a folder, the worker shares no memory with the driver: it sends whole results. With
    the key of the driver, tasks can use its `multiprocessing` managers.
    """

    device: str
    folder: str
    cores: tuple[int, ...] = ()
    memory: int | None = None
    key: bytes = field(default=b"", repr=False)


class TaskRun(NamedTuple):
    """A call: number, function, arguments with slots, and a payload per slot.

    The payload of an edge that was not taken is None.

    Payloads are plain tuples.
    """

    number: int
    function: int
    arguments: tuple[Any, ...]
    inputs: list[tuple[Any, ...] | None]
    chooses: bool
    result: str


def main(pipe: Connection) -> None:
    """Receive the settings, then serve until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Ctrl-C the driver ends its workers
    os.set_inheritable(pipe.fileno(), False)
    setting: Setting = pipe.recv()
    set_device(setting.device)
    if setting.key:
        multiprocessing.current_process().authkey = setting.key
    _confine(setting)
    watch = threading.Thread(target=_end_with_driver, args=(pipe, setting.folder), daemon=True)
    watch.start()
    box = MessagePipe(pipe, blocking=True)
    _send(box, _handshake())
    with contextlib.suppress(EOFError):  # the driver is gone
        _serve(box)
    if not box.is_open():
        os._exit(CLOSED_PIPE)
    watch.join()  # it ends this process, regardless of threads and exit handlers of tasks


def _serve(box: MessagePipe) -> None:
    own = os.getpid()
    functions: KnownFunctions = {}
    dropped: set[int] = set()
    inbox: deque[bytes] = deque()
    poll = select.poll()
    poll.register(box.fd, select.POLLIN)
    while True:
        if not inbox or poll.poll(0):  # look for cancellations before every order
            for message in box.take():
                if message.startswith(DROP):
                    dropped.add(int(message[len(DROP) :]))
                else:
                    inbox.append(message)
        if not inbox:
            continue
        word, *rest = pickle.loads(inbox.popleft())
        if word == "run":
            if rest[0] not in dropped:
                report = _perform(TaskRun(*rest), functions)
                if os.getpid() != own:
                    os._exit(0)  # also in a forked child of the task that returned here
                if not box.is_open():
                    return
                _send(box, report)
        elif word == "function":
            functions[rest[0]] = loaded(rest[1])
        elif word == "clear":
            functions.clear()
            dropped.clear()
        else:
            _send(box, _handshake())


def _handshake() -> bytes:
    return pickle.dumps(("handshake", os.getpid(), time.perf_counter()))


def _send(box: MessagePipe, message: bytes) -> None:
    box.put(message)
    box.flush()


def _perform(run: TaskRun, functions: KnownFunctions) -> bytes:
    transfers: list[tuple[int, float, float]] = []

    def call(function: Callable[..., Any]) -> Any:
        args, kwargs = unpack(Payload(*run.arguments))
        if not run.inputs:
            return function(*args, **kwargs)
        inputs = _load(run, transfers)
        return function(*fill(args, inputs), **fill(kwargs, inputs))

    def done(begin: float, value: Any, branches: tuple[Any, ...]) -> bytes:
        payload = pack(value, run.result) if run.result else Payload(pickled(value)[0])
        return pickle.dumps(
            ("done", run.number, begin, time.perf_counter(), tuple(payload), branches, transfers)
        )

    def failed(begin: float, *fault: str) -> bytes:
        return pickle.dumps(("failed", run.number, begin, time.perf_counter(), *fault))

    return execute(functions[run.function], call, done, failed, chooses=run.chooses)


def execute(
    function: Callable[..., Any] | str,
    call: Callable[[Callable[..., Any]], Any],
    done: Callable[[float, Any, tuple[Any, ...]], R],
    failed: Callable[[float, str, str, str], R],
    *,
    chooses: bool,
) -> R:
    """Call a function of the user and return the report of its end, on any backend.

    Parameters
    ----------
    function : or the reason why it could not be loaded
    call : calls it with its arguments
    done : makes the report from begin, value and branches; it pickles the value
    failed : makes the report from begin, fault, text and traceback
    chooses : whether the value names the branches to take
    """
    begin = time.perf_counter()
    if isinstance(function, str):
        return failed(begin, "function", f"its function cannot be loaded here: {function}", "")
    branches: tuple[Any, ...] = ()
    try:
        value = call(function)
        if chooses:
            branches, value = _split(value)
    except BaseException as error:  # noqa: BLE001  # sys.exit() in a task is a failure too
        return failed(begin, "raised", error_line(error), _users_traceback(error))
    try:
        return done(begin, value, branches)
    except BaseException as error:  # noqa: BLE001  # pickling runs code of the user
        text = f"its result, a {type(value).__name__}, cannot be pickled: {error_line(error)}"
        return failed(begin, "unpicklable", text, "")


def loaded(data: bytes) -> Callable[..., Any] | str:
    """Unpickle a function; return the error as text if that fails."""
    try:
        function: Callable[..., Any] = pickle.loads(data)
    except BaseException as error:  # noqa: BLE001  # this runs its module
        return error_line(error)
    return function


loaded_once = lru_cache(maxsize=10_000)(loaded)
"""`loaded` in processes whose tasks come with their functions."""


def _load(run: TaskRun, transfers: list[tuple[int, float, float]]) -> list[Any]:
    values: list[Any] = []
    for k, packed in enumerate(run.inputs):
        if packed is None:
            values.append(None)
            continue
        begin, payload = time.perf_counter(), Payload(*packed)
        values.append(unpack(payload))
        if payload.size >= 4096:
            transfers.append((k, float(payload.size), time.perf_counter() - begin))
    return values


class Slot(NamedTuple):
    """Placeholder of an input in pickled arguments."""

    edge: int


def fill(value: Any, inputs: list[Any]) -> Any:
    """Replace the slots in arguments, lists, tuples and dicts by the inputs.

    Examples
    --------
    >>> fill((Slot(0), [Slot(1), 3]), ["a", "b"])
    ('a', ['b', 3])
    """
    return replaced(value, lambda leaf: inputs[leaf.edge] if type(leaf) is Slot else leaf)


def replaced(value: Any, new: Callable[[Any], Any]) -> Any:
    """Return a value with its leaves, in lists, tuples and dicts, replaced by `new`.

    Examples
    --------
    >>> replaced((1, [2, {"a": 3}]), str)
    ('1', ['2', {'a': '3'}])
    """
    kind = type(value)
    if kind is list or kind is tuple:
        return kind([replaced(v, new) if type(v) in _NESTS else new(v) for v in value])
    if kind is dict:
        return {k: replaced(v, new) if type(v) in _NESTS else new(v) for k, v in value.items()}
    return new(value)


def _split(value: Any) -> tuple[tuple[Any, ...], Any]:
    """Return the branches that a function named, and its value."""
    named = value.branch if isinstance(value, Chosen) else value
    rest = value.value if isinstance(value, Chosen) else value
    words = tuple(named) if isinstance(named, tuple | list) else (named,)
    plain = tuple(
        int(w)
        if isinstance(w, bool) or hasattr(w, "__index__")
        else w
        if isinstance(w, str)
        else repr(w)
        for w in words
    )
    return plain, rest


def _users_traceback(error: BaseException) -> str:
    """Return the traceback without weft's own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN):
        trace = trace.tb_next
    return traceback_text(error, trace)


# -- surroundings -------------------------------------------------------------


def _confine(setting: Setting) -> None:
    if setting.cores and hasattr(os, "sched_setaffinity"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, setting.cores)
    if setting.memory is not None:
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_AS, (setting.memory, setting.memory))


def _end_with_driver(pipe: Connection, folder: str) -> None:
    """End this process, its children and its folder when the driver dies by any cause."""
    poll = select.poll()
    poll.register(pipe.fileno(), getattr(select, "POLLRDHUP", 0))  # closed by the driver
    poll.poll()
    end_all(family(os.getpid()))
    end_descendants(os.environ.get(VARIABLE, "no token"), keep=[os.getpid()], seconds=1.0)
    if folder and not outlived(Path(folder), seconds=0.2):
        remove_folder(Path(folder))
    if os.getpgrp() == os.getpid():
        end_group(os.getpid())
    os._exit(1)


def environment(settings: Mapping[str, str]) -> contextlib.AbstractContextManager[None]:
    """Set environment variables for processes started meanwhile."""

    @contextlib.contextmanager
    def changed() -> Any:
        before = {key: os.environ.get(key) for key in settings}
        os.environ.update(settings)
        try:
            yield
        finally:
            for key, value in before.items():
                if value is None:
                    os.environ.pop(key, None)
                else:
                    os.environ[key] = value

    return changed()
