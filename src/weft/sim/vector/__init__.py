"""Many step-wise simulations of one stream.

- `step`: one step, observations and action masks, compiled
- `batch`: `StepBatch`, many simulations stepped together
"""

__all__ = ["batch", "step"]
