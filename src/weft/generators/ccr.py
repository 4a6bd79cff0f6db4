"""CCR, the communication to computation ratio of a problem: measured, set exactly.

CCR is the mean transfer time over the mean duration. The transfer time of an edge is its mean over
all ordered pairs of different devices, ``latency + data * per_byte``; the mean is taken over the
edges. The duration of a task is its mean over the devices that can run it; the mean is taken over
the tasks. (Topcuoglu, Hariri and Wu 2002, section 5.1, with the means of section 4.1.)

A workflow without a cluster is measured on the *reference*: devices of speed 1, links of 1 GB/s
without latency.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from weft.arguments import number
from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Workflow
from weft.typed import typed

REFERENCE_BANDWIDTH = 1e9
"""Bytes per second of the links of an unbound workflow."""


def reference_cluster() -> Cluster:
    """Return two devices of speed 1, with 1 GB/s between them."""
    links: Any = REFERENCE_BANDWIDTH  # a scalar fills the matrix
    return Cluster(speed=np.ones(2), bandwidth=links, name="reference")


@typed
def measure_ccr(problem: Problem) -> float:
    """Return the mean transfer time over the mean duration; 0 without edges.

    Examples
    --------
    >>> p = Problem.from_arrays([[2.0, 4.0], [5.0, 1.0]], [[0, 1]], [12.0], bandwidth=2.0)
    >>> measure_ccr(p)  # 6 s to move, (3 + 3) / 2 s to run
    2.0
    """
    if not problem.m:
        return 0.0
    latency, per_byte = _mean_links(problem.cluster)
    return float(latency + problem.workflow.data.mean() * per_byte) / _mean_duration(problem)


@typed
def scale_ccr(workflow: Workflow, ccr: float, cluster: Cluster | None = None) -> Workflow:
    """Return the workflow with its edge data scaled to a CCR on the cluster.

    Every edge is scaled by the same factor. If no edge has data, all get the same number of bytes.
    A workflow without edges is returned unchanged.

    Examples
    --------
    >>> w = Workflow(work=[1.0, 3.0], src=[0], dst=[1], data=[7.0])
    >>> round(float(scale_ccr(w, 0.5).data[0]))  # 0.5 * 2 s at 1 GB/s
    1000000000
    """
    ccr = number(ccr, "ccr")
    if not workflow.m:
        return workflow
    problem = Problem.bind(workflow, cluster or reference_cluster())
    latency, per_byte = _mean_links(problem.cluster)
    seconds = ccr * _mean_duration(problem) - latency
    if seconds < 0:
        least = latency / _mean_duration(problem)
        raise InvalidInput(
            f"ccr is {ccr:g}, but on cluster '{problem.cluster.name}' latency alone gives "
            f"{least:g}; ask for more"
        )
    if seconds > 0 and per_byte == 0:
        raise InvalidInput(
            f"ccr is {ccr:g}, but moving data takes no time on cluster '{problem.cluster.name}'; "
            "give it a bandwidth"
        )
    wanted = seconds / per_byte if seconds > 0 else 0.0  # mean bytes on an edge
    mean = float(workflow.data.mean())
    data = workflow.data * (wanted / mean) if mean > 0 else np.full(workflow.m, wanted)
    return dataclasses.replace(workflow, data=data)


def _mean_links(cluster: Cluster) -> tuple[float, float]:
    """Return mean latency and seconds per byte over pairs of different devices."""
    if cluster.p < 2:
        raise InvalidInput(
            f"a CCR is not defined on cluster '{cluster.name}': it has one device, and data never "
            "moves"
        )
    pairs = cluster.p * (cluster.p - 1)  # the diagonals are 0
    return float(cluster.latency.sum()) / pairs, float(cluster.per_byte.sum()) / pairs


def _mean_duration(problem: Problem) -> float:
    mean = float((problem.work * problem.mean_per_work[problem.row]).mean()) if problem.n else 0.0
    if mean <= 0:
        raise InvalidInput(
            f"a CCR is not defined for workflow '{problem.name}': its tasks take no time"
        )
    return mean
