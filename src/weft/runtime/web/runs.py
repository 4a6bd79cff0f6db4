"""The runs of a server on disk: from submission over queue and devices to the end."""

from __future__ import annotations

import asyncio
import re
import secrets
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from weft.errors import WeftError
from weft.formats.parsing.source import one_line
from weft.runtime.inputs.functions import Application
from weft.runtime.service.queue import QueueFull
from weft.runtime.service.service import Service
from weft.runtime.service.session import ServiceSession, TaskEvent
from weft.runtime.status import waiting_by_reason
from weft.runtime.web.documents import Documents, with_results
from weft.runtime.web.limits import Refused
from weft.runtime.web.live.waiting import WaitingHistory
from weft.runtime.web.metrics import Labels, ServerMetrics
from weft.runtime.web.store import RunStore

RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


@dataclass(eq=False)
class ActiveRun:
    """A run whose end is not on disk; `finished`: tasks that ended before a restart."""

    number: int
    facts: dict[str, Any]
    app: Application
    seq: int = 0
    finished: frozenset[str] = frozenset()
    future: Future[dict[str, Any]] | None = field(default=None, repr=False)
    end: dict[str, Any] = field(default_factory=dict, repr=False)
    """Facts and results of a run that has ended."""
    end_shown: bool = False
    """Whether a client saw the end before it was on disk; every later answer shows it too."""
    stored: asyncio.Future[None] | None = field(default=None, repr=False)
    """Of a submission that is not on disk yet."""
    waiting: WaitingHistory = field(default_factory=WaitingHistory, repr=False)

    def shown(self, *, full: bool) -> dict[str, Any]:
        """Return the facts of the run as clients see them.

        The end of a run is shown once it is on disk. While the disk is full (`full`), it is shown
        from memory, and from then on always: an end that a client saw must not disappear.
        """
        end = self.end
        if not end or not (full or self.end_shown):
            return dict(self.facts)
        self.end_shown = True
        return {"begun": None} | self.facts | end


class RunTable:
    """Runs whose end is not on disk, and the way to those on disk.

    Parameters
    ----------
    limits : application -> runs of it that may wait or run
    """

    def __init__(
        self, store: RunStore, service: Service, metrics: ServerMetrics, limits: Mapping[str, int]
    ) -> None:
        self.store = store
        self.service = service
        self.metrics = metrics
        self.limits = dict(limits)
        self.active: dict[str, ActiveRun] = {}
        self.waiting = WaitingHistory()
        """Waiting tasks of all runs, in seconds of the service's clock."""
        self._recent: dict[int, ActiveRun] = {}
        """Runs with news since the last sample of waiting tasks."""
        self._count = dict.fromkeys(limits, 0)
        self._last = store.last
        self._series = secrets.token_hex(4)
        """First part of the run ids that this process makes."""
        self._lock = threading.Lock()
        self._listeners: dict[int, list[asyncio.Event]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._written: list[tuple[asyncio.Future[None], Exception | None]] = []
        """Submissions whose last write is done, in the writing thread."""
        store.committed = self._committed

    # -- submissions --------------------------------------------------------

    async def submit(
        self,
        application: str,
        priority: float,
        given: Sequence[tuple[bytes, Application]],
        run_id: str | None = None,
    ) -> list[dict[str, Any]]:
        """Store submissions, all or none, and queue them; return their facts.

        A known id gives the run that exists: a client that got no answer submits again.
        """
        self._loop = asyncio.get_running_loop()
        if run_id is not None:
            known = self.active.get(run_id)
            if known is not None and known.stored is not None:
                await self._stored(known.stored)
            if (found := self.find(run_id)) is not None:
                return [found[1]]
        runs = self._admitted(application, priority, given, run_id)
        written = self._loop.create_future()
        for run in runs:
            run.stored = written
        rows = [(run.number, run.facts, body) for run, (body, _) in zip(runs, given, strict=True)]
        self.store.add(rows, lambda error: self._written.append((written, error)))
        try:
            await self._stored(written)
        except Refused:
            for run in runs:
                self._release(run)
                self._drop(run)
            raise
        for run in runs:
            run.stored = None
            self._start(run)
        self.metrics.count("weft_submissions_total", len(runs), application=application)
        return [dict(run.facts) for run in runs]

    @staticmethod
    async def _stored(written: asyncio.Future[None]) -> None:
        try:
            await asyncio.shield(written)
        except Exception as error:  # noqa: BLE001  # of any kind: the client gets it
            text = f"the submission could not be stored ({error}); retry later"
            raise Refused(503, text, retry_after=1.0) from None

    def resume(self, documents: Documents) -> int:
        """Queue the runs that had not ended when the server was last running; count them."""
        found = self.store.open_runs()
        for number, facts, body in found:
            past = self.store.events(number)
            seq = past[-1]["seq"] if past else 0
            results = {
                event["task"]: (event["result"], event.get("branches", ()))
                for event in past
                if event["kind"] == "finished"
            }
            try:
                ((_, app),) = documents.read(body)
                app = with_results(app, results) if results else app
            except (WeftError, ValueError) as error:  # a function is not registered any more
                now, text = time.time(), one_line(str(error))
                end = {"state": "failed", "error": text}
                self.store.event(number, seq + 1, now, "ended", end)
                self.store.end(number, now, "failed", text, None)
                continue
            run = ActiveRun(number, {**facts, "state": "waiting"}, app, seq, frozenset(results))
            self.active[run.facts["id"]] = run
            name = run.facts["application"]
            self._count[name] = self._count.get(name, 0) + 1
            self._start(run)
        return len(found)

    def _admitted(
        self,
        application: str,
        priority: float,
        given: Sequence[tuple[bytes, Application]],
        run_id: str | None,
    ) -> list[ActiveRun]:
        with self._lock:
            room = self.limits[application] - self._count[application]
            if len(given) > room:
                raise Refused(
                    429,
                    f"the queue of '{application}' is full ({self.limits[application]} runs wait "
                    "or run); retry later",
                    retry_after=1.0,
                )
            self._count[application] += len(given)
        runs = []
        for _, app in given:
            self._last += 1
            facts: dict[str, Any] = {
                "id": run_id or f"{self._series}-{self._last}",
                "application": application,
                "priority": priority,
                "name": one_line(app.workflow.name) or "workflow",
                "tasks": app.workflow.n,
                "state": "waiting",
                "submitted": time.time(),
            }
            runs.append(ActiveRun(self._last, facts, app))
            self.active[facts["id"]] = runs[-1]
        return runs

    def _release(self, run: ActiveRun) -> None:
        """Give the place of a run in the queue of its application to another."""
        with self._lock:
            run.future = None  # its callbacks hold the run
            self._count[run.facts["application"]] -= 1

    def _drop(self, run: ActiveRun) -> None:
        with self._lock:
            self.active.pop(run.facts["id"], None)

    def _start(self, run: ActiveRun) -> None:
        try:
            run.future = self.service.submit(
                run.facts["application"],
                run.app,
                priority=run.facts["priority"],
                timeout=0.0,
                watch=lambda event: self._event(run, event),
            )
        except QueueFull as error:  # the service ends
            run.future = Future()
            run.future.set_exception(error)
        run.future.add_done_callback(lambda future: self._ended(run, future))

    # -- events, in the thread of the service -------------------------------

    def _event(self, run: ActiveRun, event: TaskEvent) -> None:
        now, name = time.time(), run.facts["application"]
        if event.kind == "begun":
            run.facts |= {"state": "running", "begun": now}
            self.store.begin(run.number, now)
            self._write(run, now, "begun", {})
            return
        if event.kind == "started":  # tasks that could start at once do not wait any more
            self._look(run)
            return
        if event.task in run.finished:
            return  # its result is from before the restart
        seconds = event.finish - event.start
        content = {"task": event.task, "device": event.device, "seconds": seconds}
        if event.kind == "finished":
            content |= {"result": event.result}
            if event.branches and run.app.workflow.conditional:
                content |= {"branches": list(event.branches)}
            self.metrics.count("weft_task_seconds_total", seconds, application=name)
        else:
            content |= {"error": one_line(event.text)}
        self.metrics.count("weft_tasks_total", application=name, outcome=event.kind)
        self._write(run, now, event.kind, content)

    def _look(self, run: ActiveRun) -> None:
        """Sample the waiting tasks of all runs, and of runs with news.

        Most short runs cost nothing.
        """
        session = self.service.session
        if session is None or session.driver is None:
            return
        with self._lock:
            self._recent[run.number] = run
        self.waiting.look(session.driver.now, lambda: self._counted(session))

    def _counted(self, session: ServiceSession) -> dict[str, int]:
        """Count what waits; sample the runs with news that still run, too."""
        assert session.driver is not None
        life = session.driver.life
        with self._lock:
            recent, self._recent = self._recent, {}
        for run in recent.values():
            job = None if run.future is None else session.job_of(run.future)
            if job is not None:
                count = partial(waiting_by_reason, life, life.instances(job))
                run.waiting.look(time.time() - run.facts["begun"], count)
        return waiting_by_reason(life)

    def _ended(self, run: ActiveRun, future: Future[dict[str, Any]]) -> None:
        now, results, text = time.time(), None, None
        try:
            results, state = future.result(), "done"
        except CancelledError:
            state = "cancelled"
        except Exception as error:  # noqa: BLE001  # any failure is the run's
            state, text = "failed", one_line(str(error).split("\n", maxsplit=1)[0])
        run.end = {"state": state, "ended": now, "error": text, "results": results}
        self._write(run, now, "ended", {"state": state, "error": text})
        self._release(run)
        self.store.end(run.number, now, state, text, results, lambda _: self._drop(run))
        self.metrics.count(
            "weft_runs_ended_total", application=run.facts["application"], state=state
        )

    def _write(self, run: ActiveRun, now: float, kind: str, content: dict[str, Any]) -> None:
        run.seq += 1
        self.store.event(run.number, run.seq, now, kind, content)

    def _committed(self, runs: set[int]) -> None:
        """Wake submissions and streams of these runs, once per group.

        It is called in the writing thread.
        """
        written, self._written = self._written, []
        news = runs & self._listeners.keys() if self._listeners else None
        if (written or news) and self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed; writing goes on
                self._loop.call_soon_threadsafe(self._tell_loop, written, news or ())

    def _tell_loop(
        self, written: list[tuple[asyncio.Future[None], Exception | None]], runs: Iterable[int]
    ) -> None:
        for future, error in written:
            if future.done():
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(None)
        for run in runs:
            for event in self._listeners.get(run, ()):
                event.set()

    # -- questions ----------------------------------------------------------

    def find(self, run_id: str) -> tuple[int, dict[str, Any]] | None:
        """Return number and facts of a run; None: there is none."""
        active = self.active.get(run_id)
        if active is None:
            return self.store.find(run_id)
        return active.number, active.shown(full=self.store.full)

    def application(self, run_id: str, documents: Documents) -> Application | None:
        """Return the application of a run; None: its document is not kept any more."""
        active = self.active.get(run_id)
        if active is not None:
            return active.app
        body = self.store.document(run_id)
        return documents.read(body)[0][1] if body else None

    def cancel(self, run_id: str) -> str | None:
        """Cancel a run; return its new state.

        "cancelled" if it waits, "cancelling" if it runs, None if it has ended.
        """
        active = self.active.get(run_id)
        future = None if active is None else active.future  # the end of a run sets it to None
        if future is None:
            return None
        if future.cancel():
            return "cancelled"
        self.service.cancel(future)
        return "cancelling"

    def listen(self, run: int) -> asyncio.Event:
        """Return an event that is set whenever the run has news on disk."""
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._listeners.setdefault(run, []).append(event)
        return event

    def leave(self, run: int, event: asyncio.Event) -> None:
        """Drop an event of `listen`."""
        self._listeners[run].remove(event)
        if not self._listeners[run]:
            del self._listeners[run]

    @property
    def streams(self) -> int:
        """The number of open streams of events."""
        return sum(len(events) for events in self._listeners.values())

    def gauges(self) -> list[tuple[str, Labels, float]]:
        """Return how many runs wait and run, per application."""
        counts = {(name, state): 0 for name in self._count for state in ("waiting", "running")}
        for run in [run for run in list(self.active.values()) if not run.end]:
            counts[run.facts["application"], run.facts["state"]] += 1
        rows: list[tuple[str, Labels, float]] = [
            ("weft_runs", (("application", name), ("state", state)), float(count))
            for (name, state), count in counts.items()
        ]
        return [*rows, ("weft_streams", (), float(self.streams))]
