"""Reference plans of the runs on live pages, and forecasts of their ends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import WeftError
from weft.planners.planner import Plan
from weft.runtime.costs.estimates import estimated_problem
from weft.runtime.costs.history import HistoryUnusable
from weft.runtime.status import FORECAST_SECONDS
from weft.runtime.web.http import run_in_threadpool
from weft.runtime.web.limits import Refused
from weft.runtime.web.live.board import describe
from weft.runtime.web.live.status import crowding, job_of
from weft.runtime.web.runs import ActiveRun
from weft.runtime.web.state import ServerState

if TYPE_CHECKING:
    from weft.learn.durations.end_time import Forecast
    from weft.runtime.costs.forecast import Forecaster

KEPT = 50
"""Runs whose reference plans are kept."""


class ReferencePlans:
    """Reference plans of the runs whose pages are open, and forecasts of their ends."""

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self._known: dict[str, tuple[dict[str, Any], Plan | None]] = {}
        self._forecasts: dict[str, RunForecasts] = {}

    async def of(self, run_id: str) -> tuple[dict[str, Any], Plan | None]:
        """Return the first data of the page of a run, and its plan; a few are kept."""
        state, page = self.state, self.state.page
        if page is None:
            raise Refused(404, "this server has no live page")
        if run_id not in self._known:
            app = await run_in_threadpool(state.runs.application, run_id, state.documents)
            if app is None:
                raise Refused(404, f"the document of run '{run_id}' is not kept any more")

            def made() -> tuple[dict[str, Any], Plan | None]:
                problem = estimated_problem(app.workflow, state.devices, state.history)
                return describe(problem, page.draw)

            self._known[run_id] = await state.in_thread(made)
            while len(self._known) > KEPT:
                oldest = next(iter(self._known))
                del self._known[oldest]
                self._forecasts.pop(oldest, None)
        return self._known[run_id]

    async def forecast(self, run: ActiveRun) -> dict[str, Any] | None:
        """Return the bands of the end of a run that runs; None without a forecast."""
        run_id = run.facts["id"]
        if run_id not in self._forecasts:
            _, plan = self._known.get(run_id, (None, None))
            if plan is None:
                return None
            self._forecasts[run_id] = RunForecasts(self.state, plan)
        found = self._forecasts[run_id]
        if found.due():
            with suppress(WeftError):  # too many questions are being answered: a later one will do
                await self.state.in_thread(lambda: found.update(run))
        return found.shown

    def ended(self, run_id: str, seconds: float) -> None:
        """Compare the first forecast of a run with its end, for the bands of later runs."""
        found = self._forecasts.pop(run_id, None)
        if found is not None:
            found.keep_score(seconds)


class RunForecasts:
    """Forecasts of one run of a service, once per second.

    The run is forecast as if it had the devices alone; what is left of it is then stretched by the
    work of other runs. Earlier forecasts of the same workflow correct the bands.
    """

    def __init__(self, state: ServerState, plan: Plan) -> None:
        self.state, self.plan = state, plan
        self.shown: dict[str, Any] | None = None
        self._first: Forecast | None = None
        self._stretch = 1.0
        self._asked = 0.0
        self._forecaster: Forecaster | None = None

    def due(self) -> bool:
        """Return whether the last forecast is old."""
        return time.monotonic() - self._asked >= FORECAST_SECONDS

    def update(self, run: ActiveRun) -> None:
        """Forecast the end from the present state of the run."""
        self._asked = time.monotonic()
        from weft.learn.durations.end_time import not_modelled

        service = self.state.runs.service
        if not_modelled(self.plan.problem):
            return
        place, begun = job_of(self.state.runs, run), run.facts.get("begun")
        if place is None or begun is None:
            return
        if self._forecaster is None:
            self._forecaster = self._made()
        life, job = place
        now, clock = time.time() - begun, service.backend.clock()
        with suppress(RuntimeError, IndexError):  # the service goes on while this looks at it
            found = self._forecaster.current(life, now, job=job, begun=clock - now)
            stretch = crowding(service, run)
            if self._first is None:
                self._first, self._stretch = found, stretch
            self.shown = {
                "at": now,
                "median": _stretched([found.median], now, stretch)[0],
                "half": _stretched(found.half, now, stretch),
                "most": _stretched(found.most, now, stretch),
                "basis": found.basis,
            }

    def keep_score(self, seconds: float) -> None:
        """Store how far off the first forecast was."""
        known, first = self.state.history, self._first
        if known is None or first is None or seconds <= first.now:
            return
        alone = first.now + (seconds - first.now) / self._stretch
        with suppress(HistoryUnusable):
            known.add_score(_name(self.plan), first.score(alone))

    def _made(self) -> Forecaster:
        from weft.learn.durations.spread import Spread
        from weft.runtime.costs.forecast import Forecaster

        schedule, known, scores = self.plan.schedule, self.state.history, list[float]()
        order = np.lexsort((schedule.finish, schedule.start))
        pairs = zip(schedule.task[order].tolist(), schedule.device[order].tolist(), strict=True)
        with suppress(HistoryUnusable):
            scores = [] if known is None else known.scores(_name(self.plan))
        spread = Spread.of([] if known is None else known.residuals())
        return Forecaster(self.plan.problem, list(pairs), spread, scores)


def _name(plan: Plan) -> str:
    """Return the name of a served workflow's scores in the history."""
    return f"served {plan.problem.name}"


def _stretched(ends: Sequence[float], now: float, factor: float) -> list[float]:
    return [now + (end - now) * factor for end in ends]
