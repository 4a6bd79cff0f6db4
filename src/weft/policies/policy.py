"""The table of policies, and the builders of policies from trained models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from weft.errors import InvalidInput
from weft.formats.model_file import Model, find_model, read_model
from weft.formats.parsing.source import naming
from weft.registry import Registry, closest
from weft.sim.view import Policy

POLICIES: Registry[Policy] = Registry(
    "policy",
    listing="weft list policies",
    renamed={
        "dqn-document": "dqn",
        "rule": "tuned-list",
        "heft-homes": "heft-affinity",
        "srw-homes": "srpt-affinity",
        "srw-replanned": "srpt-replanned",
        "conditional": "conditional-best",
    },
    confused_with="weft.planners:PLANNERS",
    usage="weft.simulate(problem, '{0}'), weft simulate --policy {0}, or weft.compare",
)
"""Name -> policy, for workflows and for conditional streams."""

P = TypeVar("P", bound=Policy)
_BUILDERS: dict[str, Callable[[Model], Policy]] = {}


def register_kind(kind: str) -> Callable[[Callable[[Model], P]], Callable[[Model], P]]:
    """Register the builder of a kind of model (a decorator)."""

    def enter(build: Callable[[Model], P]) -> Callable[[Model], P]:
        _BUILDERS[kind] = build
        return build

    return enter


def bundled_policy(name: str) -> Policy:
    """Build a policy that ships with weft."""
    return read_policy(find_model(name))


def read_policy(path: str | Path) -> Policy:
    """Build the policy of a model file, without running code from it."""
    card = find_model(path)
    model = read_model(card)
    with naming(str(card)):
        if model.kind not in _BUILDERS:
            raise InvalidInput(
                f"is a model of kind '{model.kind}', which is no policy"
                f"{closest(model.kind, _BUILDERS)}"
            )
        return _BUILDERS[model.kind](model)
