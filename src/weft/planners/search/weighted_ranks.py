"""HEFT by ranks in which transfers weigh more or less than their mean time.

The upward rank counts every transfer as if it crossed devices. Where devices are idle often, the
scheduler avoids most transfers, and a rank with lighter ones gives shorter plans.
"""

from __future__ import annotations

from copy import copy

from weft.model import Problem
from weft.model.columns import FloatArray, assign, frozen
from weft.planners.lists.common_link import CommonLink, insert
from weft.planners.lists.heft import no_pins
from weft.planners.lists.insertion import Rows
from weft.planners.lists.ranks import rank_order
from weft.sim.kernel.ranks import upward_rank

WEIGHTS = (0.0, 0.3, 0.6, 2.0)
"""Weights of transfers that are tried; HEFT's is 1."""


def weighted_rank(problem: Problem, weight: float) -> FloatArray:
    """(n,) upward rank with mean transfers times a weight.

    Examples
    --------
    >>> p = Problem.from_arrays([[2.0, 4.0], [1.0, 1.0]], [[0, 1]], [6.0], bandwidth=2.0)
    >>> weighted_rank(p, 1.0).tolist(), weighted_rank(p, 0.5).tolist()  # 3 + 0.5 x 6 / 2 + 1
    ([7.0, 1.0], [5.5, 1.0])
    """
    other, links = copy(problem), copy(problem.cluster)
    assign(
        links,
        latency=frozen(problem.cluster.latency * weight),
        per_byte=frozen(problem.cluster.per_byte * weight),
    )
    assign(other, cluster=links)
    return upward_rank(other)


def weighted_heft(problem: Problem, weight: float, link: CommonLink | None = None) -> Rows:
    """Place tasks by their weighted rank, each at its earliest finish."""
    order = rank_order(problem, weighted_rank(problem, weight))
    return insert(problem.arrays, order, no_pins(problem), link)
