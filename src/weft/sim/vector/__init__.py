"""Many step-wise simulations of one stream.

- `step`: one step, compiled
- `observation`: what a policy sees of it, and the actions it may take
- `state`: options and estimates beside the tables of the kernel
- `batch`: `StepBatch`, many simulations stepped together
"""

__all__ = ["batch", "observation", "state", "step"]
