"""Paired tests, bootstrap intervals, effect sizes, corrections for many tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.model.columns import FloatArray
from weft.planners.planner import EXACT
from weft.rng import generator


@dataclass(frozen=True)
class Interval:
    """An estimate and its confidence interval."""

    estimate: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        return f"{self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class PairedTest:
    """Student's t-test on the differences of pairs, with Cohen's d of the differences."""

    difference: float
    t: float
    p_value: float
    effect: float
    pairs: int


def paired_t_test(first: ArrayLike, second: ArrayLike) -> PairedTest:
    """Compute the two-sided paired t-test of `first - second`.

    Without any spread the answer is certain: p is 1 for equal columns, 0 where all pairs differ by
    the same amount.

    Examples
    --------
    >>> result = paired_t_test([3, 5, 7], [2, 3, 4])
    >>> result.difference, round(result.t, 6), result.pairs
    (2.0, 3.464102, 3)
    """
    difference = _pairs(first, second, least=2)
    n, mean, spread = len(difference), float(difference.mean()), float(difference.std(ddof=1))
    if spread == 0:
        certain = float(np.copysign(np.inf, mean)) if mean else 0.0
        return PairedTest(mean, certain, 0.0 if mean else 1.0, certain, n)
    from scipy.stats import t as student

    t = mean / (spread / np.sqrt(n))
    return PairedTest(mean, float(t), float(2 * student.sf(abs(t), n - 1)), mean / spread, n)


def half_width(values: ArrayLike) -> float:
    """Return half the 95 % confidence interval of a mean by the t distribution.

    NaN for fewer than two values, or if a value is not finite.

    Examples
    --------
    >>> round(half_width([1.0, 3.0]), 3)  # deviation of the mean 1, t(0.975, 1) = 12.706
    12.706
    """
    column = np.asarray(values, float)
    if len(column) < 2 or not np.isfinite(column).all():
        return float("nan")
    from scipy.stats import t

    return float(t.ppf(0.975, len(column) - 1) * column.std(ddof=1) / np.sqrt(len(column)))


class Resampling(TypedDict, total=False):
    """Options of a bootstrap interval: by default 95 % from 10,000 draws."""

    confidence: float
    draws: int
    seed: int


def bootstrap_mean(values: ArrayLike, **options: Unpack[Resampling]) -> Interval:
    """Compute the percentile bootstrap interval of a mean (Efron, Tibshirani 1993).

    Examples
    --------
    >>> bootstrap_mean([2.0, 2.0, 2.0])
    Interval(estimate=2.0, low=2.0, high=2.0, confidence=0.95)
    """
    column = _column(values)[:, None]
    return _bootstrap("mean", column, lambda table: table[..., 0].mean(axis=-1), **options)


def geometric_mean_ratio(
    first: ArrayLike, second: ArrayLike, **options: Unpack[Resampling]
) -> Interval:
    """Compute the geometric mean of first / second by pairs; bootstrap its interval.

    Examples
    --------
    >>> round(geometric_mean_ratio([2.0, 8.0], [1.0, 1.0]).estimate, 12)
    4.0
    """
    table = _table(first, second)
    if not (table > 0).all():
        raise InvalidInput(
            f"a geometric mean needs positive values; the smallest is {table.min():g}"
        )
    logs = np.log(table[:, :1] / table[:, 1:])
    name = "geometric mean ratio"
    return _bootstrap(name, logs, lambda t: np.exp(t[..., 0].mean(axis=-1)), **options)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Adjust p-values for many tests at once (Holm 1979), in the order given.

    Examples
    --------
    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise InvalidInput(f"the p-value of '{name}' is {p}; it must lie between 0 and 1")
    adjusted, largest = {}, 0.0
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p))
        adjusted[name] = largest
    return {name: adjusted[name] for name in p_values}


@dataclass(frozen=True)
class Standing:
    """Interval of a contender's mean, its wins, and whether it is among the best."""

    low: float
    high: float
    wins: int
    best: bool


def standings(samples: Mapping[str, FloatArray]) -> dict[str, Standing]:
    """Compare contenders future by future; values are seconds, one per future.

    Two contenders are both among the best unless the paired bootstrap interval (95 %) of their
    difference to the smallest mean lies above 0. With one future, only equal values are.

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


def _bootstrap(
    name: str,
    table: FloatArray,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    confidence: float = 0.95,
    draws: int = 10_000,
    seed: int = 0,
) -> Interval:
    if not 0 < confidence < 1:
        raise InvalidInput(f"confidence is {confidence}; it must lie between 0 and 1")
    if draws < 1:
        raise InvalidInput(f"draws is {draws}; it must be 1 or more")
    rng, n = generator(seed, "bootstrap", name), len(table)
    # In portions of about a million numbers, so that long columns need no large memory.
    portion = max(1, 1_000_000 // n)
    sizes = [min(portion, draws - at) for at in range(0, draws, portion)]
    found = np.concatenate([statistic(table[rng.integers(0, n, (size, n))]) for size in sizes])
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(statistic(table)), float(low), float(high), confidence)


def _column(values: ArrayLike) -> FloatArray:
    column = np.asarray(values, float).reshape(-1)
    if not len(column):
        raise InvalidInput("statistics of no values; give at least one")
    if not np.isfinite(column).all():
        raise InvalidInput(
            f"value {int(np.flatnonzero(~np.isfinite(column))[0])} is not finite; leave out what "
            "did not end"
        )
    return column


def _table(first: ArrayLike, second: ArrayLike) -> FloatArray:
    a, b = _column(first), _column(second)
    if len(a) != len(b):
        raise InvalidInput(f"pairs need columns of one length; got {len(a)} and {len(b)} values")
    return np.stack([a, b], axis=1)


def _pairs(first: ArrayLike, second: ArrayLike, *, least: int) -> FloatArray:
    table = _table(first, second)
    if len(table) < least:
        raise InvalidInput(f"a paired test needs {least} pairs or more; got {len(table)}")
    return np.ascontiguousarray(table[:, 0] - table[:, 1])
