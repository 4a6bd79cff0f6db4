"""Set-ups for planners that do not count them: as longer tasks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weft.model import Cluster, Problem, Schedule
from weft.model.columns import FloatArray, frozen
from weft.model.costs import SHORTEST
from weft.model.machines.setup import SECONDS

CELL_LIMIT = 5_000_000
"""Most tasks x devices for which set-ups are added to durations."""


def without_setups(cluster: Cluster) -> Cluster:
    """Return a cluster whose devices load nothing."""
    if not cluster.has_setup:
        return cluster
    none = np.zeros(cluster.p)
    return replace(cluster, setup={}, cache=none + np.inf, switch=none)


def likely_shares(problem: Problem) -> FloatArray:
    """Return the share (kinds,) of tasks that wait until their kind is loaded.

    Each device is assumed to load a kind at most once.
    """
    w = problem.workflow
    count = np.bincount(w.kind, minlength=len(w.kinds))
    return np.minimum(1.0, problem.p / np.maximum(count, 1))


def shares_seen(problem: Problem, schedule: Schedule) -> FloatArray:
    """Return the share (kinds,) of the full set-up in a replayed schedule."""
    w, s = problem.workflow, schedule
    full = _full_setups(problem)[w.kind[s.task], s.device]
    had = (
        s.finish - s.start - problem.work[s.task] * problem.per_work[problem.row[s.task], s.device]
    )
    paid = np.bincount(w.kind[s.task], np.maximum(had, 0.0), len(w.kinds))
    most = np.bincount(w.kind[s.task], full, len(w.kinds))
    return np.minimum(1.0, paid / np.where(most > 0, most, 1.0))


def with_mean_setups(problem: Problem, shares: FloatArray) -> Problem:
    """Return the problem without set-ups; tasks take a share of their set-up longer.

    In problems with too many tasks x devices, tasks keep their durations.
    """
    cluster = without_setups(problem.cluster)
    if not problem.cluster.has_setup or problem.n * problem.p > CELL_LIMIT:
        return replace(problem, cluster=cluster)
    w = problem.workflow
    seconds = problem.durations() + (shares[:, None] * _full_setups(problem))[w.kind]
    # The share of a kind without set-ups may be a rounding error of its tiny times.
    seconds[seconds < SHORTEST] = 0.0
    return Problem(
        w,
        cluster,
        frozen(np.ones(problem.n)),
        frozen(np.arange(problem.n)),
        frozen(np.ascontiguousarray(seconds)),
    )


def _full_setups(problem: Problem) -> FloatArray:
    """Return the seconds (kinds, p) to load a kind and to switch to it."""
    c = problem.cluster
    return c.setup_of(problem.workflow.kinds)[:, :, SECONDS] + c.switch
