"""Online prediction of task durations on a device, with uncertainty.

The logarithm of the seconds is linear in a few features (size, bytes, an intensity) with a
Student's t distribution: Bayesian linear regression with a normal-inverse-gamma prior, computed as
recursive least squares. Durations may change over time, so three things are added:

- Forgetting returns to the prior instead of to nothing (Kulhavy and Zarrop 1993, "On a general
  concept of forgetting"): offline data keeps the weight of a few observations. Directions without
  recent observations do not diverge, and the old fit returns after a temporary shift.
- Page's cumulative sums (1954) of the standardised residuals, one upward and one downward, detect a
  change: a large one after two observations, a small bias after about ten. Most of the online data
  is then dropped at once. If the prior predicts the observation, it regains full trust; otherwise
  it loses most of its weight.
- One new point far from all others moves the line there at once, because of its leverage.

Policies use this model to predict task times, and real runs use it in the profiler.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.model.columns import FloatArray
from weft.policies.hybrid.features import Features, log_seconds
from weft.sim.kernel.jit import njit
from weft.sim.kernel.records import record
from weft.sim.kernel.tables import RecordTable

CLIP, SLACK = 4.0, 0.5
"""Residuals are clipped to 4 standard deviations, so that one straggler is no change.

The cumulative sums ignore half a deviation per observation (Page 1954, section 2).
"""
KEPT = 0.03
"""Share of the online data, and of the trust in a prior that is wrong, kept at a change."""
PREDICTED = 3.0
"""Standard deviations within which an observation agrees with the prior."""
LEAST_TRUST = 1e-3


VARIANCE = record("alpha beta", "")
"""Inverse gamma distribution of the residual's variance: its shape and its rate."""
CHANGES = record("upward downward trust", "")
"""Cumulative sums of residuals in both directions; trust in the prior, initially 1."""


class Moments(NamedTuple):
    """Sufficient statistics (sums of z z', z y and squared residuals) and their prior."""

    precision: FloatArray  # (k, k)
    information: FloatArray  # (k,)
    noise: RecordTable  # (1,) VARIANCE
    prior_precision: FloatArray  # (k, k)
    prior_information: FloatArray  # (k,)
    prior_noise: RecordTable  # (1,) VARIANCE
    changes: RecordTable  # (1,) CHANGES
    factor: FloatArray  # (k, k) Cholesky factor of the precision, lower
    weight: FloatArray  # (k,) posterior mean
    prior_factor: FloatArray  # (k, k)
    prior_weight: FloatArray  # (k,)


@dataclass(frozen=True)
class Prediction:
    """Student's t of log(seconds): centre, scale and degrees of freedom."""

    centre: float
    scale: float
    freedom: float

    @property
    def median(self) -> float:
        """Median seconds."""
        return float(np.exp(self.centre))

    @property
    def expected(self) -> float:
        """Mean seconds of a log-normal with a scale of at most 1.

        The mean of the exponential of Student's t is infinite.
        """
        return float(np.exp(self.centre + min(self.scale, 1.0) ** 2 / 2))

    def quantile(self, share: float) -> float:
        """Return the seconds that suffice in that share of the cases.

        Examples
        --------
        >>> p = Prediction(0.0, 1.0, 1e9)
        >>> round(p.quantile(0.5), 6), round(p.quantile(0.975), 3)  # a normal: exp(1.96)
        (1.0, 7.099)
        """
        from scipy.special import stdtrit

        if not 0 < share < 1:
            raise InvalidInput(f"the quantile {share} does not lie between 0 and 1")
        return float(np.exp(self.centre + self.scale * stdtrit(self.freedom, share)))


@dataclass(eq=False)
class DurationModel:
    """Seconds of a task on one device, from named features.

    Parameters
    ----------
    names : of the features, in order
    logs : features that enter by their logarithm (sizes, bytes: a power law)
    forgetting : factor on the weight of past observations per new one; 0.98 keeps about fifty
    worth : number of observations that the data given to `fit` weigh
    noise : relative error before any observation, and the least one after `fit`
    alarm : cumulative sum of standardised residuals that signals a change; inf: never

    Examples
    --------
    >>> model = DurationModel(("size",), logs=("size",), forgetting=1.0)
    >>> for size in (1.0, 2.0, 4.0, 8.0, 16.0):
    ...     _ = model.observe([size], 3.0 * size**1.5)
    >>> round(model.predict([32.0]).median / (3.0 * 32.0**1.5), 2)
    1.0
    """

    names: tuple[str, ...]
    logs: tuple[str, ...] = ()
    forgetting: float = 0.98
    worth: float = 5.0
    noise: float = 0.1
    alarm: float = 5.0
    centre: FloatArray = field(init=False, repr=False)
    spread: FloatArray = field(init=False, repr=False)
    moments: Moments = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the values and set a wide prior: weights within a few powers of ten."""
        self.names, self.logs = tuple(self.names), tuple(self.logs)
        self._features = Features(self.names, self.logs)
        for what, value, least, most in (
            ("forgetting", self.forgetting, 0.0, 1.0),
            ("worth", self.worth, 0.0, np.inf),
        ):
            if not least < value <= most or np.isinf(value):
                raise InvalidInput(
                    f"{what} is {value}; it must be above {least:g}"
                    + (f", at most {most:g}" if most < np.inf else "")
                )
        if not 0 < self.noise < np.inf:
            raise InvalidInput(f"noise is {self.noise}; it must be a number above zero")
        k = len(self.names) + 1
        self.centre, self.spread = np.zeros(k - 1), np.ones(k - 1)
        self._begin(np.eye(k) * (self.noise / 10.0) ** 2, np.zeros(k), (0.5, 0.5 * self.noise**2))

    def _begin(
        self, precision: FloatArray, information: FloatArray, noise: tuple[float, float]
    ) -> None:
        """Start from a prior; `noise` is shape and rate of its `VARIANCE`."""
        k = len(information)
        m = Moments(
            precision=precision.copy(),
            information=information.copy(),
            noise=np.array([noise], VARIANCE),
            prior_precision=precision,
            prior_information=information,
            prior_noise=np.array([noise], VARIANCE),
            changes=np.array([(0.0, 0.0, 1.0)], CHANGES),
            factor=np.zeros((k, k)),
            weight=np.zeros(k),
            prior_factor=np.zeros((k, k)),
            prior_weight=np.zeros(k),
        )
        _solve(m.precision, m.information, m.factor, m.weight)
        _solve(m.prior_precision, m.prior_information, m.prior_factor, m.prior_weight)
        self.moments = m

    # -- learning ----------------------------------------------------------------

    def fit(self, features: ArrayLike, seconds: ArrayLike) -> None:
        """Set the prior from offline data, (n, k) and (n,), with the weight `worth`.

        All earlier observations are dropped.
        """
        rows, y = self._features.offline(features, seconds)
        self.centre, spread = rows.mean(axis=0), rows.std(axis=0)
        self.spread = np.where(spread > 0, spread, 1.0)
        z = np.column_stack([np.ones(len(rows)), (rows - self.centre) / self.spread])
        share, ridge = self.worth / len(y), self.noise**2
        precision = share * z.T @ z + ridge * np.eye(z.shape[1])
        information = share * z.T @ y + ridge * np.append(y.mean(), np.zeros(z.shape[1] - 1))
        residual = y - z @ np.linalg.solve(precision, information)
        variance = max(float(residual @ residual) / len(y), self.noise**2)
        weight = 0.5 * self.worth
        self._begin(precision, information, (weight, weight * variance))

    def observe(self, features: ArrayLike, seconds: float) -> float:
        """Learn from one duration; return its residual in predicted standard deviations."""
        z, y = self._terms(features), log_seconds([seconds])[0]
        return float(_learn(self.moments, z, y, self.forgetting, self.alarm))

    # -- predicting --------------------------------------------------------------

    def predict(self, features: ArrayLike) -> Prediction:
        """Predict the duration of one task."""
        m = self.moments
        centre, scale = _predict(m.factor, m.weight, m.noise, self._terms(features))
        return Prediction(centre, scale, 2.0 * float(m.noise[0]["alpha"]))

    def _terms(self, features: ArrayLike) -> FloatArray:
        row = self._features.rows(features)
        if len(row) != 1:
            raise InvalidInput(f"features of one task expected, got {len(row)} rows")
        return np.append(1.0, (row[0] - self.centre) / self.spread)


# -- compiled --------------------------------------------------------------------


@njit
def _solve(
    precision: FloatArray, information: FloatArray, factor: FloatArray, weight: FloatArray
) -> None:
    """Compute the Cholesky factor and the mean.

    For small k, loops are faster than a library call.
    """
    k = len(weight)
    for i in range(k):
        for j in range(i + 1):
            s = precision[i, j]
            for x in range(j):
                s -= factor[i, x] * factor[j, x]
            factor[i, j] = np.sqrt(s) if i == j else s / factor[j, j]
    for i in range(k):
        s = information[i]
        for x in range(i):
            s -= factor[i, x] * weight[x]
        weight[i] = s / factor[i, i]
    for i in range(k - 1, -1, -1):
        s = weight[i]
        for x in range(i + 1, k):
            s -= factor[x, i] * weight[x]
        weight[i] = s / factor[i, i]


@njit
def _predict(
    factor: FloatArray, weight: FloatArray, noise: RecordTable, z: FloatArray
) -> tuple[float, float]:
    """Return centre and scale of Student's t.

    Its variance is beta / alpha * (1 + z' P^-1 z).
    """
    k, centre, leverage = len(z), 0.0, 0.0
    half = np.empty(k)
    for i in range(k):
        centre += z[i] * weight[i]
        s = z[i]
        for x in range(i):
            s -= factor[i, x] * half[x]
        half[i] = s / factor[i, i]
        leverage += half[i] * half[i]
    return centre, np.sqrt(noise[0].beta / noise[0].alpha * (1.0 + leverage))


@njit
def _changed(m: Moments, z: FloatArray, y: float, standard: float, alarm: float) -> bool:
    """Return whether the residuals signal a change; if so, set the trust in the prior."""
    sums = m.changes[0]
    clipped = min(max(standard, -CLIP), CLIP)
    sums.upward = max(0.0, sums.upward + clipped - SLACK)
    sums.downward = max(0.0, sums.downward - clipped - SLACK)
    if max(sums.upward, sums.downward) <= alarm:
        return False
    centre, scale = _predict(m.prior_factor, m.prior_weight, m.prior_noise, z)
    sums.upward = sums.downward = 0.0
    agrees = abs(y - centre) < PREDICTED * scale
    sums.trust = 1.0 if agrees else max(KEPT * sums.trust, LEAST_TRUST)
    return True


@njit
def _learn(m: Moments, z: FloatArray, y: float, forgetting: float, alarm: float) -> float:
    """Update: residual, change detection, forgetting to the prior, the observation."""
    centre, scale = _predict(m.factor, m.weight, m.noise, z)
    standard = (y - centre) / scale
    changed = _changed(m, z, y, standard, alarm)
    keep = min(forgetting, KEPT) if changed else forgetting
    back = (1.0 - keep) * m.changes[0].trust
    # A change is not counted as noise, as that would hide the next change.
    squared = 1.0 if changed else min(standard * standard, CLIP * CLIP)
    noise, prior = m.noise[0], m.prior_noise[0]
    residual = 0.5 * squared * noise.beta / noise.alpha
    noise.alpha = keep * noise.alpha + back * prior.alpha + 0.5
    noise.beta = keep * noise.beta + back * prior.beta + residual
    k = len(z)
    for i in range(k):
        m.information[i] = keep * m.information[i] + back * m.prior_information[i] + z[i] * y
        for j in range(k):
            m.precision[i, j] = (
                keep * m.precision[i, j] + back * m.prior_precision[i, j] + z[i] * z[j]
            )
    _solve(m.precision, m.information, m.factor, m.weight)
    return standard
