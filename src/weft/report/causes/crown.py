"""The best contenders over drawn futures, and which of them cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weft.model.columns import FloatArray
from weft.planners.planner import EXACT
from weft.report.statistics import bootstrap_mean


@dataclass(frozen=True)
class Standing:
    """One contender: interval of its mean, futures it won, and whether it is among the best."""

    low: float
    high: float
    wins: int
    best: bool


def standings(samples: Mapping[str, FloatArray]) -> dict[str, Standing]:
    """Compare contenders future by future; values are seconds, one per future.

    Contenders share the crown unless the paired bootstrap interval (95 %) of their difference to
    the smallest mean lies above 0. With one future, only equal values share it.

    Examples
    --------
    >>> found = standings({"a": np.array([1.0, 3.0, 2.0]), "b": np.array([2.0, 1.0, 3.1])})
    >>> [(name, s.wins, s.best) for name, s in found.items()]
    [('a', 2, True), ('b', 1, True)]
    """
    if not samples:
        return {}
    table = np.stack(list(samples.values()))
    least = table.min(axis=0)
    won = (table <= least * (1 + EXACT)).sum(axis=1)
    first = table[int(table.mean(axis=1).argmin())]
    found = {}
    for row, (name, seconds) in enumerate(samples.items()):
        mean = bootstrap_mean(seconds)
        behind = seconds - first
        low = bootstrap_mean(behind).low if len(behind) > 1 else float(behind[0])
        best = low <= EXACT * float(first.mean())
        found[name] = Standing(mean.low, mean.high, int(won[row]), best)
    return found
