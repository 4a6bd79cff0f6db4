"""Facts about devices, learned from runs: cold starts and batch curves.

The first execution of a function on a worker loads modules, models or data; later ones do not. The
history keeps the two apart: estimates of durations come from warm executions, and the additional
seconds of cold ones become the set-up of the task kind. Batches of several sizes give a batch
curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from weft.model import Problem
from weft.model.columns import FloatArray
from weft.runtime.costs.cost_model import CostModel
from weft.runtime.costs.keys import CostKey
from weft.runtime.costs.measurements import TaskRow, usual_rows

COLD_STARTS = 2
"""Measured cold starts of a task kind on a device kind required to use them."""

LEAST_SECONDS, LEAST_SHARE = 0.01, 0.2
"""Least seconds of a set-up that counts, and least share of a warm execution."""

KindPair = tuple[str, str]
"""Task kind and device kind of measurements."""


def cold_start_seconds(rows: Sequence[TaskRow]) -> dict[KindPair, float]:
    """Return the median extra seconds of cold executions, where they count.

    Examples
    --------
    >>> warm = [TaskRow("f", "cpu", 0, 0, 1.0, 0, at, ()) for at in range(3)]
    >>> cold = [TaskRow("f", "cpu", 0, 0, 3.0, 0, at, (), cold=1.0) for at in range(2)]
    >>> cold_start_seconds([*warm, *cold]), cold_start_seconds(warm)
    ({('f', 'cpu'): 2.0}, {})
    """
    warm = CostModel(row for row in rows if not row.cold and row.batch == 1)
    beyond: dict[KindPair, list[tuple[float, float]]] = {}
    for row in rows:
        usual = None
        if row.cold and row.batch == 1:
            usual = warm.seconds(row.kind, row.device, (row.work, row.data, row.sizes))
        if usual is not None:
            beyond.setdefault((row.kind, row.device), []).append((row.seconds - usual, usual))
    found = {}
    for pair, values in beyond.items():
        extra, usual = median(e for e, _ in values), median(u for _, u in values)
        if len(values) >= COLD_STARTS and extra > max(LEAST_SECONDS, LEAST_SHARE * usual):
            found[pair] = extra
    return found


def batch_curves(rows: Sequence[TaskRow]) -> dict[KindPair, dict[int, float]]:
    """Return the median seconds of warm batches by size, if several were measured.

    Examples
    --------
    >>> rows = [TaskRow("f", "gpu", 0, 0, s, 0, 0, (), batch=b) for b, s in ((1, 2.0), (4, 3.0))]
    >>> batch_curves(rows)
    {('f', 'gpu'): {1: 2.0, 4: 3.0}}
    """
    sizes: dict[KindPair, dict[int, list[float]]] = {}
    for row in usual_rows(rows, batches=True):
        by_size = sizes.setdefault((row.kind, row.device), {})
        by_size.setdefault(int(row.batch), []).append(row.seconds)
    return {
        pair: {size: median(values) for size, values in sorted(by_size.items())}
        for pair, by_size in sizes.items()
        if 1 in by_size and len(by_size) > 1
    }


def with_learned_machines(
    problem: Problem, rows: Sequence[TaskRow], keys: Sequence[CostKey]
) -> Problem:
    """Return the problem with learned set-ups and batch curves of its task kinds.

    Those that the cluster has already stay.
    """
    cluster, w = problem.cluster, problem.workflow
    cold, curves = cold_start_seconds(rows), batch_curves(rows)
    setup = {str(k): v for k, v in cluster.setup.items()}
    growth = {str(k): v for k, v in cluster.batch_curve.items()}
    for number, kind in enumerate(w.kinds):
        own = list(dict.fromkeys(keys[t].kind for t in np.flatnonzero(w.kind == number).tolist()))
        seconds = [max((cold.get((k, d), 0.0) for k in own), default=0.0) for d in cluster.kinds]
        if any(seconds) and not {kind, "*"} & setup.keys():
            setup[kind] = np.array([(s, 0.0, 0.0) for s in seconds])
        measured = [curves.get((own[0], d), {}) if own else {} for d in cluster.kinds]
        if any(measured) and (cluster.batch > 1).any() and not {kind, "*"} & growth.keys():
            most = int(cluster.batch.max())
            growth[kind] = np.array([_curve(known, most) for known in measured])
    if len(setup) == len(cluster.setup) and len(growth) == len(cluster.batch_curve):
        return problem
    return replace(problem, cluster=replace(cluster, setup=setup, batch_curve=growth))


def _curve(known: dict[int, float], most: int) -> FloatArray:
    """Return the seconds of 1 to `most` tasks over those of one task.

    They are linear between measured sizes.
    """
    if not known or known[1] <= 0:
        return np.ones(most)
    sizes, seconds = list(known), list(known.values())
    curve = np.interp(np.arange(1.0, most + 1.0), sizes, seconds) / known[1]
    slope = max((seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2]) / known[1], 0.0)
    beyond = np.maximum(np.arange(1.0, most + 1.0) - sizes[-1], 0.0)
    return np.asarray(np.maximum(curve + slope * beyond, 1e-9))
