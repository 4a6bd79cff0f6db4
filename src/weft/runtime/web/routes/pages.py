"""The live page and the data of its charts; applications, history and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import asdict

from weft.runtime.web.answers import plain
from weft.runtime.web.http import Request, Response, answer_json, in_thread, stream
from weft.runtime.web.limits import PAGE_HEADERS, Refused
from weft.runtime.web.live.openings import Openings
from weft.runtime.web.live.status import service_status
from weft.runtime.web.metrics import resident_bytes
from weft.runtime.web.openapi import document
from weft.runtime.web.routes.runs import TICK, found_run, status_event
from weft.runtime.web.state import MAX_STREAMS, ServerState


class PageRoutes:
    """Handlers of pages, live data and metrics."""

    def __init__(self, state: ServerState, openings: Openings) -> None:
        self.state = state
        self.openings = openings

    async def stream_status(self, _: Request) -> Response:
        """Stream the status of the service."""
        if self.state.watched >= MAX_STREAMS:
            raise Refused(429, f"{MAX_STREAMS} streams are open", retry_after=5.0)
        return stream(self._statuses())

    async def _statuses(self) -> AsyncIterator[str]:
        state = self.state
        shares = {name: one.share for name, one in state.applications.items()}
        budgets = {name: one.budget for name, one in state.applications.items()}
        state.watched += 1
        extra = {"history": state.runs.waiting.as_dict()}
        try:
            while True:
                yield status_event(service_status(state.runs, shares, budgets) | extra)
                extra = {}
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
        opening, _ = await self.openings.of(found_run(self.state.runs, request)["id"])
        return answer_json(plain(opening))

    async def list_applications(self, _: Request) -> Response:
        """List applications."""
        rows = {name: asdict(limits) for name, limits in self.state.applications.items()}
        return answer_json({"applications": rows})

    async def show_history(self, _: Request) -> Response:
        """Show measured durations."""
        known = self.state.history
        rows = [] if known is None else await in_thread(known.durations)
        return answer_json({"durations": plain([asdict(row) for row in rows])})

    async def show_openapi(self, _: Request) -> Response:
        """Show the description of the routes."""
        return answer_json(document())

    async def show_metrics(self, _: Request) -> Response:
        """Show metrics."""
        gauges = [
            *self.state.runs.gauges(),
            ("process_resident_memory_bytes", (), resident_bytes()),
        ]
        text = self.state.metrics.text(gauges)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")
