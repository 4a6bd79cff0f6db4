"""Offline knowledge under a shift of the workload.

experiment  reproduce, table
tasks       tasks, device model and task sequences in which something changes
contenders  strategies of the document, and the learners
runs        steps of the experiment, with and without queues
statistics  goals and ratios
report      the page
"""

__all__ = ["contenders", "experiment", "report", "runs", "statistics", "tasks"]
