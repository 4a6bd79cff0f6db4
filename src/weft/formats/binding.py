"""Bind workflows from files, with the checks that numbers from outside need."""

from __future__ import annotations

import numpy as np

from weft.errors import InvalidInput
from weft.formats.parsing.limits import check_cells, check_devices
from weft.model import Cluster, Problem, Workflow


def bind(workflow: Workflow, cluster: Cluster) -> Problem:
    """Bind a workflow to a cluster, unless their table of costs is too large."""
    rows = workflow.n if workflow.durations else len(workflow.kinds) if cluster.throughput else 1
    check_cells(rows * cluster.p, f"a table of {rows} rows of costs x {cluster.p} devices")
    with np.errstate(all="ignore"):  # costs that overflow are refused
        return Problem.bind(workflow, cluster)


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
