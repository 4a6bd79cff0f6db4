"""Static planning: Problem -> Schedule. Called, the package answers with the names of all planners: ``weft.planners()``."""

import sys

from weft.planners import amortised, anytime, clustering, deepsched, dynamic_list, exact, genetic, list_scheduling
from weft.planners.planner import FEATURES, PLANNERS, Plan, Planner, Solution, plan, refuse_choices
from weft.registry import CallableModule

__all__ = [
    "FEATURES",
    "PLANNERS",
    "Plan",
    "Planner",
    "Solution",
    "amortised",
    "anytime",
    "called",
    "clustering",
    "deepsched",
    "dynamic_list",
    "exact",
    "genetic",
    "list_scheduling",
    "plan",
    "refuse_choices",
]


def called() -> list[str]:
    """All names, sorted."""
    return PLANNERS.names()


sys.modules[__name__].__class__ = CallableModule
