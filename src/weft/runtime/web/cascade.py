"""A cascade over HTTP: a POST per request, JSON or raw bytes.

The answer is the response.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput, WeftError, cause
from weft.formats.parsing.source import decode_text, is_there, naming, parse_json
from weft.runtime.cascade.cascade import Cascade
from weft.runtime.cascade.request import DeadlineMissed, StageFailed
from weft.runtime.service.queue import QueueFull
from weft.runtime.web.http import (
    AccessControl,
    Handler,
    Request,
    Response,
    Routed,
    StatusStreams,
    query_number,
    read_body,
)
from weft.runtime.web.limits import PAGE_HEADERS, Refused, Token
from weft.runtime.web.live.cascade import CascadeWatch
from weft.runtime.web.server import listening, run_app
from weft.runtime.web.state import PageSource

STATUS = (
    (InvalidInput, 400),
    (QueueFull, 429),
    (DeadlineMissed, 504),
    (StageFailed, 422),
    (WeftError, 503),
)
"""Statuses of requests that get no answer."""

MAX_STREAMS = 20
LONGEST = 1e9
"""Seconds: most that a timeout may have."""

SHORTEST = 1e-6
"""Seconds: no request is answered within a shorter timeout."""

JSON, BYTES = "application/json", "application/octet-stream"


class CascadeApp(Routed):
    """The routes of a cascade.

    POST /v1/requests?timeout=S&priority=P; POST /v1/policy; GET /v1/status; GET /v1/live; /.
    """

    def __init__(
        self, cascade: Cascade, *, max_body: int = 4 << 20, page: PageSource | None = None
    ) -> None:
        self.cascade = cascade
        self.max_body = max_body
        self.watch = CascadeWatch(cascade)
        streams = StatusStreams(self.watch.status, self.watch.waiting, MAX_STREAMS)

        async def stream_status(_: Request) -> Response:
            return streams.response()

        async def show_page(_: Request) -> Response:
            assert page is not None
            return Response(page.html, media_type="text/html", headers=PAGE_HEADERS)

        routes: list[tuple[str, str, Handler]] = [
            ("POST", "/v1/requests", self._submit),
            ("POST", "/v1/policy", self._use),
            ("GET", "/v1/status", self._status),
            ("GET", "/v1/live", stream_status),
        ]
        super().__init__(routes if page is None else [*routes, ("GET", "/", show_page)])

    async def _submit(self, request: Request) -> Response:
        query = request.query_params
        timeout = query_number(query, "timeout", SHORTEST, LONGEST)
        priority = query_number(query, "priority", -1e9, 1e9) or 0.0
        payload: Any = await read_body(request, self.max_body)
        if request.headers.get("content-type", JSON).split(";")[0].strip() == JSON:
            payload = _decoded(payload)
        try:
            future = self.cascade.submit(payload, timeout=timeout, priority=priority)
            self.watch.watch(future, timeout)
            value = await asyncio.wrap_future(future)
        except WeftError as error:
            status = next(code for kind, code in STATUS if isinstance(error, kind))
            raise Refused(status, str(error)) from None
        return _answer(value)

    async def _status(self, _: Request) -> Response:
        c = self.cascade
        state = {"policy": c.policy, "replaced": c.replaced, "proposal": c.proposal}
        events = [event._asdict() for event in list(c.events)]
        return _answer({**c.counts, **state, "events": events})

    async def _use(self, request: Request) -> Response:
        """Switch the policy; files are found in the folder of the cascade file only."""
        given = _decoded(await read_body(request, self.max_body))
        if not isinstance(given, dict) or set(given) - {"policy", "stream"}:
            raise Refused(400, 'the body must be {"policy": NAME, "stream": FILE}')
        policy, stream = given.get("policy"), given.get("stream")
        if not isinstance(policy, str) or not isinstance(stream, str | None):
            raise Refused(400, "policy must be a name or a file, and stream a file")
        times = None if stream is None else self._found(stream)
        await asyncio.to_thread(self.cascade.use, self._found(policy), stream=times)
        return await self._status(request)

    def _found(self, name: str) -> str:
        """Return the path of a file in the folder of the cascade, or a name as it is."""
        folder = Path(self.cascade.description.folder).resolve()
        try:
            path = (folder / name).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle
            why = f"policy or stream '{name}' is no name of a file ({cause(error)})"
            raise Refused(400, why) from None
        if "/" not in name and not is_there(path) and not is_there(path.with_suffix(".json")):
            return name
        if not self.cascade.description.folder or folder not in path.parents:
            raise Refused(400, f"'{name}' is not in the folder of the cascade file")
        return str(path)


def _decoded(body: bytes) -> Any:
    with naming("the body"):
        return parse_json(decode_text(body))


def _answer(value: Any) -> Response:
    if isinstance(value, bytes):
        return Response(value, media_type=BYTES)
    try:
        return Response(json.dumps({"value": value}), media_type=JSON)
    except (TypeError, ValueError) as error:
        raise Refused(500, f"the value is no JSON: {error}") from None


def serve_cascade(
    cascade: Cascade,
    host: str,
    port: int,
    token: Token,
    started: Callable[[str], None],
    *,
    page: PageSource,
) -> None:
    """Serve until the process is ended; `started` receives the address."""
    listener = listening(host, port)
    started(f"http://{host}:{listener.getsockname()[1]}")
    run_app(AccessControl(CascadeApp(cascade, page=page), token, page=True), listener)
