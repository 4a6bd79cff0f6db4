"""Placement by earliest finish on devices that load kinds of tasks, compiled.

A task goes to the end of a device, behind the set-up that the device then needs, or into a gap
right behind a task of its own kind. There it needs no set-up, and later tasks keep theirs. Replay
gives the exact times afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weft.model import Problem, ProblemArrays
from weft.model.columns import FloatArray, IntArray
from weft.model.machines.setup import MEMORY, PINNED, SECONDS
from weft.planners.lists.insertion import ANYWHERE, Rows, arrivals, durations_of, empty_rows
from weft.sim.kernel.gaps import NONE, link
from weft.sim.kernel.jit import njit


class Loading(NamedTuple):
    """Set-ups of a problem for compiled code."""

    kind: IntArray  # (n,)
    seconds: FloatArray  # (kinds, p)
    memory: FloatArray  # (kinds, p)
    pinned: FloatArray  # (kinds, p)
    cache: FloatArray  # (p,)
    switch: FloatArray  # (p,)


def loading_of(problem: Problem) -> Loading:
    """Gather the set-ups of a problem."""
    c, w = problem.cluster, problem.workflow
    table = c.setup_of(w.kinds)
    seconds, memory, pinned = (
        np.ascontiguousarray(table[:, :, column]) for column in (SECONDS, MEMORY, PINNED)
    )
    return Loading(w.kind, seconds, memory, pinned, c.cache, c.switch)


@njit
def insert_with_setups(
    a: ProblemArrays, loading: Loading, order: IntArray, pin: IntArray, gaps: bool
) -> Rows:
    """Place each task, in order, on its pinned device or at its earliest finish.

    Finishes include set-ups.

    `gaps`: whether a task may go between others.
    """
    n, (kinds, p) = len(a.work), loading.seconds.shape
    rows, ready, seconds = empty_rows(n), np.empty(p), np.empty(p)
    latest, before = np.full(p, NONE), np.full(n, NONE)
    used = np.zeros((p, kinds), np.int64)  # when a kind was used last, counted per device
    for d in range(p):
        for k in range(kinds):
            used[d, k] = 1 if loading.pinned[k, d] > 0.0 else 0
    for task in order:
        arrivals(a, task, rows, ready)
        durations_of(a, task, seconds)
        kind, best, device, start, after = loading.kind[task], np.inf, NONE, 0.0, NONE
        extra = 0.0
        for d in range(p):
            if seconds[d] == np.inf or (pin[task] != ANYWHERE and pin[task] != d):
                continue
            last = latest[d]
            begin = ready[d] if last == NONE else max(ready[d], rows.finish[last])
            setup = 0.0 if used[d, kind] > 0 else loading.seconds[kind, d]
            if last != NONE and loading.kind[last] != kind:
                setup += loading.switch[d]
            if begin + setup + seconds[d] < best:
                best, device, start = begin + setup + seconds[d], d, begin
                after, extra = NONE, setup
            if gaps:
                begin, behind = _own_gap(loading, rows, last, before, kind, ready[d], seconds[d])
                if begin + seconds[d] < best:
                    best, device, start = begin + seconds[d], d, begin
                    after, extra = behind, 0.0
        if after == NONE:
            _load(loading, used[device], device, kind)
        link(task, device, after, latest, before)
        rows.device[task], rows.start[task] = device, start
        rows.finish[task] = start + extra + seconds[device]
    return rows


@njit
def _own_gap(
    loading: Loading,
    rows: Rows,
    last: int,
    before: IntArray,
    kind: int,
    ready: float,
    seconds: float,
) -> tuple[float, int]:
    """Find the earliest gap behind a task of a kind: its start, and the task after it."""
    start, after, k = np.inf, NONE, last
    while k != NONE and rows.finish[k] > ready:
        earlier = before[k]
        if earlier != NONE and loading.kind[earlier] == kind:
            begin = max(rows.finish[earlier], ready)
            if begin + seconds <= rows.start[k]:
                start, after = begin, k
        k = earlier
    return start, after


@njit
def _load(loading: Loading, used: IntArray, device: int, kind: int) -> None:
    """Load a kind; drop those used least recently from a full cache."""
    used[kind] = used.max() + 1
    while True:
        total, oldest = 0.0, NONE
        for k in range(len(used)):
            if used[k] == 0:
                continue
            memory = loading.memory[k, device]
            total += memory
            fixed = k == kind or memory == 0.0 or loading.pinned[k, device] > 0.0
            if not fixed and (oldest == NONE or used[k] < used[oldest]):
                oldest = k
        if oldest == NONE or total <= loading.cache[device]:
            return
        used[oldest] = 0
