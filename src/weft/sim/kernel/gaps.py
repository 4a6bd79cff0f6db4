"""Earliest-gap search of insertion scheduling, compiled.

A task may go into the earliest idle interval of a device that is long enough, not only behind the
last task there: the insertion-based policy of Topcuoglu, Hariri and Wu (2002), section 4.1. All
planners and policies that insert tasks search here; there is one search per layout of the tasks:

- `earliest_start`: a `Timeline` of idle intervals. A binary search and a short scan, for planners
  that only add tasks. It drops intervals of no length.
- `gap_in_rows`: start and finish times of the tasks, in order of time. A binary search and a scan,
  for policies that also read the tasks.
- `gap_in_chain`: tasks linked from the last to the first. A walk back from the end, for searches
  that place the same tasks many times, as adding a task moves no memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.jit import njit, njit_inline

NONE = -1

INITIAL_GAPS = 4
"""Gaps per device for which a new timeline has memory."""

ROUNDING = 1e-15
"""Upper limit of the relative rounding error of a difference of two times."""


# -- tasks in a chain --------------------------------------------------------------


@njit_inline
def gap_in_chain(
    last: int, before: IntArray, begin: FloatArray, end: FloatArray, ready: float, duration: float
) -> tuple[float, int]:
    """Find the earliest gap in a chain of tasks.

    Returns its start, and the task after it or `NONE`. `last` is the last task of the device,
    `before[k]` the task before task k.
    """
    start, after, k = ready, NONE, last
    if k != NONE and end[k] > ready:
        start = end[k]
        while k != NONE and end[k] > ready:
            earlier = before[k]
            gap = end[earlier] if earlier != NONE and end[earlier] > ready else ready
            if gap + duration <= begin[k]:
                start, after = gap, k
            k = earlier
    return start, after


@njit_inline
def link(task: int, device: int, after: int, last: IntArray, before: IntArray) -> None:
    """Add a task to the chain of a device, in front of `gap_in_chain`'s `after`."""
    if after == NONE:
        before[task] = last[device]
        last[device] = task
    else:
        before[task] = before[after]
        before[after] = task


# -- tasks in rows -----------------------------------------------------------------


@njit_inline
def gap_in_rows(
    begin: FloatArray, end: FloatArray, count: int, ready: float, duration: float
) -> tuple[float, int]:
    """Find the earliest gap between `count` tasks in order of time.

    Returns its start and its place. `begin` and `end` hold the times of the tasks of one device.
    """
    low, high = 0, count
    while low < high:  # the first task that ends after `ready`
        middle = (low + high) // 2
        if end[middle] > ready:
            high = middle
        else:
            low = middle + 1
    start = ready
    for k in range(low, count):
        if start + duration <= begin[k]:
            return start, k
        start = max(start, end[k])
    return start, count


@njit_inline
def insert_row(
    begin: FloatArray, end: FloatArray, count: int, place: int, start: float, finish: float
) -> None:
    """Insert a task at a place among `count` tasks; the caller counts it."""
    for k in range(count, place, -1):
        begin[k], end[k] = begin[k - 1], end[k - 1]
    begin[place], end[place] = start, finish


# -- idle intervals ----------------------------------------------------------------


class Timeline(NamedTuple):
    """Idle intervals (gaps) of all devices, each device's in order of time.

    The gaps of device d are at `first[d]`, ..., `first[d] + gaps[d] - 1`. The last one ends at
    infinity. A device whose memory is full moves to a place twice as large.
    """

    begin: FloatArray
    end: FloatArray
    first: IntArray  # (p,)
    gaps: IntArray  # (p,) number of gaps
    room: IntArray  # (p,) gaps for which the device has memory
    longest: FloatArray  # (p,) upper limit of the length of all gaps but the last
    used: IntArray  # (1,) size of the memory in use


def new_timeline(devices: int, executions: int) -> Timeline:
    """Make the timeline of idle devices, with memory for a number of executions.

    If Python calls it, numpy allocates the memory with large pages.
    """
    # c executions leave at most c + 1 gaps. Places of 4, 8, 16, ... up to below 2 (c + 2) add up
    # to less than 4 (c + 2).
    size = 4 * (executions + 4 * devices)
    begin, end = np.empty(size), np.empty(size)
    first = np.arange(devices) * INITIAL_GAPS
    for d in range(devices):
        begin[first[d]] = 0.0
        end[first[d]] = np.inf
    gaps, room = np.full(devices, 1), np.full(devices, INITIAL_GAPS)
    used = np.full(1, devices * INITIAL_GAPS)
    return Timeline(begin, end, first, gaps, room, np.zeros(devices), used)


idle_timeline = njit(new_timeline)


@njit
def free_from(timeline: Timeline, device: int) -> float:
    """Return the end of the last execution on a device."""
    return float(timeline.begin[timeline.first[device] + timeline.gaps[device] - 1])


@njit
def earliest_start(
    timeline: Timeline, device: int, ready: float, duration: float, limit: float
) -> float:
    """Return the start in the earliest gap; inf if the finish exceeds `limit`."""
    at = timeline.first[device]
    last = at + timeline.gaps[device] - 1
    if duration > timeline.longest[device]:
        at = last
    ends = ready + duration
    high = last
    while at < high:  # the first gap that ends late enough
        middle = (at + high) // 2
        if timeline.end[middle] >= ends:
            high = middle
        else:
            at = middle + 1
    while True:
        start = max(ready, timeline.begin[at])
        if start + duration > limit:
            return np.inf
        if start + duration <= timeline.end[at]:
            return float(start)
        at += 1


@njit
def occupy(timeline: Timeline, device: int, start: float, finish: float) -> None:
    """Take [start, finish] out of the gap that contains it; drop gaps of no length."""
    occupy_gap(timeline, device, gap_of(timeline, device, start), start, finish)


@njit
def occupy_gap(timeline: Timeline, device: int, at: int, start: float, finish: float) -> None:
    """Take [start, finish] out of the gap `at`, which must contain it."""
    gap_begin, gap_end = timeline.begin[at], timeline.end[at]
    left, right = start > gap_begin, gap_end > finish
    if left:
        length = (start - gap_begin) + ROUNDING * start
        timeline.longest[device] = max(timeline.longest[device], length)
    if left and right:
        at = _make_room(timeline, device, at)
        timeline.begin[at], timeline.end[at] = gap_begin, start
        timeline.begin[at + 1], timeline.end[at + 1] = finish, gap_end
    elif left:
        timeline.end[at] = start
    elif right:
        timeline.begin[at] = finish
    else:
        _remove_gap(timeline, device, at)


@njit
def gap_of(timeline: Timeline, device: int, start: float) -> int:
    """Find the last gap that begins at `start` or before."""
    first = timeline.first[device]
    return last_begun(timeline.begin, first, first + timeline.gaps[device] - 1, start)


@njit
def _make_room(timeline: Timeline, device: int, at: int) -> int:
    """Shift the gaps after `at` by one, into larger memory if needed; return `at`."""
    old, count = timeline.first[device], timeline.gaps[device]
    first = place_for_more(device, timeline.first, count, timeline.room, timeline.used)
    insert_copy(timeline.begin, old, first, count, at - old)
    new = insert_copy(timeline.end, old, first, count, at - old)
    timeline.gaps[device] = count + 1
    return new - 1


@njit
def _remove_gap(timeline: Timeline, device: int, at: int) -> None:
    timeline.gaps[device] -= 1
    for i in range(at, timeline.first[device] + timeline.gaps[device]):
        timeline.begin[i] = timeline.begin[i + 1]
        timeline.end[i] = timeline.end[i + 1]


# -- intervals of several owners in one memory ---------------------------------------


@njit
def last_begun(begin: FloatArray, low: int, high: int, time: float) -> int:
    """Find the last item of [low, high] that begins at a time or before.

    The first item must do so.
    """
    while low < high:
        middle = (low + high + 1) // 2
        if begin[middle] <= time:
            low = middle
        else:
            high = middle - 1
    return int(low)


@njit
def place_for_more(owner: int, first: IntArray, count: int, room: IntArray, used: IntArray) -> int:
    """Return where the items of an owner begin after one more item is added.

    An owner whose memory is full moves to a place twice as large at the end of the memory in use.
    """
    if count == room[owner]:
        first[owner] = used[0]
        room[owner] *= 2
        used[0] += room[owner]
    return int(first[owner])


@njit
def insert_copy(column: FloatArray, old: int, first: int, count: int, at: int) -> int:
    """Insert a copy of the item `at` behind it; return its place.

    All items move from place `old` to `first`. The items before it are copied only if the place
    changes.
    """
    if first != old:
        for i in range(at + 1):
            column[first + i] = column[old + i]
    for i in range(count - 1, at, -1):
        column[first + i + 1] = column[old + i]
    column[first + at + 1] = column[first + at]
    return first + at + 1
