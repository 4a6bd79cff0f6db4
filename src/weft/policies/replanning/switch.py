"""Network that decides whether to keep the incumbent plan or to plan again.

Each of the two is an option (Sutton, Precup and Singh 1999): a way to go on until the end, whose
value is the outcome. An option is interrupted if the other one has the higher value (section 4).
With reliable costs an improved incumbent is better; with unreliable costs, or while jobs keep
arriving, a new plan is. The observations show how reliable the costs are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.model import Workload
from weft.model.columns import Float32Array, FloatArray
from weft.policies.q_network import QNetwork, q_network, q_value
from weft.policies.replanning.feedback import observed_spread
from weft.policies.replanning.state import PlanState
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.ranks import mean_transfer
from weft.sim.kernel.tables import JOB_HERE, Sim


class SwitchFeatures(NamedTuple):
    """Places of the features of an option."""

    keep: int  # 1: the value of keeping the incumbent; 0: that of planning again
    kept: int  # 1: an incumbent is kept now
    noise: int  # root mean square of log(observed / estimated duration)
    bias: int  # root mean square of the means of that logarithm by task kind and device kind
    observed: int  # logarithm of the number of observations
    slowed: int  # share of the devices that are slower than usual
    down: int  # share of the devices that are down
    jobs: int  # logarithm of the number of jobs present
    left: int  # logarithm of their unfinished tasks per device
    share: int  # mean share of their tasks that is unfinished
    moving: int  # logarithm of mean transfer time / mean duration
    ready: int  # ready tasks per device
    devices: int
    coming: int  # share of the jobs that arrived after the first ones


FEATURE = SwitchFeatures(*range(len(SwitchFeatures._fields)))
FEATURES = SwitchFeatures._fields


def switch_network(arrays: Mapping[str, NDArray[Any]]) -> QNetwork:
    """Make the network of named arrays."""
    return q_network(arrays, networks=1, features=len(FEATURES))


def transfer_feature(workload: Workload, mean: FloatArray) -> float:
    """Return the feature `moving`, from the mean durations of the tasks."""
    latency, per_byte = mean_transfer(workload.problems[0])
    data = np.concatenate([problem.workflow.data for problem in workload.problems])
    if not len(data) or not len(mean):
        return 0.0
    ratio = max(float((latency + data * per_byte).mean()), 1e-300) / max(float(mean.mean()), 1e-300)
    return float(np.clip(np.log(max(ratio, 1e-300)), -3.0, 3.0) / 3.0)


@njit_noalloc
def prefers_incumbent(network: QNetwork, features: Float32Array, margin: float) -> bool:
    """Return whether keeping the incumbent beats planning again by more than `margin`."""
    return bool(q_value(network, 0, features[1]) > q_value(network, 0, features[0]) + margin)


@njit_noalloc
def describe_options(
    sim: Sim, plan: PlanState, moving: float, keep: int, features: Float32Array
) -> None:
    """Fill in the features of both options."""
    p, jobs, left, share, slowed, down, later = len(sim.device), 0, 0, 0.0, 0, 0, 0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state == JOB_HERE:
            size = sim.job[j + 1].first - sim.job[j].first
            jobs, left = jobs + 1, left + sim.job[j].remaining
            share += sim.job[j].remaining / max(size, 1)
            later += 1 if sim.job[j].arrival > sim.job[0].arrival else 0
    for d in range(p):
        slowed += 1 if 1.0 < sim.device[d].slowdown < np.inf else 0
        down += 1 if plan.device[d].free == np.inf else 0
    count, square, _, bias, _ = observed_spread(plan)
    for option in range(2):
        f = features[option]
        f[FEATURE.keep], f[FEATURE.kept] = option, keep
        f[FEATURE.noise] = np.sqrt(square / max(count, 1.0))
        f[FEATURE.bias] = np.sqrt(bias / max(count, 1.0))
        f[FEATURE.observed] = np.log(1.0 + count) / 5.0
        f[FEATURE.slowed], f[FEATURE.down] = slowed / p, down / p
        f[FEATURE.jobs] = np.log(max(jobs, 1)) / 3.0
        f[FEATURE.left] = np.log(1.0 + left / p) / 3.0
        f[FEATURE.share] = share / max(jobs, 1)
        f[FEATURE.moving] = moving
        f[FEATURE.ready] = min(sim.world[0].ready / p, 4.0) / 4.0
        f[FEATURE.devices] = p / 10.0
        f[FEATURE.coming] = later / max(jobs, 1)
