"""Drift detection: correct estimates that differ from the measurements of a run."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from math import inf, log

import numpy as np

from weft.model import Problem, Workload
from weft.model.columns import FloatArray, frozen
from weft.model.costs import distinct_pairs
from weft.runtime.costs.imputation import impute_kinds

NOISE = 2e-4
"""Smallest difference between measured and predicted seconds that counts."""

LARGEST = 20_000_000
"""Largest duration matrix that is corrected, in entries."""


class DriftDetector:
    """Tracks log(measured / estimated) by task kind and device.

    Parameters
    ----------
    least : number of measurements per kind and device from which they count; the median of fewer
        may be that of one slow moment

    Examples
    --------
    >>> workload = Workload.of(Problem.from_arrays([[1.0, 1.0], [1.0, 1.0]]))
    >>> drift = DriftDetector(workload, least=1)
    >>> drift.finished(0, 0, 3.0, 1.0)
    True
    >>> drift.corrected().problems[0].durations().round(9).tolist()
    [[3.0, 3.0], [3.0, 3.0]]
    """

    tolerated = log(1.5)
    """Logarithm of the factor by which estimates may be wrong."""

    def __init__(self, workload: Workload, *, least: int = 3) -> None:
        self.workload = workload
        self.least = least
        self._recent: dict[tuple[int, int], deque[float]] = {}
        self._current: dict[tuple[int, int], deque[float]] = {}
        self._first: list[int] = workload.first_instance.tolist()
        self._template: list[int] = workload.template.tolist()
        numbers = {kind: k for k, kind in enumerate(workload.kinds)}
        self._kinds = [
            [numbers[p.workflow.kinds[k]] for k in p.workflow.kind.tolist()]
            for p in workload.problems
        ]
        self._costs: dict[int, tuple[Problem, memoryview, memoryview, memoryview]] = {}
        """Template -> its problem, with work, row and per_work as Python reads them fastest."""
        self._small = all(p.n * p.p <= LARGEST for p in workload.problems)

    def finished(self, instance: int, device: int, seconds: float, expected: float) -> bool:
        """Add a measurement; return whether `expected` is wrong for its kind and device."""
        job = bisect_right(self._first, instance) - 1
        template, task = self._template[job], instance - self._first[job]
        estimated = self._estimated(template, task, device)
        if not (0 < estimated < inf and 0 < expected < inf) or seconds <= 0 or not self._small:
            return False
        key = (self._kinds[template][task], device)
        if key not in self._recent:
            self._recent[key] = deque(maxlen=16)
        if key not in self._current:
            self._current[key] = deque(maxlen=8)
        self._recent[key].append(log(seconds / estimated))
        current = self._current[key]
        current.append(log(seconds / expected) if abs(seconds - expected) > NOISE else 0.0)
        if len(current) < self.least or abs(_median(current)) <= self.tolerated:
            return False
        self._current.clear()
        return True

    def _estimated(self, template: int, task: int, device: int) -> float:
        """Return the same as `Problem.duration`, in less time."""
        problem = self.workload.problems[template]
        known = self._costs.get(template)
        if known is None or known[0] is not problem:
            known = problem, problem.work.data, problem.row.data, problem.per_work.data
            self._costs[template] = known
        _, work, row, per_work = known
        slowness: float = per_work[row[task], device]
        return float(work[task]) * slowness if slowness < inf else inf

    def corrected(self) -> Workload:
        """Return the workload with corrected estimates.

        Pairs of kind and device that were not measured follow the others.
        """
        ratio = np.full((len(self.workload.kinds), self.workload.cluster.p), np.nan)
        for (kind, device), logs in self._recent.items():
            ratio[kind, device] = float(np.median(logs))
        factor = np.exp(impute_kinds(ratio))
        problems = [
            _scaled(p, factor, self._kinds[t]) for t, p in enumerate(self.workload.problems)
        ]
        return replace(self.workload, problems=tuple(problems))


def _median(values: deque[float]) -> float:
    """Return the same as `statistics.median`, in a third of its time."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _scaled(problem: Problem, factor: FloatArray, kind: Sequence[int]) -> Problem:
    """Return the problem with durations times a factor of each kind and device."""
    rows, kinds, row = distinct_pairs(problem.row, np.array(kind, np.int64), len(factor))
    return Problem(
        problem.workflow,
        problem.cluster,
        problem.work,
        frozen(row),
        frozen(problem.per_work[rows] * factor[kinds]),
    )
