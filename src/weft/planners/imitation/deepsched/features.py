"""Features of the network of `deepsched`.

They describe a task, and a task on a device in a partial plan. All are free of units: doubling all
times, or all numbers of tasks and devices, leaves them within the range of the training data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.formats.model_file import Numbers
from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray
from weft.sim.kernel.gaps import Timeline, earliest_start
from weft.sim.kernel.jit import njit, njit_inline
from weft.sim.kernel.ranks import downward_rank, mean_durations, mean_transfer, upward_rank

TASK_FEATURES = (
    "upward",  # rank over the longest path
    "downward",
    "through",  # longest path through the task over the longest of all
    "level",  # over the deepest
    "duration",  # log over the mean of all tasks
    "inputs",  # log of 1 + how many
    "outputs",
    "input_share",  # longest transfer in over itself plus duration
    "output_share",
    "children",  # mean of their durations, like `duration`
    "parents",
    "able",  # share of the devices that can run it
    "best",  # fastest over mean duration
    "spread",  # deviation over mean of the durations
    "load",  # log of tasks per device
    "devices",  # log
    "width",  # log of all work over longest path times devices; above 0 devices are scarce
    "moving",  # mean transfer over itself plus mean duration
)
PAIR_FEATURES = ("ready", "start", "free", "seconds")
"""Arrival of the inputs, earliest start and end of the queue, all relative to the earliest start
on any device; duration."""

CLIP = 10.0
"""Times are clipped at so many scales of the task: devices beyond are not chosen."""


class StaticFeatures(NamedTuple):
    """Features of all tasks before any task is placed."""

    rows: Numbers  # (n, len(TASK_FEATURES)) float32
    scale: FloatArray  # (n,) seconds: mean duration plus the longest mean transfer to the task
    horizon: float  # seconds: the longest path, or all work over all devices if that is longer


def task_features(problem: Problem) -> StaticFeatures:
    """Compute the features of all tasks.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 4.0], [1.0, 1.0]], [[0, 1]], [6.0], bandwidth=2.0)
    >>> found = task_features(problem)
    >>> found.rows.shape, found.scale.tolist(), found.horizon  # 1 s and 6 bytes at 2 B/s; 3 + 3 + 1
    ((2, 18), [3.0, 4.0], 7.0)
    """
    n, a = problem.n, problem.arrays
    cost = mean_durations(problem)
    latency, per_byte = mean_transfer(problem)
    upward, downward = upward_rank(problem), downward_rank(problem)
    longest, mean = float(upward.max(initial=0.0)), float(cost.mean()) if n else 0.0
    horizon = max(longest, float(cost.sum()) / problem.p) or 1.0
    length = np.log((cost + 1e-3 * mean) / mean) if mean > 0 else np.zeros(n)
    around = _neighbours(a, length, latency, per_byte)
    moving = latency + float(a.succ_data.mean()) * per_byte if len(a.succ_data) else 0.0
    kinds = _row_features(problem)[problem.row] if n else np.zeros((0, 3))
    level = problem.workflow.level
    rows = np.zeros((n, len(TASK_FEATURES)), np.float32)
    rows[:, :3] = np.stack([upward, downward, upward + downward], axis=1) / (longest or 1.0)
    rows[:, 3] = level / max(1, int(level.max(initial=0)))
    rows[:, 4] = length
    rows[:, 5:7] = np.log1p(np.stack([np.diff(a.pred_ptr), np.diff(a.succ_ptr)], axis=1))
    rows[:, 7:9] = _share(around[:, :2], cost[:, None])
    rows[:, 9:11] = around[:, 2:]
    rows[:, 11:14] = kinds
    rows[:, 14:] = (
        np.log(max(n, 1) / problem.p),
        np.log(problem.p),
        np.log((float(cost.sum()) / problem.p + 1e-9 * horizon) / (longest or horizon)),
        float(_share(np.array(moving), np.array(mean))),
    )
    scale = cost + around[:, 0]
    return StaticFeatures(rows, np.where(scale > 0, scale, 1.0), horizon)


def _share(part: Any, rest: Any) -> FloatArray:
    """Return part / (part + rest); 0 if both are 0."""
    whole = part + rest
    return np.asarray(part / np.where(whole > 0, whole, 1.0))


def _row_features(problem: Problem) -> FloatArray:
    """Return the features able, best and spread of every row of paces: (k, 3)."""
    can = np.isfinite(problem.pace)
    mean = np.where(problem.mean_pace > 0, problem.mean_pace, 1.0)
    apart = np.where(can, np.where(can, problem.pace, 0.0) - problem.mean_pace[:, None], 0.0)
    spread = np.sqrt((apart**2).sum(axis=1) / np.maximum(can.sum(axis=1), 1))
    return np.stack(
        [can.mean(axis=1), np.where(can.any(axis=1), problem.best_pace, 0.0) / mean, spread / mean],
        axis=1,
    )


@njit
def _neighbours(
    a: ProblemArrays, length: FloatArray, latency: float, per_byte: float
) -> FloatArray:
    """Return features of a task's neighbours: (n, 4).

    The columns are the longest mean transfer in and out, and the mean `length` of children and
    parents.
    """
    found = np.zeros((len(length), 4))
    for u in range(len(length)):
        for e in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
            v, seconds = a.succ[e], latency + a.succ_data[e] * per_byte
            found[u, 1] = max(found[u, 1], seconds)
            found[v, 0] = max(found[v, 0], seconds)
            found[u, 2] += length[v]
            found[v, 3] += length[u]
    for u in range(len(length)):
        found[u, 2] /= max(1, a.succ_ptr[u + 1] - a.succ_ptr[u])
        found[u, 3] /= max(1, a.pred_ptr[u + 1] - a.pred_ptr[u])
    return found


@njit_inline
def pair_features(
    ready: FloatArray,
    start: FloatArray,
    free: FloatArray,
    seconds: FloatArray,
    scale: float,
    x: Numbers,
) -> None:
    """Fill x, (len(PAIR_FEATURES), p), with the features of a task on every device.

    Devices that cannot run it (seconds inf) do not count for the earliest start.
    """
    zero = np.inf
    for d in range(len(ready)):
        if seconds[d] < np.inf:
            zero = min(zero, start[d])
    for d in range(len(ready)):
        x[0, d] = min(max((ready[d] - zero) / scale, -CLIP), CLIP)
        x[1, d] = min((start[d] - zero) / scale, CLIP)
        x[2, d] = min(max((free[d] - zero) / scale, -CLIP), CLIP)
        x[3, d] = min(seconds[d] / scale, CLIP)


@njit_inline
def earliest_starts(
    timeline: Timeline, ready: FloatArray, seconds: FloatArray, start: FloatArray
) -> None:
    """Fill `start` with the earliest start on each device; inf: it cannot run there."""
    for d in range(len(ready)):
        start[d] = (
            earliest_start(timeline, d, ready[d], seconds[d], np.inf)
            if seconds[d] < np.inf
            else np.inf
        )
