"""Shared links as planners see them: independent, as slow as in a replay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.model import Problem, Transfers
from weft.model.columns import FloatArray


def independent(problem: Problem, sharers: float | FloatArray = 1.0) -> Problem:
    """Return the problem on independent links.

    Each link has the rate of its route over `sharers`: one number, or (nodes, nodes).
    """
    c = problem.cluster
    apart = c.node[:, None] != c.node[None, :]
    slower = sharers[np.ix_(c.node, c.node)] if isinstance(sharers, np.ndarray) else sharers
    bandwidth = np.where(apart, c.bandwidth / slower, c.bandwidth)
    return replace(problem, cluster=replace(c, network=None, bandwidth=bandwidth))


def slowness_seen(problem: Problem, moved: Transfers) -> FloatArray:
    """Return the slowdown (nodes, nodes) of transfers between nodes.

    It is the seconds of the transfers over those on independent links. Two nodes without transfers
    get the mean.
    """
    c = problem.cluster
    nodes = len(c.node_names)
    alone = problem.workflow.data[moved.edge] * c.per_byte[moved.source, moved.target]
    took = moved.end - moved.begin - c.latency[moved.source, moved.target]
    real = (alone > 0.0) & np.isfinite(took)
    alone, took = alone[real], took[real]
    if not len(alone):
        return np.ones((nodes, nodes))
    pair = c.node[moved.source[real]] * nodes + c.node[moved.target[real]]
    whole = np.bincount(pair, alone, nodes * nodes)
    seen = np.bincount(pair, took, nodes * nodes)
    mean = float(took.sum() / alone.sum())
    slowness = np.where(whole > 0.0, seen / np.where(whole > 0.0, whole, 1.0), mean)
    return np.maximum(slowness, 1.0).reshape(nodes, nodes)
