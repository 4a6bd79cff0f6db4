"""What each device has left: its idle intervals in order of time, compiled.

A task may go into the earliest gap that fits (the insertion of Topcuoglu, Hariri and Wu 2002, section 4.1). Gaps of a device lie
side by side in one pool of memory, so that a search is a binary search and a short scan; a device that runs out of room moves to
a place twice as large. The last gap of every device is open: it ends at infinity.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.jit import njit

ROOM = 4
"""Gaps a device has room for at first."""

ROUNDING = 1e-15
"""Share of a time that a difference of two times may be off by, generously."""


class Timeline(NamedTuple):
    """The gaps of all devices; those of device d are at `first[d]`, ..., `first[d] + gaps[d] - 1`."""

    begin: FloatArray
    end: FloatArray
    first: IntArray  # (p,)
    gaps: IntArray  # (p,) how many
    room: IntArray  # (p,)
    longest: FloatArray  # (p,) no gap but the last is longer
    used: IntArray  # (1,) how much of the pool is given away


@njit
def idle_timeline(devices: int, rows: int) -> Timeline:
    """Devices with nothing to do yet, and memory for `rows` executions on them."""
    # c executions leave at most c + 1 gaps. Places of 4, 8, 16, ... up to below 2 (c + 2) add up to less than 4 (c + 2).
    size = 4 * (rows + 4 * devices)
    begin, end = np.empty(size), np.empty(size)
    first = np.arange(devices) * ROOM
    for d in range(devices):
        begin[first[d]] = 0.0
        end[first[d]] = np.inf
    used = np.full(1, devices * ROOM)
    return Timeline(
        begin, end, first, np.full(devices, 1), np.full(devices, ROOM), np.zeros(devices), used
    )


@njit
def free_from(timeline: Timeline, device: int) -> float:
    """When the last execution on a device ends."""
    return float(timeline.begin[timeline.first[device] + timeline.gaps[device] - 1])


@njit
def earliest_start(
    timeline: Timeline, device: int, ready: float, duration: float, limit: float
) -> float:
    """The start of the earliest gap that fits, not before `ready`; inf when the finish would be above `limit`."""
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
    """Take [start, finish] out of the gap it lies in; gaps of no length are not kept."""
    at = _gap_of(timeline, device, start)
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
        _close_gap(timeline, device, at)


@njit
def _gap_of(timeline: Timeline, device: int, start: float) -> int:
    """The last gap that begins at `start` or before."""
    low = timeline.first[device]
    high = low + timeline.gaps[device] - 1
    while low < high:
        middle = (low + high + 1) // 2
        if timeline.begin[middle] <= start:
            low = middle
        else:
            high = middle - 1
    return int(low)


@njit
def _make_room(timeline: Timeline, device: int, at: int) -> int:
    """Shift the gaps after `at` by one, moving the device to a larger place when it is full; returns where `at` is now."""
    old, count = timeline.first[device], timeline.gaps[device]
    first = old
    if count == timeline.room[device]:
        first = timeline.used[0]
        timeline.room[device] *= 2
        timeline.used[0] += timeline.room[device]
        timeline.first[device] = first
        for i in range(at - old + 1):
            timeline.begin[first + i] = timeline.begin[old + i]
            timeline.end[first + i] = timeline.end[old + i]
    for i in range(count - 1, at - old, -1):
        timeline.begin[first + i + 1] = timeline.begin[old + i]
        timeline.end[first + i + 1] = timeline.end[old + i]
    timeline.gaps[device] = count + 1
    return int(first + at - old)


@njit
def _close_gap(timeline: Timeline, device: int, at: int) -> None:
    """Remove a gap."""
    timeline.gaps[device] -= 1
    for i in range(at, timeline.first[device] + timeline.gaps[device]):
        timeline.begin[i] = timeline.begin[i + 1]
        timeline.end[i] = timeline.end[i + 1]
