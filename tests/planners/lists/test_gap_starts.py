"""The table of gaps by time, against the gaps themselves."""

from __future__ import annotations

import numpy as np

from weft.experiments.benchmarks.large import layered
from weft.model import Problem
from weft.planners.lists.common_link import insert
from weft.planners.lists.gap_starts import BLOCK, GapStarts, interval_of, occupy_in_table
from weft.planners.lists.heft import insert_in_order, no_pins
from weft.planners.lists.ranks import rank_order
from weft.sim.kernel.gaps import Timeline, earliest_start, idle_timeline
from weft.sim.kernel.ranks import upward_rank


def gaps_of(timeline: Timeline, device: int) -> list[tuple[float, float]]:
    at = slice(timeline.first[device], timeline.first[device] + timeline.gaps[device])
    return list(zip(timeline.begin[at].tolist(), timeline.end[at].tolist(), strict=True))


def test_the_table_holds_the_first_and_the_longest_gap_of_each_interval() -> None:
    rng = np.random.default_rng(0)
    devices, tasks = 3, 300
    timeline = idle_timeline(devices, tasks)
    shape = (1, 16, BLOCK)
    table = GapStarts(np.full(shape, np.nan), np.zeros(shape), np.full(1, 0.25))
    read = 0
    for k in range(tasks):
        d, seconds = int(rng.integers(devices)), float(rng.choice([0.0, 0.5, 1.0, 1.7]))
        ready = float(rng.choice([0.0, 1.0, 2.5, 3.3])) * k / 10
        start = earliest_start(timeline, d, ready, seconds, np.inf)
        occupy_in_table(timeline, table, d, start, start + seconds)
        for device in range(devices):
            *before, _end_of_queue = gaps_of(timeline, device)
            last = interval_of(table, before[-1][1]) if before else -1
            for interval in range(last + 1):
                first = next(b for b, e in before if interval_of(table, e) >= interval)
                assert table.begin[0, interval, device] == first
                read += 1
            for interval in range(16):
                lengths = [
                    e - b
                    for b, e in before
                    if interval_of(table, b) <= interval <= interval_of(table, e)
                ]
                found = table.longest[0, interval, device]
                assert max(lengths, default=0.0) <= found
                np.testing.assert_allclose(found, max(lengths, default=0.0), rtol=1e-12)
    assert table.width[0] >= 4.0  # doubled until the last gaps had an interval
    assert read > 1000


def test_a_crowded_cluster_gets_the_same_plan() -> None:
    problem = Problem.from_arrays(
        **layered(20_000, 128, seed=5)  # type: ignore[arg-type]  # arrays by name
    )
    a, order = problem.arrays, rank_order(problem, upward_rank(problem))
    expected, found = (
        insert_in_order(a, order, no_pins(problem)),
        insert(a, order, no_pins(problem)),
    )
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
