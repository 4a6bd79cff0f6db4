"""Requests, answers and refusals over HTTP: the only file that imports Starlette."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, cast

from weft.errors import InvalidInput, MissingExtra, WeftError
from weft.formats.parsing.source import one_line
from weft.registry import closest
from weft.runtime.web.answers import plain
from weft.runtime.web.limits import REQUEST_SECONDS, Rate, Refused, Token
from weft.runtime.web.live.waiting import WaitingHistory
from weft.runtime.web.metrics import ServerMetrics

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
except ImportError as error:
    raise MissingExtra("starlette", "serve") from error

__all__ = [
    "TICK",
    "AccessControl",
    "Handler",
    "Request",
    "Response",
    "Routed",
    "StatusStreams",
    "answer_json",
    "query_number",
    "read_body",
    "refuse_unknown",
    "run_in_threadpool",
    "status_event",
    "stream",
]

Handler = Callable[[Request], Any]

ERRORS = (Refused, WeftError, HTTPException, ClientDisconnect)
"""Errors that become answers."""

TICK = 1.0
"""Seconds between two statuses on a stream."""

_COMPACT = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


class AccessControl:
    """Token and rate of an application; counts its answers by status.

    Parameters
    ----------
    page : whether there is a live page, which has no data and needs no token
    """

    def __init__(
        self,
        app: ASGIApp,
        token: Token,
        *,
        rate: float = 5000.0,
        metrics: ServerMetrics | None = None,
        page: bool = False,
    ) -> None:
        self.app, self.token, self.page = app, token, page
        self.metrics = metrics or ServerMetrics()
        self._rate = Rate(rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse or pass on a request."""
        begun = False

        async def counted(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                self.metrics.count("weft_requests_total", status=str(message["status"]))
            if not message.get("more_body"):
                await send(message)
                return
            async with asyncio.timeout(REQUEST_SECONDS):  # for clients that stop reading
                await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await _answer_refusal(refusal)(scope, receive, counted)
            return
        try:
            await self.app(scope, receive, counted)
        except TimeoutError:
            pass  # the connection ends with its stream
        except asyncio.CancelledError:  # the server ends, and so do streams and long questions
            if not begun:
                await _answer_refusal(Refused(503, "the server ends"))(scope, receive, counted)
            else:
                await send({"type": "http.response.body"})

    def _refusal(self, scope: Scope) -> Refused | None:
        wait = self._rate.take()
        if wait:
            self.metrics.count("weft_refused_total", reason="rate")
            return Refused(429, "too many requests; retry later", retry_after=wait)
        reads = self.page and scope["method"] in ("GET", "HEAD")
        if reads and (scope["path"] == "/" or scope["path"].startswith("/runs/")):
            return None
        given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        if not self.token.fits(given):
            self.metrics.count("weft_refused_total", reason="token")
            return Refused(401, "the bearer token is missing or wrong")
        return None


class Routed:
    """An application of routes; every refusal is one line with its status.

    A path without parameters is looked up at once: submissions and questions, which come a
    thousand times per second, do not pass the layers of Starlette.

    Parameters
    ----------
    routes : (method, path, handler)
    """

    def __init__(self, routes: Sequence[tuple[str, str, Handler]]) -> None:
        self._direct = {(m, path): handler for m, path, handler in routes if "{" not in path}
        self._others = Starlette(
            routes=[Route(path, handler, methods=[method]) for method, path, handler in routes],
            exception_handlers=dict.fromkeys(ERRORS, _refused),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        handler = self._direct.get((scope["method"], scope["path"]))
        if handler is None:
            await self._others(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            response = await handler(request)
        except ERRORS as error:
            response = await _refused(request, error)
        await response(scope, receive, send)


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body; refuse a body of more than `limit` bytes.

    A body that takes longer than `REQUEST_SECONDS` is refused, too.
    """
    parts, size = [], 0
    announced = request.headers.get("content-length", "0")
    if announced.isascii() and announced.isdigit() and int(announced[:18]) > limit:
        raise Refused(413, f"the body is larger than {limit} bytes")
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientDisconnect
                part = message.get("body", b"")
                size += len(part)
                if size > limit:
                    raise Refused(413, f"the body is larger than {limit} bytes")
                parts.append(part)
                more = message.get("more_body", False)
    except TimeoutError:
        raise Refused(408, f"the body did not arrive within {REQUEST_SECONDS:g} s") from None
    return b"".join(parts)


def refuse_unknown(query: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuse parameters that a route does not have."""
    for name in query:
        if name not in known:
            raise InvalidInput(f"unknown parameter '{name}'{closest(name, known)}")


def query_number(query: Mapping[str, str], key: str, least: float, most: float) -> float | None:
    """Return a parameter that is a number within bounds; None: it is not given."""
    text = query.get(key)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise InvalidInput(f"{key} '{text}' must be a number from {least:g} to {most:g}")
    return value


class EventStream(StreamingResponse):
    """A stream that frees its place at once when its client leaves or stops reading."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream, then close its generator."""
        async with contextlib.aclosing(cast("AsyncGenerator[str]", self.body_iterator)):
            await super().__call__(scope, receive, send)


def stream(parts: AsyncIterator[str]) -> Response:
    """Return server-sent events."""
    headers = {"cache-control": "no-store"}
    return EventStream(parts, media_type="text/event-stream", headers=headers)


class StatusStreams:
    """Streams of a status, once per second; the first has the waiting tasks so far.

    Parameters
    ----------
    read : returns the status
    most : streams that may be open at once
    """

    def __init__(
        self, read: Callable[[], dict[str, Any]], waiting: WaitingHistory, most: int
    ) -> None:
        self._read, self._waiting, self._most = read, waiting, most
        self._open = 0

    def response(self) -> Response:
        """Return a new stream, unless too many are open."""
        if self._open >= self._most:
            raise Refused(429, f"{self._most} streams are open", retry_after=5.0)
        return stream(self._statuses())

    async def _statuses(self) -> AsyncIterator[str]:
        self._open += 1
        extra = {"history": self._waiting.as_dict()}
        try:
            while True:
                yield status_event(self._read() | extra)
                extra = {}
                await asyncio.sleep(TICK)
        finally:
            self._open -= 1


def status_event(content: dict[str, Any]) -> str:
    """Return a status as an event without a number.

    A stream that resumes needs only the newest.
    """
    return f"event: status\ndata: {json.dumps(plain(content))}\n\n"


def answer_json(content: Any, status: int = 200) -> Response:
    """Return compact JSON."""
    return Response(_COMPACT.encode(content), status, media_type="application/json")


def _answer_refusal(error: Refused) -> Response:
    """Return the line of a refusal, and after how many seconds to try again."""
    response = answer_json({"error": one_line(str(error))}, error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = str(error.retry_after)
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


async def _refused(request: Request, error: Exception) -> Response:
    """Return the line and the status of an error.

    It is asynchronous, so that it costs no thread.
    """
    if isinstance(error, Refused):
        return _answer_refusal(error)
    if isinstance(error, HTTPException):
        text = f"{request.method} {request.url.path}: {error.detail}"
        return answer_json({"error": one_line(text)}, error.status_code)
    return answer_json({"error": one_line(str(error)) or "the request is not valid"}, 400)
