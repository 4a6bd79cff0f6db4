"""`deepsched`: a network that imitates HEFT, after Shawky, Talaat, Adas and Youssef, with outputs for every task and no fixed maximum.

The document's network reads all tasks in one go and names a machine for each. That cannot balance: which of two equal machines is
free depends on what was placed before. Here the network says the order at once, and then a machine for one task after the other,
told how the plan stands: when inputs arrive, and from when on machines have room. What comes out is decoded with exact times, into
the earliest gap that fits, so every schedule is valid whatever the network says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.formats.safetensors_file import Numbers
from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray
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
    encode,
    load_network,
    score_devices,
    shipped_network,
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
from weft.sim.kernel.gaps import free_from, idle_timeline
from weft.planners.planner import PLANNERS, QUICK, Solution, refuse_choices
from weft.sim.kernel.jit import njit


@PLANNERS.register("deepsched")
@dataclass(frozen=True)
class DeepSched:
    """Order and devices as the network says; exact times by insertion.

    Parameters
    ----------
    weights : a file of `weft train deepsched`; empty: the network that comes with weft

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> DeepSched().solve(problem).schedule.makespan
    5.0
    """

    weights: str = ""
    name: str = "deepsched"

    @property
    def supports(self) -> frozenset[str]:
        """Words of `FEATURES`."""
        return QUICK

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:  # noqa: ARG002
        """Plan the problem."""
        refuse_choices(problem, self.name)
        network = load_network(self.weights) if self.weights else shipped_network()
        return Solution(as_schedule(plan_rows(problem, network)))


def plan_rows(problem: Problem, network: DeepNetwork) -> Rows:
    """Where and when each task runs, by this network."""
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
    """Give each task in turn the device the network prefers, at the earliest start there."""
    n, p = len(a.work), a.pace.shape[1]
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
