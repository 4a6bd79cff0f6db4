"""Environments and learners, one file per algorithm.

- `cma`: separable CMA-ES
- `dqn`: deep Q-networks that choose among candidates, in stages; trains the policy `dqn`
- `environments`: their registration with Gymnasium
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

from weft.learn import environments as _environments  # noqa: F401  # registers

__all__ = [
    "cma",
    "conditional",
    "dqn",
    "durations",
    "environments",
    "imitation",
    "ppo",
    "rendering",
    "replay_memory",
    "settings",
    "value_networks",
    "workflow",
]
