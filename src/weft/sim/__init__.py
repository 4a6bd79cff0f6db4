"""The event simulator, compiled and in plain Python.

- `simulate`: a plan, a rule or a policy on a workload in one scenario
- `view`: `View`, `Decision` and the protocols of policies
- `rule`: a priority rule that runs inside the kernel
- `reference`: the slow twin of the kernel, one moment at a time
- `lifecycle`: states of instances and devices without clock and I/O, shared with real runs
- `lifecycle_state`: the state behind it; `renumbering`: after old jobs left
- `story`: states, transitions and the log of each instance
- `device_state`: queues, commands and executions of a device
- `instance_tables`: tables that stay small with millions of instances
- `room`, `traffic`, `cache`: shared capacities, shared links and loaded kinds, in plain Python
- `kernel`: the compiled event kernel, and compiled parts that planners and policies share
- `vector`: many step-wise simulations of a stream, for learning
"""

__all__ = [
    "cache",
    "device_state",
    "instance_tables",
    "kernel",
    "lifecycle",
    "lifecycle_state",
    "reference",
    "renumbering",
    "room",
    "rule",
    "simulate",
    "story",
    "traffic",
    "vector",
    "view",
]
