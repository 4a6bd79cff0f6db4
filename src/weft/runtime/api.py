"""`weft.run`: a workflow and its functions, on real devices, decided by any planner or policy."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput, UnknownName
from weft.model import Problem, Schedule, Trace, Workload
from weft.planners import PLANNERS, Planner
from weft.policies import POLICIES, Policy
from weft.registry import closest
from weft.runtime.backends.local.backend import LocalBackend, LocalDevice
from weft.runtime.backends.protocol import Backend
from weft.runtime.backends.ray.backend import RayBackend
from weft.runtime.costs.drift import DriftDetector
from weft.runtime.costs.estimates import Recorder, estimated_problem
from weft.runtime.costs.history import History
from weft.runtime.deciders.plan import PlanDecider
from weft.runtime.deciders.policy import Decider, ReplayDecider, adaptive, batch_keys
from weft.runtime.deciders.shadow import ShadowedDecider, ShadowReport
from weft.runtime.deciders.whole_plan import run_whole
from weft.runtime.engine.driver import Driver
from weft.runtime.engine.failure import Failure, TaskFailed
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.engine.observer import Observer
from weft.runtime.inputs.functions import application_of
from weft.runtime.journal import Journal, default_folder
from weft.runtime.options import RunOptions
from weft.runtime.progress import Progress


def _dask(where: Any) -> Backend:
    from weft.runtime.backends.dask.backend import DaskBackend

    return DaskBackend(where)


BACKENDS: dict[str, Callable[..., Backend]] = {
    "local": LocalBackend,
    "dask": _dask,
    "ray": RayBackend,
}
"""Name of a backend -> what makes it, given the devices."""


@dataclass(frozen=True, eq=False)
class RunTrace(Trace):
    """What happened in a real run: a trace whose workload holds the estimates it began with.

    Attributes
    ----------
    results : task name -> value, of the tasks that were asked for
    failures : tasks that were given up
    run_id : under which its journal is kept, if it has one
    plans : how often it was planned (0 for a policy); replaced : why greedy took over, if it did
    shadow : what the policy in the shadow would have done
    """

    results: Mapping[str, Any] = field(default_factory=dict, repr=False)
    failures: tuple[Failure, ...] = ()
    run_id: str = ""
    plans: int = 0
    replaced: str = ""
    shadow: ShadowReport | None = None


def run(
    what: Any,
    *,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    policy: str | Planner | Policy | Schedule = "heft",
    backend: str | Backend = "local",
    devices: int | Sequence[LocalDevice] | None = None,
    history: History | str | Path | bool = True,
    run_id: str | None = None,
    folder: str | Path | None = None,
    keep: bool = True,
    retries: int = 0,
    backoff: float = 0.1,
    crashes: int = 3,
    timeout: float | Mapping[str, float] | None = None,
    on_error: str = "stop",
    window: int = 3,
    adapt: bool = True,
    shadow: str | Policy | None = None,
    progress: bool = False,
    seconds: float | None = None,
    seed: int = 0,
) -> RunTrace:
    """Run a workflow for real.

    Parameters
    ----------
    what : a Workflow (with `functions`), calls of a `weft.task`, Dask collections, or a networkx graph
    functions : task name or kind -> function; it gets the results of the task's parents, None from branches not taken
    policy : a planner (a plan, dispatched in order), a policy (asked at every event), by name or object, or a Schedule
    backend : "local", "dask", "ray", a `distributed.Client`, or a backend; devices : of a named one, how many or which
    history : what was measured before, and where to add to it; a path, or False for neither
    run_id, folder, keep : keep a journal under this name (and, with `keep`, every result), so that a killed run continues
    retries, backoff, crashes, timeout, on_error, window : see `weft.runtime.engine.driver.RunOptions`
    adapt : correct estimates while the run goes on, and plan anew when they were wrong or a device is lost
    shadow : a policy that is asked beside the first, without acting
    seconds : time limit of planners that search

    Returns
    -------
    RunTrace
        When a task is given up and `on_error` is "stop", `TaskFailed` is raised instead; with "continue" the trace says which failed.
    """
    app = application_of(what, functions)
    terms = RunOptions(
        window=window,
        retries=retries,
        backoff=backoff,
        crashes=crashes,
        timeout=timeout,
        on_error=on_error,
    )  # type: ignore[arg-type]
    decider = _decider(policy)
    known = _history(history)
    place, own = _backend(backend, devices)
    try:
        problem = estimated_problem(app.workflow, place.devices(), known)
        workload = Workload.of(problem)
        guide = _guide(decider, problem, window=window, adapt=adapt, seconds=seconds, seed=seed)
        life = LiveLifecycle(
            workload,
            modelled=place.modelled,
            planned=isinstance(guide, ReplayDecider),
            keys=batch_keys(decider, workload),
        )
        shadowed = (
            ShadowedDecider(guide, _policy(shadow), seed=seed) if shadow is not None else None
        )
        journal = (
            None if run_id is None else Journal(_folder(folder), run_id, workload, place, keep=keep)
        )
        observers: list[Observer] = [
            *([journal] if journal else ()),
            *([Recorder(known, [app.workflow])] if known else ()),
        ]
        watcher = Progress()
        if progress:
            observers.append(watcher)
        driver = Driver(
            life,
            place,
            shadowed or guide,
            terms=terms,
            drift=DriftDetector(workload) if adapt and not place.modelled else None,
            wanted=frozenset(app.wanted),
            observers=observers,
            grown=None
            if place.modelled
            else lambda cluster: Workload.of(estimated_problem(app.workflow, cluster, known)),
        )
        driver.prepare()
        watcher.predicted = (
            guide.predicted if isinstance(guide, PlanDecider) and not driver.replaced else None
        )
        try:
            place.begin(workload, app.calls, since=journal.last if journal else 0.0)
            if journal is not None:
                _resume(driver, journal)
            else:
                run_whole(driver, guide)
            driver.run()
            names = {t: app.workflow.task_name(t) for t in app.wanted}
            results: Mapping[str, Any] = {
                names[t]: place.fetch(t) for t in app.wanted if life.results[t]
            }
            results = app.collect(results) if app.collect is not None else results
        finally:
            for observer in observers:
                observer.close()
            place.finish()
        trace = _trace(driver, guide, shadowed, results, run_id or "")
    finally:
        if own:
            place.close()
    if driver.failures and terms.on_error == "stop":
        raise TaskFailed(driver.failures[0], trace)
    return trace


def new_run_id() -> str:
    """A name no other run has."""
    return uuid.uuid4().hex[:12]


def _trace(
    driver: Driver,
    guide: Decider,
    shadowed: ShadowedDecider | None,
    results: Mapping[str, Any],
    run_id: str,
) -> RunTrace:
    plain = driver.trace()
    return RunTrace(
        **{f.name: getattr(plain, f.name) for f in fields(Trace)},
        results=results,
        failures=tuple(driver.failures),
        run_id=run_id,
        plans=getattr(guide, "plans", 0),
        replaced=driver.replaced,
        shadow=shadowed.report() if shadowed is not None else None,
    )


def _resume(driver: Driver, journal: Journal) -> None:
    if not journal.records:
        return
    if not journal.keep or not journal.finished_before:
        lost = len(journal.records)
        warnings.warn(
            f"run '{journal.run_id}' kept no results: {lost} finished tasks run again", stacklevel=3
        )
        return
    if driver.life.planned:
        raise InvalidInput(
            f"run '{journal.run_id}' cannot be resumed with a schedule; give the planner's name"
        )
    driver.resume(journal.finished_before, lambda i: journal.folder / f"{i}.result")


def _decider(policy: Any) -> Any:
    if not isinstance(policy, str):
        return policy
    if policy in PLANNERS.names():
        return PLANNERS.create(policy)
    if policy in POLICIES.names():
        return POLICIES.create(policy)
    raise UnknownName(
        f"unknown planner or policy '{policy}'{closest(policy, [*PLANNERS.names(), *POLICIES.names()])}"
    )


def _policy(policy: str | Policy) -> Policy:
    return POLICIES.create(policy) if isinstance(policy, str) else policy


def _guide(
    decider: Any, problem: Problem, *, window: int, adapt: bool, seconds: float | None, seed: int
) -> Decider:
    if isinstance(decider, Schedule):
        return ReplayDecider(decider)
    if hasattr(decider, "solve"):
        return PlanDecider(decider, ahead=window, replan=adapt, seconds=seconds, seed=seed)
    if hasattr(decider, "decide"):
        return adaptive(decider, seed=seed)
    raise InvalidInput(
        f"policy is a {type(decider).__name__}; '{problem.name}' needs a planner, a policy, a Schedule or a name"
    )


def _history(history: History | str | Path | bool) -> History | None:
    if history is False:
        return None
    if isinstance(history, History):
        return history
    return History() if history is True else History(history)


def _backend(
    backend: str | Backend, devices: int | Sequence[LocalDevice] | None
) -> tuple[Backend, bool]:
    """The backend, and whether it is ours to close."""
    if not isinstance(backend, str):
        if devices is not None:
            raise InvalidInput(
                "devices are given beside a backend that has its own; give one of the two"
            )
        if type(backend).__module__.partition(".")[0] == "distributed":
            return _dask(backend), True  # a client of Dask
        return backend, False
    if backend not in BACKENDS:
        raise UnknownName(f"unknown backend '{backend}'{closest(backend, BACKENDS)}")
    return BACKENDS[backend](devices), True


def _folder(folder: str | Path | None) -> Path:
    return Path(folder) if folder is not None else default_folder()
