"""One run: its problem, the decider, the observers and the driver."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.arguments import flag, positive, valid_seed
from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Schedule, Trace, Workload
from weft.model.variants import Variant
from weft.planners.planner import refuse_two_limits
from weft.policies import Policy
from weft.runtime.backends.protocol import Backend
from weft.runtime.costs.drift import DriftDetector
from weft.runtime.costs.estimates import estimated_problem, has_estimates, measured_network
from weft.runtime.costs.history import History, HistoryUnusable
from weft.runtime.costs.keys import CostKey
from weft.runtime.costs.recorder import Recorder
from weft.runtime.deciders.plan import PlanDecider, ReplayDecider
from weft.runtime.deciders.policy import Decider, adaptive, batch_keys
from weft.runtime.deciders.shadow import ShadowedDecider, ShadowReport
from weft.runtime.deciders.whole_plan import run_whole
from weft.runtime.engine.driver import Driver
from weft.runtime.engine.events import Observer
from weft.runtime.engine.failure import Failure, fetched
from weft.runtime.engine.garbage import fewer_collections
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.fingerprints import task_fingerprints
from weft.runtime.inputs.variants import ChosenVariants
from weft.runtime.journal import Journal, check_run_id, default_folder, resume_promise
from weft.runtime.options import RunOptions
from weft.runtime.progress import ProgressDisplay

if TYPE_CHECKING:
    from weft.learn.durations.end_time import Forecast
    from weft.runtime.costs.forecast import Forecaster
    from weft.runtime.web.live.board import LiveBoard

CALLER = 5
"""Frames from `_warn` to the caller of `weft.run`."""


@dataclass(frozen=True, eq=False)
class RunTrace(Trace):
    """The trace of a real run; its workload holds the estimates from before the run.

    Attributes
    ----------
    results : task name -> value, for the requested tasks
    value : the results in the shape of the promises that were given (one, lists, tuples, dicts),
        None where there is none; for other inputs the same as `results`
    failures : tasks whose last attempt failed
    run_id : name of the journal; empty: there is none
    plans : number of plans made (0 for a policy)
    replaced : why greedy replaced the policy; empty: it did not
    shadow : comparison with the shadow policy
    forecast : when it was expected to end, before it began; None for a policy, or where none of
        its tasks was measured before
    variants : task name -> the variant that ran, for tasks that have some
    """

    results: Mapping[str, Any] = field(default_factory=dict, repr=False)
    failures: tuple[Failure, ...] = ()
    run_id: str = ""
    plans: int = 0
    replaced: str = ""
    shadow: ShadowReport | None = None
    value: Any = field(default=None, repr=False)
    forecast: Forecast | None = None
    variants: Mapping[str, Variant] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """Settings of a run besides tasks, devices and decider; see `weft.run`."""

    options: RunOptions
    run_id: str | None = None
    folder: str | Path | None = None
    keep: bool = True
    adapt: bool = True
    shadow: Policy | None = None
    progress: bool = False
    live: LiveBoard | None = None
    seconds: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse wrong values."""
        for name in ("keep", "adapt", "progress"):
            flag(getattr(self, name), name)
        if self.run_id is not None:
            check_run_id(self.run_id)
        positive(self.seconds, "seconds")
        valid_seed(self.seed)


class WorkflowRun:
    """A run that is about to begin.

    Parameters
    ----------
    picked : the tasks, each with its variant, and the planner, policy or schedule that decides
    place : the backend
    history : measurements of earlier runs
    """

    def __init__(
        self, picked: ChosenVariants, place: Backend, history: History | None, settings: RunSettings
    ) -> None:
        self.picked, self.app, self.place = picked, picked.application, place
        self.history, self.settings = history, settings
        self.problem = self._estimated(place.devices())
        self.workload = Workload.of(self.problem)
        self.decider = self._decider()
        shadow = settings.shadow
        self.shadowed = (
            None if shadow is None else ShadowedDecider(self.decider, shadow, seed=settings.seed)
        )
        self.life = LiveLifecycle(
            self.workload,
            modelled=place.modelled,
            planned=isinstance(self.decider, ReplayDecider),
            keys=batch_keys(picked.decider, self.workload),
        )

    def run(self) -> RunTrace:
        """Run all tasks; return the trace, also if some of them failed."""
        s, app, place = self.settings, self.app, self.place
        fixed = isinstance(self.picked.decider, Schedule)
        journal = self._journal()  # first, since a run that is under way elsewhere is refused
        promised = s.progress or s.run_id is not None
        _say(resume_promise(s.run_id, keep=s.keep, schedule=fixed), shown=promised)
        display = ProgressDisplay()
        observers = self._observers(journal, display)
        driver = self._driver(observers)
        try:
            driver.prepare()
            forecaster = self._forecast(display) if not driver.replaced else None
            self._begin_live(forecaster)
            place.begin(self.workload, app.calls, since=journal.last if journal else 0.0)
            if journal is not None:
                _resume(driver, journal)
            else:
                measured = has_estimates(app.workflow, self.history, app.keys)
                run_whole(driver, self.decider, measured=measured, called=app.called)
            with fewer_collections():
                driver.run()
            results = self._results()
            value = app.deliver(results)
        finally:
            for observer in observers:
                observer.close()
            place.finish()
        plain = driver.trace()
        trace = RunTrace(
            **{f.name: getattr(plain, f.name) for f in fields(Trace)},
            results=results,
            value=value,
            failures=tuple(driver.failures),
            run_id=s.run_id or "",
            plans=getattr(self.decider, "plans", 0),
            replaced=driver.replaced,
            shadow=None if self.shadowed is None else self.shadowed.report(),
            forecast=None if forecaster is None else forecaster.first,
            variants=self.picked.variants,
        )
        if forecaster is not None and not (driver.failures or journal):
            self._keep_score(forecaster.first.score(trace.makespan))
        return trace

    def _journal(self) -> Journal | None:
        """Open the journal; None for a run without a name."""
        s, app = self.settings, self.app
        if s.run_id is None:
            return None
        root = default_folder() if s.folder is None else Path(s.folder)
        marks = task_fingerprints(app.workflow, app.calls)
        return Journal(root, s.run_id, self.workload, self.place, keep=s.keep, marks=marks)

    def _estimated(self, cluster: Cluster) -> Problem:
        """Return the problem on a cluster, with the durations that are expected."""
        app = self.app
        return estimated_problem(
            app.workflow,
            cluster,
            history=self.history,
            keys=app.keys,
            devices=app.devices,
            learned=not self.place.modelled,
        )

    def _decider(self) -> Decider:
        chosen, s, modelled = self.picked.decider, self.settings, self.place.modelled
        if isinstance(chosen, Schedule):
            return ReplayDecider(chosen)
        if hasattr(chosen, "solve"):
            refuse_two_limits(chosen, s.seconds)
            network = None if modelled else measured_network(self.place.devices(), self.history)
            return PlanDecider(
                chosen,
                ahead=s.options.window,
                replan=s.adapt,
                seconds=s.seconds,
                seed=s.seed,
                network=network,
            )
        if hasattr(chosen, "decide"):
            return adaptive(chosen, seed=s.seed)
        raise InvalidInput(
            f"policy is a {type(chosen).__name__}; give a planner, a policy, a Schedule or a name"
        )

    def _observers(self, journal: Journal | None, display: ProgressDisplay) -> list[Observer]:
        app, s = self.app, self.settings
        return [
            *([journal] if journal else ()),
            *([Recorder(self.history, [app.workflow], [app.keys])] if self.history else ()),
            *([display] if s.progress else ()),
            *([s.live] if s.live is not None else ()),
        ]

    def _driver(self, observers: list[Observer]) -> Driver:
        real, s = not self.place.modelled, self.settings
        return Driver(
            self.life,
            self.place,
            self.shadowed or self.decider,
            options=s.options,
            drift=DriftDetector(self.workload) if s.adapt and real else None,
            wanted=frozenset(self.app.wanted),
            observers=observers,
            grown=(lambda cluster: Workload.of(self._estimated(cluster))) if real else None,
        )

    def _forecast(self, display: ProgressDisplay) -> Forecaster | None:
        """Forecast the end of a planned run, and announce it."""
        if not isinstance(self.decider, PlanDecider):
            return None
        display.predicted = self.decider.predicted
        forecaster = _forecaster(self.decider, self.problem, self.history, self.app.keys)
        display.forecaster = forecaster
        if self.settings.progress and forecaster is not None:
            display.announce(f"weft: {self.problem.name} {forecaster.first}")
        return forecaster

    def _begin_live(self, forecaster: Forecaster | None) -> None:
        """Describe the run to its board, with the plan that it will follow."""
        live, decider, chosen = self.settings.live, self.decider, self.picked.decider
        if live is None:
            return
        planned = chosen if isinstance(chosen, Schedule) else None
        if isinstance(decider, PlanDecider):
            planned = decider.first_schedule
        live.begin(
            self.life,
            decider.name,
            planned=planned,
            forecaster=forecaster,
            plans=lambda: getattr(decider, "plans", 0),
        )

    def _results(self) -> Mapping[str, Any]:
        app, found = self.app, self.life.results
        names = {t: app.workflow.task_name(t) for t in app.wanted if found[t]}
        results: Mapping[str, Any] = {
            name: fetched(self.place, t, name) for t, name in names.items()
        }
        return app.collect(results) if app.collect is not None else results

    def _keep_score(self, score: float) -> None:
        if self.history is not None:
            with suppress(HistoryUnusable):  # the run matters more
                self.history.add_score(self.problem.name, score)


def _resume(driver: Driver, journal: Journal) -> None:
    """Enter the finished tasks of a journal; warn of those that run again."""
    run, finished = f"run '{journal.run_id}'", len(journal.records)
    if journal.changed:
        _warn(
            f"{run}: {journal.changed} of its finished tasks, or their inputs, changed since; "
            "these tasks run again"
        )
    if journal.damaged:
        _warn(
            f"{run}: {journal.damaged} lines of {journal.path} are damaged; a task whose line is "
            "damaged runs again"
        )
    if not finished:
        return
    if not journal.keep or all(record.result is None for record in journal.records):
        _warn(f"{run} kept no results: {finished} finished tasks run again")
        return
    entries, reasons = journal.usable(driver.instances.wanted)
    if reasons:
        _warn(
            f"{run}: {len(reasons)} kept results cannot be used; {finished - len(entries)} "
            "finished tasks run again: those and all that depend on them. The first: "
            f"{reasons[0]}"
        )
    if driver.life.planned:
        raise InvalidInput(f"{run} cannot be resumed with a schedule; give the planner's name")
    if journal.complete and len(entries) == finished:
        _warn(
            f"{run} is finished: its stored results are returned, no task runs; to run it again, "
            f"choose another run id, or remove {journal.folder}"
        )
    paths = {entry.instance: journal.folder / str(entry.result) for entry in entries}
    driver.resume(entries, paths.__getitem__)


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=CALLER)


def _say(promise: str, *, shown: bool) -> None:
    """Log the effect of killing the run, and write it to stderr if it is `shown`."""
    logging.getLogger(__name__).info(promise)
    if shown:
        sys.stderr.write(f"{promise}\n")


def _forecaster(
    decider: PlanDecider, problem: Problem, history: History | None, keys: Sequence[CostKey]
) -> Forecaster | None:
    """Return the forecaster of a run; None if none of its tasks was measured before."""
    from weft.learn.durations.end_time import not_modelled

    if history is None or not_modelled(problem):
        return None
    kinds = problem.workflow.kinds
    names = {
        key.kind: kinds[k] for key, k in zip(keys, problem.workflow.kind.tolist(), strict=True)
    }
    measured = [(names.get(kind, kind), run, r) for kind, run, r in history.residuals()]
    if not {kind for kind, _, _ in measured} & set(problem.workflow.kinds):
        return None
    from weft.learn.durations.spread import Spread
    from weft.runtime.costs.forecast import Forecaster

    rows, scores = decider.first_plan(), list[float]()
    with suppress(HistoryUnusable):
        scores = history.scores(problem.name)
    return Forecaster(problem, rows, Spread.of(measured), scores)
