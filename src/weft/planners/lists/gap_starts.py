"""Limits on the start and the length of idle gaps, by device and time, compiled.

A search for a gap on a device takes a dozen steps through memory that is not in the cache. On busy
devices most searches find no gap: all are too short, or begin later than the best device so far.
`GapStarts` rules most of these searches out in a few steps. For each interval of time it holds the
begin of the first gap that ends in the interval or later, and the length of the longest gap in the
interval. Devices are in blocks, so that the numbers that one choice reads are close in memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray
from weft.sim.kernel.gaps import ROUNDING, Timeline, gap_of, occupy_gap
from weft.sim.kernel.jit import njit, njit_inline

BLOCK = 32
"""Devices that are compared at once."""

CELLS = 2**25
"""Most intervals x devices; the system gives memory only to intervals that are in use."""

FEWEST = 1024
"""Fewest intervals, whatever the number of devices."""


class GapStarts(NamedTuple):
    """Limits on the begin and the length of the gaps, by device and interval of time.

    `begin` is set up to the interval in which the last gap before the end of the queue ends; later
    entries are not read.
    """

    begin: FloatArray  # (blocks, intervals, BLOCK) begin of the first gap that ends there or later
    longest: FloatArray  # (blocks, intervals, BLOCK) no gap there is longer; 0: there is none
    width: FloatArray  # (1,) seconds of an interval


def gap_starts(devices: int, executions: int, seconds: float) -> GapStarts:
    """Make the table of idle devices; `seconds` is the length of a usual task.

    Not compiled: memory from numpy has large pages.

    Examples
    --------
    >>> table = gap_starts(40, 100, 3.0)
    >>> table.begin.shape, float(table.width[0])
    ((2, 1024, 32), 1.5)
    """
    blocks = -(-devices // BLOCK)
    intervals = max(FEWEST, min(CELLS, 8 * executions) // (blocks * BLOCK))
    width = 0.5 * seconds if seconds > 0.0 else 1.0
    shape = (blocks, intervals, BLOCK)
    return GapStarts(np.empty(shape), np.zeros(shape), np.full(1, width))


@njit_inline
def interval_of(table: GapStarts, time: float) -> int:
    """Return the interval of a time for which `widen` was called."""
    return int(time / table.width[0])


@njit
def widen(table: GapStarts, time: float) -> None:
    """Double the width of intervals until a time is in one of them.

    Two intervals become one, which takes `begin` from the first of the two.
    """
    intervals, step = table.begin.shape[1], 1
    while time / table.width[0] >= intervals:
        table.width[0] *= 2.0
        step = min(2 * step, intervals)
    if step > 1:
        for b in range(len(table.begin)):
            for k in range(intervals):
                first = min(k * step, intervals)
                table.begin[b, k] = table.begin[b, min(first, intervals - 1)]
                for i in range(BLOCK):
                    most = 0.0
                    for j in range(first, min(first + step, intervals)):
                        most = max(most, table.longest[b, j, i])
                    table.longest[b, k, i] = most


@njit
def occupy_in_table(
    timeline: Timeline, table: GapStarts, device: int, start: float, finish: float
) -> None:
    """Take [start, finish] out of the gap that contains it, and update the table."""
    first = timeline.first[device]
    last = first + timeline.gaps[device] - 1
    at = gap_of(timeline, device, start)
    if at == last:
        if start > timeline.begin[at]:
            if start / table.width[0] >= table.begin.shape[1]:
                widen(table, start)
            _add_gap(timeline, table, device, at, start)
    else:
        _shorten_gap(timeline, table, device, at, start, finish)
    occupy_gap(timeline, device, at, start, finish)


@njit_inline
def _length(begin: float, end: float) -> float:
    """Return an upper limit of the duration of a task that fits between two times."""
    return (end - begin) + ROUNDING * end


@njit
def _add_gap(timeline: Timeline, table: GapStarts, device: int, at: int, end: float) -> None:
    """Add the gap between the end of a queue and a new task that starts at `end`."""
    block, i, begin = device // BLOCK, device % BLOCK, timeline.begin[at]
    low = interval_of(table, timeline.end[at - 1]) + 1 if at > timeline.first[device] else 0
    high, length = interval_of(table, end), _length(begin, end)
    for k in range(low, high + 1):
        table.begin[block, k, i] = begin
    for k in range(interval_of(table, begin), high + 1):
        table.longest[block, k, i] = max(table.longest[block, k, i], length)


@njit
def _shorten_gap(
    timeline: Timeline, table: GapStarts, device: int, at: int, start: float, finish: float
) -> None:
    """Replace a gap by its parts before `start` and after `finish`."""
    block, i, first = device // BLOCK, device % BLOCK, timeline.first[device]
    gap_begin, gap_end = timeline.begin[at], timeline.end[at]
    left, right = start > gap_begin, gap_end > finish
    low, high = interval_of(table, gap_begin), interval_of(table, gap_end)
    changed = 0
    if left:
        changed = interval_of(table, start) + 1
    elif at > first:
        changed = interval_of(table, timeline.end[at - 1]) + 1
    begin = finish if right else timeline.begin[at + 1]
    for k in range(changed, high + 1):
        table.begin[block, k, i] = begin
    before, after = interval_of(table, start), interval_of(table, finish)
    for k in range(low, high + 1):
        length = 0.0
        if left and k <= before:
            length = _length(gap_begin, start)
        if right and k >= after:
            length = max(length, _length(finish, gap_end))
        table.longest[block, k, i] = length
    _add_neighbours(timeline, table, device, at)


@njit_inline
def _add_neighbours(timeline: Timeline, table: GapStarts, device: int, at: int) -> None:
    """Update `longest` by other gaps in the first and the last interval of a gap."""
    block, i, first = device // BLOCK, device % BLOCK, timeline.first[device]
    low, high = interval_of(table, timeline.begin[at]), interval_of(table, timeline.end[at])
    k = at - 1
    while k >= first and interval_of(table, timeline.end[k]) == low:
        length = _length(timeline.begin[k], timeline.end[k])
        table.longest[block, low, i] = max(table.longest[block, low, i], length)
        k -= 1
    k, last = at + 1, first + timeline.gaps[device] - 1
    while k < last and interval_of(table, timeline.begin[k]) == high:
        length = _length(timeline.begin[k], timeline.end[k])
        table.longest[block, high, i] = max(table.longest[block, high, i], length)
        k += 1
