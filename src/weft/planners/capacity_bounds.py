"""Lower bounds on the makespan from the capacities that tasks of a node share.

Per capacity, a task takes a *share* of all nodes while it runs; the shares of the tasks that run at
the same time add up to at most 1. So between the least head and the least tail of a set of tasks
there is at least the total of their share x seconds (area and energetic reasoning: Baptiste, Le
Pape and Nuijten 2001, chapter 3). Shares are the need over what the node has, or a dual feasible
function of it (Fekete and Schepers 2001, section 3): two tasks of more than half a node never run
beside each other, so each counts as a whole node.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.model import Problem
from weft.model.columns import FloatArray

CELL_LIMIT = 5_000_000
"""Most groups of equal tasks x devices for which shares are computed."""

CUTS = 6
"""Dual feasible functions per capacity, at its largest needs."""


def capacity_shares(problem: Problem) -> Iterator[FloatArray]:
    """Yield (n,) seconds x share of each task, least over the devices able to run it."""
    if not problem.contended:
        return
    needs, group = np.unique(
        np.column_stack([problem.row, problem.needs]), axis=0, return_inverse=True
    )
    if len(needs) * problem.p > CELL_LIMIT:
        return
    per_work = problem.per_work[needs[:, 0].astype(np.int64)]
    node, count = problem.cluster.node, len(problem.cluster.node_names)
    for c in range(problem.needs.shape[1]):
        room = problem.room[:, c]
        need = needs[:, 1 + c]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(need[:, None] > 0, need[:, None] / room[node], 0.0)
        limited = np.isfinite(room).all() and room.sum() > 0
        weights = [room / room.sum()] if limited else []
        for share, weight in [
            *((part, w) for w in weights),
            *((_rounded(part, cut), np.full(count, 1.0 / count)) for cut in _cuts(part)),
        ]:
            with np.errstate(invalid="ignore"):  # nothing of a device that cannot run it
                seconds = np.where(np.isfinite(per_work), per_work * (share * weight[node]), np.inf)
            yield problem.work * seconds.min(axis=1)[group.reshape(-1)]


def _cuts(part: FloatArray) -> list[float]:
    """Return thresholds: complements of the largest parts below a half, and a half."""
    small = np.unique(part[(part > 0.0) & (part < 0.5)])
    return [0.5, *small[::-1][: CUTS - 1].tolist()]


def _rounded(part: FloatArray, cut: float) -> FloatArray:
    """Return 1 for parts above 1 - cut, 0 below cut, and the part between."""
    return np.where(part > 1.0 - cut, 1.0, np.where(part < cut, 0.0, part))
