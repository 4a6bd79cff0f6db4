"""Lower limits on the start in an idle gap, by device and time, compiled.

A search for a gap on a device takes a dozen steps through memory that is not in the cache, and most
searches on busy devices end with "later than the best device so far". `GapStarts` says so in one
step for most of them: it holds, for intervals of time, where the first gap begins that ends in the
interval or later.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray
from weft.sim.kernel.gaps import Timeline, last_begun, occupy
from weft.sim.kernel.jit import njit, njit_inline

CELLS = 2**25
"""Most intervals x devices; memory is taken as time goes on."""

FEWEST = 1024
"""Intervals that are there in any case."""


class GapStarts(NamedTuple):
    """For each interval of time and device, the begin of the first gap that ends there or later.

    The value of an interval holds up to that in which the last gap before the end of the queue
    ends; what is behind it is not read.
    """

    begin: FloatArray  # (intervals, p)
    width: FloatArray  # (1,) seconds of an interval


@njit
def gap_starts(devices: int, executions: int, seconds: float) -> GapStarts:
    """Make the table of idle devices; `seconds` is the length of a usual task.

    Examples
    --------
    >>> table = gap_starts(4, 100, 3.0)
    >>> table.begin.shape, float(table.width[0])
    ((1024, 4), 1.5)
    """
    intervals = max(FEWEST, min(CELLS, 8 * executions) // devices)
    width = 0.5 * seconds if seconds > 0.0 else 1.0
    return GapStarts(np.empty((intervals, devices)), np.full(1, width))


@njit_inline
def interval_of(table: GapStarts, time: float) -> int:
    """Return the interval of a time for which `widen` was called."""
    return int(time / table.width[0])


@njit
def widen(table: GapStarts, time: float) -> None:
    """Double the width of intervals until a time is in one of them.

    The first gap that ends in a pair of intervals or later is that of the first of the two.
    """
    intervals, step = len(table.begin), 1
    while time / table.width[0] >= intervals:
        table.width[0] *= 2.0
        step = min(2 * step, intervals)
    if step > 1:
        for k in range(1, (intervals + step - 1) // step):
            table.begin[k] = table.begin[k * step]


@njit
def occupy_in_table(
    timeline: Timeline, table: GapStarts, device: int, start: float, finish: float
) -> None:
    """Take [start, finish] out of the gap that contains it, and keep the table right."""
    first = timeline.first[device]
    last = first + timeline.gaps[device] - 1
    at = last_begun(timeline.begin, first, last, start)
    gap_begin, gap_end = timeline.begin[at], timeline.end[at]
    low = interval_of(table, timeline.end[at - 1]) + 1 if at > first else 0
    if at == last:  # the end of the queue: what is left of it becomes a gap before it
        if start > gap_begin:
            if start / table.width[0] >= len(table.begin):
                widen(table, start)
                low = interval_of(table, timeline.end[at - 1]) + 1 if at > first else 0
            for k in range(low, interval_of(table, start) + 1):
                table.begin[k, device] = gap_begin
    else:
        if start > gap_begin:
            low = interval_of(table, start) + 1
        begin = finish if gap_end > finish else timeline.begin[at + 1]
        for k in range(low, interval_of(table, gap_end) + 1):
            table.begin[k, device] = begin
    occupy(timeline, device, start, finish)
