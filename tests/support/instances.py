"""Named problems and traces that several tests share."""

from __future__ import annotations

import numpy as np

import weft
from weft import formats

READERS = {
    weft.Problem: formats.load,
    weft.Workflow: formats.load_workflow,
    weft.Cluster: formats.load_cluster,
    weft.Workload: formats.load_workload,
    weft.Schedule: formats.load_schedule,
    weft.Trace: formats.load_trace,
}


def schedule_of(*rows: tuple[int, int, float, float]) -> weft.Schedule:
    """Return a schedule of rows (task, device, start, finish); later rows of a task copy it."""
    task, device, start, finish = zip(*rows, strict=True)
    copy = [t in task[:row] for row, t in enumerate(task)]
    return weft.Schedule.of(task=task, device=device, start=start, finish=finish, copy=copy)


def topcuoglu() -> weft.Problem:
    """Return the ten tasks of Topcuoglu, Hariri and Wu (2002), figure 2, on three processors."""
    costs = [[14, 16, 9], [13, 19, 18], [11, 13, 19], [13, 8, 17], [12, 13, 10]]
    costs += [[13, 16, 9], [7, 15, 11], [5, 11, 14], [18, 12, 20], [21, 7, 16]]
    edges = {(0, 1): 18, (0, 2): 12, (0, 3): 9, (0, 4): 11, (0, 5): 14}
    edges |= {(1, 7): 19, (1, 8): 16, (2, 6): 23, (3, 7): 27, (3, 8): 23}
    edges |= {(4, 8): 13, (5, 7): 15, (6, 9): 17, (7, 9): 11, (8, 9): 13}
    return weft.Problem.from_arrays(costs, list(edges), list(edges.values()), bandwidth=1.0)


def conditional_problem() -> weft.Problem:
    """Return a problem with a choice, durations, kinds and memory."""
    b = weft.WorkflowBuilder("cascade")
    b.task("small", work=1.0, memory=2.0)
    b.task("large", work=10.0, kind="net", durations={"A100": 0.5, "cpu": 9.0})
    b.choice("small", {"unsure": 0.25, "sure": 0.75})
    b.edge("small", "large", data=1e6, when="unsure")
    cluster = weft.Cluster(
        speed=[1.0, 2.0],
        kinds=("cpu", "A100"),
        bandwidth=1e9,
        throughput={"net": [np.nan, 4.0]},
        memory=[4.0, np.inf],
    )
    return weft.Problem.bind(b.build(), cluster)


def cut_trace() -> weft.Trace:
    """Return a trace of two jobs of the conditional problem, one of which was cut short."""
    workload = weft.Workload.of(conditional_problem(), arrival=[0.0, 1.0])
    ints = {key: np.array([0, 1], np.int64) for key in ("job", "device", "batch")}
    zeros = {key: np.zeros(2, np.int64) for key in ("task", "status")}
    clock = {key: np.array([0.0, 1.5]) for key in ("decided", "start", "finish")}
    return weft.Trace(
        workload=workload,
        scenario=weft.Scenario.of(workload, outcome=[0, 1], changes=[(1.0, 0, 2.0)]),
        copy=np.zeros(2, bool),
        job_finish=np.array([1.0, np.nan]),
        eager=True,
        policy="fifo",
        **ints,
        **zeros,
        **clock,
    )
