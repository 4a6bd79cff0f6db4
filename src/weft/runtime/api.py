"""`weft.run`: a workflow on real devices, decided by any planner or policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.model import Cluster, Schedule
from weft.planners import Plan, Planner
from weft.policies import Policy
from weft.policies.load import load_policy
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.backends.named import open_backend
from weft.runtime.backends.pilots.device import PilotDevice
from weft.runtime.backends.protocol import Backend
from weft.runtime.backends.ray.session import RayDevice
from weft.runtime.costs.history import History, history_for_run
from weft.runtime.deciders.contender import default_contender, load_contender
from weft.runtime.engine.failure import TaskFailed
from weft.runtime.execution import RunSettings, RunTrace, WorkflowRun
from weft.runtime.inputs.functions import Functions, application_of
from weft.runtime.inputs.variants import VariantLimits, choose_variants
from weft.runtime.options import RunOptions
from weft.typed import typed

if TYPE_CHECKING:
    from weft.runtime.web.live.board import LiveBoard


@typed
def run(
    what: Any,
    *,
    functions: Functions | None = None,
    policy: str | PathLike[str] | Planner | Policy | Schedule | Plan | None = None,
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
    shadow: str | PathLike[str] | Policy | None = None,
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
        or as an object, the path of a trained policy, or a `Schedule` to follow as it is, or the
        `Plan` that has it. One that does not support the workflow is refused before anything runs.
        Default: the planner HEFT, and for workflows with choices the policy `eft`.
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
        finished tasks run again. The run says on stderr which of these holds.
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
        A second policy, by name, path or as an object, that is asked at every decision and
        compared, but never followed.
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
    settings = RunSettings(
        options=RunOptions(window, retries, backoff, crashes, timeout, on_error),
        run_id=run_id,
        folder=folder,
        keep=keep,
        adapt=adapt,
        shadow=None if shadow is None else load_policy(shadow),
        progress=progress,
        live=live,
        seconds=seconds,
        seed=seed,
    )
    decider = default_contender(given.workflow) if policy is None else load_contender(policy)
    known = history_for_run(history)
    place, own = open_backend(backend, devices, address)
    try:
        limits = VariantLimits(min_accuracy, budget, seconds, seed)
        picked = choose_variants(given, decider, place.devices(), known, limits)
        trace = WorkflowRun(picked, place, known, settings).run()
    finally:
        if own:
            place.close()
    if trace.failures and on_error == "stop":
        raise TaskFailed(trace.failures[0], trace)
    return trace
