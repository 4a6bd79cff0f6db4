"""`weft.plan`: plan a problem, or anything that `weft.run` could run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any

from weft.arguments import shown
from weft.errors import InvalidInput, UnknownName
from weft.model import Cluster, Problem, Workflow
from weft.model.builder import plain_number
from weft.planners.planner import Plan, Planner
from weft.planners.planner import plan as plan_problem
from weft.registry import closest
from weft.typed import typed

if TYPE_CHECKING:
    from pathlib import Path

    from weft.runtime.costs.history import History
    from weft.runtime.inputs.functions import Application

COSTS = frozenset({"work", "seconds", "durations"})
"""Attributes of the nodes of a networkx graph that say how long a task takes."""


@typed
def plan(
    problem: Any,
    planner: str | PathLike[str] | Planner = "heft",
    *,
    cluster: Cluster | None = None,
    history: History | str | Path | bool = True,
    durations: Mapping[str, float] | None = None,
    seconds: float | None = None,
    seed: int = 0,
    **options: Any,
) -> Plan:
    """Plan a problem, a workflow or a graph of functions; nothing is run.

    The plan has a schedule, its makespan, and a lower bound that no schedule can beat.

    Parameters
    ----------
    problem
        A `Problem`, a `Workflow`, a networkx graph, calls of functions decorated with `weft.task`
        (one, or lists, tuples and dicts of them) or Dask collections.
    planner
        A planner, by name, by the path of a network that `weft train` wrote, or as an object.
    cluster
        The machines, for all but a `Problem`. Default: one device of each kind for a workflow that
        has durations by kind of device; the processor cores and GPUs of this machine for functions.
    history
        Measurements of earlier runs, for functions: as in `weft.run`.
    durations
        Task name or kind -> seconds on a device of speed 1, for functions that were never measured.
    seconds
        Time limit of planners that search.
    seed
        Seed of planners.
    options
        Options of the planner of that name; unknown ones are refused. For workflows with variants
        also `min_accuracy`, the least mean accuracy, and `budget`, the most money.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> plan(problem, "heft").makespan
    5.0
    """
    if not isinstance(problem, Problem):
        problem = problem_of(problem, cluster=cluster, history=history, durations=durations)
    elif cluster is not None or durations is not None:
        raise InvalidInput("a Problem has its cluster and durations; give neither beside it")
    else:
        _refuse_history(history, "a Problem has its durations")
    limits: Any = options  # of the planner, or on variants
    return plan_problem(problem, planner, seconds=seconds, seed=seed, **limits)


def problem_of(
    what: Any,
    *,
    cluster: Cluster | None = None,
    history: History | str | Path | bool = True,
    durations: Mapping[str, float] | None = None,
) -> Problem:
    """Make a problem of a workflow, a networkx graph, promises or Dask; see `plan`."""
    if cluster is not None and not isinstance(cluster, Cluster):
        raise InvalidInput(f"cluster is a {type(cluster).__name__}; it must be a Cluster")
    _refuse_unread(what)
    workflow = _workflow(what)
    if workflow is not None:
        from weft.formats.binding import bind, own_cluster

        _refuse_history(history, f"workflow '{workflow.name}' has its durations or work")
        workflow = _with_durations(workflow, durations)
        if cluster is None and not workflow.durations:
            raise InvalidInput(f"workflow '{workflow.name}' has no machines; give cluster=")
        return bind(workflow, own_cluster(workflow) if cluster is None else cluster)
    from weft.runtime.inputs.functions import application_of

    return _estimated(application_of(what), cluster, history, durations)


def _refuse_history(history: History | str | Path | bool, why: str) -> None:
    """Refuse measurements where nothing is estimated from them."""
    if not isinstance(history, bool):
        raise InvalidInput(f"history counts for functions only; {why}: leave it out")


def _refuse_unread(what: Any) -> None:
    """Refuse data that other functions turn into a problem, and name these."""
    if isinstance(what, str | PathLike):
        where = shown(os.fspath(what))
        raise InvalidInput(f"plan takes a problem, not the text {where}; weft.load reads a file")
    protocols = ("__arrow_c_stream__", "__dataframe__")
    kind = type(what).__name__
    if any(hasattr(type(what), p) for p in protocols) and not hasattr(what, "__dask_graph__"):
        raise InvalidInput(
            f"plan takes a problem, not a {kind}; weft.Problem.from_table makes one of a table"
        )


def _workflow(what: Any) -> Workflow | None:
    """Return a workflow with costs of its own, or None for functions."""
    if isinstance(what, Workflow):
        return what
    graph = type(what)  # a Dask object has every attribute that it is asked for
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        facts = [facts for _, facts in what.nodes(data=True)]
        if any(COSTS & row.keys() for row in facts) or not any("function" in row for row in facts):
            return Workflow.from_networkx(what)
    return None


def _estimated(
    app: Application,
    cluster: Cluster | None,
    history: History | str | Path | bool,
    durations: Mapping[str, float] | None,
) -> Problem:
    from weft.runtime.backends.local.device import device_cluster, local_devices
    from weft.runtime.costs.estimates import estimated_problem

    workflow = _with_durations(app.workflow, durations)
    known = _history(history)
    measured = {row.kind for row in known.durations()} if known is not None else set()
    given = durations or {}  # 0 s is a duration, too
    kinds = [workflow.kinds[k] for k in workflow.kind.tolist()]
    known_tasks = {
        t
        for t, names in enumerate(zip(workflow.task_names, kinds, strict=True))
        if not given.keys().isdisjoint(names)
    }
    unknown = [
        kind
        for t, (kind, key) in enumerate(zip(kinds, app.keys, strict=True))
        if not (workflow.work[t] or key.kind in measured or t in known_tasks)
    ]
    if unknown:
        names = list(dict.fromkeys(unknown))
        shown = ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if names[5:] else "")
        example = f"durations={{{names[0]!r}: 2.0}}"
        raise InvalidInput(
            f"how long {shown} takes is not known: run it once with weft.run, which measures it, "
            f"or give seconds: {example}"
        )
    machines = device_cluster(local_devices(None)) if cluster is None else cluster
    return estimated_problem(
        workflow,
        machines,
        known,
        keys=app.keys,
        devices=app.devices,
        learned=True,
        given=known_tasks,
    )


def _history(history: History | str | Path | bool) -> History | None:
    from weft.runtime.costs.history import History

    if history is False or isinstance(history, History):
        return history or None
    return History() if history is True else History(history)


def _with_durations(workflow: Workflow, durations: Mapping[str, float] | None) -> Workflow:
    """Return the workflow with the given seconds as work."""
    if not durations:
        return workflow
    from dataclasses import replace

    names = (*workflow.task_names, *workflow.kinds)
    work = workflow.work.copy()
    for name, value in durations.items():
        if name not in names:
            raise UnknownName(f"durations name '{name}', no task or kind{closest(name, names)}")
        seconds = plain_number(value, "seconds", f"duration of '{name}'")
        for task, title in enumerate(workflow.task_names):
            if name in (title, workflow.kinds[int(workflow.kind[task])]):
                work[task] = seconds
    return replace(workflow, work=work)
