"""The searches for the earliest gap agree with each other and with a plain one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.sim.kernel.gaps import (
    NONE,
    earliest_start,
    gap_in_chain,
    gap_in_rows,
    idle_timeline,
    insert_row,
    link,
    occupy,
)
from weft.sim.kernel.jit import njit

tasks = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6)), max_size=30)
"""Ready times and durations: whole numbers, so that many ends and starts are equal."""


def plain_start(busy: list[tuple[float, float]], ready: float, duration: float) -> float:
    """The least start, among `ready` and the ends of tasks, at which the task overlaps no other."""
    candidates = sorted([ready, *(end for _, end in busy if end > ready)])
    return next(
        start for start in candidates if all(start + duration <= b or start >= e for b, e in busy)
    )


@njit
def place_in_chain(ready, duration, before, begin, end, last):
    for t in range(len(ready)):
        start, after = gap_in_chain(last[0], before, begin, end, ready[t], duration[t])
        begin[t], end[t] = start, start + duration[t]
        link(t, 0, after, last, before)


@njit
def place_in_rows(ready, duration, begin, end, start):
    for t in range(len(ready)):
        start[t], place = gap_in_rows(begin, end, t, ready[t], duration[t])
        insert_row(begin, end, t, place, start[t], start[t] + duration[t])


@settings(deadline=None)
@given(tasks)
def test_all_layouts_find_the_earliest_gap(drawn):
    ready = np.array([r for r, _ in drawn], float)
    duration = np.array([d for _, d in drawn], float)
    busy: list[tuple[float, float]] = []
    for r, d in zip(ready.tolist(), duration.tolist(), strict=True):
        start = plain_start(busy, r, d)
        busy.append((start, start + d))
    expected = [start for start, _ in busy]
    n = len(drawn)

    last, before, begin, end = np.full(1, NONE), np.full(n, NONE), np.zeros(n), np.zeros(n)
    place_in_chain(ready, duration, before, begin, end, last)
    assert begin.tolist() == expected

    rows, ends, found = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n)
    place_in_rows(ready, duration, rows, ends, found)
    assert found.tolist() == expected
    assert rows[:n].tolist() == sorted(expected)

    timeline = idle_timeline(1, n)
    for r, d, start in zip(ready, duration, expected, strict=True):
        assert earliest_start(timeline, 0, r, d, np.inf) == start
        occupy(timeline, 0, start, start + d)


def test_a_task_of_no_length_fits_between_two_others():
    # Busy: [0, 1] and [1, 2]. At 1 there is room for nothing, which is all it needs.
    before, begin, end = np.array([NONE, 0]), np.array([0.0, 1.0]), np.array([1.0, 2.0])
    assert gap_in_chain(1, before, begin, end, 1.0, 0.0) == (1.0, 1)
    assert gap_in_rows(begin, end, 2, 1.0, 0.0) == (1.0, 1)
    # A timeline drops intervals of no length.
    timeline = idle_timeline(1, 3)
    occupy(timeline, 0, 0.0, 1.0)
    occupy(timeline, 0, 1.0, 2.0)
    assert earliest_start(timeline, 0, 1.0, 0.0, np.inf) == 2.0
