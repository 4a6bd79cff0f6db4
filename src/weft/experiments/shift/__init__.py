"""Offline knowledge under a shift of the workload.

experiment  reproduce, table
tasks       tasks, device model and task sequences in which something changes
physics     other device models, mixed sets of tasks
contenders  strategies of the document, and the learners
bandit      an ensemble of networks that chooses devices by Thompson sampling
chooser     a device per task, one after the other, by the models of `hybrid`
forest      a random forest in compiled code
matrix_product  speed of matrix products on this machine
queues      the tasks with queues and parallelism
runs        steps of the experiment
statistics  goals and ratios
report      the page
"""

__all__ = [
    "bandit",
    "chooser",
    "contenders",
    "experiment",
    "forest",
    "matrix_product",
    "physics",
    "queues",
    "report",
    "runs",
    "statistics",
    "tasks",
]
