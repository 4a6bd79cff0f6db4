"""A cascade over HTTP: a request per POST, JSON or raw bytes; the answer is the response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from weft.errors import InvalidInput, WeftError
from weft.formats.parsing.source import decode_text, is_there, naming, one_line, parse_json
from weft.runtime.cascade.cascade import Cascade
from weft.runtime.cascade.request import DeadlineMissed, StageFailed
from weft.runtime.service.queue import QueueFull
from weft.runtime.web.entrance import Entrance
from weft.runtime.web.http import Response, stream
from weft.runtime.web.limits import PAGE_HEADERS, Refused, Token
from weft.runtime.web.live.cascade import CascadeWatch
from weft.runtime.web.metrics import ServerMetrics
from weft.runtime.web.routes.runs import TICK, status_event
from weft.runtime.web.server import listening, run_app
from weft.runtime.web.state import PageSource

STATUS = (
    (InvalidInput, 400),
    (QueueFull, 429),
    (DeadlineMissed, 504),
    (StageFailed, 422),
    (WeftError, 503),
)
MAX_STREAMS = 20
JSON, BYTES = b"application/json", b"application/octet-stream"


@dataclass(frozen=True, eq=False)
class CascadeEntry:
    """Token, rate and counters in front of a cascade."""

    token: Token
    rate: float = 5000.0
    metrics: ServerMetrics = field(default_factory=ServerMetrics)
    patience: float = 30.0
    page: PageSource | None = None


class CascadeApp:
    """POST /v1/requests?timeout=S&priority=P; POST /v1/policy; GET /v1/status; GET /v1/live; /."""

    def __init__(
        self, cascade: Cascade, *, max_body: int = 4 << 20, page: PageSource | None = None
    ) -> None:
        self.cascade = cascade
        self.max_body = max_body
        self.page = page
        self.watch = CascadeWatch(cascade)
        self._streams = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        what = (scope["method"], scope["path"])
        if what == ("GET", "/") and self.page is not None:
            page = Response(self.page.html, media_type="text/html", headers=PAGE_HEADERS)
            await page(scope, receive, send)
            return
        if what == ("GET", "/v1/live") and self._streams < MAX_STREAMS:
            await stream(self._statuses())(scope, receive, send)
            return
        try:
            status, kind, body = 200, *await self._answer(scope, receive)
        except Refused as error:
            status, kind, body = error.status, JSON, _error(error)
        except WeftError as error:
            status = next(code for what, code in STATUS if isinstance(error, what))
            kind, body = JSON, _error(error)
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Any, receive: Any) -> tuple[bytes, bytes]:
        if (scope["method"], scope["path"]) == ("GET", "/v1/live"):
            raise Refused(429, f"{MAX_STREAMS} streams are open")
        if (scope["method"], scope["path"]) == ("GET", "/v1/status"):
            return _encoded(self._status())
        if (scope["method"], scope["path"]) == ("POST", "/v1/policy"):
            return await self._use(await self._body(receive))
        if (scope["method"], scope["path"]) != ("POST", "/v1/requests"):
            raise Refused(404, f"there is no {scope['method']} {scope['path']}")
        query = parse_qs(scope["query_string"].decode("latin-1"))
        timeout, priority = _number(query, "timeout"), _number(query, "priority")
        kind = dict(scope["headers"]).get(b"content-type", JSON).split(b";")[0].strip()
        payload: Any = await self._body(receive)
        if kind == JSON:
            payload = _decoded(payload)
        future = self.cascade.submit(payload, timeout=timeout, priority=priority or 0.0)
        self.watch.watch(future, timeout)
        return _encoded(await asyncio.wrap_future(future))

    async def _statuses(self) -> AsyncIterator[str]:
        """Yield the status once per second; the first one has what waited so far."""
        self._streams += 1
        extra = {"history": self.watch.waiting.as_dict()}
        try:
            while True:
                yield status_event(self.watch.status() | extra)
                extra = {}
                await asyncio.sleep(TICK)
        finally:
            self._streams -= 1

    def _status(self) -> dict[str, Any]:
        c = self.cascade
        state = {"policy": c.policy, "replaced": c.replaced, "proposal": c.proposal}
        return {**c.counts, **state, "events": [event._asdict() for event in list(c.events)]}

    async def _use(self, body: bytes) -> tuple[bytes, bytes]:
        """Switch the policy; files are found in the folder of the cascade file only."""
        given = _decoded(body)
        if not isinstance(given, dict) or set(given) - {"policy", "stream"}:
            raise Refused(400, 'the body must be {"policy": NAME, "stream": FILE}')
        policy, stream = given.get("policy"), given.get("stream")
        if not isinstance(policy, str) or not isinstance(stream, str | None):
            raise Refused(400, "policy must be a name or a file, and stream a file")
        times = None if stream is None else self._found(stream)
        try:
            await asyncio.to_thread(self.cascade.use, self._found(policy), stream=times)
        except WeftError as error:
            raise Refused(400, one_line(str(error))) from None
        return _encoded(self._status())

    def _found(self, name: str) -> str:
        """Return the path of a file in the folder of the cascade, or a name as it is."""
        folder = Path(self.cascade.description.folder).resolve()
        path = (folder / name).resolve()
        if "/" not in name and not is_there(path) and not is_there(path.with_suffix(".json")):
            return name
        if not self.cascade.description.folder or folder not in path.parents:
            raise Refused(400, f"'{name}' is not in the folder of the cascade file")
        return str(path)

    async def _body(self, receive: Any) -> bytes:
        parts, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Refused(400, "the client has gone")
            parts += message.get("body", b"")
            more = message.get("more_body", False)
            if len(parts) > self.max_body:
                raise Refused(413, f"the body has more than {self.max_body} bytes")
        return bytes(parts)


SHORTEST = 1e-6
"""Seconds: no request is answered within a shorter timeout."""


def _number(query: dict[str, list[str]], key: str) -> float | None:
    if key not in query:
        return None
    try:
        value = float(query[key][-1])
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise Refused(400, f"{key} is '{query[key][-1]}'; it must be a number that makes sense")
    if key == "timeout" and value < SHORTEST:
        raise Refused(400, f"timeout is '{query[key][-1]}'; it is at least {SHORTEST:g} s")
    return value


def _decoded(body: bytes) -> Any:
    with naming("the body"):
        return parse_json(decode_text(body))


def _encoded(value: Any) -> tuple[bytes, bytes]:
    if isinstance(value, bytes):
        return BYTES, value
    try:
        return JSON, json.dumps({"value": value}).encode()
    except (TypeError, ValueError) as error:
        raise Refused(500, f"the value is no JSON: {error}") from None


def _error(error: WeftError) -> bytes:
    return json.dumps({"error": one_line(str(error))}).encode()


def serve_cascade(
    cascade: Cascade,
    host: str,
    port: int,
    token: Token,
    started: Callable[[str], None],
    *,
    page: PageSource | None = None,
) -> None:
    """Serve until the process is ended; `started` receives the address."""
    listener = listening(host, port)
    started(f"http://{host}:{listener.getsockname()[1]}")
    app = CascadeApp(cascade, page=page)
    run_app(Entrance(app, CascadeEntry(token, page=page)), listener)
