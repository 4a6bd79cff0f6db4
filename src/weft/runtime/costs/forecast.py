"""The end of a run: before it by `forecast`, during it by `Forecaster`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import inf
from pathlib import Path

import numpy as np

from weft.errors import InvalidInput
from weft.learn.durations.end_time import SAMPLES, Forecast, RunState, forecast_end
from weft.learn.durations.spread import RunResidual, Spread
from weft.model import Problem, Trace
from weft.planners import Plan
from weft.runtime.costs.history import History
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.status import FORECAST_SECONDS
from weft.typed import typed, typed_class

LIVE_SAMPLES = 100
"""Samples of a forecast while the run goes on."""


@typed
def forecast(
    plan: Plan,
    *,
    history: History | str | Path | None = None,
    past: Sequence[Trace] = (),
    scores: Sequence[float] | None = None,
    state: RunState | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Forecast:
    """Forecast when a run that follows a plan will end, with bands of 50 and 90 %.

    Parameters
    ----------
    history : the measurements of earlier runs (`weft.run` keeps them)
    past : traces of earlier runs, in place of a history
    scores : `Forecast.score` of earlier forecasts; default: those in the history
    state : state of the run, such as `RunState.during(plan, trace, now)`; default: before its start

    Examples
    --------
    >>> import weft
    >>> problem = Problem.from_arrays([[2.0], [3.0]], [[0, 1]])
    >>> plan = weft.plan(problem)
    >>> past = [weft.simulate(problem, plan, noise=0.1, seed=s) for s in range(5)]
    >>> found = forecast(plan, past=past)
    >>> found.most[0] < found.half[0] < found.median < found.half[1] < found.most[1]
    True
    """
    if history is not None and past:
        raise InvalidInput("history and past are given; give one of the two")
    known = History(history) if isinstance(history, str | Path) else history
    residuals: list[RunResidual] = [] if known is None else known.residuals()
    spread = Spread.of_traces(past) if past else Spread.of(residuals)
    if scores is None:
        scores = [] if known is None else known.scores(plan.problem.name)
    begin = RunState.before(plan) if state is None else state
    return forecast_end(plan.problem, begin, spread, scores=scores, samples=samples, seed=seed)


@typed_class
class Forecaster:
    """Forecasts of one run: before it and while it goes on.

    Parameters
    ----------
    rows : (instance, device) of the plan in planned order
    spread, scores : as `forecast` takes them from a history
    """

    def __init__(
        self,
        problem: Problem,
        rows: Sequence[tuple[int, int]],
        spread: Spread,
        scores: Sequence[float] = (),
    ) -> None:
        self.problem, self.rows = problem, list(rows)
        self.spread, self.scores = spread, scores
        nothing = np.full(len(self.rows), np.nan)
        task, device = np.array(self.rows, np.int64).reshape(-1, 2).T
        self.first = self._of(RunState(0.0, task, device, nothing, nothing))
        self._latest: Forecast | None = None
        self._asked = -inf

    def current(
        self, life: LiveLifecycle, now: float, *, job: int = 0, begun: float = 0.0
    ) -> Forecast:
        """Forecast from the state of the run; about 10 ms for 1,000 tasks.

        `job` is the run among others of a service, and `begun` its start on the service's clock.
        """
        return self._of(live_state(life, self.rows, now, job=job, begun=begun), LIVE_SAMPLES)

    def latest(self, life: LiveLifecycle, now: float) -> Forecast | None:
        """Return a forecast from about `FORECAST_SECONDS` ago; None before the first one."""
        if now - self._asked >= FORECAST_SECONDS:
            self._asked = now
            with suppress(RuntimeError, IndexError):  # the run may change the state meanwhile
                self._latest = self.current(life, now)
        return self._latest

    def _of(self, state: RunState, samples: int = SAMPLES) -> Forecast:
        return forecast_end(self.problem, state, self.spread, scores=self.scores, samples=samples)


def live_state(
    life: LiveLifecycle,
    rows: Sequence[tuple[int, int]],
    now: float,
    *,
    job: int = 0,
    begun: float = 0.0,
) -> RunState:
    """Return the state of a job that follows a plan as far as it can.

    Tasks that were given to another device than planned count there. `begun` is the start of the
    job on the clock of its life; all times of the state are counted from it.
    """
    nan, mine = float("nan"), life.instances(job)
    done = [
        (i - mine.start, where[0][0], where[0][1] - begun, float(life.started[i]) - begun)
        for i in mine
        if (where := life.results[i])
    ]
    over = {t for t, *_ in done}
    running, queued = dict[int, tuple[int, float]](), dict[int, int]()
    for device, machine in enumerate(life.machines):
        group = machine.running
        for i in group.members if group is not None else ():
            if i in mine and i - mine.start not in over and group is not None:
                running[i - mine.start] = (device, float(group.start) - begun)
        queued.update(
            (i - mine.start, device)
            for g in list(machine.queue)
            for i in g.members
            if i in mine and i - mine.start not in over
        )
    planned = {t for t, _ in rows}
    table = [(t, d, start, end) for t, d, end, start in sorted(done, key=lambda row: row[2])]
    table += [(t, d, start, nan) for t, (d, start) in running.items()]
    table += [(t, d, nan, nan) for t, d in queued.items() if t not in planned]
    left = ((t, d) for t, d in rows if t not in over and t not in running)
    table += [(t, queued.get(t, d), nan, nan) for t, d in left]
    tasks, devices, starts, ends = np.array(table, float).reshape(-1, 4).T
    numbers = tasks.astype(np.int64), devices.astype(np.int64)
    return RunState(now, *numbers, starts.copy(), ends.copy())
