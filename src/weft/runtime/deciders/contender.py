"""Planners and policies by name, path or object, for `weft.run`, `weft.compare`."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from weft.arguments import shown
from weft.errors import InvalidInput, UnknownName
from weft.model import Workflow
from weft.planners import PLANNERS
from weft.planners.planner import is_trained_planner, load_planner
from weft.policies import POLICIES
from weft.policies.load import load_policy
from weft.registry import closest


def default_contender(workflow: Workflow) -> Any:
    """Return the decider of a run for which none is given: HEFT, or `eft` for choices.

    No planner plans a workflow with choices: its tasks are not known beforehand.
    """
    return load_contender("eft" if workflow.conditional else "heft")


def load_contender(given: Any) -> Any:
    """Return a planner or a policy; a name that is both means the planner.

    Examples
    --------
    >>> load_contender("heft").name, load_contender("tuned-list").name
    ('heft', 'tuned-list')
    """
    if isinstance(given, type):
        raise InvalidInput(f"{given.__name__} is a class; give an object of it")
    if not isinstance(given, str | PathLike):
        return given
    name = fspath(given)
    if name in PLANNERS or (name not in POLICIES and is_trained_planner(name)):
        return load_planner(name)
    try:
        return load_policy(given)
    except UnknownName as error:
        if " is now called " in str(error):
            raise
        known = [*PLANNERS.names(), *POLICIES.names()]
        near = closest(name, known, listing="weft list")
        raise UnknownName(f"unknown planner or policy {shown(name)}{near}") from None
