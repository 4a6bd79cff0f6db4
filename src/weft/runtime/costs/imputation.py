"""Imputation of durations that were not measured, from other devices and kinds.

`impute_logs` works on the tasks of a history, `impute_kinds` on kinds of tasks during a run.

A first run measures large tasks on some devices and small ones on others, and each pair of task and
device once or never. `impute_logs` takes the logarithm of a duration to be a sum of three parts:
one of the task, one of the device, and one of the task kind on the device. All parts are fitted
together, so that a device that ran only small tasks does not look quick. The weight of a
measurement is its seconds: plans depend on the long tasks, and short ones show little, as a single
interruption doubles them.
"""

from __future__ import annotations

import numpy as np

from weft.model.columns import FloatArray, IntArray

LOG_ROUNDS = 100
"""Rounds in which `impute_logs` separates the parts."""

KIND_ROUNDS = 50
"""Rounds in which `impute_kinds` separates the parts; few measurements need more."""


def impute_logs(logs: FloatArray, seconds: FloatArray, kind: IntArray) -> FloatArray:
    """Return an (n, p) matrix of fitted logarithms; NaN in `logs` is a gap.

    The part of a kind on a device is shrunk towards 0, the more the fewer seconds it was measured
    for: the part of a kind that took milliseconds there is nearly 0.

    Parameters
    ----------
    logs : (n, p) logarithms of measured over assumed durations
    seconds : (n, p) the measured durations
    kind : (n,) the kind of each task

    Examples
    --------
    A device that is four times as slow in long tasks, and ran a short one as quickly:

    >>> seconds = np.array([[1.0, 4.0], [0.001, 0.001], [2.0, np.nan]])
    >>> fitted = impute_logs(np.log(seconds), seconds, np.array([0, 1, 1]))
    >>> float(np.exp(fitted[2, 1]).round(1))
    8.0
    """
    known = ~np.isnan(logs)
    if known.all() or not known.any():
        return np.where(known, logs, 0.0)
    rows, first, row = _distinct(logs, kind)
    weight = np.where(known[first], seconds[first], 0.0)
    task, device, pair = _parts(np.where(known[first], rows, 0.0), weight, kind[first])
    own = _with_usual(task[row], np.asarray(known.any(axis=1)), kind)
    return np.asarray(own[:, None] + device + pair[kind])


def impute_kinds(logs: FloatArray) -> FloatArray:
    """Fill the gaps of a (kinds, p) matrix of logarithms.

    An entry is the mean of its kind plus the deviation of its device: a device that is twice as
    slow for all kinds measured on it is also twice as slow for the others. A kind without entries
    gets the median of all.

    Examples
    --------
    >>> impute_kinds(np.array([[1.0, np.nan], [np.nan, np.nan]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    >>> impute_kinds(np.array([[1.0, 3.0], [5.0, np.nan]])).round(6).tolist()
    [[1.0, 3.0], [5.0, 7.0]]
    """
    known = ~np.isnan(logs)
    if known.all() or not known.any():
        return np.where(known, logs, 0.0)
    values, rows, columns = np.where(known, logs, 0.0), known.sum(axis=1), known.sum(axis=0)
    device = np.zeros(logs.shape[1])
    for _ in range(KIND_ROUNDS):
        kind = (values - np.where(known, device, 0.0)).sum(axis=1) / np.maximum(rows, 1)
        rest = (values - np.where(known, kind[:, None], 0.0)).sum(axis=0)
        device = rest / np.maximum(columns, 1)
    if not rows.all():
        overall = float(np.median((values - device)[known]))
        kind = np.where(rows > 0, kind, overall)
    return np.where(known, logs, kind[:, None] + device)


def _with_usual(task: FloatArray, seen: np.ndarray, kind: IntArray) -> FloatArray:
    """Return the parts of tasks; unseen tasks get the median of their kind or of all."""
    usual = np.full(int(kind.max()) + 1, np.median(task[seen]))
    for k in np.unique(kind[seen]).tolist():
        usual[k] = np.median(task[seen & (kind == k)])
    return np.where(seen, task, usual[kind])


def _distinct(logs: FloatArray, kind: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the distinct rows, one task of each, and the row of each task."""
    table = np.column_stack([kind, np.nan_to_num(logs, nan=np.inf)])
    _, first, row = np.unique(table, axis=0, return_index=True, return_inverse=True)
    return logs[first], first, row.reshape(-1)


def _parts(
    values: FloatArray, weight: FloatArray, kind: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the parts of tasks (n,), devices (p,) and kinds on devices (kinds, p).

    Weighted least squares, one part after the other; the last part is shrunk towards zero.
    """
    usual = float((weight**2).sum() / weight.sum())
    kinds = int(kind.max()) + 1
    totals = np.zeros((kinds, weight.shape[1]))
    np.add.at(totals, kind, weight)
    by_task, by_device = _divisor(weight.sum(axis=1)), _divisor(weight.sum(axis=0))
    device, pair = np.zeros(weight.shape[1]), np.zeros_like(totals)
    task = np.zeros(len(values))
    for _ in range(LOG_ROUNDS):
        task = (weight * (values - device - pair[kind])).sum(axis=1) / by_task
        rest = weight * (values - task[:, None])
        device = (rest - weight * pair[kind]).sum(axis=0) / by_device
        sums = np.zeros_like(totals)
        np.add.at(sums, kind, rest - weight * device)
        pair = sums / (totals + usual)
    return task, device, pair


def _divisor(totals: FloatArray) -> FloatArray:
    return np.where(totals > 0.0, totals, 1.0)
