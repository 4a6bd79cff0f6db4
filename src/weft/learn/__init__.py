"""Environments and learners: one file each, its loop visible.

Importing this package registers `weft/Conditional-v0` and `weft/Workflow-v0` with Gymnasium.
"""

from importlib.util import find_spec

if find_spec("gymnasium") is not None:
    import gymnasium

    gymnasium.register(
        "weft/Conditional-v0",
        entry_point="weft.learn.conditional.env:ConditionalEnv",
        vector_entry_point="weft.learn.conditional.env:ConditionalVectorEnv",
    )
    gymnasium.register("weft/Workflow-v0", entry_point="weft.learn.workflow.env:WorkflowEnv")
