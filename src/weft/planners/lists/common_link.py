"""Placement by earliest finish on many devices with links mostly alike, compiled.

`insert_in_common` makes the same plan as `insert_in_order`, bit for bit, in less time. Data that
leave a device arrive at the same time on all devices that the common link connects to it. So one
arrival is computed for these, and one for each of the few other devices. Idle gaps are searched
only on devices whose last gap ends late enough, whose next gap begins early enough, and whose
longest gap is long enough. Devices are compared in blocks, and the bound of a block leaves out most
blocks: in large problems, the devices of a block have about the same speed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import ProblemArrays, Schedule
from weft.model.columns import FloatArray, IntArray, frozen
from weft.planners.lists.gap_starts import (
    BLOCK,
    GapStarts,
    gap_starts,
    interval_of,
    occupy_in_table,
)
from weft.planners.lists.heft import insert_in_order
from weft.planners.lists.insertion import ANYWHERE, Rows, empty_rows
from weft.planners.lists.numbering import by_per_work, renumbered
from weft.sim.kernel.gaps import Timeline, earliest_start, new_timeline
from weft.sim.kernel.jit import njit, njit_inline

MANY = 128
"""Fewest devices for which the common link is looked for."""

OTHERS = 0.25
"""Largest share of links that may differ from the common one."""

SAMPLE = 4096
"""Links from which the most frequent one is chosen."""

LARGE = 50_000
"""Tasks from which they are renumbered by their order: their parents are then close in memory."""

LOOK = 16
"""Most intervals of time in which a choice looks for the longest gap before it searches."""


class CommonLink(NamedTuple):
    """The link of most pairs of devices, and the devices reached by other links."""

    latency: float
    per_byte: float
    first: IntArray  # (p + 1,) where the devices of each sender begin in `other`
    other: IntArray  # the sender itself is one of them
    alone: bool  # whether all links are the common link


def common_link(latency: FloatArray, per_byte: FloatArray) -> CommonLink | None:
    """Return the most frequent link; None for few devices or links that differ much.

    Examples
    --------
    >>> link = common_link(np.zeros((128, 128)), 2.0 - 2.0 * np.eye(128))
    >>> link.per_byte, link.other[:3].tolist()
    (2.0, [0, 1, 2])
    """
    p = len(latency)
    if p < MANY:
        return None
    flat = np.linspace(1, p * p - 2, min(SAMPLE, p * p)).astype(np.int64)
    seen, count = np.unique(
        np.stack([latency.flat[flat], per_byte.flat[flat]], axis=1), axis=0, return_counts=True
    )
    usual = seen[int(np.argmax(count))]
    differs = (latency != usual[0]) | (per_byte != usual[1])
    np.fill_diagonal(differs, val=True)
    sender, other = np.nonzero(differs)
    if len(other) > OTHERS * p * p:
        return None
    first = np.searchsorted(sender, np.arange(p + 1)).astype(np.int64)
    alone = len(other) == p
    return CommonLink(float(usual[0]), float(usual[1]), frozen(first), frozen(other), alone)


def insert(
    a: ProblemArrays, order: IntArray, pin: IntArray, link: CommonLink | None = None
) -> Rows:
    """Place each task, in order, on its pinned device or at its earliest finish.

    `link` saves looking for the common link again.
    """
    link = link or common_link(a.latency, a.per_byte)
    if link is None:
        return insert_in_order(a, order, pin)
    if len(order) < LARGE:
        number = frozen(np.arange(a.per_work.shape[1]))
        return insert_in_common(a, order, pin, link, number, empty_memory(a))
    number = np.argsort(a.per_work[0], kind="stable")
    alike, where = by_per_work(a, number), np.append(np.argsort(number), ANYWHERE)
    link = common_link(alike.latency, alike.per_byte)
    assert link is not None  # the same links in another order
    alike, pin = renumbered(alike, order), where[pin[order]]
    made = insert_in_common(
        alike, np.arange(len(order)), pin, link, frozen(number), empty_memory(alike)
    )
    rows = empty_rows(len(order))
    for column, values in zip(rows, made, strict=True):
        column[order] = values
    rows.device[:] = number[rows.device]
    return rows


def sorted_schedule(rows: Rows) -> Schedule:
    """Make a schedule of rows without copies; they are sorted by task already."""
    task, copy = np.arange(len(rows.device)), np.zeros(len(rows.device), bool)
    columns = (task, rows.device, rows.start, rows.finish, copy)
    return Schedule(*(frozen(column) for column in columns))


class Ends(NamedTuple):
    """Columns by device that a choice reads; small, so that they stay in the cache."""

    free: FloatArray  # (p,) end of the last task
    gap: FloatArray  # (p,) end of the last gap before it; -1 without one
    low: IntArray  # (1,) least finish of a task in a block, as bits
    finish: FloatArray  # (BLOCK,) scratch memory
    other: IntArray  # (p,) devices that get the inputs of a task by another link
    least_free: FloatArray  # (blocks,) least `free` of a block
    most_gap: FloatArray  # (blocks,) largest `gap` of a block
    least_per_work: FloatArray  # (rows, blocks) least of a block
    number: IntArray  # (p,) decides among equals


class Memory(NamedTuple):
    """The memory of a plan."""

    rows: Rows
    timeline: Timeline
    table: GapStarts


def empty_memory(a: ProblemArrays) -> Memory:
    """Make the memory of a plan by numpy: its large pages halve the time."""
    n, p = len(a.work), a.per_work.shape[1]
    rows = Rows(np.full(n, -1), np.empty(n), np.empty(n))
    return Memory(rows, new_timeline(p, n), gap_starts(p, n, _usual_seconds(a)))


@njit
def insert_in_common(
    a: ProblemArrays,
    order: IntArray,
    pin: IntArray,
    link: CommonLink,
    number: IntArray,
    memory: Memory,
) -> Rows:
    """Do what `insert_in_order` does, for links that are mostly alike.

    Among equals the device with the lower `number` wins.
    """
    p, (rows, timeline, table) = a.per_work.shape[1], memory
    blocks = (p + BLOCK - 1) // BLOCK
    x = Ends(
        np.zeros(p),
        np.full(p, -1.0),
        np.empty(1, np.int64),
        np.empty(BLOCK),
        np.empty(p, np.int64),
        np.zeros(blocks),
        np.full(blocks, -1.0),
        _least_per_work(a.per_work, blocks),
        number,
    )
    for task in order:
        if pin[task] == ANYWHERE:
            device, start = _earliest_finish(a, task, rows, timeline, table, link, x)
            seconds = a.work[task] * a.per_work[a.row[task], device]
        else:
            device = pin[task]
            seconds = _seconds(a, task, device)
            ready = _arrival(a, task, device, rows, link)
            start = earliest_start(timeline, device, ready, seconds, np.inf)
        rows.device[task], rows.start[task], rows.finish[task] = device, start, start + seconds
        occupy_in_table(timeline, table, device, start, start + seconds)
        _update(timeline, x, device)
        _update_block(x, device // BLOCK)
    return rows


@njit
def _usual_seconds(a: ProblemArrays) -> float:
    """Return the mean seconds of a task on the fastest device."""
    least, total = np.empty(len(a.per_work)), 0.0
    for row in range(len(a.per_work)):
        least[row] = a.per_work[row].min()
    for task in range(len(a.work)):
        total += a.work[task] * least[a.row[task]]
    return total / max(1, len(a.work))


@njit
def _least_per_work(per_work: FloatArray, blocks: int) -> FloatArray:
    least = np.empty((len(per_work), blocks))
    for row in range(len(per_work)):
        for b in range(blocks):
            least[row, b] = per_work[row, b * BLOCK : (b + 1) * BLOCK].min()
    return least


@njit_inline
def _update(timeline: Timeline, x: Ends, device: int) -> None:
    last = timeline.first[device] + timeline.gaps[device] - 1
    x.free[device] = timeline.begin[last]
    x.gap[device] = timeline.end[last - 1] if timeline.gaps[device] > 1 else -1.0


@njit_inline
def _update_block(x: Ends, block: int) -> None:
    """Set the bounds of a block: the least `free` and the most `gap` of its devices.

    Bounds set while devices are hidden from a choice leave these devices out.
    """
    free, gap = np.inf, -1.0
    for d in range(block * BLOCK, min((block + 1) * BLOCK, len(x.free))):
        free, gap = min(free, x.free[d]), max(gap, x.gap[d])
    x.least_free[block], x.most_gap[block] = free, gap


@njit_inline
def _seconds(a: ProblemArrays, task: int, device: int) -> float:
    per_work = a.per_work[a.row[task], device]
    return a.work[task] * per_work if per_work < np.inf else np.inf


@njit_inline
def _arrival(a: ProblemArrays, task: int, device: int, rows: Rows, link: CommonLink) -> float:
    """Return the time at which all inputs of a task are on a device."""
    ready = 0.0
    for i in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
        source = rows.device[a.pred[i]]
        if source < 0:
            continue
        latency, per_byte = link.latency, link.per_byte
        if not link.alone:  # if it is alone, the table of links, larger than a cache, is not read
            latency, per_byte = a.latency[source, device], a.per_byte[source, device]
        elif source == device:
            latency, per_byte = 0.0, 0.0
        ready = max(ready, rows.finish[a.pred[i]] + (latency + a.pred_data[i] * per_byte))
    return ready


@njit_inline
def _hide_others(
    a: ProblemArrays, task: int, rows: Rows, link: CommonLink, x: Ends
) -> tuple[int, float]:
    """Take devices that get inputs by another link out of the choice.

    Returns their number and the time at which all inputs are on any of the rest.
    """
    count, usual = 0, 0.0
    for i in range(a.pred_ptr[task], a.pred_ptr[task + 1]):
        source = rows.device[a.pred[i]]
        if source < 0:
            continue
        move = link.latency + a.pred_data[i] * link.per_byte
        usual = max(usual, rows.finish[a.pred[i]] + move)
        for k in range(link.first[source], link.first[source + 1]):
            d = link.other[k]
            if x.free[d] < np.inf:
                x.free[d], x.gap[d] = np.inf, -1.0
                x.other[count] = d
                count += 1
    return count, usual


@njit_inline
def _earliest_finish(
    a: ProblemArrays,
    task: int,
    rows: Rows,
    timeline: Timeline,
    table: GapStarts,
    link: CommonLink,
    x: Ends,
) -> tuple[int, float]:
    """Return (device, start) of the earliest finish; among equals the lowest number."""
    work, per_work = a.work[task], a.per_work[a.row[task]]
    count, ready = _hide_others(a, task, rows, link, x)
    least = x.least_per_work[a.row[task]]
    device, best = _behind_tasks(work, per_work, least, ready, x)
    start = max(ready, x.free[device])
    for b in range(len(least)):
        if ready + work * least[b] > min(best, x.most_gap[b]):
            continue
        costs, room = per_work[b * BLOCK : (b + 1) * BLOCK], x.gap[b * BLOCK : (b + 1) * BLOCK]
        first = interval_of(table, ready + work * least[b])
        limits, fits = table.begin[b, first], 0
        for i in range(len(costs)):
            soonest = max(ready, limits[i]) + work * costs[i]
            fits |= int(soonest <= best) & int(ready + work * costs[i] <= room[i])
        if fits == 0:
            continue
        last = interval_of(table, min(best, x.most_gap[b]))
        look = last - first < LOOK
        if look and not _any_long_enough(table.longest[b], first, last, work, costs):
            continue
        for i in range(len(costs)):
            d, soonest = b * BLOCK + i, max(ready, limits[i]) + work * costs[i]
            if (
                ready + work * costs[i] <= room[i]
                and (soonest < best or (soonest == best and x.number[d] < x.number[device]))
                and (not look or _long_enough(table.longest[b], first, last, work * costs[i], i))
            ):
                begin = earliest_start(timeline, d, ready, work * per_work[d], best)
                done = begin + work * per_work[d]
                if done < best or (done == best and x.number[d] < x.number[device]):
                    best, device, start = done, d, begin
    for k in range(count):
        d = x.other[k]
        _update(timeline, x, d)
        seconds, soonest = _seconds(a, task, d), _arrival(a, task, d, rows, link)
        if soonest + seconds < best or (
            soonest + seconds == best and x.number[d] < x.number[device]
        ):
            begin = earliest_start(timeline, d, soonest, seconds, best)
            done = begin + seconds
            if done < best or (done == best and x.number[d] < x.number[device]):
                best, device, start = done, d, begin
    return device, start


@njit_inline
def _any_long_enough(
    longest: FloatArray, first: int, last: int, work: float, costs: FloatArray
) -> bool:
    """Return whether a block has a gap for a task that finishes in these intervals."""
    for k in range(first, last + 1):
        lengths, fits = longest[k], 0
        for i in range(len(costs)):
            fits |= int(work * costs[i] <= lengths[i])
        if fits:
            return True
    return False


@njit_inline
def _long_enough(longest: FloatArray, first: int, last: int, seconds: float, i: int) -> bool:
    for k in range(first, last + 1):  # noqa: SIM110  # a generator expression does not compile
        if seconds <= longest[k, i]:
            return True
    return False


@njit_inline
def _behind_tasks(
    work: float, per_work: FloatArray, least: FloatArray, ready: float, x: Ends
) -> tuple[int, float]:
    """Return the device of the earliest finish behind all queues, and this finish.

    Times are not negative, so they can be compared as integers of the same bits; and as integers
    are never NaN, vector instructions find the least of a block. A block whose bound is above the
    best finish is left out; rounding is monotonic, so no finish is below its bound.
    """
    bits, low = x.finish.view(np.int64), x.low.view(np.float64)
    device, best = 0, np.inf
    for b in range(len(x.least_free)):
        if max(ready, x.least_free[b]) + work * least[b] > best:
            continue
        costs, free = per_work[b * BLOCK : (b + 1) * BLOCK], x.free[b * BLOCK : (b + 1) * BLOCK]
        for i in range(len(costs)):
            x.finish[i] = max(ready, free[i]) + (work * costs[i] if costs[i] < np.inf else np.inf)
        lowest = bits[0]
        for i in range(len(costs)):
            lowest = min(lowest, bits[i])
        x.low[0] = lowest
        if low[0] > best or low[0] == np.inf:
            continue
        for i in range(len(costs)):
            d = b * BLOCK + i
            if bits[i] == lowest and (low[0] < best or x.number[d] < x.number[device]):
                device, best = d, low[0]
    return device, best
