"""Bind workflows from files, with the checks that numbers from outside need."""

from __future__ import annotations

import numpy as np

from weft.errors import InvalidInput
from weft.formats.parsing.limits import check_cells, check_devices
from weft.model import Cluster, Problem, Workflow
from weft.model.problem import one_of_each


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
    check_devices(len(workflow.durations))
    return one_of_each(workflow, name=workflow.name)
