"""Forward and backward passes: list scheduling from both ends of the graph.

A backward pass schedules the reversed graph, latest task of the last schedule first; a forward pass
takes the tasks in the order of start of that schedule. Each pass removes idle time that the pass in
the other direction left (for projects with limited resources: Li and Willis 1992; here on unlike
devices with transfers). A pass takes about as long as HEFT and uses the same timeline.

On large graphs HEFT runs again by ranks in which transfers weigh more or less than their mean time.
The upward rank counts every transfer as if it crossed devices. Where devices are idle often, the
scheduler avoids most transfers, and a rank with lighter ones gives shorter plans.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy

import numpy as np

from weft.model import Problem, Schedule
from weft.model.columns import FloatArray, assign, frozen
from weft.planners.lists.common_link import CommonLink, common_link, insert
from weft.planners.lists.heft import no_pins
from weft.planners.lists.insertion import ANYWHERE, Rows, as_schedule
from weft.planners.lists.ranks import rank_order
from weft.planners.search.clock import Clock
from weft.rng import generator
from weft.sim.kernel.ranks import upward_rank

ROUNDS_WITHOUT_GAIN = 2
"""Rounds (a pass in each direction) without progress after which a way to choose devices ends."""

WEIGHTS = (0.0, 0.3, 0.6, 2.0)
"""Weights of transfers that are tried; HEFT's is 1."""

DISTURBANCE = 0.02
"""Standard deviation of the logarithm of disturbed ranks."""


class Passes:
    """Passes over one problem."""

    def __init__(self, problem: Problem) -> None:
        self.ahead, self.back = problem.arrays, problem.arrays.reversed()
        self.links = [common_link(a.latency, a.per_byte) for a in (self.ahead, self.back)]
        self.place = problem.workflow.place
        self.free = np.full(problem.n, ANYWHERE)

    def both(self, rows: Rows, *, keep_devices: bool) -> Rows:
        """Schedule backward, then forward; on the devices of `rows`, or on any."""
        order = np.lexsort((-self.place, -rows.start, -rows.finish)).astype(np.int64)
        pin = rows.device if keep_devices else self.free
        backward = insert(self.back, order, pin, self.links[1])
        order = np.lexsort((self.place, -backward.start, -backward.finish)).astype(np.int64)
        pin = backward.device if keep_devices else self.free
        return insert(self.ahead, order, pin, self.links[0])


def improve(problem: Problem, rows: Rows, more: Callable[[], bool]) -> Rows:
    """Return the shortest schedule of passes from `rows`, while `more` allows them."""
    passes = Passes(problem)
    best, least = rows, float(rows.finish.max())
    for keep_devices in (False, True, False):
        now, idle = best, 0
        while idle < ROUNDS_WITHOUT_GAIN and more():
            now = passes.both(now, keep_devices=keep_devices)
            length = float(now.finish.max())
            idle += 1
            if length < least:
                best, least, idle = now, length, 0
    return best


def weighted_rank(problem: Problem, weight: float) -> FloatArray:
    """Return the upward rank (n,) with mean transfers times a weight.

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


def pass_until_end(
    problem: Problem, schedule: Schedule, clock: Clock, seconds: float, *, seed: int = 0
) -> Schedule:
    """Improve a schedule by other ranks, then by passes, as long as there is time.

    The passes start from disturbed orders of the best schedule. `seconds` is the expected time of
    passes in both directions.
    """
    passes, random = Passes(problem), generator(seed, "passes")
    best, least, size = _rows(schedule), schedule.makespan, DISTURBANCE
    for weight in WEIGHTS:
        if clock.seconds is not None and clock.left() > 3.0 * seconds:
            now = weighted_heft(problem, weight, passes.links[0])
            if float(now.finish.max()) < least:
                best, least = now, float(now.finish.max())
    while clock.seconds is not None and clock.left() > 3.0 * seconds:
        rank = least - best.start
        rank *= np.exp(size * random.standard_normal(problem.n))
        order = rank_order(problem, rank)
        now = insert(passes.ahead, order, passes.free, passes.links[0])
        for _ in range(2):
            if float(now.finish.max()) < least:
                best, least = now, float(now.finish.max())
            if clock.left() > 1.5 * seconds:
                now = passes.both(now, keep_devices=False)
        if float(now.finish.max()) < least:
            best, least = now, float(now.finish.max())
    return as_schedule(best)


def _rows(schedule: Schedule) -> Rows:
    return Rows(schedule.device, schedule.start, schedule.finish)
