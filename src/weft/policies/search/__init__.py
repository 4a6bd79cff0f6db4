"""Search for a better plan at every event.

- `residual`: the problem that is left, and sampled futures of it
- `anneal`: moves over orders and choices of devices
- `planning`: one decision by search
- `policy`: the policy and its options
- `table`: the registered policy
"""

__all__ = ["anneal", "planning", "policy", "residual", "table"]
