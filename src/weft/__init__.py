"""weft plans, learns and runs task graphs on machines that differ from one another.

Names load when they are first used, so that ``import weft`` costs numpy and no more.

Examples
--------
>>> import weft
>>> problem = weft.Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
>>> plan = weft.plan(problem, "heft")
>>> plan.makespan, weft.check(problem, plan.schedule)
(5.0, [])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.errors import InvalidInput, MissingExtra, Stuck, UnknownName, Unsupported, WeftError
    from weft.formats import load, load_cluster, load_workload, save
    from weft.generate import generate, gpu_cluster
    from weft.model import Cluster, Device, Links, Problem, Scenario, Schedule, Trace, Workflow, WorkflowBuilder, Workload
    from weft.model.check import check
    from weft.planners import Plan, Planner, plan
    from weft.policies import simulate
    from weft.policies.learned import load_policy
    from weft.report.compare import Comparison, compare
    from weft.report.gantt_static import save_gantt
    from weft.run.functions import task
    from weft.sim.view import Decision, Policy, View

__version__ = "0.1.0"

__all__ = [
    "Cluster",
    "Comparison",
    "Decision",
    "Device",
    "InvalidInput",
    "Links",
    "MissingExtra",
    "Plan",
    "Planner",
    "Policy",
    "Problem",
    "Scenario",
    "Schedule",
    "Stuck",
    "Trace",
    "UnknownName",
    "Unsupported",
    "View",
    "WeftError",
    "Workflow",
    "WorkflowBuilder",
    "Workload",
    "__version__",
    "check",
    "compare",
    "generate",
    "gpu_cluster",
    "load",
    "load_cluster",
    "load_policy",
    "load_workload",
    "plan",
    "planners",
    "policies",
    "run",
    "save",
    "save_gantt",
    "simulate",
    "task",
]

_HOME = {
    "weft.errors": ("InvalidInput", "MissingExtra", "Stuck", "UnknownName", "Unsupported", "WeftError"),
    "weft.formats": ("load", "load_cluster", "load_workload", "save"),
    "weft.generate": ("gpu_cluster",),
    "weft.model": (
        "Cluster",
        "Device",
        "Links",
        "Problem",
        "Scenario",
        "Schedule",
        "Trace",
        "Workflow",
        "WorkflowBuilder",
        "Workload",
    ),
    "weft.model.check": ("check",),
    "weft.planners": ("Plan", "Planner", "plan"),
    "weft.policies": ("simulate",),
    "weft.policies.learned": ("load_policy",),
    "weft.report.gantt_static": ("save_gantt",),
    "weft.report.compare": ("Comparison", "compare"),
    "weft.run.functions": ("task",),
    "weft.sim.view": ("Decision", "Policy", "View"),
}
_MODULES = ("errors", "generate", "planners", "policies", "run")
"""Packages that are names of their own; the last four can be called (`registry.CallableModule`)."""
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"weft.{name}")
    if name not in _MODULE_OF:
        from weft.registry import closest

        raise AttributeError(f"module 'weft' has no attribute '{name}'{closest(name, __all__)}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
