"""Bind workflows from files, with the checks that numbers from outside need."""

from __future__ import annotations

import numpy as np

from weft.errors import InvalidInput
from weft.formats.parsing.limits import check_cells, check_devices
from weft.model import Cluster, Problem, Workflow


def bind(workflow: Workflow, cluster: Cluster) -> Problem:
    """Bind a workflow to a cluster and refuse costs that overflow to infinity."""
    rows = workflow.n if workflow.durations else len(workflow.kinds) if cluster.throughput else 1
    check_cells(rows * cluster.p, f"a table of {rows} rows of costs x {cluster.p} devices")
    with np.errstate(all="ignore"):
        problem = Problem.bind(workflow, cluster)
        slowest = np.where(np.isfinite(problem.pace), problem.pace, 0.0).max(axis=1, initial=0.0)[
            problem.row
        ]
        long = ~np.isfinite(problem.work * slowest)
        per_byte = cluster.per_byte
        most = float(workflow.data.max(initial=0.0))
        slow = ~np.isfinite(cluster.latency + most * per_byte)
    if long.any():
        t = int(np.flatnonzero(long)[0])
        raise InvalidInput(
            f"task '{workflow.task_name(t)}' takes more seconds than a float can hold (work "
            f"{workflow.work[t]:g})"
        )
    if slow.any():
        i, j = (int(x) for x in np.argwhere(slow)[0])
        link = f"link '{cluster.names[i]}' -> '{cluster.names[j]}'"
        raise InvalidInput(
            f"moving {most:g} bytes over {link} takes more seconds than a float can hold"
        )
    return problem


def own_cluster(workflow: Workflow) -> Cluster:
    """Return one device per device kind of a workflow's durations, with free links."""
    if not workflow.durations:
        raise InvalidInput(
            "holds a workflow without machines; name them: load(path, cluster='gpus.toml') or a "
            "Cluster"
        )
    kinds = tuple(workflow.durations)
    check_devices(len(kinds))
    return Cluster(
        name=workflow.name,
        speed=np.ones(len(kinds)),
        names=kinds,
        kinds=kinds,
        cores=np.full(len(kinds), max(1, int(workflow.cores.max(initial=1)))),
    )
