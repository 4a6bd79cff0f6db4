"""Summaries of measurements: quartiles, drift, and lines through transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

RECENT = 10
"""Newest measurements that are compared with the older ones to detect drift."""


@dataclass(frozen=True)
class Durations:
    """Durations of a task kind on a device kind at one size.

    `drift` is the recent over the older median, 1 if they agree.
    """

    kind: str
    device: str
    work: float
    data: float
    count: int
    quartiles: tuple[float, float, float]
    output: float
    drift: float


@dataclass(frozen=True)
class LinkCost:
    """Cost of transfers from one device kind to another."""

    source: str
    target: str
    count: int
    bandwidth: float
    latency: float


def drift_of(seconds: Sequence[float]) -> float:
    """Return the newest over the older median; 1 if they differ within the spread.

    Examples
    --------
    >>> drift_of([1.0] * 20 + [2.0] * 10), drift_of([1.0, 1.1, 0.9] * 10), drift_of([1.0, 5.0])
    (2.0, 1.0, 1.0)
    """
    if len(seconds) < 2 * RECENT:
        return 1.0
    logs = np.log(np.maximum(np.asarray(seconds, float), 1e-9))
    older, newest = logs[:-RECENT], logs[-RECENT:]
    shift = float(np.median(newest) - np.median(older))
    # Three standard errors of the difference of medians (spread from the median absolute
    # deviation), at least 20 %.
    spread = 1.4826 * float(np.median(np.abs(older - np.median(older))))
    bound = max(log(1.2), 3.0 * 1.2533 * spread * float(np.sqrt(1 / len(older) + 1 / RECENT)))
    return round(exp(shift), 12) if abs(shift) > bound else 1.0


def fit_link(rows: np.ndarray) -> tuple[float, float]:
    """Fit (bandwidth, latency) to (bytes, seconds), robustly: medians of two halves.

    Examples
    --------
    >>> fit_link(np.array([[1000.0, 1.1], [1000.0, 1.1], [9000.0, 1.9], [9000.0, 1.9]]))
    (10000.0, 1.0)
    """
    order = np.argsort(rows[:, 0], kind="stable")
    small, large = (
        np.median(half, axis=0)
        for half in (rows[order][: (len(rows) + 1) // 2], rows[order][len(rows) // 2 :])
    )
    slope = (large[1] - small[1]) / (large[0] - small[0]) if large[0] > small[0] else 0.0
    # Transfers that share a link scatter; a line above the quickest of them is useless.
    if slope <= 0 or small[1] - small[0] * slope > rows[:, 1].min():
        typical = np.median(rows[:, 1] / np.maximum(rows[:, 0], 1.0))
        return (float(1 / typical) if typical > 0 else float("inf")), 0.0
    return round(float(1 / slope), 6), round(max(float(small[1] - small[0] * slope), 0.0), 12)


def summary(key: tuple[str, str, float, float], values: list[tuple[float, float]]) -> Durations:
    """Summarise (seconds, bytes returned) of one kind, device and size."""
    seconds = [s for s, _ in values]
    quartiles = np.quantile(seconds, (0.25, 0.5, 0.75))
    output = float(np.median([o for _, o in values]))
    return Durations(
        *key,
        len(seconds),
        (float(quartiles[0]), float(quartiles[1]), float(quartiles[2])),
        output,
        drift_of(seconds),
    )


def apart(a: float, b: float) -> float:
    """Return how far two sizes are apart, as a ratio."""
    return abs(log((a + 1.0) / (b + 1.0)))
