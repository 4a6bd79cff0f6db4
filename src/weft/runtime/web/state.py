"""State of a server: applications, runs, documents, counters, page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from weft.model import Cluster
from weft.runtime.costs.history import History
from weft.runtime.service.budgets import Budget
from weft.runtime.web.documents import Documents
from weft.runtime.web.http import run_in_threadpool
from weft.runtime.web.limits import Refused, Token
from weft.runtime.web.live.board import Drawing
from weft.runtime.web.metrics import ServerMetrics
from weft.runtime.web.runs import RunTable

T = TypeVar("T")

MAX_QUESTIONS = 4
"""Questions that are answered in threads at once."""


@dataclass(frozen=True)
class ApplicationLimits:
    """Share, budget and queue of an application."""

    share: float = 1.0
    budget: Budget | None = None
    queue: int = 1000


class PageSource(NamedTuple):
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
    max_body: int
    rate: float
    asked: int = field(default=0, init=False)
    """Questions that are being answered in threads."""
    page: PageSource | None = None
    warm: bool = False
    """Whether the kernels of the usual planner are compiled."""

    async def in_thread(self, answered: Callable[[], T]) -> T:
        """Answer a question in a thread, unless too many are being answered."""
        if self.asked >= MAX_QUESTIONS:
            self.metrics.count("weft_refused_total", reason="questions")
            raise Refused(429, f"{MAX_QUESTIONS} questions are being answered", retry_after=1.0)
        self.asked += 1
        try:
            return await run_in_threadpool(answered)
        finally:
            self.asked -= 1
