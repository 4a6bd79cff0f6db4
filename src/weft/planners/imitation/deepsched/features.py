"""Features of the network of `deepsched`.

They describe a task, and a task on a device in a partial plan. All are free of units: doubling all
times, or all numbers of tasks and devices, leaves them within the range of the training data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, Numbers
from weft.sim.kernel.gaps import Timeline, earliest_start
from weft.sim.kernel.jit import njit, njit_inline
from weft.sim.kernel.ranks import downward_rank, mean_durations, mean_transfer, upward_rank


class EncoderFeatures(NamedTuple):
    """Places of the features of a task."""

    upward: int  # rank over the longest path
    downward: int
    through: int  # longest path through the task over the longest of all
    level: int  # over the deepest level
    duration: int  # log over the mean of all tasks
    inputs: int  # log of 1 + how many
    outputs: int
    input_share: int  # longest transfer in over itself plus duration
    output_share: int
    children: int  # mean of their durations, like `duration`
    parents: int
    able: int  # share of the devices that can run it
    best: int  # fastest over mean duration
    spread: int  # deviation over mean of the durations
    load: int  # log of tasks per device
    devices: int  # log
    width: int  # log of all work over longest path times devices; above 0 devices are scarce
    moving: int  # mean transfer over itself plus mean duration


class ScorerFeatures(NamedTuple):
    """Places of the features of a task on a device."""

    ready: int  # arrival of the inputs, relative to the earliest start on any device
    start: int  # earliest start, like `ready`
    free: int  # end of the queue, like `ready`
    seconds: int  # duration


TASK_FEATURES = EncoderFeatures._fields
PAIR_FEATURES = ScorerFeatures._fields
TASK = EncoderFeatures(*range(len(TASK_FEATURES)))
PAIR = ScorerFeatures(*range(len(PAIR_FEATURES)))

CLIP = 10.0
"""Times are clipped at this multiple of the task's scale: no later device is chosen."""


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
    able, best, spread = (column[problem.row] for column in _row_features(problem))
    level, path = problem.workflow.level, longest or 1.0
    rows = np.zeros((n, len(TASK_FEATURES)), np.float32)
    rows[:, TASK.upward] = upward / path
    rows[:, TASK.downward] = downward / path
    rows[:, TASK.through] = (upward + downward) / path
    rows[:, TASK.level] = level / max(1, int(level.max(initial=0)))
    rows[:, TASK.duration] = length
    rows[:, TASK.inputs] = np.log1p(np.diff(a.pred_ptr))
    rows[:, TASK.outputs] = np.log1p(np.diff(a.succ_ptr))
    rows[:, TASK.input_share] = _share(around.transfer_in, cost)
    rows[:, TASK.output_share] = _share(around.transfer_out, cost)
    rows[:, TASK.children] = around.children
    rows[:, TASK.parents] = around.parents
    rows[:, TASK.able] = able
    rows[:, TASK.best] = best
    rows[:, TASK.spread] = spread
    rows[:, TASK.load] = np.log(max(n, 1) / problem.p)
    rows[:, TASK.devices] = np.log(problem.p)
    rows[:, TASK.width] = np.log(
        (float(cost.sum()) / problem.p + 1e-9 * horizon) / (longest or horizon)
    )
    rows[:, TASK.moving] = _share(np.array(moving), np.array(mean))
    scale = cost + around.transfer_in
    return StaticFeatures(rows, np.where(scale > 0, scale, 1.0), horizon)


def _share(part: Any, rest: Any) -> FloatArray:
    """Return part / (part + rest); 0 if both are 0."""
    whole = part + rest
    return np.asarray(part / np.where(whole > 0, whole, 1.0))


def _row_features(problem: Problem) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the features able, best and spread, each (k,), of every row of costs."""
    can = np.isfinite(problem.per_work)
    mean = np.where(problem.mean_per_work > 0, problem.mean_per_work, 1.0)
    apart = np.where(
        can, np.where(can, problem.per_work, 0.0) - problem.mean_per_work[:, None], 0.0
    )
    spread = np.sqrt((apart**2).sum(axis=1) / np.maximum(can.sum(axis=1), 1))
    best = np.where(can.any(axis=1), problem.best_per_work, 0.0)
    return can.mean(axis=1), best / mean, spread / mean


class _Neighbours(NamedTuple):
    """Columns about the neighbours of each task, (n,)."""

    transfer_in: FloatArray  # longest mean transfer
    transfer_out: FloatArray
    children: FloatArray  # mean of their `length`
    parents: FloatArray


@njit
def _neighbours(
    a: ProblemArrays, length: FloatArray, latency: float, per_byte: float
) -> _Neighbours:
    n = len(length)
    found = _Neighbours(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n))
    for u in range(n):
        for e in range(a.succ_ptr[u], a.succ_ptr[u + 1]):
            v, seconds = a.succ[e], latency + a.succ_data[e] * per_byte
            found.transfer_out[u] = max(found.transfer_out[u], seconds)
            found.transfer_in[v] = max(found.transfer_in[v], seconds)
            found.children[u] += length[v]
            found.parents[v] += length[u]
    for u in range(n):
        found.children[u] /= max(1, a.succ_ptr[u + 1] - a.succ_ptr[u])
        found.parents[u] /= max(1, a.pred_ptr[u + 1] - a.pred_ptr[u])
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
        x[PAIR.ready, d] = min(max((ready[d] - zero) / scale, -CLIP), CLIP)
        x[PAIR.start, d] = min((start[d] - zero) / scale, CLIP)
        x[PAIR.free, d] = min(max((free[d] - zero) / scale, -CLIP), CLIP)
        x[PAIR.seconds, d] = min(seconds[d] / scale, CLIP)


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
