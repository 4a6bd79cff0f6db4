"""The routes of a server: requests in, JSON out; every refusal is one line with its status."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any, Protocol, TypeVar, cast

from weft.errors import InvalidInput, MissingExtra, WeftError
from weft.formats.parsing.source import decode_text, one_line, parse_json
from weft.model import Cluster
from weft.planners.planner import Plan
from weft.registry import closest
from weft.runtime.costs.estimates import estimated_problem
from weft.runtime.costs.history import History
from weft.runtime.service.budgets import Budget
from weft.runtime.web.answers import ANSWERS, Question, answer_changes, plain
from weft.runtime.web.board import Drawing, describe
from weft.runtime.web.documents import MAX_BATCH, Documents
from weft.runtime.web.limits import PAGE_HEADERS, Rate, Refused, Token
from weft.runtime.web.live_status import run_status, service_status
from weft.runtime.web.metrics import ServerMetrics, resident_bytes
from weft.runtime.web.openapi import ROUTES, document
from weft.runtime.web.runs import RUN_ID, RunTable
from weft.runtime.web.spans import run_spans
from weft.runtime.web.store import OPEN

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route as StarletteRoute
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise MissingExtra("starlette", "serve") from error

T = TypeVar("T")

LARGE = 1 << 16
"""Bytes of a body above which it is read in a thread."""

QUICK = 10
"""Small questions in one request up to which no thread is worth its while."""

HEARTBEAT = 15.0
"""Seconds between two signs of life on a stream without events."""

TICK = 1.0
"""Seconds between two statuses on a stream."""

KEPT_CHARTS = 50
"""Runs whose reference plans are kept."""

STATES = (*OPEN, "done", "failed", "cancelled")


@dataclass(frozen=True)
class ApplicationLimits:
    """Share, budget and queue of an application."""

    share: float = 1.0
    budget: Budget | None = None
    queue: int = 1000


@dataclass(frozen=True)
class PageSource:
    """The live page, and the maker of the data of its charts; `weft.report` has both."""

    html: bytes
    draw: Drawing


@dataclass(eq=False)
class ServerState:
    """All that the handlers use."""

    runs: RunTable
    documents: Documents
    applications: Mapping[str, ApplicationLimits]
    devices: Cluster
    history: History | None
    metrics: ServerMetrics
    token: Token
    max_body: int = 4 << 20
    rate: float = 5000.0
    max_streams: int = 200
    patience: float = 30.0
    """Seconds a client may take to send a body, or to take a part of a stream."""
    questions: int = 4
    """Questions that are answered in threads at once."""
    asked: int = field(default=0, init=False)
    watched: int = field(default=0, init=False)
    """Streams of the status of the service."""
    page: PageSource | None = None
    warm: bool = False
    """Whether the kernels of the usual planner are compiled."""


def make_app(state: ServerState) -> Entrance:
    """Return the application: token and rate first, then the routes."""
    handlers = Handlers(state)
    routes = [
        StarletteRoute(r.path, getattr(handlers, r.handler), methods=[r.method]) for r in ROUTES
    ]
    if state.page is not None:
        routes += [StarletteRoute(path, handlers.show_page) for path in ("/", "/runs/{id}")]
    app = Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _http_error,
            Refused: _refusal,
            WeftError: _bad_request,
            ClientDisconnect: _bad_request,
        },
    )
    return Entrance(app, state)


class EntryState(Protocol):
    """What the entrance of a server uses."""

    @property
    def token(self) -> Token:
        """Return the token that requests need."""
        ...

    @property
    def rate(self) -> float:
        """Return the requests per second."""
        ...

    @property
    def metrics(self) -> ServerMetrics:
        """Return the counters."""
        ...

    @property
    def patience(self) -> float:
        """Return the seconds a client may take to take a part of a stream."""
        ...

    @property
    def page(self) -> PageSource | None:
        """Return the source of the page that needs no token, if there is one."""
        ...


class Entrance:
    """Lets in requests with the token, at the rate; counts answers by status."""

    def __init__(self, app: ASGIApp, state: EntryState) -> None:
        self.app = app
        self.state = state
        self._rate = Rate(state.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on a request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.state.metrics.count("weft_requests_total", status=str(message["status"]))
            if not message.get("more_body"):
                await send(message)
                return
            async with asyncio.timeout(self.state.patience):  # for clients that stop reading
                await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _answer_refusal(refusal)(scope, receive, counted)
            return
        with contextlib.suppress(TimeoutError):  # the connection ends with its stream
            await self.app(scope, receive, counted)

    def _refusal(self, scope: Scope) -> Refused | None:
        headers = dict(scope["headers"])
        given = headers.get(b"authorization", b"").decode("latin-1")
        wait = self._rate.take()
        if wait:
            self.state.metrics.count("weft_refused_total", reason="rate")
            return Refused(429, "too many requests; come again later", retry_after=wait)
        page = self.state.page is not None and scope["method"] in ("GET", "HEAD")
        if page and (scope["path"] == "/" or scope["path"].startswith("/runs/")):
            return None  # the page has no data
        if not self.state.token.fits(given):
            self.state.metrics.count("weft_refused_total", reason="token")
            return Refused(401, "the bearer token is missing or wrong")
        return None


class EventStream(StreamingResponse):
    """A stream that frees its place at once when its client leaves or stops reading."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, then close its generator."""
        async with contextlib.aclosing(cast("AsyncGenerator[str]", self.body_iterator)):
            await super().__call__(scope, receive, send)


class Handlers:
    """One method per route of `openapi.ROUTES`."""

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self._charts: dict[str, tuple[dict[str, Any], Plan | None]] = {}
        """Run -> opening of its live page and its reference plan."""

    # -- runs ---------------------------------------------------------------

    async def submit(self, request: Request) -> Response:
        """Store and queue submissions."""
        state, query = self.state, request.query_params
        _only(query, ("application", "priority", "id"))
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
        body = await self._body(request)
        given = await _threaded(len(body) > LARGE, state.documents.read, body)
        if run_id is not None and len(given) > 1:
            raise InvalidInput("an id is given for several submissions; submit them one by one")
        try:
            made = await state.runs.submit(application, priority, given, run_id)
        except Refused:
            state.metrics.count("weft_refused_total", reason="queue")
            raise
        return _json(made[0] if not body.lstrip().startswith(b"[") else {"runs": made}, 202)

    async def list_runs(self, request: Request) -> Response:
        """List runs, the newest first."""
        query = request.query_params
        _only(query, ("application", "state", "limit"))
        state, limit = query.get("state"), query.get("limit", "100")
        if state is not None and state not in STATES:
            raise InvalidInput(f"unknown state '{state}'{closest(state, STATES)}")
        if not (limit.isascii() and limit.isdigit()) or not 1 <= int(limit[:9]) <= 1000:
            raise InvalidInput(f"limit '{limit}' must be a whole number from 1 to 1000")
        application = query.get("application")
        store = self.state.runs.store
        return _json({"runs": store.listed(application=application, state=state, limit=int(limit))})

    async def show_run(self, request: Request) -> Response:
        """Show one run."""
        return _json(self._run(request))

    async def cancel_run(self, request: Request) -> Response:
        """Cancel a run that waits, or end one that runs: its running tasks are stopped."""
        run = self._run(request)
        state = self.state.runs.cancel(run["id"])
        if state is None:
            raise Refused(409, f"run '{run['id']}' is {run['state']} already")
        return _json({"id": run["id"], "state": state}, 200 if state == "cancelled" else 202)

    async def stream_events(self, request: Request) -> Response:
        """Stream events as they are committed, from the one after Last-Event-ID."""
        run, after = self._run(request), request.headers.get("last-event-id", "0")
        if not (after.isascii() and after.isdigit() and len(after) <= 15):
            raise InvalidInput(f"Last-Event-ID '{after}' must be the number of an event")
        number = self.state.runs.number(run["id"])
        if number is None:
            raise Refused(404, f"there is no run '{run['id']}'")
        streams = self.state.runs.gauges()[-1][2]
        if streams >= self.state.max_streams:
            raise Refused(429, f"{self.state.max_streams} streams are open", retry_after=5.0)
        shown = run["id"] if request.query_params.get("status") == "1" else None
        return _stream(self._events(number, int(after), shown))

    async def _events(self, number: int, after: int, shown: str | None) -> AsyncIterator[str]:
        """Yield events; with `shown`, the id of a run, its status in between, without numbers."""
        runs, ended = self.state.runs, False
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
                if status is not None:
                    yield _status(status)
                if not ended and not news.is_set():
                    try:
                        await asyncio.wait_for(news.wait(), seconds)
                    except TimeoutError:
                        yield ": waiting\n\n"
        finally:
            runs.leave(number, news)

    async def stream_status(self, _: Request) -> Response:
        """Stream the status of the service."""
        if self.state.watched >= self.state.max_streams:
            raise Refused(429, f"{self.state.max_streams} streams are open", retry_after=5.0)
        return _stream(self._statuses())

    async def _statuses(self) -> AsyncIterator[str]:
        state = self.state
        shares = {name: one.share for name, one in state.applications.items()}
        budgets = {name: one.budget for name, one in state.applications.items()}
        state.watched += 1
        try:
            while True:
                yield _status(service_status(state.runs, shares, budgets))
                await asyncio.sleep(TICK)
        finally:
            state.watched -= 1

    async def show_page(self, _: Request) -> Response:
        """Show the live page; it has no data and needs no token."""
        assert self.state.page is not None
        headers = {"cache-control": "no-store", **PAGE_HEADERS}
        return Response(self.state.page.html, media_type="text/html", headers=headers)

    async def show_chart(self, request: Request) -> Response:
        """Show the reference plan of a run."""
        return _json(plain((await self._described(self._run(request)["id"]))[0]))

    async def _described(self, run_id: str) -> tuple[dict[str, Any], Plan | None]:
        """Return the opening and the plan of a run, from its document; a few are kept."""
        state, page = self.state, self.state.page
        if page is None:
            raise Refused(404, "this server has no live page")
        if run_id not in self._charts:
            app = await run_in_threadpool(state.runs.application, run_id, state.documents)
            if app is None:
                raise Refused(404, f"the document of run '{run_id}' is not kept any more")

            def made() -> tuple[dict[str, Any], Plan | None]:
                problem = estimated_problem(app.workflow, state.devices, state.history)
                return describe(problem, page.draw)

            self._charts[run_id] = await self._in_thread(made)
            while len(self._charts) > KEPT_CHARTS:
                del self._charts[next(iter(self._charts))]
        return self._charts[run_id]

    async def show_spans(self, request: Request) -> Response:
        """Show the spans of a run."""
        run = {"begun": None, "ended": None, "error": None, **self._run(request)}
        number = self.state.runs.number(run["id"])
        events = [] if number is None else self.state.runs.store.events(number)
        return _json(run_spans(run, events))

    # -- questions ----------------------------------------------------------

    async def plan(self, request: Request) -> Response:
        """Plan."""
        return await self._answer("plan", request)

    async def simulate(self, request: Request) -> Response:
        """Simulate."""
        return await self._answer("simulate", request)

    async def explain(self, request: Request) -> Response:
        """Explain."""
        return await self._answer("explain", request)

    async def whatif(self, request: Request) -> Response:
        """Say what changes would do to a problem, or to the reference plan of a run."""
        body = await self._body(request)
        content = parse_json(decode_text(body))
        if not isinstance(content, dict) or "run" not in content:
            return await self._answer("whatif", request, body)
        question = Question(content, self.state.devices)
        question.record.only(("run", "changes"))
        run_id, changes = question.record.text("run"), question.record.strings("changes")
        if self.state.runs.find(run_id) is None:
            raise Refused(404, f"there is no run '{run_id}'")
        _, before = await self._described(run_id)
        if before is None:
            raise InvalidInput("this run has no plan that could be changed")
        found = await self._in_thread(lambda: answer_changes(before, changes, question))
        return _json(plain(found))

    async def _answer(self, name: str, request: Request, body: bytes = b"") -> Response:
        """Answer one question, or a list of them in the same order."""
        state = self.state
        content = parse_json(decode_text(body or await self._body(request)))
        several = content if isinstance(content, list) else [content]
        if not 0 < len(several) <= MAX_BATCH:
            raise InvalidInput(f"a list of {len(several)} questions; give 1 to {MAX_BATCH}")
        questions = [Question(one, state.devices) for one in several]

        def answered() -> Response:
            found = [plain(ANSWERS[name](question)) for question in questions]
            return _json({"answers": found} if isinstance(content, list) else found[0])

        if state.warm and len(questions) <= QUICK and all(q.small() for q in questions):
            return answered()
        return await self._in_thread(answered)

    async def _in_thread(self, answered: Callable[[], T]) -> T:
        """Answer a question in a thread, unless too many are being answered."""
        state = self.state
        if state.asked >= state.questions:
            state.metrics.count("weft_refused_total", reason="questions")
            raise Refused(429, f"{state.questions} questions are being answered", retry_after=1.0)
        state.asked += 1
        try:
            return await run_in_threadpool(answered)
        finally:
            state.asked -= 1

    # -- the rest -----------------------------------------------------------

    async def list_applications(self, _: Request) -> Response:
        """List applications."""
        rows = {name: asdict(limits) for name, limits in self.state.applications.items()}
        return _json({"applications": rows})

    async def show_history(self, _: Request) -> Response:
        """Show measured durations."""
        known = self.state.history
        rows = [] if known is None else await run_in_threadpool(known.durations)
        return _json({"durations": plain([asdict(row) for row in rows])})

    async def show_openapi(self, _: Request) -> Response:
        """Show the description of the routes."""
        return _json(document())

    async def show_metrics(self, _: Request) -> Response:
        """Show metrics."""
        gauges = [
            *self.state.runs.gauges(),
            ("process_resident_memory_bytes", (), resident_bytes()),
        ]
        text = self.state.metrics.text(gauges)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    # -- helpers ------------------------------------------------------------

    def _run(self, request: Request) -> dict[str, Any]:
        run_id = request.path_params["id"]
        found = self.state.runs.find(run_id) if RUN_ID.fullmatch(run_id) else None
        if found is None:
            raise Refused(404, f"there is no run '{run_id}'")
        return found

    async def _body(self, request: Request) -> bytes:
        """Return the body, unless it is too large."""
        limit, parts, size = self.state.max_body, [], 0
        announced = request.headers.get("content-length", "0")
        if announced.isascii() and announced.isdigit() and int(announced[:18]) > limit:
            raise Refused(413, f"the body is larger than {limit} bytes")
        try:
            async with asyncio.timeout(self.state.patience):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        raise Refused(413, f"the body is larger than {limit} bytes")
                    parts.append(part)
        except TimeoutError:
            text = f"the body did not arrive within {self.state.patience:g} s"
            raise Refused(408, text) from None
        if not size:
            raise InvalidInput("the body is empty; give a JSON document")
        return b"".join(parts)


def _stream(parts: AsyncIterator[str]) -> EventStream:
    headers = {"cache-control": "no-store"}
    return EventStream(parts, media_type="text/event-stream", headers=headers)


def _status(content: dict[str, Any]) -> str:
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


def _only(query: Mapping[str, str], known: tuple[str, ...]) -> None:
    for name in query:
        if name not in known:
            raise InvalidInput(f"unknown parameter '{name}'{closest(name, known)}")


async def _threaded(large: bool, function: Any, value: Any) -> Any:
    return await run_in_threadpool(function, value) if large else function(value)


def _json(content: Any, status: int = 200) -> Response:
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


def _answer_refusal(error: Refused) -> Response:
    response = _json({"error": one_line(str(error))}, error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = str(error.retry_after)
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _answer_refusal(error)


def _bad_request(_: Request, error: Exception) -> Response:
    return _json({"error": one_line(str(error)) or "the request is not valid"}, 400)


def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": one_line(str(error.detail))}, error.status_code)
