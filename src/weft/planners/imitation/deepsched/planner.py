"""The planner `deepsched`: a network that imitates HEFT.

After Shawky, Talaat, Adas and Youssef, but without a fixed number of tasks. Their network reads all
tasks at once and gives a machine for each. That cannot balance the load: which of two equal
machines is free depends on the tasks placed before. Here the network gives the order of all tasks
at once, then a device for one task after the other, from the arrival of its inputs and the free
time of the devices. Tasks go into the earliest gap that fits, so every schedule is valid whatever
the network.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray, Numbers
from weft.planners.imitation.deepsched.features import (
    PAIR_FEATURES,
    earliest_starts,
    pair_features,
    task_features,
)
from weft.planners.imitation.deepsched.network import (
    HEADS,
    DeepNetwork,
    best_device,
    bundled_network,
    encode,
    load_network,
    score_devices,
)
from weft.planners.lists.insertion import (
    Rows,
    arrivals,
    as_schedule,
    durations_of,
    empty_rows,
    place,
)
from weft.planners.lists.ranks import rank_order
from weft.planners.planner import PLANNERS, QUICK, Solution, refuse_choices
from weft.sim.kernel.gaps import free_from, idle_timeline
from weft.sim.kernel.jit import njit
from weft.typed import typed_dataclass


@PLANNERS.register("deepsched")
@typed_dataclass(frozen=True)
class DeepSched:
    """Order and devices by a network that imitates HEFT; times by insertion.

    Parameters
    ----------
    weights : a file of `weft train deepsched`; empty: the network that comes with weft

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> DeepSched().solve(problem).schedule.makespan
    5.0
    """

    weights: str | Path = ""
    name: str = "deepsched"
    supports: ClassVar[frozenset[str]] = QUICK

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem."""
        refuse_choices(problem, self.name)
        network = load_network(self.weights) if self.weights else bundled_network()
        return Solution(as_schedule(plan_rows(problem, network)))


def plan_rows(problem: Problem, network: DeepNetwork) -> Rows:
    """Plan a problem with a network."""
    features = task_features(problem)
    outputs = encode(network, features.rows)
    order = rank_order(problem, outputs[:, 0].astype(np.float64))
    return place_by_network(
        problem.arrays, order, features.scale, np.ascontiguousarray(outputs[:, HEADS:]), network
    )


@njit
def place_by_network(
    a: ProblemArrays, order: IntArray, scale: FloatArray, context: Numbers, net: DeepNetwork
) -> Rows:
    """Place each task, in order, on the device that the network prefers."""
    n, p = len(a.work), a.per_work.shape[1]
    rows, timeline = empty_rows(n), idle_timeline(p, n)
    ready, seconds, begin, free = np.empty(p), np.empty(p), np.empty(p), np.zeros(p)
    x, score = np.empty((len(PAIR_FEATURES), p), np.float32), np.empty(p, np.float32)
    for task in order:
        arrivals(a, task, rows, ready)
        durations_of(a, task, seconds)
        earliest_starts(timeline, ready, seconds, begin)
        pair_features(ready, begin, free, seconds, scale[task], x)
        score_devices(net, context[task], x, score)
        device = best_device(score, seconds)
        place(timeline, rows, task, device, begin[device], seconds[device])
        free[device] = free_from(timeline, device)
    return rows
