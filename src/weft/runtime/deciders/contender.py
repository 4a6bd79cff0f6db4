"""Planners and policies by name, path or object, for `weft.run`, `weft.compare`."""

from __future__ import annotations

from os import PathLike
from typing import Any

from weft.arguments import shown
from weft.errors import UnknownName
from weft.planners import PLANNERS
from weft.policies import POLICIES
from weft.policies.load import load_policy
from weft.registry import closest


def load_contender(given: Any) -> Any:
    """Return a planner or a policy; a name that is both means the planner.

    Examples
    --------
    >>> load_contender("heft").name, load_contender("tuned-list").name
    ('heft', 'tuned-list')
    """
    if not isinstance(given, str | PathLike):
        return given
    name = str(given)
    if name in PLANNERS:
        return PLANNERS.create(name)
    try:
        return load_policy(given)
    except UnknownName as error:
        if " is now called " in str(error):
            raise
        known = [*PLANNERS.names(), *POLICIES.names()]
        near = closest(name, known, listing="weft list")
        raise UnknownName(f"unknown planner or policy {shown(name)}{near}") from None
