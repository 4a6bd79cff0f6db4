"""The compiled event kernel and compiled searches that planners and policies share.

- `jit`: the one door to numba
- `tables`: the tables of one simulation
- `events`: time, finishes, changes of pace, cancellations, arrivals
- `queues`, `commit`, `ready_heap`: device queues, commitments, the pool of ready instances
- `features`, `setup`, `traffic`: what machines may have, loading of kinds, shared links
- `rules`: priority rules inside the kernel
- `ranks`: upward and downward rank
"""

__all__ = [
    "commit",
    "events",
    "features",
    "jit",
    "queues",
    "ranks",
    "ready_heap",
    "rules",
    "setup",
    "tables",
    "traffic",
]
