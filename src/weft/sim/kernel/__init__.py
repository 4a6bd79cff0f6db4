"""The compiled event kernel, and compiled parts that planners and policies share.

- `jit`: the one door to numba
- `tables`, `records`: the tables of one simulation and their dtypes; `sim_from_view`: from a view
- `events`: time, finishes, changes of slowdown, cancellations, arrivals
- `queues`, `commit`, `ready_heap`: device queues, commitments, the pool of ready instances
- `extensions`, `setup`, `traffic`: what machines may have beyond speed, loading of kinds, links
- `rules`: priority rules inside the kernel
- `ranks`: upward and downward rank; `gaps`: the earliest gap of a device
- `order_moves`: moves of searches over orders and devices
- `mlp`: the forward pass of a network
"""

__all__ = [
    "commit",
    "events",
    "extensions",
    "gaps",
    "jit",
    "mlp",
    "order_moves",
    "queues",
    "ranks",
    "ready_heap",
    "records",
    "rules",
    "setup",
    "sim_from_view",
    "tables",
    "traffic",
]
