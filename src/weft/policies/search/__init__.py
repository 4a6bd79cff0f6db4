"""Search for a better plan at every event.

- `residual`: the problem that is left, and sampled futures of it
- `anneal`: moves over orders and choices of devices
- `planning`: options of the search, and one decision by it
- `policy`: the policy `search-replanning`
"""

__all__ = ["anneal", "planning", "policy", "residual"]
