"""`weft.run`: execute a workflow on real devices, decided by any planner or policy."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.errors import InvalidInput, UnknownName
from weft.model import Cluster, Problem, Schedule, Topology, Trace, Workload
from weft.model.variants import Variant
from weft.planners import Plan, Planner
from weft.policies import Policy
from weft.policies.load import load_policy
from weft.registry import closest
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.backends.local.pool import shared_backend
from weft.runtime.backends.pilots.device import PilotDevice
from weft.runtime.backends.protocol import Backend
from weft.runtime.backends.ray.backend import RayBackend
from weft.runtime.backends.ray.session import RayDevice
from weft.runtime.costs.drift import DriftDetector
from weft.runtime.costs.estimates import (
    Recorder,
    estimated_problem,
    has_estimates,
    measured_network,
)
from weft.runtime.costs.history import History, HistoryUnusable, history_for_run
from weft.runtime.costs.keys import CostKey
from weft.runtime.deciders.contender import load_contender
from weft.runtime.deciders.plan import PlanDecider, ReplayDecider
from weft.runtime.deciders.policy import Decider, adaptive, batch_keys
from weft.runtime.deciders.shadow import ShadowedDecider, ShadowReport
from weft.runtime.deciders.whole_plan import run_whole
from weft.runtime.engine.driver import Driver
from weft.runtime.engine.events import Observer
from weft.runtime.engine.failure import Failure, TaskFailed
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.fingerprints import task_fingerprints
from weft.runtime.inputs.functions import Application, Functions, application_of
from weft.runtime.inputs.variants import VariantLimits, choose_variants
from weft.runtime.journal import Journal, default_folder, resume_promise
from weft.runtime.options import RunOptions
from weft.runtime.progress import Progress

if TYPE_CHECKING:
    from weft.learn.durations.end_time import Forecast
    from weft.runtime.costs.forecast import Forecaster
    from weft.runtime.web.live.board import LiveBoard


def _dask(where: Any) -> Backend:
    """Devices that are threads of Dask workers."""
    from weft.runtime.backends.dask.backend import DaskBackend

    return DaskBackend(where)


def _hyperqueue(devices: Any, **options: Any) -> Backend:
    """Devices that are tasks of a HyperQueue server."""
    from weft.runtime.backends.hyperqueue.backend import HyperQueueBackend

    return HyperQueueBackend(devices, **options)


def _slurm(devices: Any) -> Backend:
    """Devices that are job steps of a Slurm allocation."""
    from weft.runtime.backends.slurm.backend import SlurmBackend

    return SlurmBackend(devices)


BACKENDS: dict[str, Callable[..., Backend]] = {
    "local": shared_backend,
    "dask": _dask,
    "hyperqueue": _hyperqueue,
    "ray": RayBackend,
    "slurm": _slurm,
}
"""Name of a backend -> its constructor, which takes the devices."""

ADDRESSED = ("hyperqueue", "ray")
"""Backends that take the address of a running cluster."""


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


def run(
    what: Any,
    *,
    functions: Functions | None = None,
    policy: str | Planner | Policy | Schedule | Plan = "heft",
    backend: str | Backend | Any = "local",
    devices: int
    | Cluster
    | str
    | Path
    | Sequence[LocalDevice | RayDevice]
    | Sequence[PilotDevice]
    | None = None,
    address: str | Path | None = None,
    history: History | str | Path | bool = True,
    run_id: str | None = None,
    folder: str | Path | None = None,
    keep: bool = True,
    retries: int = 0,
    backoff: float = 0.1,
    crashes: int = 3,
    timeout: float | Mapping[str, float] | None = None,
    on_error: Literal["stop", "continue"] = "stop",
    window: int = 3,
    adapt: bool = True,
    shadow: str | Policy | None = None,
    progress: bool = False,
    live: LiveBoard | None = None,
    min_accuracy: float | None = None,
    budget: float | None = None,
    seconds: float | None = None,
    seed: int = 0,
) -> RunTrace:
    """Run a workflow on real devices and return its trace and results.

    Parameters
    ----------
    what
        A `Workflow` (with `functions`), calls of functions decorated with `weft.task` (one, or
        lists, tuples and dicts of them), Dask collections, or a networkx graph whose nodes have a
        ``function``.
    functions
        Task name or kind -> function. A function receives the results of the task's parents in
        order, None from a branch that was not taken. A command, [program, argument, ...], runs
        without a shell and gives the end of its output. A task with variants may have a dict
        variant -> function instead.
    policy
        A planner (its plan is dispatched in order), a policy (asked at every event), each by name
        or as an object, or a `Schedule` to follow as it is, or the `Plan` that has it.
    backend
        "local", "dask", "ray", "hyperqueue", "slurm", a `distributed.Client`, or a backend object,
        which stays open.
    devices
        For a named backend: the number of devices, or one `LocalDevice` each ("local", "dask",
        "ray"), one `RayDevice` each ("ray") or one `PilotDevice` each ("hyperqueue", "slurm").
        Default: one per processor core and per GPU. On "local", a `Cluster`, or the path of a
        cluster file, has one process per device, and its nodes have capacities that tasks share:
        ``Cluster.host(cores=4, memory=8e9)`` is this machine with up to 4 tasks side by side, as
        far as their `cores`, `memory` and `needs` fit.
    address
        Of a running cluster: the folder of a HyperQueue server, the address of Ray.
    history
        The measurements of earlier runs, used for estimates and extended by this run: True for
        that of the project, a path or a `History`; False for none.
    run_id, folder, keep
        Write a journal under this name in `folder` (default: $WEFT_RUNS or the user's state
        folder). A run with the same name continues after a crash; finished tasks run again only
        if their code, arguments or ancestors changed. With ``keep=False`` no results are stored and
        finished tasks run again.
    retries, backoff
        Further attempts of a failed task, the first after `backoff` seconds, doubled each time.
    crashes
        Times a task may lose its worker process before the task itself counts as failed.
    timeout
        Seconds a task may run: one number, or by task name or kind.
    on_error
        After a failed task, "stop" the run, or "continue" with the tasks that do not need it.
    window
        Tasks a device holds at once, including the running one, so that it never waits.
    adapt
        Correct estimates during the run, and plan again if they were wrong or a device is lost.
    shadow
        A second policy that is asked at every decision and compared, but never followed.
    progress
        Say on stderr what happens if the run is killed, and show the progress if that is a
        terminal.
    live
        Receives the events of the run for a page that shows it; `weft run --live` makes one.
    min_accuracy, budget
        Limits of the choice among variants of tasks, as in `weft.plan`. The planner chooses before
        the run, HEFT where a policy decides; a `Plan` has chosen.
    seconds
        Time limit of planners that search.
    seed
        Seed of planners and policies.

    Returns
    -------
    RunTrace
        The trace, with `results` by task name and, for ``on_error="continue"``, `failures`.

    Raises
    ------
    TaskFailed
        If a task failed for good and `on_error` is "stop"; it carries the trace until then.

    Examples
    --------
    >>> from weft.model import Workflow
    >>> w = Workflow(work=[1, 1], src=[0], dst=[1], data=[0], names=("load", "count"))
    >>> trace = run(w, functions={"load": dict, "count": len}, devices=1, history=False)
    >>> trace.results
    {'count': 0}
    """
    given = application_of(what, functions)
    options = RunOptions(window, retries, backoff, crashes, timeout, on_error)
    known = history_for_run(history)
    place, own = _backend(backend, devices, address)
    try:
        limits = VariantLimits(min_accuracy, budget, seconds, seed)
        picked = choose_variants(given, load_contender(policy), place.devices(), known, limits)
        app, chosen = picked.application, picked.decider
        estimated = partial(
            estimated_problem,
            app.workflow,
            history=known,
            keys=app.keys,
            devices=app.devices,
            learned=not place.modelled,
        )
        problem = estimated(place.devices())
        workload = Workload.of(problem)
        network = None if place.modelled else measured_network(place.devices(), known)
        decider = _live(
            chosen, window=window, adapt=adapt, seconds=seconds, seed=seed, network=network
        )
        shadowed = (
            None if shadow is None else ShadowedDecider(decider, load_policy(shadow), seed=seed)
        )
        life = LiveLifecycle(
            workload,
            modelled=place.modelled,
            planned=isinstance(decider, ReplayDecider),
            keys=batch_keys(chosen, workload),
        )
        _say(
            resume_promise(run_id, keep=keep, schedule=isinstance(chosen, Schedule)), shown=progress
        )
        journal = _journal(run_id, folder, app, workload, place, keep=keep)
        display = Progress()
        observers: list[Observer] = [
            *([journal] if journal else ()),
            *([Recorder(known, [app.workflow], [app.keys])] if known else ()),
            *([display] if progress else ()),
            *([live] if live is not None else ()),
        ]
        driver = Driver(
            life,
            place,
            shadowed or decider,
            options=options,
            drift=DriftDetector(workload) if adapt and not place.modelled else None,
            wanted=frozenset(app.wanted),
            observers=observers,
            grown=None if place.modelled else lambda cluster: Workload.of(estimated(cluster)),
        )
        driver.prepare()
        forecaster = None
        if isinstance(decider, PlanDecider) and not driver.replaced:
            display.predicted = decider.predicted
            forecaster = _forecaster(decider, problem, known, app.keys)
            display.forecaster = forecaster
            if progress and forecaster is not None:
                display.announce(f"weft: {problem.name} {forecaster.first}")
        _begin_live(live, life, decider, chosen, forecaster)
        try:
            place.begin(workload, app.calls, since=journal.last if journal else 0.0)
            if journal is not None:
                _resume(driver, journal)
            else:
                run_whole(driver, decider, measured=has_estimates(app.workflow, known, app.keys))
            driver.run()
            results: Mapping[str, Any] = {
                app.workflow.task_name(t): place.fetch(t) for t in app.wanted if life.results[t]
            }
            results = app.collect(results) if app.collect is not None else results
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
            run_id=run_id or "",
            plans=getattr(decider, "plans", 0),
            replaced=driver.replaced,
            shadow=shadowed.report() if shadowed is not None else None,
            forecast=None if forecaster is None else forecaster.first,
            variants=picked.variants,
        )
        if forecaster is not None and known is not None and not (driver.failures or journal):
            _keep_score(known, problem.name, forecaster.first.score(trace.makespan))
    finally:
        if own:
            place.close()
    if driver.failures and on_error == "stop":
        raise TaskFailed(driver.failures[0], trace)
    return trace


def _begin_live(
    live: LiveBoard | None,
    life: LiveLifecycle,
    decider: Decider,
    chosen: Any,
    forecaster: Forecaster | None,
) -> None:
    """Describe the run to its board, with the plan that it will follow."""
    if live is None:
        return
    planned = chosen if isinstance(chosen, Schedule) else None
    if isinstance(decider, PlanDecider):
        planned = decider.first_schedule
    live.begin(
        life,
        decider.name,
        planned=planned,
        forecaster=forecaster,
        plans=lambda: getattr(decider, "plans", 0),
    )


def _say(promise: str, *, shown: bool) -> None:
    """Tell what happens if the run is killed: in the log, and on stderr if asked for."""
    logging.getLogger(__name__).info(promise)
    if shown:
        sys.stderr.write(f"{promise}\n")


def _keep_score(history: History, name: str, score: float) -> None:
    with suppress(HistoryUnusable):  # the run matters more
        history.add_score(name, score)


def _forecaster(
    decider: PlanDecider, problem: Problem, history: History | None, keys: Sequence[CostKey]
) -> Forecaster | None:
    """Return the forecaster of a run; None where none of its tasks was measured before."""
    if history is None or problem.workflow.conditional or problem.contended:
        return None  # a forecast does not model branches and waits for capacities
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


def _journal(
    run_id: str | None,
    folder: str | Path | None,
    app: Application,
    workload: Workload,
    place: Backend,
    *,
    keep: bool,
) -> Journal | None:
    if run_id is None:
        return None
    root = default_folder() if folder is None else Path(folder)
    marks = task_fingerprints(app.workflow, app.calls)
    return Journal(root, run_id, workload, place, keep=keep, marks=marks)


def _resume(driver: Driver, journal: Journal) -> None:
    if journal.changed:
        warnings.warn(
            f"run '{journal.run_id}': {journal.changed} of its finished tasks, or their inputs, "
            "changed since; these tasks run again",
            stacklevel=3,
        )
    if journal.damaged:
        warnings.warn(
            f"run '{journal.run_id}': {journal.damaged} lines of {journal.path} are damaged; a "
            "task whose line is damaged runs again",
            stacklevel=3,
        )
    if not journal.records:
        return
    lost = len(journal.records)
    if not journal.keep or all(record.result is None for record in journal.records):
        warnings.warn(
            f"run '{journal.run_id}' kept no results: {lost} finished tasks run again", stacklevel=3
        )
        return
    entries, reasons = journal.usable(driver.instances.wanted)
    if reasons:
        warnings.warn(
            f"run '{journal.run_id}': {len(reasons)} kept results cannot be used; "
            f"{lost - len(entries)} finished tasks run again: those and all that depend on them. "
            f"The first: {reasons[0]}",
            stacklevel=3,
        )
    if driver.life.planned:
        raise InvalidInput(
            f"run '{journal.run_id}' cannot be resumed with a schedule; give the planner's name"
        )
    if journal.complete and len(entries) == len(journal.records):
        warnings.warn(
            f"run '{journal.run_id}' is finished: its stored results are returned, no task runs; "
            f"to run it again, choose another run id, or remove {journal.folder}",
            stacklevel=3,
        )
    paths = {entry.instance: journal.folder / str(entry.result) for entry in entries}
    driver.resume(entries, paths.__getitem__)


def _live(
    chosen: Any,
    *,
    window: int,
    adapt: bool,
    seconds: float | None,
    seed: int,
    network: Topology | None = None,
) -> Decider:
    if isinstance(chosen, Schedule):
        return ReplayDecider(chosen)
    if hasattr(chosen, "solve"):
        return PlanDecider(
            chosen, ahead=window, replan=adapt, seconds=seconds, seed=seed, network=network
        )
    if hasattr(chosen, "decide"):
        return adaptive(chosen, seed=seed)
    raise InvalidInput(
        f"policy is a {type(chosen).__name__}; give a planner, a policy, a Schedule or a name"
    )


def _backend(backend: Any, devices: Any, address: str | Path | None) -> tuple[Backend, bool]:
    """Return the backend, and whether this run must close it."""
    if address is not None and backend not in ADDRESSED:
        raise InvalidInput(
            f"address is given for backend {backend!r}; only {' and '.join(ADDRESSED)} take one"
        )
    if not isinstance(backend, str):
        if devices is not None:
            raise InvalidInput("devices and a backend object are given; give one of the two")
        if type(backend).__module__.partition(".")[0] == "distributed":
            return _dask(backend), True  # a Dask client
        return backend, False
    if backend not in BACKENDS:
        raise UnknownName(f"unknown backend '{backend}'{closest(backend, BACKENDS)}")
    if isinstance(devices, str | Path):
        from weft.formats import load_cluster

        if not Path(devices).is_file():
            raise InvalidInput(
                f"devices is '{devices}', and there is no such file; give a number of devices, the "
                "devices, or the path of a cluster file"
            )
        devices = load_cluster(devices)
    options = {} if address is None else {"address": str(address)}
    return BACKENDS[backend](devices, **options), True
