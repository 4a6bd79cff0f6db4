"""A service that runs the submissions of several applications on one backend.

A submission starts while others run, as soon as its application may have one more. Devices go to
the highest priority, then to the application with the least usage per share. The clock runs as long
as the service, and budgets with it: an overdraft delays later submissions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from math import inf
from os import PathLike
from typing import Any, Self

from weft.arguments import as_float, shown, whole
from weft.errors import InvalidInput
from weft.policies import Policy
from weft.policies.load import load_policy
from weft.runtime.backends.protocol import Backend
from weft.runtime.costs.history import History
from weft.runtime.inputs.functions import application_of
from weft.runtime.options import RunOptions
from weft.runtime.service.budgets import Budget, Reservations
from weft.runtime.service.fair_share import Shares
from weft.runtime.service.queue import Allowed, Waiting, WaitQueue
from weft.runtime.service.session import ServiceConfig, ServiceSession, Submission, TaskEvent
from weft.typed import typed


class Service:
    """Service that runs submitted applications; use it in a ``with`` block.

    Parameters
    ----------
    policy : decides within a submission, by name or object
    shares : application -> its share of the devices, 1 by default
    capacity : submissions that may wait
    budgets : application -> seconds of device time per period, counted from the start
    max_concurrent : submissions of one application that may run at once; one of a higher priority
        does not wait for those of a lower one
    history : measurements of earlier runs, extended by this one
    options : by default tasks that do not need a failed one go on; with ``on_error="stop"`` the
        submission of a failed task is cancelled, never those of others

    Examples
    --------
    >>> from weft.model import Workflow
    >>> from weft.runtime import LocalBackend
    >>> w = Workflow(work=[1, 1], src=[0], dst=[1], data=[0], names=("load", "count"))
    >>> with LocalBackend(1) as devices, Service(devices, shares={"urgent": 3.0}) as service:
    ...     future = service.submit("urgent", w, functions={"load": dict, "count": len})
    ...     future.result()
    {'count': 0}
    """

    @typed
    def __init__(
        self,
        backend: Backend,
        *,
        policy: str | PathLike[str] | Policy = "eft",
        shares: Mapping[str, float] | None = None,
        capacity: int = 1000,
        budgets: Mapping[str, Budget] | None = None,
        max_concurrent: int = 4,
        history: History | None = None,
        options: RunOptions | None = None,
    ) -> None:
        whole(max_concurrent, "max_concurrent")
        whole(capacity, "capacity")
        for name, given, kind in (
            ("shares", shares, Mapping),
            ("budgets", budgets, Mapping),
            ("history", history, History),
            ("options", options, RunOptions),
        ):
            if given is not None and not isinstance(given, kind):
                raise InvalidInput(f"{name} is {shown(given)}; it must be a {kind.__name__}")
        if not hasattr(backend, "modelled"):
            raise InvalidInput(
                f"backend is {shown(backend)}; give a backend object, such as LocalBackend(2)"
            )
        load_policy(policy)  # refuses unknown names here, not in the thread of the service
        self.backend = backend
        self.queue: WaitQueue[Submission] = WaitQueue(capacity, shares=shares)
        self.max_concurrent = max_concurrent
        self._config = ServiceConfig(
            policy=policy,
            options=options or RunOptions(on_error="continue"),
            shares=Shares(self.queue.shares.of),
            reservations=Reservations([], budgets) if budgets else None,
            history=history,
        )
        self.session: ServiceSession | None = None
        """The session that goes on, or the last one."""
        self._clock = 0.0
        """End of the last session."""
        self._origin: float | None = None
        self._thread = threading.Thread(target=self._serve, name="weft-service", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        """Run waiting submissions, then end; after an exception cancel them instead."""
        if error is not None:
            self._config.ending.set()
        self.queue.close()
        self._thread.join()

    @typed
    def submit(
        self,
        application: str,
        what: Any,
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        priority: float = 0.0,
        timeout: float | None = None,
        watch: Callable[[TaskEvent], None] | None = None,
    ) -> Future[dict[str, Any]]:
        """Submit a workflow (see `weft.run`); return a future of the results by task name.

        The future can be cancelled while the submission waits, which then leaves the queue. If the
        queue is full, wait for room at most `timeout` seconds (None: forever), then raise
        `QueueFull`. `watch` receives the events of the submission. Neither it nor callbacks of
        futures may wait: they run in the thread of the service.
        """
        if not isinstance(application, str):
            raise InvalidInput(f"application is {shown(application)}; it must be a text")
        if watch is not None and not callable(watch):
            raise InvalidInput(f"watch is {shown(watch)}; it must be a function, or None")
        if timeout is not None and not as_float(timeout) >= 0:
            raise InvalidInput(f"timeout is {shown(timeout)}; it must be seconds, or None")
        app = application_of(what, functions)
        future: Future[dict[str, Any]] = Future()
        number = self.queue.put(
            application,
            Submission(app, future, watch),
            priority=priority,
            cost=max(app.workflow.n, 1),
            timeout=timeout,
        )
        future.add_done_callback(lambda ended: ended.cancelled() and self.queue.remove(number))
        return future

    def cancel(self, future: Future[dict[str, Any]]) -> None:
        """Cancel a submission that waits or runs; running tasks of it are stopped.

        Its future raises `concurrent.futures.CancelledError`.
        """
        if not isinstance(future, Future):
            raise InvalidInput(f"future is {shown(future)}; give one that submit returned")
        if not future.cancel():
            self._config.cancelled.add(future)
            future.add_done_callback(self._config.cancelled.discard)

    def budget_left(self, application: str, now: float) -> float:
        """Return the seconds that are left of an application's budget."""
        book = self._config.reservations
        return inf if book is None else book.left(application, now)

    def _serve(self) -> None:
        while True:
            try:
                first = self._take(None)
            except IndexError:
                return
            try:
                self._run_session(first)
            except Exception as error:  # noqa: BLE001  # the service goes on with the next one
                if not first.item.future.done():
                    first.item.future.set_exception(error)

    def _run_session(self, first: Waiting[Submission]) -> None:
        if self._config.reservations is not None:
            self._config.reservations.begin()
        self.session = ServiceSession(
            self.backend, self._config, self._next_submission, max_concurrent=self.max_concurrent
        )
        self.session.run(first, self._since())
        self._clock = max(self._clock, self.backend.clock())

    def _next_submission(self, allowed: Allowed, seconds: float) -> Waiting[Submission] | None:
        try:
            return self._take(seconds, allowed)
        except IndexError:
            return None

    def _take(
        self, timeout: float | None, allowed: Allowed = lambda _, __: True
    ) -> Waiting[Submission]:
        """Return the next submission that is not cancelled."""
        while True:
            waiting = self.queue.take(timeout, allowed=allowed)
            if waiting.item.future.set_running_or_notify_cancel():
                return waiting

    def _since(self) -> float:
        """Return the start time of the next session.

        It is the end of the last session, plus elapsed wall-clock time on real backends.
        """
        if self._origin is None:
            self._origin = time.perf_counter()
        if self.backend.modelled:
            return self._clock
        return max(self._clock, time.perf_counter() - self._origin)
