"""The entrance of a server: token and rate, before any route."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

from weft.runtime.web.http import ASGIApp, Message, Receive, Scope, Send, answer_refusal
from weft.runtime.web.limits import Rate, Refused, Token
from weft.runtime.web.metrics import ServerMetrics
from weft.runtime.web.state import PageSource


class EntryState(Protocol):
    """State of the entrance of a server."""

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
            await answer_refusal(refusal)(scope, receive, counted)
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
