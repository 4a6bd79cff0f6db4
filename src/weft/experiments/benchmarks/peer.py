"""HEFT of the PyPI package anrg-saga on the same problem."""

from __future__ import annotations

import importlib.util
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import MissingExtra, Unsupported
from weft.model import Problem


@dataclass(frozen=True)
class PeerResult:
    """Processor seconds of one call, and its makespan."""

    seconds: float
    makespan: float


def installed() -> bool:
    """Return whether the peer is installed."""
    return importlib.util.find_spec("saga") is not None


def heft(problem: Problem) -> PeerResult:
    """Measure one call of the peer's HEFT, without building its network and graph."""
    if not installed():
        raise MissingExtra("anrg-saga", "bench")
    from saga.schedulers.heft import HeftScheduler

    network, graph = _network(problem), _task_graph(problem)
    begin = time.process_time()
    schedule = HeftScheduler().schedule(network, graph)
    return PeerResult(time.process_time() - begin, float(schedule.makespan))


def _network(problem: Problem) -> Any:
    from saga import Network

    cluster = problem.cluster
    if (
        len(problem.per_work) != 1
        or cluster.latency.any()
        or not np.array_equal(cluster.bandwidth, cluster.bandwidth.T)
    ):
        raise Unsupported("the peer supports one speed per device, no latency and symmetric links")
    links = [
        (a, b, float(cluster.bandwidth[i, j]))
        for i, a in enumerate(cluster.names)
        for j, b in enumerate(cluster.names)
        if i < j
    ]
    return Network.create(zip(cluster.names, cluster.speed.tolist(), strict=True), links)


def _task_graph(problem: Problem) -> Any:
    from saga import TaskGraph

    w = problem.workflow
    tasks = [(w.task_name(t), float(w.work[t])) for t in range(w.n)]
    edges = [
        (w.task_name(a), w.task_name(b), x)
        for a, b, x in zip(w.src.tolist(), w.dst.tolist(), w.data.tolist(), strict=True)
    ]
    return TaskGraph.create(tasks, edges)
