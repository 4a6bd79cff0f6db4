"""Features of the network of `amortised`: numbers for each task on each device.

All features are relative (to the mean duration, the mean over devices, the makespan of the warm
start), so that problems of all sizes look alike, and none depends on the number of a device or
task. The warm start is the best plan of the quick planners. Its device of the task itself is left
out on purpose: a network that reads it learns to copy the warm start and nothing else.
"""

from __future__ import annotations

import numpy as np

from weft.formats.model_file import Numbers
from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.planners.search.warm_start import WarmStart
from weft.sim.kernel.jit import njit
from weft.sim.kernel.ranks import mean_durations, mean_transfer

NAMES = (
    "seconds",  # duration here, less the shortest, over the task's mean
    "relative",  # log of the duration here over the task's mean
    "tail",  # shortest time after it here, less the least, over the mean duration of tasks
    "arrival",  # of its inputs if the parents stay, less the least, over the mean duration
    "through",  # arrival + duration + tail here, over the makespan
    "parents",  # share of its incoming transfers (seconds) from parents that are here
    "children",  # share of its outgoing transfers to children that are here
    "load",  # busy seconds of the device in the warm start, over the makespan
    "idle",  # arrival + duration here less the finish in the warm start, over its mean
    "slack",  # of the task in the warm start: (makespan - finish - tail) / makespan
    "depth",  # start of the task over the makespan
    "traffic",  # log(1 + transfers in and out over its mean duration)
    "degree",  # log(1 + parents + children)
    "ccr",  # log of mean transfer over mean duration, clipped to [-4, 4]
    "devices",  # log of devices
    "crowd",  # log of tasks per device
)
"""Names of the features, in order."""

SIZE = len(NAMES)


def pair_features(problem: Problem, start: WarmStart, tail: FloatArray) -> Numbers:
    """Compute the features of every task on every device: (n, p, SIZE).

    Parameters
    ----------
    tail : (n, p) shortest time from the task's finish on a device to the end, see `device_tails`
    """
    seconds = mean_durations(problem)
    latency, per_byte = mean_transfer(problem)
    features = np.zeros((problem.n, problem.p, SIZE), np.float32)
    unit = float(seconds.mean()) or 1.0
    edges = latency + problem.arrays.succ_data * per_byte
    ccr = float(edges.mean()) / unit if len(edges) else 0.0
    world = (
        np.log(min(max(ccr, np.exp(-4.0)), np.exp(4.0))),
        np.log(problem.p),
        np.log(problem.n / problem.p),
    )
    begin, end = start.schedule.start.copy(), start.schedule.finish.copy()
    _fill(
        problem.arrays,
        seconds,
        unit,
        latency,
        per_byte,
        world,
        start.device,
        begin,
        end,
        np.ascontiguousarray(tail),
        features,
    )
    return features


@njit
def _fill(
    a: ProblemArrays,
    mean: FloatArray,
    unit: float,
    latency: float,
    per_byte: float,
    world: tuple[float, float, float],
    device: IntArray,
    begin: FloatArray,
    end: FloatArray,
    tail: FloatArray,
    out: Numbers,
) -> None:
    n, p = len(a.work), a.pace.shape[1]
    makespan = max(end.max(), 1e-300)
    load = np.zeros(p)
    for t in range(n):
        load[device[t]] += (end[t] - begin[t]) / makespan
    seconds, arrival, inward, outward = np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    for t in range(n):
        own = mean[t] if mean[t] > 0.0 else unit
        shortest, least_tail = np.inf, np.inf
        for d in range(p):
            pace = a.pace[a.row[t], d]
            seconds[d] = a.work[t] * pace if pace < np.inf else np.inf
            arrival[d] = inward[d] = outward[d] = 0.0
            if pace < np.inf:
                shortest, least_tail = min(shortest, seconds[d]), min(least_tail, tail[t, d])
        received = sent = 0.0
        for e in range(a.pred_ptr[t], a.pred_ptr[t + 1]):
            u, data = a.pred[e], a.pred_data[e]
            cost = latency + data * per_byte
            received += cost
            inward[device[u]] += cost
            for d in range(p):
                arrival[d] = max(
                    arrival[d], end[u] + (a.latency[device[u], d] + data * a.per_byte[device[u], d])
                )
        for e in range(a.succ_ptr[t], a.succ_ptr[t + 1]):
            cost = latency + a.succ_data[e] * per_byte
            sent += cost
            outward[device[a.succ[e]]] += cost
        soonest = arrival.min()
        for d in range(p):
            if seconds[d] == np.inf:
                continue
            x = out[t, d]
            x[0] = min((seconds[d] - shortest) / own, 5.0)
            x[1] = np.log(max(seconds[d] / own, 1e-2)) if seconds[d] > 0.0 else 0.0
            x[2] = min((tail[t, d] - least_tail) / unit, 10.0)
            x[3] = min((arrival[d] - soonest) / unit, 10.0)
            x[4] = min((arrival[d] + seconds[d] + tail[t, d]) / makespan, 3.0)
            x[5] = inward[d] / received if received > 0.0 else 0.0
            x[6] = outward[d] / sent if sent > 0.0 else 0.0
            x[7] = load[d]
            x[8] = max(-3.0, min(3.0, (arrival[d] + seconds[d] - end[t]) / own))
            x[9] = (makespan - end[t] - tail[t, device[t]]) / makespan
            x[10] = begin[t] / makespan
            x[11] = np.log(1.0 + min((received + sent) / own, 1e4))
            x[12] = np.log(
                1.0 + (a.pred_ptr[t + 1] - a.pred_ptr[t]) + (a.succ_ptr[t + 1] - a.succ_ptr[t])
            )
            x[13], x[14], x[15] = world
