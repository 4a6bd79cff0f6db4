"""Predicted seconds of tasks: measured for a size, or by a model of other sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import log
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from weft.model.columns import FloatArray
from weft.runtime.costs.history import KEPT
from weft.runtime.costs.keys import Sizes
from weft.runtime.costs.measurements import TaskRow
from weft.runtime.costs.summaries import apart

if TYPE_CHECKING:
    from weft.learn.durations.model import DurationModel

SIZES = 3
"""Measured sizes of a task kind required to fit a model."""

FITTED = 500
"""Newest measurements that a model is fitted to."""

CostPoint = tuple[float, float, Sizes]
"""Work, incoming bytes and sizes of arguments."""


class CostModel:
    """Seconds by task kind, device kind and size.

    Examples
    --------
    >>> rows = [TaskRow("f", "cpu", 0, 0, s, 0, 0, (("0", s / 2),)) for s in (1.0, 2.0, 4.0)]
    >>> model = CostModel(rows)
    >>> model.seconds("f", "cpu", (0, 0, (("0", 1.0),))), model.seconds("g", "cpu", (0, 0, ()))
    (2.0, None)
    >>> round(model.seconds("f", "cpu", (0, 0, (("0", 8.0),))))
    16
    """

    def __init__(self, rows: Iterable[TaskRow]) -> None:
        self._rows: dict[tuple[str, str], list[TaskRow]] = {}
        for row in rows:
            self._rows.setdefault((row.kind, row.device), []).append(row)
        self._curves: dict[tuple[str, str], _KindDurations] = {}

    def seconds(self, kind: str, device: str, at: CostPoint) -> float | None:
        """Return the predicted seconds; None if the kind was never measured on the device.

        The median if that size was measured; else a model over at least `SIZES` sizes, or the
        nearest size scaled by the work.
        """
        key = (kind, device)
        if key not in self._rows:
            return None
        if key not in self._curves:
            self._curves[key] = _KindDurations(self._rows[key])
        return self._curves[key].at(at)

    def measured(self, kind: str, device: str, at: CostPoint) -> bool:
        """Return whether exactly this size was measured."""
        known = self.seconds(kind, device, at) is not None
        return known and at in self._curves[kind, device].medians


class OutputModel:
    """Bytes of results by task kind and size, whatever the device.

    Examples
    --------
    >>> rows = [TaskRow("half", "cpu", 0, b, 1.0, b / 4, 0, ()) for b in (1e6, 4e6)]
    >>> model = OutputModel(rows)
    >>> model.bytes("half", (0, 4e6, ())), model.bytes("half", (0, 3e6, ()))
    (1000000.0, 1000000.0)
    >>> model.bytes("other", (0, 0, ()))
    0.0
    """

    def __init__(self, rows: Iterable[TaskRow]) -> None:
        groups: dict[str, dict[CostPoint, list[float]]] = {}
        for row in rows:
            points = groups.setdefault(row.kind, {})
            points.setdefault((row.work, row.data, row.sizes), []).append(row.output)
        self._known = {
            kind: {point: median(values[-KEPT:]) for point, values in points.items()}
            for kind, points in groups.items()
        }
        self.known = any(any(points.values()) for points in self._known.values())
        """Whether any result has bytes."""
        self._found: dict[tuple[str, CostPoint], float] = {}

    def bytes(self, kind: str, at: CostPoint) -> float:
        """Return the median bytes at this size, or at the nearest one; 0: none is known."""
        points = self._known.get(kind)
        if points is None:
            return 0.0
        if (kind, at) not in self._found:
            exact = points.get(at)
            near = min(points, key=lambda p: _distance(at, p)) if exact is None else at
            self._found[kind, at] = points[near]
        return self._found[kind, at]


class _KindDurations:
    """The measurements of one task kind on one device kind."""

    def __init__(self, rows: Sequence[TaskRow]) -> None:
        groups: dict[CostPoint, list[float]] = {}
        for row in rows:
            groups.setdefault((row.work, row.data, row.sizes), []).append(row.seconds)
        self.medians = {point: median(values[-KEPT:]) for point, values in groups.items()}
        self._rows = rows[-FITTED:]
        self._model: DurationModel | None = None

    def at(self, point: CostPoint) -> float:
        known = self.medians.get(point)
        if known is not None:
            return known
        if len(self.medians) < SIZES:
            return self._nearest(point)
        if self._model is None:
            self._fit()
        assert self._model is not None
        return self._model.predict(self._features(point)).median if self._names else self._level

    def _nearest(self, point: CostPoint) -> float:
        near = min(self.medians, key=lambda other: _distance(point, other))
        scale = point[0] / near[0] if point[0] > 0 and near[0] > 0 else 1.0
        return self.medians[near] * scale

    def _fit(self) -> None:
        """Fit the logarithm of the seconds; only columns that vary can explain anything."""
        from weft.learn.durations.model import DurationModel

        points = [_columns((row.work, row.data, row.sizes)) for row in self._rows]
        names = list(dict.fromkeys(name for point in points for name in point))
        table = np.array([[point.get(name, 0.0) for name in names] for point in points])
        varied = np.ptp(table, axis=0) > 0
        self._names = [name for name, use in zip(names, varied.tolist(), strict=True) if use]
        table = table[:, varied]
        self._least = np.array([_least_positive(column) for column in table.T])
        self._shift = np.where((table == 0).any(axis=0), self._least, 0.0)
        self._by_log = np.asarray((table >= 0).all(axis=0))
        logs = tuple(n for n, use in zip(self._names, self._by_log.tolist(), strict=True) if use)
        seconds = [row.seconds for row in self._rows]
        self._level = median(seconds)
        self._model = DurationModel(tuple(self._names), logs=logs)
        if self._names:
            self._model.fit(np.where(self._by_log, table + self._shift, table), seconds)

    def _features(self, point: CostPoint) -> FloatArray:
        columns = _columns(point)
        given = np.array([columns.get(name, 0.0) for name in self._names])
        positive = np.maximum(given, np.where(self._shift > 0, 0.0, self._least)) + self._shift
        return np.where(self._by_log, positive, given)


def _columns(point: CostPoint) -> dict[str, float]:
    """Return a point by name; names of sizes differ from the two others."""
    work, data, sizes = point
    return {" work": work, " bytes": data, **dict(sizes)}


def _least_positive(column: FloatArray) -> float:
    return float(column[column > 0].min(initial=np.inf)) if (column > 0).any() else 1.0


def _distance(a: CostPoint, b: CostPoint) -> tuple[float, float, float]:
    (work, data, sizes), (other_work, other_data, other_sizes) = a, b
    here, there = dict(sizes), dict(other_sizes)
    names = dict.fromkeys([*here, *there])
    logs = [(_signed_log(here.get(n, 0.0)), _signed_log(there.get(n, 0.0))) for n in names]
    apart_by = sum(abs(one - other) for one, other in logs)
    return apart(work, other_work), apart(data, other_data), apart_by


def _signed_log(x: float) -> float:
    return log(1.0 + x) if x >= 0 else -log(1.0 - x)
