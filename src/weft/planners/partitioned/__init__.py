"""Planning of very large graphs in parts, side by side.

- `partition`: acyclic partitions: slices of a topological order, refined by moves
- `planner`: the planner `partitioned`: parts planned by HEFT on several threads, then joined
"""

__all__ = ["partition", "planner"]
