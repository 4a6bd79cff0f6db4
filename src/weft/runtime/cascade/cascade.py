"""`weft.Cascade`: requests in, answers out; a policy decides which unit runs which batch.

One thread drives a `weft.Session` with the events of local worker processes. All that was accepted
is answered once or fails with a clear error.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
import warnings
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import count
from math import inf
from typing import Any, NamedTuple, Self, TypeVar

from weft.errors import InvalidInput, WeftError
from weft.formats.native.stream_toml import load_stream
from weft.model.conditional_stream import ConditionalStream
from weft.policies.load import load_policy
from weft.runtime.backends.calls import pickled_function
from weft.runtime.backends.local.backend import LocalBackend
from weft.runtime.backends.payload import Payload
from weft.runtime.backends.protocol import DeviceAdded, DeviceLost, Event, Failed, Finished, Order
from weft.runtime.cascade.description import CascadeDescription, load_cascade
from weft.runtime.cascade.drift import StreamDrift
from weft.runtime.cascade.measured import Measurements
from weft.runtime.cascade.request import DeadlineMissed, Request, StageFailed, StageGraph
from weft.runtime.cascade.stage import LoadedStage
from weft.runtime.cascade.work import CascadeUnit, Run, Work
from weft.runtime.deciders.shadow import ShadowReport
from weft.runtime.engine.failure import PolicyReplaced
from weft.runtime.service.queue import QueueFull
from weft.runtime.session.session import Session
from weft.sim.view import Policy

RULE = "eft"
"""The policy that replaces one that fails."""

PATIENCE = 1.0
"""Seconds that a policy may wait though nothing runs, before a rule replaces it."""

MAX_DEATHS = 3
"""Units that may die with a request that they run alone, before it fails."""

EVENTS = 100
"""Events that are kept."""

LOG = logging.getLogger("weft.cascade")
R = TypeVar("R")


class CascadeEvent(NamedTuple):
    """An event of a cascade, with its time in seconds since the start."""

    time: float
    kind: str
    text: str


class PolicyChange(NamedTuple):
    """A policy that is to decide, and the times it decides by."""

    policy: Policy
    stream: ConditionalStream | None
    done: Future[None]


class Cascade:
    """A conditional stream whose tasks are real: stages in batches on worker processes.

    Parameters
    ----------
    where : a cascade file, or a description
    policy : of `weft.list_policies()` or the path of a trained one; by default that of the file
    shadow : a policy that is asked too, but not followed; see `compared`
    stream : a stream file that replaces the one of the cascade file, e.g. a measured one

    Attributes
    ----------
    replaced : why a rule has replaced the policy; empty: it has not
    measured : times, branches and arrivals so far
    proposal : why the policy should be tuned again; empty: it fits what is measured
    events : the last events: policies used and replaced, units lost, drift
    """

    def __init__(
        self,
        where: CascadeDescription | str | os.PathLike[str],
        *,
        policy: str | os.PathLike[str] | Policy | None = None,
        shadow: str | os.PathLike[str] | Policy | None = None,
        stream: str | os.PathLike[str] | None = None,
    ) -> None:
        known = (
            where if isinstance(where, CascadeDescription) else load_cascade(where, stream=stream)
        )
        self.description = known
        self.replaced = ""
        self.counts: Counter[str] = Counter()
        self.measured = Measurements(known.stream)
        self.proposal = ""
        self.events: deque[CascadeEvent] = deque(maxlen=EVENTS)
        self._drift = StreamDrift(known.stream)
        self._wanted: deque[PolicyChange] = deque()
        self._graph = StageGraph(known.stream.problem.workflow)
        self._tasks = list(self._graph.labels)
        self._backend = LocalBackend(known.devices())
        self._session = Session(
            known.stream,
            known.policy if policy is None else policy,
            clock=self._backend.clock,
            shadow=shadow,
        )
        self._warm_up()
        self.functions = [pickled_function(LoadedStage(known.stages[t])) for t in self._tasks]
        self.function: dict[int, int] = {}
        """Number of a run -> number of its stage."""
        rows = zip(self._session.cluster.names, self._session.cluster.kinds, strict=True)
        self._units = [CascadeUnit(name, kind, i) for i, (name, kind) in enumerate(rows)]
        self._runs: dict[int, tuple[Run, CascadeUnit]] = {}
        self._numbers, self._order = count(), count()
        self._incoming: deque[Request] = deque()
        self._cancelled: deque[Request] = deque()
        self._jobs: dict[int, Request] = {}
        self._deadlines: list[tuple[float, int, Request]] = []
        self._open = 0
        self._idle_since = inf
        self._moment = 0.0
        """When the last events came: a batch takes from those that caused it to its own end."""
        self._broken = ""
        self._closing = False
        self._lock = threading.Lock()
        try:
            self._load()
        except BaseException:
            self._backend.close()
            raise
        self._thread = threading.Thread(target=self._run, name="weft-cascade", daemon=True)
        self._thread.start()

    # -- for callers --------------------------------------------------------

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
        now = self._backend.clock()
        request = Request(payload, now, now + (inf if timeout is None else timeout), priority)
        with self._lock:
            if self._closing or self._broken:
                raise WeftError(f"the cascade is closed{self._broken and ': '}{self._broken}")
            if self._open >= self.description.queue:
                self.counts["refused"] += 1
                raise QueueFull(
                    f"{self._open} requests are open, as many as the queue has room for; "
                    "come again later"
                )
            self._open += 1
            self.counts["accepted"] += 1
            self._incoming.append(request)
            self._backend.wake()
        request.future.add_done_callback(lambda future: self._done(request, future))
        return request.future

    @property
    def policy(self) -> str:
        """Return the name of the policy that decides."""
        return self._session.policy.name

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

    def close(self) -> None:
        """Answer all that was accepted, then end the processes."""
        with self._lock:
            self._closing = True
            if self._thread.is_alive():
                self._backend.wake()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _done(self, request: Request, future: Future[Any]) -> None:
        """Count an ended request; tell the thread of a cancelled one."""
        with self._lock:
            self._open -= 1
            if future.cancelled():
                self.counts["cancelled"] += 1
                self._cancelled.append(request)
                if not self._broken:
                    self._backend.wake()
            else:
                self.counts["answered" if future.exception() is None else "failed"] += 1

    # -- the calls as the backend reads them --------------------------------

    def preload(self) -> list[bytes]:
        """Return all stages: units load their models before they take requests."""
        return self.functions

    def arguments(self, number: int) -> Payload:
        """Return the packed batch of a run."""
        run, _ = self._runs[number]
        return self._backend.packed(
            (([self._graph.takes(run.task, r) for r in run.requests],), {}), number
        )

    # -- the thread ---------------------------------------------------------

    def _load(self) -> None:
        """Start the units; every stage must load on every unit."""
        self._backend.start(self)
        for unit in self._units:
            self._begin_loading(unit)
        while any(not unit.up for unit in self._units):
            for event in self._backend.wait(inf):
                if isinstance(event, Failed):
                    run, unit = self._runs[event.number]
                    raise WeftError(
                        f"stage '{run.task}' cannot be loaded on unit '{unit.name}': {event.text}"
                    )
                if isinstance(event, DeviceLost):
                    name = self._units[event.device].name
                    raise WeftError(f"unit '{name}' died while it loaded its stages: {event.text}")
                self._handle(event)

    def _warm_up(self) -> None:
        """Compile what the policy needs; one that fails here is replaced at its first decision."""
        session = Session(self.description.stream, self._session.policy)
        with suppress(Exception):
            session.arrived(at=0.0)
            session.decide(at=0.0)

    def _begin_loading(self, unit: CascadeUnit) -> None:
        unit.loading.extend(Run(task, []) for task in self._tasks)
        self._advance(unit)

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
        self._change_policy()
        self._accept()
        self._drop()
        self._decide()
        if self._closing and not self._jobs and not self._incoming:
            return False
        now = self._backend.clock()
        events = self._backend.wait(max(now, self._next_time(now)))
        self._moment = self._backend.clock()
        for event in events:
            self._handle(event)
        self._end_late()
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
            self._note("policy", f"'{change.policy.name}' decides")
            change.done.set_result(None)

    def _note(self, kind: str, text: str) -> None:
        self.events.append(CascadeEvent(self._backend.clock(), kind, text))
        LOG.info("%s: %s", kind, text)

    def _look_for_drift(self) -> None:
        found = self._drift.check(self.measured)
        if found and not self.proposal:
            self._note("drift", f"{found}; tune again: weft cascade tune")
        self.proposal = found

    def _accept(self) -> None:
        while self._incoming:
            request = self._incoming.popleft()
            if request.future.cancelled():
                continue
            deadline, priority = request.deadline, request.priority
            enter = partial(self._session.arrived, deadline=deadline, priority=priority)
            request.job = self._ask(enter)
            self._jobs[request.job] = request
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
            self._forget(request)
        now = self._backend.clock()
        while self._deadlines and (self._deadlines[0][0] <= now or self._deadlines[0][2].over):
            deadline, _, request = heapq.heappop(self._deadlines)
            if not request.over:
                seconds = deadline - request.arrived
                request.fail(DeadlineMissed(f"the request was not answered within {seconds:g} s"))
                self._forget(request)

    def _forget(self, request: Request) -> None:
        """End the job of a request that is over; a unit that has it finishes its batch first."""
        if request.running == 0 and self._jobs.pop(request.job, None) is not None:
            self._session.cancelled(request.job)

    def _decide(self) -> None:
        for assignment in self._ask(self._session.decide):
            unit = self._units[self._session.cluster.names.index(assignment.device)]
            members = [(self._jobs[job], task) for job, task in assignment.tasks]
            for request, _ in members:
                request.running += 1
            unit.works.append(Work.of(assignment, members))
            self._advance(unit)

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
        self._note("policy replaced", f"'{RULE}' decides, not '{name}': {why}")
        warnings.warn(
            f"policy '{name}' is replaced by '{RULE}': {why}", PolicyReplaced, stacklevel=2
        )
        self._session.replace_policy(RULE)

    def _next_time(self, now: float) -> float:
        """Return when to act even if nothing happens."""
        limits = [unit.current.limit for unit in self._units if unit.current is not None]
        times = [self._session.wake, *limits, *(d[0] for d in self._deadlines[:1])]
        waits = self._jobs and not limits and any(unit.up for unit in self._units)
        if not waits or self.replaced or self._session.wake < inf:
            self._idle_since = inf
        else:
            self._idle_since = min(self._idle_since, now)
            if now >= self._idle_since + PATIENCE:
                self._replace(f"it waits, though nothing runs and {len(self._jobs)} requests wait")
                return now
            times.append(self._idle_since + PATIENCE)
        return min(times)

    def _end_late(self) -> None:
        """Kill units whose batch takes too long."""
        now = self._backend.clock()
        for unit in self._units:
            if unit.current is not None and unit.current.limit <= now:
                unit.current.late, unit.current.limit = True, inf
                self._backend.cancel(unit.current.number)

    # -- units --------------------------------------------------------------

    def _advance(self, unit: CascadeUnit) -> None:
        """Send the next run to an idle unit; report work that is done."""
        while unit.current is None:
            run = unit.following()
            if run is not None:
                self._send(unit, run)
            elif unit.works:
                self._complete(unit.works.popleft())
            else:
                return

    def _send(self, unit: CascadeUnit, run: Run) -> None:
        run.number = next(self._numbers)
        self.function[run.number] = self._tasks.index(run.task)
        self._runs[run.number] = (run, unit)
        timeout = self.description.stages[run.task].timeout
        run.begun = self._moment
        if timeout is not None and run.requests:
            run.limit = self._backend.clock() + timeout
        unit.current = run
        try:
            order = Order(run.number, (run.number,), ((),), (False,))
            self._backend.submit(order, unit.index, 0.0)
        except Exception as error:  # noqa: BLE001  # payloads that cannot be pickled
            self._end_run(run)
            self._failed(unit, run, f"cannot be sent: {type(error).__name__}: {error}")

    def _end_run(self, run: Run) -> None:
        _, unit = self._runs.pop(run.number)
        del self.function[run.number]
        unit.current = None
        self._backend.forget(run.number)

    def _complete(self, work: Work) -> None:
        """Report an assignment to the session, then answer or drop its requests."""
        outcomes = [
            r.results[task][1] if task in r.results else self._graph.some_outcome(task)
            for r, task in work.members
        ]
        self._session.finished(work.assignment, outcomes)
        for request, _ in work.members:
            request.running -= 1
            if request.over:
                self._forget(request)
                continue
            complete, value = self._graph.answer(request)
            if complete:
                del self._jobs[request.job]
                request.answer(value)

    def _handle(self, event: Event) -> None:
        if isinstance(event, Finished):
            run, unit = self._runs[event.number]
            self._finished(unit, run, self._moment - run.begun)
        elif isinstance(event, Failed):
            run, unit = self._runs[event.number]
            self._end_run(run)
            self._failed(unit, run, event.text)
        elif isinstance(event, DeviceLost):
            self._lost(self._units[event.device], event.text)
        elif isinstance(event, DeviceAdded) and not self._units[event.device].up:
            unit = self._units[event.device]
            if not unit.loading and unit.current is None:
                self._begin_loading(unit)

    def _finished(self, unit: CascadeUnit, run: Run, seconds: float) -> None:
        try:
            pairs = self._backend.fetch(run.number)
        except Exception as error:  # noqa: BLE001  # unpickling runs code of the user
            self._end_run(run)
            self._failed(unit, run, f"{type(error).__name__}: {error}")
            return
        self._end_run(run)
        if run.requests:
            self.measured.batch(unit.kind, run.task, len(run.requests), seconds)
        for request, (value, given) in zip(run.requests, pairs, strict=True):
            try:
                outcome = self._graph.outcome(run.task, given)
            except InvalidInput as error:
                request.fail(StageFailed(f"stage '{run.task}' failed: {error}"))
                continue
            request.results[run.task] = (value, outcome)
            self.measured.branch(run.task, outcome)
        if not run.requests and not unit.loading:
            unit.up = True
            self._session.slowed(unit.name, 1.0)
        self._advance(unit)

    def _failed(self, unit: CascadeUnit, run: Run, text: str) -> None:
        """Try the requests of a failed batch one by one; fail a single one."""
        if not run.requests:
            warnings.warn(f"unit '{unit.name}' stays out: stage '{run.task}': {text}", stacklevel=2)
            unit.loading.clear()
            return
        if len(run.requests) > 1:
            unit.works[0].runs.extendleft(run.singles())
        else:
            run.requests[0].fail(StageFailed(f"stage '{run.task}' failed: {text}"))
        self._advance(unit)

    def _lost(self, unit: CascadeUnit, text: str) -> None:
        """Make the work of a dead unit ready again; fail a request that kills units alone."""
        self.counts["units lost"] += 1
        self._note("unit lost", f"'{unit.name}': {text}")
        run, works = unit.current, list(unit.works)
        unit.up = False
        unit.works.clear()
        unit.loading.clear()
        if run is not None:
            self._end_run(run)
            self._blame(run, text)
        self._session.device_lost(unit.name)
        for request, _ in (member for work in works for member in work.members):
            request.running -= 1
            if request.over:
                self._forget(request)

    def _blame(self, run: Run, text: str) -> None:
        for request in run.requests:
            request.alone = True
        if len(run.requests) != 1:
            return
        (request,) = run.requests
        request.deaths += 1
        if run.late:
            timeout = self.description.stages[run.task].timeout
            request.fail(DeadlineMissed(f"stage '{run.task}' took longer than {timeout:g} s"))
        elif request.deaths >= MAX_DEATHS:
            request.fail(
                StageFailed(f"stage '{run.task}' failed: {MAX_DEATHS} units died with it: {text}")
            )
