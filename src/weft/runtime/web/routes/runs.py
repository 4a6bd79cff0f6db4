"""Submissions, runs and their events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from math import isfinite
from typing import Any

from weft.errors import InvalidInput
from weft.registry import closest
from weft.runtime.web.answers import plain
from weft.runtime.web.http import (
    LARGE,
    Request,
    Response,
    answer_json,
    in_thread,
    read_body,
    refuse_unknown,
    stream,
)
from weft.runtime.web.limits import Refused
from weft.runtime.web.live.openings import Openings
from weft.runtime.web.live.status import run_status
from weft.runtime.web.runs import RUN_ID, ActiveRun, RunTable
from weft.runtime.web.spans import run_spans
from weft.runtime.web.state import MAX_STREAMS, ServerState
from weft.runtime.web.store import OPEN

HEARTBEAT = 15.0
"""Seconds between two signs of life on a stream without events."""

TICK = 1.0
"""Seconds between two statuses on a stream."""

STATES = (*OPEN, "done", "failed", "cancelled")


class RunRoutes:
    """Handlers that store, list, show, cancel and stream runs."""

    def __init__(self, state: ServerState, openings: Openings) -> None:
        self.state = state
        self.openings = openings

    async def submit(self, request: Request) -> Response:
        """Store and queue submissions."""
        state, query = self.state, dict(request.query_params)
        refuse_unknown(query, ("application", "priority", "id"))
        application, priority = query.get("application", "default"), _priority(query)
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
        body = await read_body(request, limit=state.max_body, patience=state.patience)
        read = state.documents.read
        given = await in_thread(lambda: read(body)) if len(body) > LARGE else read(body)
        if run_id is not None and len(given) > 1:
            raise InvalidInput("an id is given for several submissions; submit them one by one")
        try:
            made = await state.runs.submit(application, priority, given, run_id)
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
        application = query.get("application")
        store = self.state.runs.store
        return answer_json(
            {"runs": store.listed(application=application, state=state, limit=int(limit))}
        )

    async def show_run(self, request: Request) -> Response:
        """Show one run."""
        return answer_json(found_run(self.state.runs, request))

    async def cancel_run(self, request: Request) -> Response:
        """Cancel a run that waits, or end one that runs: its running tasks are stopped."""
        run = found_run(self.state.runs, request)
        state = self.state.runs.cancel(run["id"])
        if state is None:
            raise Refused(409, f"run '{run['id']}' is {run['state']} already")
        return answer_json({"id": run["id"], "state": state}, 200 if state == "cancelled" else 202)

    async def stream_events(self, request: Request) -> Response:
        """Stream events as they are committed, from the one after Last-Event-ID."""
        run, after = found_run(self.state.runs, request), request.headers.get("last-event-id", "0")
        if not (after.isascii() and after.isdigit() and len(after) <= 15):
            raise InvalidInput(f"Last-Event-ID '{after}' must be the number of an event")
        number = self.state.runs.number(run["id"])
        if number is None:
            raise Refused(404, f"there is no run '{run['id']}'")
        streams = self.state.runs.gauges()[-1][2]
        if streams >= MAX_STREAMS:
            raise Refused(429, f"{MAX_STREAMS} streams are open", retry_after=5.0)
        shown = run["id"] if request.query_params.get("status") == "1" else None
        return stream(self._events(number, int(after), shown))

    async def _events(self, number: int, after: int, shown: str | None) -> AsyncIterator[str]:
        """Yield events; with `shown`, the id of a run, its status in between, without numbers."""
        runs, ended, first = self.state.runs, False, True
        seconds = HEARTBEAT if shown is None else TICK
        news = runs.listen(number)
        try:
            while not ended:
                news.clear()
                for event in runs.store.events(number, after, limit=1000):
                    after, ended = event["seq"], event["kind"] == "ended"
                    text = json.dumps(event)
                    yield f"id: {after}\nevent: {event['kind']}\ndata: {text}\n\n"
                    news.set()  # there may be more than one page
                active = runs.active.get(shown or "")
                status = None if active is None else run_status(runs, active)
                if active is not None and status is not None:
                    status["forecast"] = await self.openings.forecast(active)
                    yield status_event(status | self._past(active, first=first))
                    first = False
                elif shown is not None and ended:
                    self._keep_score(shown)
                if not ended and not news.is_set():
                    try:
                        await asyncio.wait_for(news.wait(), seconds)
                    except TimeoutError:
                        yield ": waiting\n\n"
        finally:
            runs.leave(number, news)

    @staticmethod
    def _past(run: ActiveRun, *, first: bool) -> dict[str, Any]:
        """Return what waited so far, for a page that opens now."""
        return {"history": run.waiting.as_dict()} if first else {}

    def _keep_score(self, run_id: str) -> None:
        found = self.state.runs.find(run_id)
        if found is not None and found["state"] == "done" and found["begun"] is not None:
            self.openings.ended(run_id, found["ended"] - found["begun"])

    async def show_spans(self, request: Request) -> Response:
        """Show the spans of a run."""
        run = {"begun": None, "ended": None, "error": None, **found_run(self.state.runs, request)}
        number = self.state.runs.number(run["id"])
        events = [] if number is None else self.state.runs.store.events(number)
        return answer_json(run_spans(run, events))


def found_run(runs: RunTable, request: Request) -> dict[str, Any]:
    """Return the facts of the run that a path names."""
    run_id = request.path_params["id"]
    found = runs.find(run_id) if RUN_ID.fullmatch(run_id) else None
    if found is None:
        raise Refused(404, f"there is no run '{run_id}'")
    return found


def status_event(content: dict[str, Any]) -> str:
    """Return a status as an event without a number: a stream that resumes needs only the newest."""
    return f"event: status\ndata: {json.dumps(plain(content))}\n\n"


def _priority(query: Mapping[str, str]) -> float:
    text = query.get("priority", "0")
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or abs(value) > 1e9:
        raise InvalidInput(f"priority '{text}' must be a number from -1e9 to 1e9")
    return value
