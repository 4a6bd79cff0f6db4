"""Environments and learners, one file per algorithm.

- `cma`: separable CMA-ES
- `ppo`: proximal policy optimisation with masked actions
- `onnx_session`: onnxruntime on one thread, for timings
- `settings`: checks of settings, the type of progress callbacks
- `conditional`: streams of conditional jobs
- `durations`: task durations and choices by them
- `imitation`: networks for planners
- `workflow`: policies for workflows

Importing this package registers `weft/Conditional-v0` and `weft/Workflow-v0` with Gymnasium.
"""

from importlib.util import find_spec

__all__ = [
    "cma",
    "conditional",
    "durations",
    "imitation",
    "onnx_session",
    "ppo",
    "settings",
    "workflow",
]

if find_spec("gymnasium") is not None:
    import gymnasium

    gymnasium.register(
        "weft/Conditional-v0",
        entry_point="weft.learn.conditional.env:ConditionalEnv",
        vector_entry_point="weft.learn.conditional.env:ConditionalVectorEnv",
    )
    gymnasium.register("weft/Workflow-v0", entry_point="weft.learn.workflow.env:WorkflowEnv")
