"""Checked features and durations of tasks, for models of log(seconds)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import InvalidInput
from weft.model.columns import BoolArray, FloatArray

SHORTEST = 1e-9
"""Seconds; shorter durations count as this, for the logarithm."""


@dataclass(frozen=True)
class Features:
    """Named features, some of which enter by their logarithm.

    Examples
    --------
    >>> Features(("size", "share"), logs=("size",)).rows([1.0, 0.5])
    array([[0. , 0.5]])
    """

    names: Sequence[str]
    logs: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse a logarithm of an unknown feature."""
        unknown = [name for name in self.logs if name not in self.names]
        if unknown:
            raise InvalidInput(
                f"logs has '{unknown[0]}', which is not a feature; "
                f"the features are {', '.join(self.names)}"
            )

    @cached_property
    def _by_log(self) -> BoolArray:
        return np.array([name in self.logs for name in self.names], bool)

    def rows(self, features: ArrayLike) -> FloatArray:
        """Return (n, k) rows, with logarithms taken; of one row, (1, k)."""
        rows = np.array(features, float, ndmin=2)
        if rows.ndim != 2 or rows.shape[1] != len(self.names):
            raise InvalidInput(
                f"features have shape {rows.shape}; "
                f"expected one column for each of: {', '.join(self.names)}"
            )
        by_log = self._by_log
        bad = ~np.isfinite(rows) | (by_log & ~(rows > 0))
        if bad.any():
            i, j = (int(x[0]) for x in np.nonzero(bad))
            rule = "above zero: it enters by its logarithm" if by_log[j] else "a finite number"
            raise InvalidInput(
                f"the feature '{self.names[j]}' of row {i} is {rows[i, j]}; it must be {rule}"
            )
        rows[:, by_log] = np.log(rows[:, by_log])
        return rows

    def offline(self, features: ArrayLike, seconds: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return (n, k) rows and (n,) logarithms of offline data; at least one."""
        rows, y = self.rows(features), log_seconds(seconds)
        if len(rows) != len(y) or not len(y):
            raise InvalidInput(
                f"offline data has {len(rows)} rows of features and {len(y)} durations; "
                "give one duration per row, at least one"
            )
        return rows, y


def log_seconds(seconds: ArrayLike) -> FloatArray:
    """Return (n,) logarithms of durations."""
    values = np.atleast_1d(np.asarray(seconds, float))
    bad = ~(values >= 0) | np.isinf(values)
    if bad.any():
        raise InvalidInput(
            f"a duration of {values[bad][0]} s; it must be a finite number, zero or more"
        )
    return np.asarray(np.log(np.maximum(values, SHORTEST)))
