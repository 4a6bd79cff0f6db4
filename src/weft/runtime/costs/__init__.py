"""Costs: measured durations and transfers, and the estimates made of them.

- `batch_profile`: measured batch curves of functions
- `cost_model`: predicted seconds by kind and size
- `drift`: correction of estimates during a run
- `estimates`: problems with estimated durations
- `forecast`: when a run will end
- `history`: the file of measurements
- `history_files`: measurements as CSV and JSON, and from traces of other engines
- `imputation`: durations that were not measured, from those that were
- `keys`: functions and sizes of arguments, by which measurements go
- `learned_machines`: cold starts and batch curves learned from runs
- `measurements`: the rows of the history
- `profiler`: devices of this machine and micro-benchmarks
- `project`: the place of a project's history
- `recorder`: the measurements of a run, and their way into the history
- `summaries`: quartiles, drift and links
"""

__all__ = [
    "batch_profile",
    "cost_model",
    "drift",
    "estimates",
    "forecast",
    "history",
    "history_files",
    "imputation",
    "keys",
    "learned_machines",
    "measurements",
    "profiler",
    "project",
    "recorder",
    "summaries",
]
