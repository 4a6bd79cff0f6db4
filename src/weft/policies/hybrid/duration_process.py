"""Gaussian process of log durations, learned online, with change detection.

The logarithm of the seconds is a linear trend in the features plus a local part (an exponential
kernel, Rasmussen and Williams 2006, section 4.2.1). The trend extrapolates to features without
data, as a power law does. The local part learns all other shapes: jumps where data no longer fits
into a memory, steps of tiles, the least time of a launch. Its size, its reach in every feature and
the noise maximise the marginal likelihood (section 5.4.1), by a few halvings and doublings at a
time.

A device may change its speed. Page's cumulative sums (1954) of the standardised residuals raise an
alarm; then two explanations are compared by their marginal likelihood: the durations have a shape
that was not known, or the level of the device has changed. In the second case an *era* begins, with
a level of its own and the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist

from weft.model.columns import FloatArray, IntArray
from weft.policies.hybrid.features import Features, log_seconds

CLIP, SLACK, ALARM = 4.0, 0.5, 5.0
"""Residuals are clipped to 4 deviations; sums ignore half a deviation of each; 5 are an alarm."""
EVIDENCE = 12.0
"""Logarithm of the likelihood ratio, over a new shape, from which a new era begins."""
NEAR = 1.0
"""Tasks are alike if their features differ by less than this number of units in all."""
RECENT = (1, 2, 4, 8)
"""Numbers of latest observations with which a new era may begin."""
TRIALS = frozenset({3, 6, 10, 15})
"""Numbers of observations at which the kernel is fitted, besides every twentieth."""
LOCAL, NOISE, REACH = (0.05, 3.0), (0.02, 1.0), (0.05, 20.0)
"""Limits of the kernel's parameters."""


STATE = ("rows", "y", "group", "era", "sums", "factor", "half", "centre")
"""Arrays of the state."""


class Covariance(NamedTuple):
    """Standard deviations of local part and noise, and the reach per feature."""

    local: float
    noise: float
    reach: FloatArray

    def scaled(self, which: int, factor: float) -> Covariance:
        """Return the kernel with one of its numbers multiplied by a factor."""
        if which == 0:
            return self._replace(local=self.local * factor)
        if which == 1:
            return self._replace(noise=self.noise * factor)
        reach = self.reach.copy()
        reach[which - 2] *= factor
        return self._replace(reach=reach)

    def valid(self) -> bool:
        """Return whether all numbers are within their limits."""
        pairs = ((self.local, LOCAL), (self.noise, NOISE))
        return all(low <= value <= high for value, (low, high) in pairs) and bool(
            ((self.reach >= REACH[0]) & (self.reach <= REACH[1])).all()
        )

    def log_prior(self) -> float:
        """Return the logarithm of a wide log-normal density around the initial values."""
        far = (np.log(self.local / 0.5), np.log(self.noise / 0.1), *(np.log(self.reach) / 1.5))
        return -0.5 * float(np.square(far).sum())


class DurationPrediction(NamedTuple):
    """Normal distribution of the logarithm of the seconds."""

    centre: float
    scale: float

    @property
    def expected(self) -> float:
        """Mean seconds of a log-normal with a scale of at most 1."""
        return float(np.exp(self.centre + min(self.scale, 1.0) ** 2 / 2))


@dataclass(eq=False)
class DurationProcess:
    """Durations on one device, from named features and a group (the kind of the task).

    Parameters
    ----------
    names : of the features, in order
    logs : features that enter by their logarithm
    units : per feature, the difference (of the logarithm) over which durations may differ
    level, slope, group, era : prior standard deviations of the level, of the trend per unit, of the
        level of a group and of the level of an era
    offline, window : offline and online observations that are stored, at most

    Examples
    --------
    >>> process = DurationProcess(("size",), logs=("size",))
    >>> for size in (1.0, 2.0, 4.0, 8.0, 16.0):
    ...     process.observe([size], 3.0 * size)
    >>> bool(80 < np.exp(process.predict([32.0]).centre) < 115)  # 96 by the trend
    True
    """

    names: tuple[str, ...]
    logs: tuple[str, ...] = ()
    units: Sequence[float] | None = None
    level: float = 5.0
    slope: float = 1.0
    group: float = 0.0
    era: float = 1.5
    offline: int = 40
    window: int = 300
    kernel: Covariance = field(init=False, repr=False)
    eras: int = field(default=1, init=False)
    observed: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Check the names and begin without data."""
        self._features = Features(self.names, self.logs)
        k = len(self.names)
        self._unit = np.ones(k) if self.units is None else np.asarray(self.units, float)
        self.kernel = Covariance(0.3, 0.1, np.ones(k))
        self._rows, self._y = np.zeros((0, k)), np.zeros(0)
        self._group, self._era = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._centre, self._mean, self._pinned = np.zeros(k), 0.0, 0
        self._sums = np.zeros(2)
        self._factor: FloatArray = np.zeros((0, 0))
        self._half: FloatArray = np.zeros(0)

    # -- learning ----------------------------------------------------------------

    def fit(self, features: ArrayLike, seconds: ArrayLike) -> None:
        """Start from offline data, (n, k) and (n,): evenly chosen rows stay for good."""
        rows, y = self._features.offline(features, seconds)
        rows = rows / self._unit
        kept = np.unique(np.linspace(0, len(y) - 1, min(self.offline, len(y))).astype(int))
        self._centre, self._mean = rows.mean(axis=0), float(y.mean())
        self._pin(rows[kept], y[kept])

    def profile(self, features: ArrayLike, seconds: ArrayLike) -> None:
        """Add measurements made beforehand, (n, k) and (n,); all of them stay for good."""
        self._pin(self._inputs(features), log_seconds(seconds))

    def _pin(self, rows: FloatArray, y: FloatArray) -> None:
        none = np.zeros(len(y), np.int64)
        self._rows, self._y = np.concatenate([rows, self._rows]), np.append(y, self._y)
        self._group, self._era = np.append(none, self._group), np.append(none, self._era)
        self._pinned += len(y)
        for _ in range(3):
            self._improve()
        self._factorise()

    def observe(self, features: ArrayLike, seconds: float, group: int = 0) -> None:
        """Learn from one duration."""
        z, y = self._inputs(features), float(log_seconds([seconds])[0])
        centre, scale = self._predict(z, np.array([group]))
        residual = float(np.clip((y - centre[0]) / scale[0], -CLIP, CLIP))
        if self._familiar(z, group):
            self._sums = np.maximum(0.0, self._sums + np.array([residual, -residual]) - SLACK)
        self._append(z, y, group)
        self.observed += 1
        if self._sums.max() > ALARM:
            self._sums[:] = 0.0
            self._explain()
        elif self.observed in TRIALS or self.observed % 20 == 0:
            self._improve()
            self._factorise()

    def _familiar(self, z: FloatArray, group: int) -> bool:
        """Return whether a task like this one was observed.

        For other tasks, a surprise is no sign of a change.
        """
        near = np.abs(self._rows - z).sum(axis=1) < NEAR
        return bool((near & ((self._group == group) | (self.group == 0))).any())

    def _append(self, z: FloatArray, y: float, group: int) -> None:
        era = self.eras - 1
        column = self._covariance(self._rows, z, self._group, [group], self._era, [era])[:, 0]
        own = self._variance(z)[0] + self.kernel.noise**2
        self._rows, self._y = np.concatenate([self._rows, z]), np.append(self._y, y)
        self._group, self._era = np.append(self._group, group), np.append(self._era, era)
        if len(self._y) > self._pinned + self.window:
            self._drop_oldest()
            return
        # One more row of the Cholesky factor.
        n = len(column)
        row = _solve(self._factor, column) if n else column
        grown = np.zeros((n + 1, n + 1))
        grown[:n, :n], grown[n, :n] = self._factor, row
        grown[n, n] = np.sqrt(max(own - row @ row, 1e-12))
        self._factor = grown
        self._half = np.append(self._half, (y - self._mean - row @ self._half) / grown[n, n])

    def _drop_oldest(self) -> None:
        """Drop a fifteenth of a full window at once: each drop needs a factorisation."""
        count = max(1, self.window // 15)
        kept = np.delete(np.arange(len(self._y)), slice(self._pinned, self._pinned + count))
        self._rows, self._y = self._rows[kept], self._y[kept]
        self._group, self._era = self._group[kept], self._era[kept]
        self._factorise()

    def _explain(self) -> None:
        """Explain an alarm by a shape that was not known, or by a new era."""
        for _ in range(3):
            self._improve()
        same, before = self._evidence(self.kernel), self._era.copy()
        best, chosen = same + EVIDENCE, before
        for count in RECENT:
            if count > len(before) - self._pinned:
                break
            self._era = before.copy()
            self._era[-count:] = self.eras
            found = self._evidence(self.kernel)
            if found > best:
                best, chosen = found, self._era
        self._era = chosen
        self.eras += chosen is not before
        self._factorise()

    def _improve(self) -> None:
        """Halve or double each number of the kernel where that raises the evidence."""
        best = self._evidence(self.kernel)
        for which in range(2 + len(self.names)):
            for factor in (0.5, 2.0):
                tried = self.kernel.scaled(which, factor)
                if tried.valid() and (found := self._evidence(tried)) > best:
                    best, self.kernel = found, tried
                    break

    def _evidence(self, kernel: Covariance) -> float:
        """Return the logarithm of marginal likelihood and prior (section 5.4.1)."""
        if not len(self._y):
            return kernel.log_prior()
        factor, half = self._solved(kernel)
        return float(-0.5 * half @ half - np.log(factor.diagonal()).sum() + kernel.log_prior())

    def _factorise(self) -> None:
        self._factor, self._half = self._solved(self.kernel)

    def _solved(self, kernel: Covariance) -> tuple[FloatArray, FloatArray]:
        if not len(self._y):
            return np.zeros((0, 0)), np.zeros(0)
        same = self._rows, self._rows, self._group, self._group, self._era, self._era
        matrix = self._covariance(*same, kernel=kernel)
        matrix[np.diag_indices(len(matrix))] += kernel.noise**2
        factor = cholesky(matrix, lower=True, check_finite=False, overwrite_a=True)
        return factor, _solve(factor, self._y - self._mean)

    # -- resuming ----------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return all that was learned, as numbers and arrays."""
        kernel = {"local": self.kernel.local, "noise": self.kernel.noise}
        arrays = {key: getattr(self, f"_{key}").copy() for key in STATE}
        numbers = {"eras": self.eras, "observed": self.observed, "pinned": self._pinned}
        return {**arrays, **numbers, **kernel, "reach": self.kernel.reach.copy()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        for key in STATE:
            kind = np.int64 if key in {"group", "era"} else np.float64
            setattr(self, f"_{key}", np.array(state[key], kind))
        k, n = len(self.names), len(self._y)
        self._rows, self._factor = self._rows.reshape(n, k), self._factor.reshape(n, n)
        self.eras, self.observed = int(state["eras"]), int(state["observed"])
        self._pinned = int(state["pinned"])
        reach = np.array(state["reach"], float)
        self.kernel = Covariance(float(state["local"]), float(state["noise"]), reach)

    # -- predicting --------------------------------------------------------------

    def predict(self, features: ArrayLike, group: int = 0) -> DurationPrediction:
        """Predict the duration of one task."""
        centre, scale = self._predict(self._inputs(features), np.array([group]))
        return DurationPrediction(float(centre[0]), float(scale[0]))

    def predict_rows(self, features: ArrayLike, group: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (n,) centres and (n,) scales of rows of features."""
        return self._predict(self._inputs(features), group)

    def _predict(self, z: FloatArray, group: IntArray) -> tuple[FloatArray, FloatArray]:
        variance = self._variance(z)
        if not len(self._y):
            return np.full(len(z), self._mean), np.sqrt(variance + self.kernel.noise**2)
        era = np.full(len(z), self.eras - 1)
        across = self._covariance(self._rows, z, self._group, group, self._era, era)
        known = _solve(self._factor, across)
        left = np.maximum(variance - np.square(known).sum(axis=0), 1e-9)
        return self._mean + self._half @ known, np.sqrt(left + self.kernel.noise**2)

    def _covariance(
        self,
        a: FloatArray,
        b: FloatArray,
        group_a: ArrayLike,
        group_b: ArrayLike,
        era_a: ArrayLike,
        era_b: ArrayLike,
        kernel: Covariance | None = None,
    ) -> FloatArray:
        form = kernel or self.kernel
        matrix = self.level**2 + self.slope**2 * (a - self._centre) @ (b - self._centre).T
        matrix += self.era**2 * np.equal.outer(era_a, era_b)
        if self.group:
            matrix += self.group**2 * np.equal.outer(group_a, group_b)
        apart = cdist(a / form.reach, b / form.reach, "cityblock")
        return np.asarray(matrix + form.local**2 * np.exp(-apart))

    def _variance(self, z: FloatArray) -> FloatArray:
        """Return (n,) prior variances."""
        trend = self.slope**2 * np.square(z - self._centre).sum(axis=1)
        own = self.level**2 + self.era**2 + self.group**2 + self.kernel.local**2
        return np.asarray(own + trend)

    def _inputs(self, features: ArrayLike) -> FloatArray:
        return np.asarray(self._features.rows(features) / self._unit)


def _solve(factor: FloatArray, right: FloatArray) -> FloatArray:
    return np.asarray(solve_triangular(factor, right, lower=True, check_finite=False))
