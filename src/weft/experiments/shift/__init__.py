"""Offline knowledge under a shift of the workload.

experiment  reproduce, table
tasks       tasks, device model and task sequences in which something changes
physics     other device models, mixed sets of tasks
contenders  strategies of the document, and the learners
queues      the tasks with queues and parallelism
runs        steps of the experiment
statistics  goals and ratios
report      the page
"""

__all__ = ["contenders", "experiment", "physics", "queues", "report", "runs", "statistics", "tasks"]
