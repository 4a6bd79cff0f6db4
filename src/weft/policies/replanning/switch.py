"""Whether to keep a plan or to make plans anew: what a Q-network is told of the world, and what it says; compiled.

Either is an option (Sutton, Precup and Singh 1999): a way to go on until the end. Its value is what comes of that; one option is left
where the other is worth more (their section 4, interruption). Where costs are as they were said to be, a plan that is kept and bettered
wins; where they are not, or where jobs keep coming, one made anew from what is known now does. How far the world can be relied upon
shows in what has been observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.model import Workload
from weft.model.columns import FloatArray
from weft.policies.replanning.placement import PlanState
from weft.policies.two_stage.q_network import Numbers, QNetwork, q_network, q_value
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.ranks import mean_transfer
from weft.sim.kernel.tables import JOB_HERE, Sim

TOLD = (
    "keep",  # 1: what keeping a plan is worth is asked for; 0: what making plans anew is
    "kept",  # 1: a plan is being kept
    "noise",  # root mean square of log(observed / estimated duration)
    "bias",  # the same of its means by task kind and device kind
    "observed",  # the logarithm of how many that was
    "slowed",  # share of the devices that are slower than usual
    "down",  # share of the devices that are down
    "jobs",  # the logarithm of how many are here
    "left",  # the logarithm of their tasks that are not done, for each device
    "share",  # of their tasks that are not done, on average
    "moving",  # the logarithm of what an edge takes to move on average, over what a task takes
    "ready",  # tasks for each device
    "devices",
    "coming",  # share of the jobs that had not been there when the first ones came
)
"""What the network is told."""


def plan_judge(arrays: Mapping[str, NDArray[Any]]) -> QNetwork:
    """The network of named arrays."""
    return q_network(arrays, networks=1, features=len(TOLD))


def no_judge() -> QNetwork:
    """A network that says nothing."""
    shapes: tuple[tuple[int, ...], ...] = ((1, 0, 0), (1, 0), (1, 0, 0), (1, 0), (1, 0), (2, 0))
    return QNetwork(*(np.zeros(shape, np.float32) for shape in shapes))


def log_moving(workload: Workload, mean: FloatArray) -> float:
    """What the network is told of transfers, from the mean durations of the tasks."""
    latency, per_byte = mean_transfer(workload.problems[0])
    data = np.concatenate([problem.workflow.data for problem in workload.problems])
    if not len(data) or not len(mean):
        return 0.0
    ratio = max(float((latency + data * per_byte).mean()), 1e-300) / max(float(mean.mean()), 1e-300)
    return float(np.clip(np.log(ratio), -3.0, 3.0) / 3.0)


@njit_noalloc
def prefers_keeping(
    sim: Sim, desk: PlanState, judge: QNetwork, told: Numbers, known: FloatArray, keeping: int
) -> bool:
    """Whether keeping a plan looks better than making plans anew, by more than the caution."""
    describe_world(sim, desk, known[1], keeping, told)
    return bool(q_value(judge, 0, told[1]) > q_value(judge, 0, told[0]) + known[0])


@njit_noalloc
def describe_world(sim: Sim, desk: PlanState, moving: float, keeping: int, told: Numbers) -> None:
    """Fill in what is told of both options."""
    p, jobs, left, share, slowed, down, later = len(sim.device), 0, 0, 0.0, 0, 0, 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            size = sim.job[j + 1].first - sim.job[j].first
            jobs, left = jobs + 1, left + sim.job[j].remaining
            share += sim.job[j].remaining / max(size, 1)
            later += 1 if sim.job[j].arrival > sim.job[0].arrival else 0
    for d in range(p):
        slowed += 1 if 1.0 < sim.device[d].pace < np.inf else 0
        down += 1 if desk.free[d] == np.inf else 0
    count, square, bias = _observed(desk)
    for option in range(2):
        f = told[option]
        f[0], f[1] = option, keeping
        f[2] = np.sqrt(square / max(count, 1.0))
        f[3] = np.sqrt(bias / max(count, 1.0))
        f[4] = np.log(1.0 + count) / 5.0
        f[5], f[6] = slowed / p, down / p
        f[7] = np.log(max(jobs, 1)) / 3.0
        f[8] = np.log(1.0 + left / p) / 3.0
        f[9] = share / max(jobs, 1)
        f[10] = moving
        f[11] = min(sim.world[0].ready / p, 4.0) / 4.0
        f[12] = p / 10.0
        f[13] = later / max(jobs, 1)


@njit_inline
def _observed(desk: PlanState) -> tuple[float, float, float]:
    """How many durations were observed, the sum of the squares of their log ratios, and that part of it that kinds account for."""
    count, square, bias = 0.0, 0.0, 0.0
    for d in range(len(desk.alike)):
        first = True  # devices of a kind share what was observed: it counts once
        for other in range(d):
            first = first and desk.alike[other] != desk.alike[d]
        if first:
            for kind in range(len(desk.seen)):
                seen = desk.seen[kind, d]
                count, square = count + seen[1], square + seen[2]
                bias += seen[0] * seen[0] / max(seen[1], 1.0)
    return count, square, bias
