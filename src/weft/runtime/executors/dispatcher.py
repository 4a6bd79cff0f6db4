"""The thread of an executor, which sends calls and completes their futures.

A call waits in one queue, in order of submission, until the device that is predicted to finish it
first has room. A device has room if it is idle, or if its calls and the new one are known to be
short: so that no call waits behind a long one while another device is idle. A device whose process
starts again receives no calls; those that need it wait.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future, InvalidStateError
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from math import inf
from typing import Any

from weft.errors import WeftError
from weft.runtime.backends.local.pool import SharedBackend
from weft.runtime.backends.payload import Payload
from weft.runtime.backends.protocol import DeviceAdded, DeviceLost, Event, Failed, Finished, Order
from weft.runtime.costs.history import History
from weft.runtime.costs.keys import CostKey, argument_sizes
from weft.runtime.costs.recorder import keep_measurements
from weft.runtime.executors.function_table import WITH_CALL, FunctionTable, Raised
from weft.runtime.executors.placement import AHEAD, MOST_AHEAD, CallCosts, Rough, rough

LOOK = 64
"""Waiting calls from which the next one of a device is chosen."""


class RemoteTraceback(Exception):  # it is the cause of an error
    """The traceback of a call in its worker process, as text."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


@dataclass(eq=False, slots=True)
class Submitted:
    """A call that waits or runs.

    Attributes
    ----------
    allowed : devices it may run on; None: all
    work : units of work, until it has been measured
    kind : name in the history; empty: that of the function
    """

    future: Future[Any]
    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    _: KW_ONLY
    allowed: frozenset[int] | None = None
    work: float = 0.0
    kind: str = ""
    key: CostKey = field(init=False)
    like: Rough = field(init=False)
    predicted: list[float | None] = field(init=False)
    ends: float = field(init=False)


class Dispatcher:
    """The thread, its queue and its devices."""

    def __init__(self, backend: SharedBackend, history: History | None) -> None:
        self.backend = backend
        self.history = history
        self.broken = ""
        """Why no call can run any more."""
        self.closing = False
        self.cancelling = False
        self._incoming: deque[Submitted] = deque()
        self._waiting: deque[Submitted] = deque()
        self._table = FunctionTable()
        self._costs = CallCosts(backend.devices(), history)
        self._classes = self._costs.class_of
        self._devices = range(len(self._classes))
        self._up = list(self._devices)
        """Devices whose process is up, in order."""
        self._out: frozenset[int] = frozenset()
        """Devices that do not come back."""
        self._alike = len(self._costs.classes) == 1
        self._sent: list[deque[Submitted]] = [deque() for _ in self._devices]
        self._calls: dict[int, Submitted] = {}
        self._slots: dict[int, int] = {}
        self._numbers = 0
        self._asleep = False
        self._ended = False
        self._lock = threading.Lock()
        self.thread = threading.Thread(target=self._run, name="weft-executor", daemon=True)

    # -- for other threads --------------------------------------------------

    def put(self, call: Submitted) -> None:
        """Add a call."""
        self._incoming.append(call)
        if self._asleep:
            self._asleep = False
            self._wake()
        if self._ended:
            self._fail(list(self._take_incoming()))

    def close(self, *, cancel: bool = False) -> None:
        """End when all calls are done; with `cancel`, without those that have not begun."""
        self.cancelling |= cancel
        self.closing = True
        if self.thread.ident is None:
            self.backend.close()
        else:
            self._wake()

    def _wake(self) -> None:
        with self._lock:
            if not self._ended:  # after that, the backend may serve others
                self.backend.wake()

    def _take_incoming(self) -> Iterator[Submitted]:
        with suppress(IndexError):
            while True:
                yield self._incoming.popleft()

    def _fail(self, calls: list[Submitted]) -> None:
        for call in calls:
            _fail(call, BrokenExecutor(f"the executor broke: {self.broken}"))

    # -- the calls as the backend reads them --------------------------------

    @property
    def functions(self) -> dict[int, bytes]:
        """The pickles of functions by slot."""
        return self._table.functions

    @property
    def function(self) -> dict[int, int]:
        """The slots of calls by number."""
        return self._slots

    def preload(self) -> list[bytes]:
        """Return no functions: each goes with its first call."""
        return []

    def arguments(self, number: int) -> Payload:
        """Return the packed arguments of a call."""
        call = self._calls[number]
        first = (call.function,) if self._slots[number] == WITH_CALL else ()
        return self.backend.packed(((*first, *call.args), call.kwargs), number)

    # -- the thread ---------------------------------------------------------

    def _run(self) -> None:
        try:
            self.backend.start(self)
            self._handle(self.backend.wait(0.0))  # devices that did not start
            while self._step():
                pass
        except BaseException as error:  # noqa: BLE001  # futures get it
            self.broken = f"{type(error).__name__}: {error}"
        finally:
            self._end()

    def _step(self) -> bool:
        """Send what can be sent and take the next events; return whether there is more."""
        if self._incoming:
            self._accept()
        if len(self._out) < len(self.backend.left_out):
            self._out = frozenset(self.backend.left_out)
            self._fail_stranded()
        if self._waiting:
            self._fill()
        if self.cancelling:
            self._cancel()
        if self.closing and not self._waiting and not self._calls and not self._incoming:
            return False
        # A call that comes now can start at once only if none is waiting.
        self._asleep = not self._waiting or not self._alike
        if self._incoming and self._asleep:
            self._asleep = False
            return True
        events = self.backend.wait(inf)
        self._asleep = False
        self._handle(events)
        return True

    def _handle(self, events: list[Event]) -> None:
        for event in events:
            if isinstance(event, Finished):
                self._finished(event)
            elif isinstance(event, Failed):
                call = self._take(event.device, event.number)
                call.future.set_exception(BrokenExecutor(event.text))
            elif isinstance(event, DeviceLost):
                self._lost(event)
            elif isinstance(event, DeviceAdded) and event.device not in self._up:
                self._up = sorted([*self._up, event.device])

    def _accept(self) -> None:
        while self._incoming:
            call = self._incoming.popleft()
            kind = call.kind or self._table.kind_of(call.function)
            call.key = CostKey(kind, argument_sizes(call.args, call.kwargs))
            call.like = rough(call.key)
            if self._out and self._stranded(call):
                self._fail_without_device(call)
            else:
                self._waiting.append(call)

    def _stranded(self, call: Submitted) -> bool:
        return call.allowed is not None and call.allowed <= self._out

    def _fail_stranded(self) -> None:
        for call in filter(self._stranded, self._waiting):
            self._fail_without_device(call)
        self._waiting = deque(call for call in self._waiting if not self._stranded(call))

    def _fail_without_device(self, call: Submitted) -> None:
        causes = "; ".join(
            f"the process of device '{self.backend.specs[d].name}' dies before it can work: {text}"
            for d, text in self.backend.left_out.items()
            if call.allowed is None or d in call.allowed
        )
        _fail(call, WeftError(f"no device is left for '{call.key.kind}': {causes}"))

    def _cancel(self) -> None:
        for call in self._waiting:
            if call.future.cancel():
                call.future.set_running_or_notify_cancel()
        self._waiting = deque(call for call in self._waiting if not call.future.done())

    def _fill(self) -> None:
        while self._waiting:
            now = time.perf_counter()
            first = enumerate(islice(self._waiting, 1 if self._alike else LOOK))
            found = ((k, call, self._device(call, now)) for k, call in first)
            place, call, device = next((x for x in found if x[2] is not None), (0, None, None))
            if call is None or device is None:
                return
            del self._waiting[place]
            if _begins(call.future):
                self._send(call, device, now)

    def _device(self, call: Submitted, now: float) -> int | None:
        """Return the device that finishes a call first, if it has room."""
        predicted = call.predicted = self._costs.seconds(call.key, call.like, call.work)
        best, least = None, inf
        up = self._up
        if call.allowed is not None:
            up = [d for d in up if d in call.allowed]
        for d in up:
            sent, seconds = self._sent[d], predicted[self._classes[d]]
            ends = max(sent[-1].ends if sent else now, now) + (seconds or 0.0)
            if ends < least:
                best, least = d, ends
        if best is None or self._has_room(best, predicted[self._classes[best]], now):
            return best
        if predicted[self._classes[best]] is not None:
            return None
        return next((d for d in up if not self._sent[d]), None)

    def _has_room(self, device: int, seconds: float | None, now: float) -> bool:
        sent = self._sent[device]
        if not sent:
            return True
        if seconds is None or len(sent) >= MOST_AHEAD:
            return False
        return sent[-1].ends < inf and sent[-1].ends + seconds - now < AHEAD

    def _send(self, call: Submitted, device: int, now: float) -> None:
        number, sent = self._numbers, self._sent[device]
        self._numbers += 1
        held = self._table.find(call.function)
        while self._table.replaced:
            self.backend.replace_function(self._table.replaced.pop())
        self._calls[number], self._slots[number] = call, held.slot
        seconds = call.predicted[self._classes[device]]
        begin = max(sent[-1].ends if sent else now, now)
        call.ends = inf if seconds is None else begin + seconds
        try:
            self.backend.submit(Order(number, (number,), ((),), (False,)), device, 0.0)
        except Exception as error:  # noqa: BLE001  # arguments that cannot be pickled
            del self._calls[number], self._slots[number]
            call.future.set_exception(error)
            return
        sent.append(call)

    def _take(self, device: int, number: int) -> Submitted:
        self._sent[device].popleft()
        del self._slots[number]
        return self._calls.pop(number)

    def _finished(self, event: Finished) -> None:
        call = self._take(event.device, event.number)
        took = event.finish - event.start
        kind, sizes = call.key
        self._costs.measured(kind, sizes, call.like, event.device, call.work, took)
        try:
            value = self.backend.fetch(event.number)
            self.backend.release(event.number)
        except Exception as error:  # noqa: BLE001  # unpickling runs code of the user
            call.future.set_exception(error)
            return
        if type(value) is Raised:
            value.error.__cause__ = RemoteTraceback(value.trace)
            call.future.set_exception(value.error)
        else:
            call.future.set_result(value)

    def _lost(self, event: DeviceLost) -> None:
        """Fail the call that ran on a lost device; send the others again."""
        self._up = [d for d in self._up if d != event.device]
        lost, self._sent[event.device] = self._sent[event.device], deque()
        gone = {id(call) for call in lost}
        for number in [n for n, call in self._calls.items() if id(call) in gone]:
            del self._calls[number], self._slots[number]
            self.backend.release(number)
        if lost:
            running = lost.popleft()
            running.future.set_exception(BrokenExecutor(f"its call did not end: {event.text}"))
        self._waiting.extendleft(reversed(lost))

    def _end(self) -> None:
        with self._lock:
            self.closing = self._ended = True
        try:
            rows = self._costs.measurements()
            if self.history is not None and rows:
                keep_measurements(self.history, rows)
        finally:
            self._close_backend()

    def _close_backend(self) -> None:
        """Close the backend before the last calls fail: their users may start another one."""
        try:
            self.backend.close()
        finally:
            self._fail([*self._calls.values(), *self._waiting, *self._take_incoming()])
            self._calls.clear()
            self._waiting.clear()


def _begins(future: Future[Any]) -> bool:
    """Return whether a call may run (again): it was not cancelled."""
    state = future._state  # noqa: SLF001  # running: its device was lost before
    return state == "RUNNING" or future.set_running_or_notify_cancel()


def _fail(call: Submitted, error: BaseException) -> None:
    """Fail a call, unless it was cancelled or its user ended it."""
    with suppress(InvalidStateError, RuntimeError):
        if _begins(call.future):
            call.future.set_exception(error)
