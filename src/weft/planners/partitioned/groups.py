"""Groups of devices for parts that exchange no data: each part is planned on a group of its own."""

from __future__ import annotations

import numpy as np

from weft.model import Problem
from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.ranks import mean_durations


def device_groups(problem: Problem, count: int) -> tuple[list[IntArray], FloatArray] | None:
    """Divide the devices into groups of about the same speed; return these and their shares of it.

    Nodes stay whole if there are at least `count`. None if a group could not run every task.

    Examples
    --------
    >>> problem = Problem.from_arrays(work=[1.0], speed=[4.0, 3.0, 2.0, 1.0])
    >>> device_groups(problem, 2)
    ([array([0, 3]), array([1, 2])], array([0.5, 0.5]))
    """
    speed, node = mean_speeds(problem), problem.cluster.node
    if len(np.unique(node)) < count:
        node = np.arange(problem.p)
    by_node = np.bincount(node, speed)
    group_of, total = np.empty(len(by_node), np.int64), np.zeros(count)
    for i in np.argsort(-by_node, kind="stable"):  # largest first, to the slowest group
        group_of[i] = np.argmin(total)
        total[group_of[i]] += by_node[i]
    fastest = np.argsort(-speed, kind="stable")
    groups = [fastest[group_of[node[fastest]] == g] for g in range(count)]
    able = np.isfinite(problem.pace[np.unique(problem.row)])
    if any(not able[:, group].any(axis=1).all() for group in groups):
        return None
    return groups, total / total.sum()


def mean_speeds(problem: Problem) -> FloatArray:
    """(p,) speed of each device, relative to the mean one for each task, weighted by their work."""
    able = np.isfinite(problem.pace) & (problem.pace > 0.0)
    mean = np.broadcast_to(problem.mean_pace[:, None], problem.pace.shape)
    relative = np.divide(mean, problem.pace, out=np.zeros(problem.pace.shape), where=able)
    work = np.bincount(problem.row, mean_durations(problem), len(mean)).astype(np.float64)
    speed = np.asarray(work @ relative)
    return speed if speed.any() else np.ones(problem.p)
