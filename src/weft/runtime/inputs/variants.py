"""Tasks that run in one of several ways: the plan says which function is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Schedule, Workflow
from weft.model.variants import Variant, resolve, variants_by_task
from weft.planners import PLANNERS
from weft.planners.planner import Plan, plan
from weft.runtime.costs.cost_model import CostModel
from weft.runtime.costs.estimates import estimated_problem, incoming_bytes
from weft.runtime.costs.history import History
from weft.runtime.costs.keys import CostKey
from weft.runtime.costs.measurements import usual_rows
from weft.runtime.inputs.functions import Application

DEFAULT_PLANNER = "heft"
"""The planner that chooses variants where a policy decides about tasks."""


@dataclass(frozen=True)
class VariantLimits:
    """Limits of the choice: mean accuracy, money, seconds and seed of the planner."""

    min_accuracy: float | None = None
    budget: float | None = None
    seconds: float | None = None
    seed: int = 0


@dataclass(frozen=True)
class ChosenVariants:
    """An application with one way per task, its decider, and the variants."""

    application: Application
    decider: Any
    variants: Mapping[str, Variant] = field(default_factory=dict)


def choose_variants(
    app: Application, decider: Any, cluster: Cluster, history: History | None, limits: VariantLimits
) -> ChosenVariants:
    """Choose a variant of each task that has some, from a given plan or by a planner."""
    if isinstance(decider, Plan):
        _refuse_limits(limits, f"the plan of '{decider.planner}' has its variants")
        variants = decider.variants if app.workflow.variants else {}
        made = resolved_application(app, variants, cluster) if variants else app
        return ChosenVariants(made, decider.schedule, variants)
    if not app.workflow.variants:
        _refuse_limits(limits, f"workflow '{app.workflow.name}' has no variants")
        return ChosenVariants(app, decider)
    if isinstance(decider, Schedule):
        raise InvalidInput(
            f"workflow '{app.workflow.name}' has variants: give the plan, which has the chosen "
            "ones, not its schedule"
        )
    planner = decider if hasattr(decider, "solve") else PLANNERS.create(DEFAULT_PLANNER)
    found = plan(
        measured_problem(app, cluster, history),
        planner,
        seconds=limits.seconds,
        seed=limits.seed,
        min_accuracy=limits.min_accuracy,
        budget=limits.budget,
    )
    return ChosenVariants(
        resolved_application(app, found.variants, cluster), decider, found.variants
    )


def _refuse_limits(limits: VariantLimits, why: str) -> None:
    if limits.min_accuracy is not None or limits.budget is not None:
        raise InvalidInput(f"min_accuracy and budget choose among variants; {why}")


def variant_key(key: CostKey, variant: str) -> CostKey:
    """Return the key of the measurements of a variant."""
    return key._replace(kind=f"{key.kind} [{variant}]")


def measured_problem(app: Application, cluster: Cluster, history: History | None) -> Problem:
    """Return the problem with variants, with measured seconds where there are some."""
    problem = estimated_problem(app.workflow, cluster, history, keys=app.keys, devices=app.devices)
    rows = [] if history is None else usual_rows(history.tasks)
    if not rows:
        return problem
    model, w = CostModel(rows), app.workflow
    data, ways = incoming_bytes(w), {}
    for t, known in variants_by_task(w).items():
        point = (float(w.work[t]), float(data[t]), app.keys[t].sizes)
        ways[w.task_name(t)] = tuple(
            _measured(problem, t, way, model, variant_key(app.keys[t], way.name).kind, point)
            for way in known
        )
    flow = replace(problem.workflow, variants=ways, choices=problem.workflow.choices)
    return replace(problem, workflow=flow)


def _measured(
    problem: Problem, task: int, way: Variant, model: CostModel, kind: str, point: Any
) -> Variant:
    """Return a variant with its measured seconds; other devices are scaled alike."""
    c = problem.cluster
    declared = dict(zip(c.names, way.on(problem, task).tolist(), strict=True))
    seen = {
        name: model.seconds(kind, k, point)
        for name, k in zip(c.names, c.kinds, strict=True)
        if np.isfinite(declared[name])
    }
    pairs = [(s, declared[name]) for name, s in seen.items() if s is not None]
    if not pairs:
        return way
    ratio = float(np.median([s / max(d, 1e-9) for s, d in pairs]))
    seconds = {
        name: max(declared[name] * ratio if s is None else s, 1e-9) for name, s in seen.items()
    }
    return replace(way, seconds=seconds, factor=1.0, devices=())


def resolved_application(
    app: Application, chosen: Mapping[str, Variant], cluster: Cluster
) -> Application:
    """Return the application with one way per task: function, needs and estimates."""
    w = app.workflow
    names = {name: t for t, name in enumerate(w.task_names)}
    tasks = variants_by_task(w)
    for name, way in chosen.items():
        if name not in names or names[name] not in tasks:
            raise InvalidInput(
                f"the plan has variant '{way.name}' of '{name}', which has none here"
            )
    missing = [t for t in tasks if w.task_name(t) not in chosen]
    if missing:
        raise InvalidInput(f"the plan has no variant of task '{w.task_name(missing[0])}'")
    calls, keys = list(app.calls), [key.kind for key in app.keys]
    for name, way in chosen.items():
        t = names[name]
        calls[t] = app.ways.get(t, {}).get(way.name, calls[t])
        keys[t] = variant_key(app.keys[t], way.name).kind
    return replace(
        app,
        workflow=_resolved_workflow(w, chosen, cluster),
        calls=tuple(calls),
        functions=tuple(keys),
        ways={},
    )


def _resolved_workflow(w: Workflow, chosen: Mapping[str, Variant], cluster: Cluster) -> Workflow:
    """Return the workflow with the variants' needs, and their seconds on each device."""
    sized = w if w.durations or w.work.any() else replace(w, work=np.ones(w.n), choices=w.choices)
    found = resolve(Problem.bind(sized, cluster), chosen).workflow
    columns = dict(found.durations)
    for name, kind in zip(cluster.names, cluster.kinds, strict=True):
        columns.setdefault(kind, found.durations[name])  # devices that join later use the kind
    return replace(found, work=w.work, durations=columns, choices=w.choices)
