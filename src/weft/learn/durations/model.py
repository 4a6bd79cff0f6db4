"""How long will this take on that device? A model that learns after every task and says how sure it is.

The logarithm of the seconds is linear in a few features (size, bytes, an intensity), with Student's t around it: Bayesian linear
regression with a normal-inverse-gamma prior, that is, recursive least squares that knows its own error. The world may change, so
three things are added:

- Forgetting goes back to the prior, not to nothing (Kulhavy and Zarrop 1993): what offline data said stays, worth a few
  observations. Directions in which nothing is observed for long do not blow up, and a shift that is undone finds the old
  knowledge in its place.
- Page's cumulative sums (1954) of the standardised residuals, one up and one down, notice a change: a large one after two
  observations, a small bias after some ten. Then most of what was learnt online is dropped at once. The prior is trusted again if
  it would have foreseen the observation, and loses most of its worth if not.
- One new point far from all others pulls the line there at once: that is leverage, and costs nothing.

The same model serves policies as a predictor of task times and real runs as the profiler's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.model.columns import FloatArray
from weft.sim.kernel.jit import njit

FORMAT = "weft-duration-model-1"
SHORTEST = 1e-9
"""Seconds; what took less counts as this, for the logarithm."""
CLIP, SLACK = 4.0, 0.5
"""A residual counts as at most 4 standard deviations, so that one straggler is no change; half of one is normal (Page 1954, section 2)."""
KEPT = 0.03
"""Share of what was learnt online that is kept when a change is noticed, and of the trust in a prior that did not foresee it."""
FORESEEN = 3.0
"""Standard deviations within which an observation agrees with the prior."""
LEAST_TRUST = 1e-3
SOLVED = ("factor", "weight", "prior_factor", "prior_weight")
"""What is worked out from the rest, and not written to files."""


class Moments(NamedTuple):
    """What is known, as sums: of z z', of z y, and of squared residuals; each beside its prior."""

    precision: FloatArray  # (k, k)
    information: FloatArray  # (k,)
    noise: FloatArray  # (2,) shape and rate of the inverse gamma of the residual's variance
    prior_precision: FloatArray  # (k, k)
    prior_information: FloatArray  # (k,)
    prior_noise: FloatArray  # (2,)
    watch: FloatArray  # (3,) cumulative sums upwards and downwards, and the trust in the prior: 1 at first
    factor: FloatArray  # (k, k) Cholesky factor of the precision, lower
    weight: FloatArray  # (k,) posterior mean
    prior_factor: FloatArray  # (k, k)
    prior_weight: FloatArray  # (k,)


@dataclass(frozen=True)
class Prediction:
    """Student's t of the logarithm of the seconds: `centre`, `scale`, and `freedom` (degrees of it)."""

    centre: float
    scale: float
    freedom: float

    @property
    def median(self) -> float:
        """Seconds that are as likely to be too few as too many."""
        return float(np.exp(self.centre))

    @property
    def expected(self) -> float:
        """Mean seconds, as of a log-normal; where hardly anything is known (a scale above 1) the tail is cut: its mean is infinite."""
        return float(np.exp(self.centre + min(self.scale, 1.0) ** 2 / 2))

    def quantile(self, share: float) -> float:
        """Seconds that are enough in that share of the cases.

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
    logs : those of them that enter by their logarithm (sizes, bytes: a power law); the others enter as they are
    forgetting : weight of an observation after the next one; 0.98 remembers about fifty, 1 all
    worth : how many observations the data given to `fit` count for
    noise : relative error expected before anything is known, and the least one after `fit`
    alarm : sum of standardised residuals that counts as a change; inf: never

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
        """Begin with a wide prior: weights of a few powers of ten either way."""
        self.names, self.logs = tuple(self.names), tuple(self.logs)
        unknown = [name for name in self.logs if name not in self.names]
        if unknown:
            raise InvalidInput(
                f"the feature '{unknown[0]}' shall enter by its logarithm, but the features are {', '.join(self.names)}"
            )
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
        self._by_log = np.array([name in self.logs for name in self.names], bool)
        k = len(self.names) + 1
        self.centre, self.spread = np.zeros(k - 1), np.ones(k - 1)
        self._begin(
            np.eye(k) * (self.noise / 10.0) ** 2, np.zeros(k), np.array([0.5, 0.5 * self.noise**2])
        )

    def _begin(self, precision: FloatArray, information: FloatArray, noise: FloatArray) -> None:
        k = len(information)
        now = (precision.copy(), information.copy(), noise.copy())
        self.moments = Moments(
            *now, precision, information, noise, np.array([0.0, 0.0, 1.0]), *_solutions(k)
        )
        _solve_both(self.moments)

    # -- learning ----------------------------------------------------------------

    def fit(self, features: ArrayLike, seconds: ArrayLike) -> None:
        """Take offline data, (n, k) and (n,), as the prior: worth `worth` observations, however many they are; drop all else."""
        rows, y = self._rows(features), _log_seconds(seconds)
        if len(rows) != len(y) or not len(y):
            raise InvalidInput(
                f"offline data has {len(rows)} rows of features and {len(y)} durations; give one duration a row, at least one"
            )
        self.centre, spread = rows.mean(axis=0), rows.std(axis=0)
        self.spread = np.where(spread > 0, spread, 1.0)
        z = np.column_stack([np.ones(len(rows)), (rows - self.centre) / self.spread])
        share, ridge = self.worth / len(y), self.noise**2
        precision = share * z.T @ z + ridge * np.eye(z.shape[1])
        information = share * z.T @ y + ridge * np.append(y.mean(), np.zeros(z.shape[1] - 1))
        residual = y - z @ np.linalg.solve(precision, information)
        variance = max(float(residual @ residual) / len(y), self.noise**2)
        self._begin(precision, information, 0.5 * self.worth * np.array([1.0, variance]))

    def observe(self, features: ArrayLike, seconds: float) -> float:
        """Learn from one task that took so long; return its residual in standard deviations, as it was predicted before."""
        z, y = self._terms(features), _log_seconds([seconds])[0]
        return float(_learn(self.moments, z, y, self.forgetting, self.alarm))

    # -- asking ------------------------------------------------------------------

    def predict(self, features: ArrayLike) -> Prediction:
        """What is expected of one task."""
        return self._at(self._terms(features))

    def expected(self, features: ArrayLike) -> FloatArray:
        """(n,) mean seconds of rows of features, as `Prediction.expected`."""
        centre, scale = self._predict_rows(features)
        return np.asarray(np.exp(centre + np.minimum(scale, 1.0) ** 2 / 2))

    def quantiles(
        self, features: ArrayLike, shares: Sequence[float] = (0.1, 0.5, 0.9)
    ) -> FloatArray:
        """(n, q) seconds for rows of features and shares."""
        from scipy.special import stdtrit

        centre, scale = self._predict_rows(features)
        steps = stdtrit(2.0 * self.moments.noise[0], np.asarray(shares, float))
        return np.asarray(np.exp(centre[:, None] + scale[:, None] * steps))

    def _predict_rows(self, features: ArrayLike) -> tuple[FloatArray, FloatArray]:
        rows = (self._rows(features) - self.centre) / self.spread
        m, centre, scale = self.moments, np.empty(len(rows)), np.empty(len(rows))
        _predict_rows(m.factor, m.weight, m.noise, rows, centre, scale)
        return centre, scale

    def _at(self, terms: FloatArray) -> Prediction:
        m = self.moments
        centre, scale = _predict(m.factor, m.weight, m.noise, terms)
        return Prediction(centre, scale, 2.0 * float(m.noise[0]))

    def _scaled(self, row: FloatArray) -> FloatArray:
        return np.append(1.0, (row - self.centre) / self.spread)

    def _rows(self, features: ArrayLike) -> FloatArray:
        rows = np.array(features, float, ndmin=2)
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            raise InvalidInput(
                f"features have shape {rows.shape}; expected one column for each of: {', '.join(self.names)}"
            )
        bad = ~np.isfinite(rows) | (self._by_log & ~(rows > 0))
        if bad.any():
            i, j = (int(x[0]) for x in np.nonzero(bad))
            rule = (
                "a number above zero: it enters by its logarithm"
                if self._by_log[j]
                else "a finite number"
            )
            raise InvalidInput(
                f"the feature '{self.names[j]}' of row {i} is {rows[i, j]}; it must be {rule}"
            )
        rows[:, self._by_log] = np.log(rows[:, self._by_log])
        return rows

    def _terms(self, features: ArrayLike) -> FloatArray:
        row = self._rows(features)
        if len(row) != 1:
            raise InvalidInput(f"features of one task expected, got {len(row)} rows")
        return self._scaled(row[0])

    # -- files -------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything it knows as JSON or NPZ, by the name's ending."""
        path, columns = Path(path), self._columns()
        if path.suffix == ".npz":
            np.savez(path, **{key: np.array(value) for key, value in columns.items()})  # type: ignore[arg-type]
        elif path.suffix == ".json":
            told = {key: np.array(value).tolist() for key, value in columns.items()}
            told["alarm"] = (
                self.alarm if np.isfinite(self.alarm) else None
            )  # JSON has no word for infinity
            path.write_text(json.dumps(told, allow_nan=False) + "\n", encoding="utf-8")
        else:
            raise InvalidInput(f"{path}: a duration model is written as .json or .npz")

    @classmethod
    def load(cls, path: str | Path) -> DurationModel:
        """Read a model back; files are data, nothing in them is run."""
        path = Path(path)
        try:
            if path.suffix == ".npz":
                with np.load(path, allow_pickle=False) as archive:
                    columns: dict[str, Any] = {key: archive[key] for key in archive.files}
            else:
                columns = json.loads(path.read_text(encoding="utf-8"))
                if isinstance(columns, dict) and columns.get("alarm", 0) is None:
                    columns["alarm"] = np.inf
        except FileNotFoundError:
            raise
        except (ValueError, OSError, EOFError) as error:
            raise InvalidInput(f"{path}: not a duration model: {error}") from None
        try:
            return cls._from_columns(columns)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"{path}: not a duration model: {error}") from None

    def _columns(self) -> dict[str, Any]:
        settings = {
            key: getattr(self, key)
            for key in (
                "names",
                "logs",
                "forgetting",
                "worth",
                "noise",
                "alarm",
                "centre",
                "spread",
            )
        }
        state = {
            f"sum_{key}": value
            for key, value in self.moments._asdict().items()
            if key not in SOLVED
        }
        return {"format": FORMAT, **settings, **state}

    @classmethod
    def _from_columns(cls, columns: dict[str, Any]) -> DurationModel:
        if not isinstance(columns, dict) or str(columns.get("format")) != FORMAT:
            raise InvalidInput(f"its format is not '{FORMAT}'")
        texts = {
            key: tuple(str(x) for x in np.asarray(columns[key]).tolist())
            for key in ("names", "logs")
        }
        numbers = {key: float(columns[key]) for key in ("forgetting", "worth", "noise", "alarm")}
        model = cls(**texts, **numbers)  # type: ignore[arg-type]
        k = len(model.names) + 1
        model.centre, model.spread = (_read(columns, key, (k - 1,)) for key in ("centre", "spread"))
        shapes = {
            key: value.shape for key, value in model.moments._asdict().items() if key not in SOLVED
        }
        state = {key: _read(columns, f"sum_{key}", shape) for key, shape in shapes.items()}
        if (
            not (model.spread > 0).all()
            or not (state["noise"] > 0).all()
            or not (state["prior_noise"] > 0).all()
        ):
            raise InvalidInput("its spreads and its noise must be above zero")
        model.moments = Moments(**state, **dict(zip(SOLVED, _solutions(k), strict=True)))
        _solve_both(model.moments)
        if (
            not np.isfinite(model.moments.weight).all()
            or not np.isfinite(model.moments.prior_weight).all()
        ):
            raise InvalidInput("its precision is not positive definite")
        return model


def _read(columns: dict[str, Any], key: str, shape: tuple[int, ...]) -> FloatArray:
    array = np.array(columns[key], dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise InvalidInput(
            f"'{key}' must hold finite numbers of shape {shape}; its shape is {array.shape}"
        )
    return np.ascontiguousarray(array)


def _log_seconds(seconds: ArrayLike) -> FloatArray:
    values = np.atleast_1d(np.asarray(seconds, float))
    bad = ~(values >= 0) | np.isinf(values)
    if bad.any():
        raise InvalidInput(
            f"a duration of {values[bad][0]} s; it must be a finite number, zero or more"
        )
    return np.asarray(np.log(np.maximum(values, SHORTEST)))


def _solutions(k: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    return np.zeros((k, k)), np.zeros(k), np.zeros((k, k)), np.zeros(k)


def _solve_both(m: Moments) -> None:
    _solve(m.precision, m.information, m.factor, m.weight)
    _solve(m.prior_precision, m.prior_information, m.prior_factor, m.prior_weight)


# -- compiled --------------------------------------------------------------------


@njit
def _solve(
    precision: FloatArray, information: FloatArray, factor: FloatArray, weight: FloatArray
) -> None:
    """Cholesky factor and mean; k is small, so plain loops beat a library call."""
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
    factor: FloatArray, weight: FloatArray, noise: FloatArray, z: FloatArray
) -> tuple[float, float]:
    """Centre and scale of the predictive Student's t: its variance is b / a * (1 + z' P^-1 z)."""
    k, centre, leverage = len(z), 0.0, 0.0
    half = np.empty(k)
    for i in range(k):
        centre += z[i] * weight[i]
        s = z[i]
        for x in range(i):
            s -= factor[i, x] * half[x]
        half[i] = s / factor[i, i]
        leverage += half[i] * half[i]
    return centre, np.sqrt(noise[1] / noise[0] * (1.0 + leverage))


@njit
def _predict_rows(
    factor: FloatArray,
    weight: FloatArray,
    noise: FloatArray,
    rows: FloatArray,
    centre: FloatArray,
    scale: FloatArray,
) -> None:
    z = np.ones(len(weight))
    for i in range(len(rows)):
        z[1:] = rows[i]
        centre[i], scale[i] = _predict(factor, weight, noise, z)


@njit
def _changed(m: Moments, z: FloatArray, y: float, standard: float, alarm: float) -> bool:
    """Whether the residuals add up to a change; then the prior is trusted or not by what it says of this observation."""
    clipped = min(max(standard, -CLIP), CLIP)
    m.watch[0] = max(0.0, m.watch[0] + clipped - SLACK)
    m.watch[1] = max(0.0, m.watch[1] - clipped - SLACK)
    if max(m.watch[0], m.watch[1]) <= alarm:
        return False
    centre, scale = _predict(m.prior_factor, m.prior_weight, m.prior_noise, z)
    m.watch[:2] = 0.0
    m.watch[2] = 1.0 if abs(y - centre) < FORESEEN * scale else max(KEPT * m.watch[2], LEAST_TRUST)
    return True


@njit
def _learn(m: Moments, z: FloatArray, y: float, forgetting: float, alarm: float) -> float:
    """One step: residual, change or not, forgetting towards the prior, the observation."""
    centre, scale = _predict(m.factor, m.weight, m.noise, z)
    standard = (y - centre) / scale
    changed = _changed(m, z, y, standard, alarm)
    keep = min(forgetting, KEPT) if changed else forgetting
    back = (1.0 - keep) * m.watch[2]
    # A change is no noise: counted as such it would hide the next one.
    squared = 1.0 if changed else min(standard * standard, CLIP * CLIP)
    residual = 0.5 * squared * m.noise[1] / m.noise[0]
    m.noise[0] = keep * m.noise[0] + back * m.prior_noise[0] + 0.5
    m.noise[1] = keep * m.noise[1] + back * m.prior_noise[1] + residual
    k = len(z)
    for i in range(k):
        m.information[i] = keep * m.information[i] + back * m.prior_information[i] + z[i] * y
        for j in range(k):
            m.precision[i, j] = (
                keep * m.precision[i, j] + back * m.prior_precision[i, j] + z[i] * z[j]
            )
    _solve(m.precision, m.information, m.factor, m.weight)
    return standard
