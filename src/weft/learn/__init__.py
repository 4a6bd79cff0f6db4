"""Environments and learners, one file per algorithm.

- `cma`: separable CMA-ES
- `dqn`: deep Q-networks that choose among candidates, in stages; trains the policy `dqn`
- `ppo`: proximal policy optimisation with masked actions
- `rendering`: the state of a simulation as text
- `replay_memory`: episodes, drawn by priority
- `settings`: checks of settings, records of trainings
- `value_networks`: networks of one output and their fit
- `conditional`: streams of conditional jobs
- `durations`: task durations and choices by them
- `imitation`: networks for planners
- `workflow`: policies for workflows

Importing this package registers `weft/Conditional-v0` and `weft/Workflow-v0` with Gymnasium; so
does `import weft`, before or after `import gymnasium`.
"""

from importlib.util import find_spec
from typing import Any

__all__ = [
    "cma",
    "conditional",
    "dqn",
    "durations",
    "imitation",
    "ppo",
    "rendering",
    "replay_memory",
    "settings",
    "value_networks",
    "workflow",
]

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
