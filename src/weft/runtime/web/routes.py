"""Handlers of the routes: a method per row of `openapi.ROUTES`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from weft.errors import InvalidInput
from weft.formats.parsing.source import decode_text, parse_json
from weft.registry import closest
from weft.runtime.web.answers import ANSWERS, Question, answer_changes, plain
from weft.runtime.web.documents import MAX_BATCH
from weft.runtime.web.http import (
    TICK,
    Request,
    Response,
    StatusStreams,
    answer_json,
    query_number,
    read_body,
    refuse_unknown,
    run_in_threadpool,
    status_event,
    stream,
)
from weft.runtime.web.limits import PAGE_HEADERS, Refused
from weft.runtime.web.live.reference_plans import ReferencePlans
from weft.runtime.web.live.status import run_status, service_status
from weft.runtime.web.metrics import resident_bytes
from weft.runtime.web.openapi import document
from weft.runtime.web.runs import RUN_ID
from weft.runtime.web.spans import run_spans
from weft.runtime.web.state import ServerState
from weft.runtime.web.store import OPEN

MAX_STREAMS = 200
"""Streams that are open at once, of events of runs and of the status of the service each."""

HEARTBEAT = 15.0
"""Seconds between two signs of life on a stream without events."""

STATES = (*OPEN, "done", "failed", "cancelled")

LARGE = 1 << 16
"""Bytes of a submission above which it is read in a thread."""

QUICK = 10
"""Small questions in one request up to which no thread is worth its while."""


class Handlers:
    """Handlers of all routes; large questions are answered in threads, a few at once."""

    def __init__(self, state: ServerState) -> None:
        self.state, self.runs = state, state.runs
        self.reference_plans = ReferencePlans(state)
        self._streams = StatusStreams(
            lambda: service_status(state.runs, state.applications), state.runs.waiting, MAX_STREAMS
        )

    # -- runs ---------------------------------------------------------------

    async def submit(self, request: Request) -> Response:
        """Store and queue submissions."""
        state, query = self.state, request.query_params
        refuse_unknown(query, ("application", "priority", "id"))
        application = query.get("application", "default")
        priority = query_number(query, "priority", -1e9, 1e9) or 0.0
        if application not in state.applications:
            raise InvalidInput(
                f"unknown application '{application}'{closest(application, state.applications)}"
            )
        run_id = query.get("id")
        if run_id is not None and not RUN_ID.fullmatch(run_id):
            raise InvalidInput(
                f"id '{run_id}' must be 1 to 100 letters, digits, '.', '-' and '_', and not begin "
                "with '.'"
            )
        body, read = await self._body(request), state.documents.read
        given = await run_in_threadpool(read, body) if len(body) > LARGE else read(body)
        if run_id is not None and len(given) > 1:
            raise InvalidInput("an id is given for several submissions; submit them one by one")
        try:
            made = await self.runs.submit(application, priority, given, run_id)
        except Refused:
            state.metrics.count("weft_refused_total", reason="queue")
            raise
        return answer_json(made[0] if not body.lstrip().startswith(b"[") else {"runs": made}, 202)

    async def list_runs(self, request: Request) -> Response:
        """List runs, the newest first."""
        query = request.query_params
        refuse_unknown(query, ("application", "state", "limit"))
        state, limit = query.get("state"), query.get("limit", "100")
        if state is not None and state not in STATES:
            raise InvalidInput(f"unknown state '{state}'{closest(state, STATES)}")
        if not (limit.isascii() and limit.isdigit()) or not 1 <= int(limit[:9]) <= 1000:
            raise InvalidInput(f"limit '{limit}' must be a whole number from 1 to 1000")
        rows = self.runs.store.listed(
            application=query.get("application"), state=state, limit=int(limit)
        )
        return answer_json({"runs": rows})

    async def show_run(self, request: Request) -> Response:
        """Show one run."""
        return answer_json(self._found(request)[1])

    async def cancel_run(self, request: Request) -> Response:
        """Cancel a run that waits, or end one that runs: its running tasks are stopped."""
        _, run = self._found(request)
        state = self.runs.cancel(run["id"])
        if state is None:
            raise Refused(409, f"run '{run['id']}' is {run['state']} already")
        return answer_json({"id": run["id"], "state": state}, 200 if state == "cancelled" else 202)

    async def stream_events(self, request: Request) -> Response:
        """Stream events as they are committed, from the one after Last-Event-ID."""
        (number, run), after = self._found(request), request.headers.get("last-event-id", "0")
        if not (after.isascii() and after.isdigit() and len(after) <= 15):
            raise InvalidInput(f"Last-Event-ID '{after}' must be the number of an event")
        if self.runs.streams >= MAX_STREAMS:
            raise Refused(429, f"{MAX_STREAMS} streams are open", retry_after=5.0)
        shown = request.query_params.get("status") == "1"
        return stream(self._events(number, run["id"], int(after), shown=shown))

    async def _events(
        self, number: int, run_id: str, after: int, *, shown: bool
    ) -> AsyncIterator[str]:
        """Yield the events of a run until its end.

        With `shown`, yield its status in between, without numbers.
        """
        runs, ended, first = self.runs, False, True
        seconds = TICK if shown else HEARTBEAT
        news = runs.listen(number)
        try:
            while not ended:
                news.clear()
                # Before the look at events: if the end is on disk, all events are.
                over = run_id not in runs.active and runs.store.ended(number)
                events = runs.store.events(number, after, limit=1000)
                ended = over and not events  # its last event was read before, or is deleted
                for event in events:
                    after, ended = event["seq"], event["kind"] == "ended"
                    text = json.dumps(event)
                    yield f"id: {after}\nevent: {event['kind']}\ndata: {text}\n\n"
                    news.set()  # there may be more than one page
                active = runs.active.get(run_id) if shown else None
                status = None if active is None else run_status(runs, active)
                if active is not None and status is not None:
                    status["forecast"] = await self.reference_plans.forecast(active)
                    if first:
                        status["history"], first = active.waiting.as_dict(), False
                    yield status_event(status)
                elif shown and ended:
                    self._keep_score(run_id)
                if not ended and not news.is_set():
                    try:
                        await asyncio.wait_for(news.wait(), seconds)
                    except TimeoutError:
                        yield ": waiting\n\n"
        finally:
            runs.leave(number, news)

    def _keep_score(self, run_id: str) -> None:
        _, run = self.runs.find(run_id) or (0, {})
        if run.get("state") == "done" and run["begun"] is not None:
            self.reference_plans.ended(run_id, run["ended"] - run["begun"])

    async def show_spans(self, request: Request) -> Response:
        """Show the spans of a run."""
        number, run = self._found(request)
        run = {"begun": None, "ended": None, "error": None, **run}
        return answer_json(run_spans(run, self.runs.store.events(number)))

    async def show_chart(self, request: Request) -> Response:
        """Show the reference plan of a run."""
        opening, _ = await self.reference_plans.of(self._found(request)[1]["id"])
        return answer_json(plain(opening))

    # -- questions ----------------------------------------------------------

    async def plan(self, request: Request) -> Response:
        """Plan."""
        return await self._answer("plan", await self._content(request))

    async def simulate(self, request: Request) -> Response:
        """Simulate."""
        return await self._answer("simulate", await self._content(request))

    async def explain(self, request: Request) -> Response:
        """Explain."""
        return await self._answer("explain", await self._content(request))

    async def whatif(self, request: Request) -> Response:
        """Say what changes would do to a problem, or to the reference plan of a run."""
        content = await self._content(request)
        if not isinstance(content, dict) or "run" not in content:
            return await self._answer("whatif", content)
        question = Question(content, self.state.devices)
        question.record.only(("run", "changes"))
        run_id, changes = question.record.text("run"), question.record.strings("changes")
        if self.runs.find(run_id) is None:
            raise Refused(404, f"there is no run '{run_id}'")
        _, before = await self.reference_plans.of(run_id)
        if before is None:
            raise InvalidInput(f"run '{run_id}' has no plan that could be changed")
        found = await self.state.in_thread(lambda: answer_changes(before, changes, question))
        return answer_json(plain(found))

    async def _answer(self, name: str, content: Any) -> Response:
        """Answer one question, or a list of them in the same order."""
        several = content if isinstance(content, list) else [content]
        if not 0 < len(several) <= MAX_BATCH:
            raise InvalidInput(f"a list of {len(several)} questions; give 1 to {MAX_BATCH}")
        questions = [Question(one, self.state.devices) for one in several]

        def answered() -> Response:
            found = [plain(ANSWERS[name](question)) for question in questions]
            return answer_json({"answers": found} if isinstance(content, list) else found[0])

        if self.state.warm and len(questions) <= QUICK and all(q.small() for q in questions):
            return answered()
        return await self.state.in_thread(answered)

    # -- pages and facts ----------------------------------------------------

    async def stream_status(self, _: Request) -> Response:
        """Stream the status of the service."""
        return self._streams.response()

    async def show_page(self, _: Request) -> Response:
        """Show the live page; it has no data and needs no token."""
        assert self.state.page is not None
        headers = {"cache-control": "no-store", **PAGE_HEADERS}
        return Response(self.state.page.html, media_type="text/html", headers=headers)

    async def list_applications(self, _: Request) -> Response:
        """List applications."""
        rows = {name: asdict(limits) for name, limits in self.state.applications.items()}
        return answer_json({"applications": rows})

    async def show_history(self, _: Request) -> Response:
        """Show measured durations."""
        known = self.state.history
        rows = [] if known is None else await run_in_threadpool(known.durations)
        return answer_json({"durations": plain([asdict(row) for row in rows])})

    async def show_openapi(self, _: Request) -> Response:
        """Show the description of the routes."""
        return answer_json(document())

    async def show_metrics(self, _: Request) -> Response:
        """Show metrics."""
        gauges = [*self.runs.gauges(), ("process_resident_memory_bytes", (), resident_bytes())]
        text = self.state.metrics.text(gauges)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    # -- requests -----------------------------------------------------------

    def _found(self, request: Request) -> tuple[int, dict[str, Any]]:
        """Return number and facts of the run that a path names."""
        run_id = request.path_params["id"]
        found = self.runs.find(run_id) if RUN_ID.fullmatch(run_id) else None
        if found is None:
            raise Refused(404, f"there is no run '{run_id}'")
        return found

    async def _content(self, request: Request) -> Any:
        return parse_json(decode_text(await self._body(request)))

    async def _body(self, request: Request) -> bytes:
        body = await read_body(request, self.state.max_body)
        if not body:
            raise InvalidInput("the body is empty; give a JSON document")
        return body
