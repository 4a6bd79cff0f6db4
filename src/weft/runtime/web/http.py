"""Requests, answers and refusals over HTTP: the only file that imports Starlette."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from weft.errors import InvalidInput, MissingExtra, WeftError
from weft.formats.parsing.source import one_line
from weft.registry import closest
from weft.runtime.web.limits import Refused

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
    "ASGIApp",
    "Message",
    "Receive",
    "Request",
    "Response",
    "Routed",
    "Scope",
    "Send",
    "answer_json",
    "answer_refusal",
    "in_thread",
    "read_body",
    "refuse_unknown",
    "stream",
]

T = TypeVar("T")
Handler = Callable[[Request], Any]

ERRORS = (Refused, WeftError, HTTPException, ClientDisconnect)
"""Errors that become answers."""

_COMPACT = json.JSONEncoder(allow_nan=False, separators=(",", ":"))

LARGE = 1 << 16
"""Bytes of a body above which it is read in a thread."""


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


async def in_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread of the pool."""
    return await run_in_threadpool(function)


async def read_body(request: Request, *, limit: int, patience: float) -> bytes:
    """Return the body; refuse one that is empty, larger than `limit`, or slower than `patience`."""
    parts, size = [], 0
    announced = request.headers.get("content-length", "0")
    if announced.isascii() and announced.isdigit() and int(announced[:18]) > limit:
        raise Refused(413, f"the body is larger than {limit} bytes")
    try:
        async with asyncio.timeout(patience):
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
        raise Refused(408, f"the body did not arrive within {patience:g} s") from None
    if not size:
        raise InvalidInput("the body is empty; give a JSON document")
    return b"".join(parts)


def refuse_unknown(query: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuse parameters that a route does not have."""
    for name in query:
        if name not in known:
            raise InvalidInput(f"unknown parameter '{name}'{closest(name, known)}")


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


def answer_json(content: Any, status: int = 200) -> Response:
    """Return compact JSON."""
    return Response(_COMPACT.encode(content), status, media_type="application/json")


def answer_refusal(error: Refused) -> Response:
    """Return the line of a refusal, and after how many seconds to try again."""
    response = answer_json({"error": one_line(str(error))}, error.status)
    if error.retry_after is not None:
        response.headers["retry-after"] = str(error.retry_after)
    if error.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    return response


async def _refused(_: Request, error: Exception) -> Response:
    """Return the line and the status of an error; asynchronous, so that it costs no thread."""
    if isinstance(error, Refused):
        return answer_refusal(error)
    if isinstance(error, HTTPException):
        return answer_json({"error": one_line(str(error.detail))}, error.status_code)
    return answer_json({"error": one_line(str(error)) or "the request is not valid"}, 400)
