"""`weft.Cascade`: requests in, answers out.

A policy decides which unit runs which batch.

One thread drives a `weft.Session` with the events of local worker processes. All that was accepted
is answered once or fails with a clear error.
"""

from __future__ import annotations

import heapq
import os
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf, isfinite
from typing import Any, NamedTuple, Self, TypeVar

from weft.errors import InvalidInput, WeftError
from weft.formats.native.stream_toml import load_stream
from weft.model.conditional_stream import ConditionalStream
from weft.policies.load import load_policy
from weft.runtime.backends.local.backend import LocalBackend
from weft.runtime.cascade.description import CascadeDescription, load_cascade
from weft.runtime.cascade.drift import StreamDrift
from weft.runtime.cascade.feed import CascadeFeed, CascadeState
from weft.runtime.cascade.measured import Measurements
from weft.runtime.cascade.request import DeadlineMissed, Request, StageFailed
from weft.runtime.cascade.runner import UnitRunner
from weft.runtime.deciders.shadow import ShadowReport
from weft.runtime.engine.failure import PolicyReplaced
from weft.runtime.service.queue import QueueFull
from weft.runtime.session.session import Session
from weft.sim.view import Policy
from weft.typed import typed

RULE = "eft"
"""The policy that replaces one that fails."""

STALL_SECONDS = 1.0
"""Seconds after which `RULE` replaces a policy that starts nothing while nothing runs."""

R = TypeVar("R")


class PolicyChange(NamedTuple):
    """A policy that is to decide, and the times it decides by."""

    policy: Policy
    stream: ConditionalStream | None
    done: Future[None]


class Cascade:
    """A conditional stream of real tasks: stages in batches on worker processes.

    Parameters
    ----------
    where : a cascade file, or a description
    policy : of `weft.list_policies()` or the path of a trained one; by default that of the file
    shadow : a policy that is asked too, but not followed; see `compared`
    stream : a stream file that replaces the one of the cascade file, e.g. a measured one

    Attributes
    ----------
    replaced : why a rule has replaced the policy; empty: it has not
    proposal : why the policy should be tuned again; empty: it fits what is measured
    events : the last events: policies used and replaced, units lost, drift
    """

    @typed
    def __init__(
        self,
        where: CascadeDescription | str | os.PathLike[str],
        *,
        policy: str | os.PathLike[str] | Policy | None = None,
        shadow: str | os.PathLike[str] | Policy | None = None,
        stream: str | os.PathLike[str] | None = None,
    ) -> None:
        known = where
        if not isinstance(known, CascadeDescription):
            known = load_cascade(known, stream=stream)
        self.description = known
        self.replaced = ""
        self.counts: Counter[str] = Counter()
        self.proposal = ""
        self._drift = StreamDrift(known.stream)
        self._wanted: deque[PolicyChange] = deque()
        self._backend = LocalBackend(known.devices())
        self._feed = CascadeFeed(self._backend.clock)
        self.events = self._feed.events
        self._session = Session(
            known.stream,
            known.policy if policy is None else policy,
            clock=self._backend.clock,
            shadow=shadow,
        )
        self._warm_up()
        self._runner = UnitRunner(
            known,
            self._backend,
            self._session,
            over=self._drop_job,
            answered=self._answer,
            counts=self.counts,
            publish=self._feed.publish,
        )
        self._order = count()
        self._incoming: deque[Request] = deque()
        self._cancelled: deque[Request] = deque()
        self._jobs: dict[int, Request] = {}
        self._deadlines: list[tuple[float, int, Request]] = []
        self._open = 0
        self._idle_since = inf
        self._broken = ""
        self._closing = self._cancel = False
        self._lock = threading.Lock()
        try:
            self._runner.load()
        except BaseException:
            self._backend.close()
            raise
        self._thread = threading.Thread(target=self._run, name="weft-cascade", daemon=True)
        self._thread.start()

    # -- for callers --------------------------------------------------------

    @typed
    def submit(
        self, payload: Any, *, timeout: float | None = None, priority: float = 0.0
    ) -> Future[Any]:
        """Accept a request; return the future of the value of its last stage.

        Parameters
        ----------
        timeout : seconds after which it fails with `DeadlineMissed`
        priority : for policies that know priorities; higher is more urgent
        """
        if timeout is not None and not timeout > 0:
            raise InvalidInput(f"the timeout of a request is {timeout}; it must be above zero")
        if not isfinite(priority):
            raise InvalidInput(f"the priority of a request is {priority}; it must be finite")
        now = self._backend.clock()
        request = Request(payload, now, now + (inf if timeout is None else timeout), priority)
        with self._lock:
            if self._closing or self._broken:
                raise WeftError(f"the cascade is closed{self._broken and ': '}{self._broken}")
            if self._open >= self.description.queue:
                self.counts["refused"] += 1
                raise QueueFull(f"{self._open} requests are open, the most; retry later")
            self._open += 1
            self.counts["accepted"] += 1
            self._incoming.append(request)
            self._backend.wake()
        request.future.add_done_callback(lambda future: self._done(request, future))
        return request.future

    @property
    def measured(self) -> Measurements:
        """Times, branches and arrivals since the start or since `measure_again`."""
        return self._runner.measured

    def measure_again(self) -> None:
        """Drop the measurements so far, e.g. those of the first requests.

        The next comparison with the stream takes a full window of requests again.
        """
        self._runner.measured = Measurements(self.description.stream)
        self._drift = StreamDrift(self._drift.stream, window=self._drift.window)

    def watch(self, watcher: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
        """Call `watcher` with every change from now on; return a function that ends that.

        A change is a document that JSON can hold: `time` (seconds since the start), `kind`, and
        the facts of `weft.runtime.cascade.feed.CHANGES`; `state` is what changes begin with. It is
        called in the thread of the cascade, so it must return at once, e.g. put the change into a
        queue. One that raises is not called again.
        """
        return self._feed.watch(watcher)

    def state(self) -> CascadeState:
        """Return the work of units and the waiting requests; call it in any thread."""
        return self._runner.state(self._jobs)

    @property
    def policy(self) -> str:
        """The name of the policy that decides."""
        return self._session.policy.name

    @typed
    def use(
        self,
        policy: str | os.PathLike[str] | Policy,
        *,
        stream: str | os.PathLike[str] | ConditionalStream | None = None,
    ) -> None:
        """Let another policy decide from now on; no request is lost.

        `stream` has new times of the same tasks on the same units, e.g. measured ones. A policy or
        stream that does not fit is refused, and the policy before goes on.
        """
        loaded = load_policy(policy)
        known = stream if isinstance(stream, ConditionalStream | None) else load_stream(stream)
        session = Session(self.description.stream, "fifo")
        session.replace_policy(loaded, stream=known)  # compiles, or refuses, in this thread
        session.arrived(at=0.0)
        session.decide(at=0.0)
        change = PolicyChange(loaded, known, Future())
        with self._lock:
            if self._closing or self._broken:
                raise WeftError("the cascade is closed; it takes no policy")
            self._wanted.append(change)
            self._backend.wake()
        change.done.result()

    def compared(self) -> ShadowReport | None:
        """Return how the decisions of the shadow differed; None without a shadow."""
        return self._session.compared()

    def close(self, *, cancel: bool = False) -> None:
        """Answer all that was accepted, then end the processes.

        With `cancel`, as after an exception in a `with` block, open requests fail at once.
        """
        with self._lock:
            self._closing = True
            self._cancel = self._cancel or cancel
            if self._thread.is_alive():
                self._backend.wake()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        self.close(cancel=error is not None)

    def _done(self, request: Request, future: Future[Any]) -> None:
        """Count an ended request; wake the thread for a cancelled one."""
        if future.cancelled():
            kind = "cancelled"
        else:
            kind = "answered" if future.exception() is None else "failed"
        with self._lock:
            self._open -= 1
            self.counts[kind] += 1
            if kind == "cancelled":
                self._cancelled.append(request)
                if not self._broken:
                    self._backend.wake()
        self._feed.publish(kind, job=request.job)

    # -- the thread ---------------------------------------------------------

    def _warm_up(self) -> None:
        """Compile the policy; one that fails here is replaced at its first decision."""
        session = Session(self.description.stream, self._session.policy)
        with suppress(Exception):
            session.arrived(at=0.0)
            session.decide(at=0.0)

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:  # noqa: BLE001  # futures get it
            self._broken = f"{type(error).__name__}: {error}"
        with self._lock:
            self._closing = True
            self._broken = self._broken or "it was closed"
            left = [*self._jobs.values(), *self._incoming]
            self._backend.close()
        for change in self._wanted:
            change.done.set_exception(WeftError(f"the cascade ended: {self._broken}"))
        for request in left:
            request.fail(WeftError(f"the cascade ended: {self._broken}"))

    def _step(self) -> bool:
        """Decide, then handle the next events; return whether there is more to do."""
        if self._cancel:
            return False
        self._change_policy()
        self._accept()
        self._drop()
        self._fail_unserved()
        self._decide()
        if self._closing and not self._jobs and not self._incoming:
            return False
        now = self._backend.clock()
        events = self._backend.wait(max(now, self._next_time(now)))
        self._runner.moment = self._backend.clock()
        for event in events:
            self._runner.handle(event)
        self._runner.drop_left_out()
        self._runner.end_late()
        return True

    def _change_policy(self) -> None:
        while self._wanted:
            change, before = self._wanted.popleft(), self._session.policy
            try:
                self._session.replace_policy(change.policy, stream=change.stream)
            except Exception as error:  # noqa: BLE001  # the caller gets it
                self._session.replace_policy(before)
                change.done.set_exception(error)
                continue
            self.replaced = self.proposal = ""
            self._drift = StreamDrift(change.stream or self._drift.stream)
            self._drift.check(self.measured)
            self._feed.publish("policy", text=f"'{change.policy.name}' decides")
            change.done.set_result(None)

    def _answer(self, request: Request, value: Any) -> None:
        del self._jobs[request.job]
        request.answer(value)

    def _look_for_drift(self) -> None:
        found = self._drift.check(self.measured)
        if found and not self.proposal:
            self._feed.publish("drift", text=f"{found}; tune again: weft cascade tune")
        self.proposal = found

    def _accept(self) -> None:
        while self._incoming:
            request = self._incoming[0]  # it stays until it has a job, so that its future ends
            if request.future.cancelled():
                self._incoming.popleft()
                continue
            deadline, priority = request.deadline, request.priority
            enter = partial(self._session.arrived, deadline=deadline, priority=priority)
            request.job = self._ask(enter)
            self._jobs[request.job] = self._incoming.popleft()
            self._feed.publish("accepted", job=request.job)
            self.measured.arrival(request.arrived)
            if self._drift.due(self.measured):
                self._look_for_drift()
            if deadline < inf:
                heapq.heappush(self._deadlines, (deadline, next(self._order), request))

    def _drop(self) -> None:
        """Drop cancelled requests and those whose deadline has passed."""
        while self._cancelled:
            request = self._cancelled.popleft()
            request.over = True
            self._drop_job(request)
        now = self._backend.clock()
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][2].over):
            deadline, _, request = heapq.heappop(self._deadlines)
            if not request.over:
                seconds = deadline - request.arrived
                request.fail(DeadlineMissed(f"the request was not answered within {seconds:g} s"))
                self._drop_job(request)

    def _drop_job(self, request: Request) -> None:
        """End the job of a request that is over.

        A unit that has it finishes its batch first.
        """
        if request.running == 0 and self._jobs.pop(request.job, None) is not None:
            self._session.cancelled(request.job)

    def _fail_unserved(self) -> None:
        """Fail requests that need a stage that no unit can run any more."""
        if unserved := self._runner.unserved():
            for request in list(self._jobs.values()):
                due = self._runner.graph.due(request) if not request.over else []
                for task in [task for task in due if task in unserved][:1]:
                    request.fail(StageFailed(f"stage '{task}' failed: {unserved[task]}"))
                    self._drop_job(request)

    def _decide(self) -> None:
        for assignment in self._ask(self._session.decide):
            members = [(self._jobs[job], task) for job, task in assignment.tasks]
            self._runner.begin(assignment, members)

    def _ask(self, question: Callable[[], R]) -> R:
        """Ask the session; replace a policy that fails by a rule."""
        try:
            return question()
        except Exception as error:
            if self.replaced:
                raise
            self._replace(f"{type(error).__name__}: {error}")
        return question()

    def _replace(self, why: str) -> None:
        self.replaced = why
        name = self._session.policy.name
        self._feed.publish("policy replaced", text=f"'{RULE}' decides, not '{name}': {why}")
        warnings.warn(
            f"policy '{name}' is replaced by '{RULE}': {why}", PolicyReplaced, stacklevel=2
        )
        self._session.replace_policy(RULE)

    def _next_time(self, now: float) -> float:
        """Return when to act even if nothing happens."""
        limits = self._runner.limits()
        times = [self._session.wake, *limits, *(d[0] for d in self._deadlines[:1])]
        waits = self._jobs and not limits and all(u.up or u.out for u in self._runner.units)
        if not waits or self.replaced or self._session.wake < inf:
            self._idle_since = inf
        else:
            self._idle_since = min(self._idle_since, now)
            if now >= self._idle_since + STALL_SECONDS:
                self._replace(f"it waits, though nothing runs and {len(self._jobs)} requests wait")
                return now
            times.append(self._idle_since + STALL_SECONDS)
        return min(times)
