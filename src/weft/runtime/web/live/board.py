"""The events of one run, numbered for streams that resume, and its status."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError, visible
from weft.model import Problem, Schedule, Trace
from weft.planners.planner import Plan, plan
from weft.policies.simulate import simulate
from weft.runtime.backends.protocol import DeviceAdded, DeviceLost, Finished, Started
from weft.runtime.engine.events import Observer
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.status import StatusReader, task_name, waiting_by_reason
from weft.runtime.web.live.waiting import WaitingHistory
from weft.sim.device_state import Execution, Group

if TYPE_CHECKING:
    from weft.runtime.costs.forecast import Forecaster

Drawing = Callable[[Plan | Trace], dict[str, Any]]
"""Makes the data of a chart; `weft.report` has it."""


class LiveBoard(Observer):
    """The events of an observed run; `weft.run(live=...)` fills it.

    Every execution becomes one event with the columns of its row in the trace. A new plan becomes
    an event that says why it was made.

    Parameters
    ----------
    draw : makes the data of charts
    name : of the run; default: that of its problem
    """

    def __init__(self, draw: Drawing, *, name: str = "") -> None:
        self.draw, self.name = draw, name
        self.opening: dict[str, Any] = {}
        """The chart of the plan and the facts of the run; empty before it begins."""
        self.plan: Plan | None = None
        """The plan that what-if questions change."""
        self.events: list[dict[str, Any]] = []
        self.over = False
        self._news = threading.Condition()
        self._reader, self._reading = StatusReader(), threading.Lock()
        self._rows = self._plans = 0
        self._why = ""
        self._waiting = WaitingHistory()
        self._life: LiveLifecycle | None = None
        self._forecaster: Forecaster | None = None
        self._seen: tuple[float, float] = (0.0, inf)
        """A run time, and its wall-clock time; inf: no event yet, the clock has not started."""

    # -- the run ------------------------------------------------------------

    def begin(
        self,
        life: LiveLifecycle,
        policy: str,
        *,
        plans: Callable[[], int] = lambda: 0,
        planned: Schedule | None = None,
        forecaster: Forecaster | None = None,
    ) -> None:
        """Describe the run before its first event."""
        problem = life.workload.problems[0]
        self._life, self._forecaster, self._count = life, forecaster, plans
        self._plans = plans()
        self.opening, self.plan = describe(problem, self.draw, planned, policy)
        self.opening |= {"name": self.name or problem.name}
        self._add("begun", 0.0, {})

    def started(self, life: LiveLifecycle, event: Started) -> None:
        """Add news."""
        self._see(event.time)
        self._waiting.look(event.time, lambda: waiting_by_reason(life))
        self._catch_up(life, event.time)

    def finished(
        self, life: LiveLifecycle, group: Group, event: Finished, outcomes: Mapping[int, int]
    ) -> None:
        """Add the rows of a group."""
        self._see(event.finish)
        self._catch_up(life, event.finish)

    def failed(self, life: LiveLifecycle, instance: int, device: int, text: str) -> None:
        """Add a failed attempt."""
        name, where = task_name(life, instance), life.workload.cluster.names[device]
        self._trouble("failed", f"{name} failed on {where}: {visible(text)[:300]}", life)

    def lost(self, life: LiveLifecycle, event: DeviceLost) -> None:
        """Add a lost device."""
        self._see(event.time)
        where = life.workload.cluster.names[event.device]
        self._trouble("lost", f"{where} is lost: {visible(event.text)[:300]}", life)

    def added(self, life: LiveLifecycle, event: DeviceAdded) -> None:
        """Add a device that is up."""
        self._see(event.time)
        self._trouble("added", f"{life.workload.cluster.names[event.device]} is up", life)

    def ended(self, life: LiveLifecycle, now: float) -> None:
        """Add the last rows."""
        self._see(now)
        self._catch_up(life, now)

    def finish(self, state: str, trace: Trace | None = None, error: str = "") -> None:
        """End the run: with the chart of its trace, if it has one."""
        if trace is not None:
            self._add("report", self._seen[0], {"chart": self.draw(trace)})
        self._add("ended", self._seen[0], {"state": state, "error": error})

    # -- streams ------------------------------------------------------------

    def after(self, seq: int, seconds: float) -> Sequence[dict[str, Any]]:
        """Return the events with a number above `seq`; wait at most `seconds` for one."""
        with self._news:
            self._news.wait_for(lambda: len(self.events) > seq or self.over, seconds)
            return self.events[max(seq, 0) :]

    def history(self) -> dict[str, Any]:
        """Return the waiting tasks by reason so far, for a page that opens now."""
        return self._waiting.as_dict()

    def status(self) -> dict[str, Any]:
        """Return the status of now, with bands of 50 and 90 % for the end where known."""
        life = self._life
        if life is None:
            return {}
        with self._reading:
            at, when = self._seen
            now = at if self.over else at + max(time.perf_counter() - when, 0.0)
            with suppress(RuntimeError, IndexError):  # the run continues while this looks at it
                found = None if self._forecaster is None else self._forecaster.latest(life, now)
                bands = None if found is None else {"at": found.now, **found.as_dict()}
                status = self._reader.read(life, now)
                self._waiting.look(now, lambda: status.waiting)
                return {**status.as_dict(), "forecast": bands}
            return {}

    # -- inside -------------------------------------------------------------

    def _see(self, now: float) -> None:
        if now >= self._seen[0]:
            self._seen = (now, time.perf_counter())

    def _catch_up(self, life: LiveLifecycle, now: float) -> None:
        """Add the executions that ended and the plans that were made since the last call."""
        for row in life.executions[self._rows :]:
            self._see(row.finish)
            self._add("execution", row.finish, _columns(life, row))
        self._rows = len(life.executions)
        if self._count() > self._plans:
            self._plans = self._count()
            why = self._why or "measured durations differ from the estimates"
            self._add("replanned", now, {"text": f"planned again: {why}"})
            self._why = ""

    def _trouble(self, kind: str, text: str, life: LiveLifecycle) -> None:
        self._catch_up(life, self._seen[0])
        self._why = text
        self._add(kind, self._seen[0], {"text": text})

    def _add(self, kind: str, now: float, content: dict[str, Any]) -> None:
        with self._news:
            seq = len(self.events) + 1
            self.events.append({"seq": seq, "at": now, "kind": kind, **content})
            self.over = self.over or kind == "ended"
            self._news.notify_all()


def describe(
    problem: Problem, draw: Drawing, planned: Schedule | None = None, policy: str = ""
) -> tuple[dict[str, Any], Plan | None]:
    """Return the first data of a live page, and the plan that is its reference.

    A policy has no plan; the reference is then that of HEFT, or a simulation where HEFT cannot
    plan.
    """
    made: Plan | None = None
    shown: Plan | Trace
    if planned is not None:
        made = shown = Plan(problem, planned, policy, 0.0)
    else:
        try:
            made = shown = plan(problem, "heft")
        except WeftError:
            shown = simulate(problem, "eft")
    name = "plan" if planned is not None else f"reference: {'heft' if made else 'eft'}"
    facts = {"name": problem.name, "policy": policy, "reference": name}
    return {**facts, "chart": draw(shown)}, made


def _columns(life: LiveLifecycle, row: Execution) -> dict[str, Any]:
    job, task = life.place[row.instance]
    return {
        "job": job,
        "task": task,
        "device": row.device,
        "start": row.start,
        "finish": row.finish,
        "decided": row.decided,
        "status": row.status,
        "batch": row.batch,
        "copy": int(row.copy),
    }
