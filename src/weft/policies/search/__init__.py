"""Search for a better plan at every event.

- `residual`: the problem that is left, and sampled futures of it
- `anneal`: moves over orders and choices of devices
- `planning`: one decision by search
- `options`: options of the search
- `policy`: the policy
- `table`: the registered policy
"""

__all__ = ["anneal", "options", "planning", "policy", "residual", "table"]
