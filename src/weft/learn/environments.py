"""Environments of weft, registered with Gymnasium as this module is imported."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

ENVIRONMENTS: dict[str, dict[str, Any]] = {
    "weft/Conditional-v0": {
        "entry_point": "weft.learn.conditional.env:ConditionalEnv",
        "vector_entry_point": "weft.learn.conditional.env:ConditionalVectorEnv",
    },
    "weft/Workflow-v0": {"entry_point": "weft.learn.workflow.env:WorkflowEnv"},
}


def register_environments() -> None:
    """Register the environments with Gymnasium, once."""
    import gymnasium

    for name, options in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, **options)


if find_spec("gymnasium") is not None:
    register_environments()
