"""The classic planners on graphs with known answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.support.instances import topcuoglu
from tests.support.programs import data_dir
from weft.errors import InvalidInput, UnknownName
from weft.formats import load_workflow
from weft.model import Cluster, Problem
from weft.model.check import check
from weft.planners import PLANNERS, plan
from weft.planners.lists.placements import (
    COMBINATIONS,
    PLACEMENTS,
    ListPlanner,
    critical_path,
    pin_to_best,
)
from weft.planners.lists.ranks import RANKS, rank_order
from weft.sim.kernel.gaps import earliest_start, free_from, idle_timeline, occupy
from weft.sim.kernel.ranks import upward_rank

CLASSIC = (*COMBINATIONS, "dls", "etf", "min-min", "max-min", "sufferage", "tdca")


def static_graph(name: str) -> Problem:
    graph = json.loads((data_dir() / "static_graphs" / f"{name}.json").read_text())
    bandwidth = np.array([[np.inf if x is None else x for x in row] for row in graph["bandwidth"]])
    return Problem.from_arrays(
        graph["cost"], graph["edges"], graph["data"], bandwidth=bandwidth, name=name
    )


@pytest.mark.parametrize(
    ("name", "makespan"), [("heft", 80), ("cpop", 86), ("peft", 85), ("lookahead", 81)]
)
def test_published_makespans(name, makespan):
    assert plan(topcuoglu(), name).makespan == makespan


def test_published_upward_ranks():
    expected = [108, 77, 80, 80, 69, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert upward_rank(topcuoglu()) == pytest.approx(expected, abs=1e-3)


def test_published_critical_path():
    # CPOP's example: tasks 1, 2, 9 and 10 of the paper, on the second processor:
    # 16 + 19 + 12 + 7 = 54.
    problem = topcuoglu()
    assert critical_path(problem).tolist() == [0, 1, 8, 9]
    assert pin_to_best(problem, critical_path(problem))[[0, 1, 8, 9]].tolist() == [1, 1, 1, 1]


def test_equal_to_reference_makespans():
    results = json.loads((data_dir() / "static_graphs" / "results.json").read_text())
    columns = {
        "heft": "heft",
        "heft-saga-mean": "heft_selfloop_average",
        "cpop": "cpop",
        "lookahead": "lookahead",
    }
    assert len(results) >= 20
    for graph, row in results.items():
        problem = static_graph(graph)
        for name, column in columns.items():
            assert plan(problem, name).makespan == pytest.approx(row[column], rel=1e-9), (
                graph,
                name,
            )


def test_no_planner_without_copies_beats_a_proven_optimum():
    results = json.loads((data_dir() / "static_graphs" / "results.json").read_text())
    for graph, row in results.items():
        problem = static_graph(graph)
        for name in CLASSIC:
            schedule = plan(problem, name).schedule
            assert check(problem, schedule) == []
            if schedule.copies == 0:
                assert schedule.makespan >= row["lb"] * (1 - 1e-6), (graph, name)


def test_insertion_uses_a_gap():
    # Task 1 waits on device 0 for its data until 5; task 2 (rank 2, after 3 + 9 and 9) fits into
    # [2, 5] there. Device 1 is slow.
    problem = Problem.from_arrays(
        [[9.0, 1.0], [9.0, 99.0], [2.0, 99.0]], [[0, 1]], [4.0], bandwidth=1.0
    )
    schedule = plan(problem, "heft").schedule
    assert schedule.device.tolist() == [1, 0, 0]
    assert schedule.start.tolist() == [0.0, 5.0, 0.0]


def test_a_copy_saves_a_transfer():
    # One parent (1 s), two children (4 s), 9 bytes at 1 byte/s. Without copies both children stay:
    # 1 + 4 + 4. With one: 1 + 4.
    problem = Problem.from_arrays(
        [[1.0, 1.0], [4.0, 4.0], [4.0, 4.0]], [[0, 1], [0, 2]], [9.0, 9.0], bandwidth=1.0
    )
    assert plan(problem, "heft").makespan == 9.0
    for name in ("heft-deft", "fifo-deft", "tdca"):
        schedule = plan(problem, name).schedule
        assert (schedule.makespan, schedule.copies) == (5.0, 1)
        assert check(problem, schedule) == []


def test_batch_rules_differ_as_they_should():
    # Two equal devices; tasks of 2, 4 and 6 s. Min-Min: 2 | 4, then 6 after 2: 8.
    # Max-Min: 6 | 4, then 2 after 4: 6.
    problem = Problem.from_arrays([[2.0, 2.0], [4.0, 4.0], [6.0, 6.0]])
    assert plan(problem, "min-min").makespan == 8.0
    assert plan(problem, "max-min").makespan == 6.0


def test_sufferage_serves_the_task_that_would_lose_most():
    # Task 0 loses 1 s on device 1, task 1 loses 10 s: task 1 gets device 0, then task 0 takes
    # min(3 + 3, 4) = 4 on device 1.
    problem = Problem.from_arrays([[3.0, 4.0], [3.0, 13.0]])
    schedule = plan(problem, "sufferage").schedule
    assert (schedule.device.tolist(), schedule.makespan) == ([1, 0], 4.0)
    # Min-Min sees a tie at 3, gives task 0 device 0, and task 1 waits there: 3 + 3.
    assert plan(problem, "min-min").makespan == 6.0


def test_immediate_rules():
    # Three tasks of 1 s on device 0, 2 s on device 1.
    problem = Problem.from_arrays([[1.0, 2.0]] * 3)
    assert plan(problem, "met").schedule.device.tolist() == [0, 0, 0]
    assert plan(problem, "olb").schedule.device.tolist() == [0, 1, 0]
    # The second task ends at 2 on both: the lower number wins.
    assert plan(problem, "mct").schedule.device.tolist() == [0, 0, 1]
    assert plan(problem, "round-robin").schedule.device.tolist() == [0, 1, 0]
    assert plan(problem, "single-device").schedule.device.tolist() == [0, 0, 0]


def test_forbidden_devices_are_passed_over():
    never = np.inf
    problem = Problem.from_arrays(
        [[never, 5.0], [1.0, never], [never, 0.0], [2.0, 2.0]], [[0, 2]], [1.0], bandwidth=1.0
    )
    for name in CLASSIC:
        schedule = plan(problem, name).schedule
        assert check(problem, schedule) == []
        assert schedule.device[schedule.task == 0].tolist() == [1]
    # Device 1 runs all tasks but this one.
    assert plan(problem, "single-device").schedule.device.tolist()[1] == 0


def test_zero_work_tasks_keep_their_order():
    # All ranks are equal and the numbering goes backwards: 2 -> 1 -> 0.
    problem = Problem.from_arrays(np.zeros((3, 2)), [[2, 1], [1, 0]])
    assert rank_order(problem, upward_rank(problem)).tolist() == [2, 1, 0]
    assert all(check(problem, plan(problem, name).schedule) == [] for name in CLASSIC)


def test_random_depends_on_the_seed_only():
    problem = Problem.from_arrays(np.ones((30, 4)))
    devices = [plan(problem, "random", seed=s).schedule.device.tolist() for s in (1, 1, 2)]
    assert devices[0] == devices[1] != devices[2]
    assert set(devices[0]) == {0, 1, 2, 3}


@pytest.mark.parametrize("rank", RANKS.names())
@pytest.mark.parametrize("placement", PLACEMENTS.names())
def test_every_rank_goes_with_every_placement(rank, placement):
    problem = topcuoglu()
    schedule = ListPlanner(rank=rank, placement=placement).solve(problem, seed=3).schedule
    assert check(problem, schedule) == []


def test_names_and_errors():
    assert weft.list_planners() == PLANNERS.names()
    assert set(CLASSIC) <= set(weft.list_planners())
    with pytest.raises(UnknownName, match="did you mean 'heft'"):
        plan(topcuoglu(), "heff")
    with pytest.raises(UnknownName, match="unknown rank 'upwards'; did you mean 'upward'"):
        plan(topcuoglu(), ListPlanner(rank="upwards"))
    with pytest.raises(InvalidInput, match="seconds is -1"):
        plan(topcuoglu(), "heft", seconds=-1)


def test_options_reach_the_planner():
    problem = topcuoglu()
    assert (
        plan(problem, "heft", placement="duplicate").makespan == plan(problem, "heft-deft").makespan
    )


def test_unknown_options_are_refused():
    problem = topcuoglu()
    with pytest.raises(UnknownName, match="'heft' has no option 'placment'; did you mean 'placem"):
        plan(problem, "heft", placment="duplicate")
    with pytest.raises(
        UnknownName,
        match="'heft' has no option 'objective'; planners that have it: anytime, genetic, genetic-",
    ):
        plan(problem, "heft", objective="energy")
    with pytest.raises(UnknownName, match="planner object 'list' has no option 'rank'"):
        plan(problem, ListPlanner(), rank="level")


def test_every_planner_has_its_own_summary():
    summaries = [entry.summary for entry in PLANNERS.entries()]
    assert all(len(text) > 10 for text in summaries)
    assert len(set(summaries)) == len(summaries)


def test_timeline_fills_gaps_in_order():
    timeline = idle_timeline(1, 20)
    for start, finish in [(2.0, 3.0), (7.0, 9.0), (3.0, 4.0)]:  # idle: [0, 2], [4, 7], [9, ...
        occupy(timeline, 0, start, finish)
    assert free_from(timeline, 0) == 9.0
    asked = [(0.0, 2.0), (0.0, 2.5), (1.0, 1.5), (5.0, 2.0), (5.0, 2.5), (0.0, 4.0), (12.0, 1.0)]
    assert [earliest_start(timeline, 0, *a, np.inf) for a in asked] == [
        0.0,
        4.0,
        4.0,
        5.0,
        9.0,
        9.0,
        12.0,
    ]
    assert earliest_start(timeline, 0, 0.0, 2.5, 6.4) == np.inf  # it would end at 6.5
    occupy(timeline, 0, 4.0, 7.0)
    occupy(timeline, 0, 0.0, 2.0)
    assert earliest_start(timeline, 0, 0.0, 0.5, np.inf) == 9.0


def test_timeline_grows_and_stays_sorted():
    rng = np.random.default_rng(5)
    timeline, busy = idle_timeline(3, 600), [[], [], []]
    for _ in range(600):
        device, ready, duration = (
            int(rng.integers(3)),
            float(rng.uniform(0, 900)),
            float(rng.choice([0.0, rng.uniform(0, 4)])),
        )
        start = earliest_start(timeline, device, ready, duration, np.inf)
        assert start >= ready
        occupy(timeline, device, start, start + duration)
        busy[device].append((start, start + duration))
    for rows in busy:
        rows.sort()
        assert all(finish <= start for (_, finish), (start, _) in pairwise(rows))
    begin, end = (
        [column[f : f + g].tolist() for f, g in zip(timeline.first, timeline.gaps, strict=True)]
        for column in (timeline.begin, timeline.end)
    )
    for b, e in zip(begin, end, strict=True):
        assert all(x < y for x, y in zip(b, e, strict=True))
        assert all(y <= x for y, x in zip(e, b[1:], strict=False))


SCRIPT = """
import hashlib, numpy as np, weft
rng = np.random.default_rng(0)
parents = [sorted(set(rng.integers(0, v, 2).tolist())) for v in range(1, 60)]
edges = np.array([(u, v) for v, found in enumerate(parents, 1) for u in found])
data = rng.integers(0, 9, len(edges)).astype(float)
seconds = rng.integers(1, 5, (60, 4)).astype(float)
problem = weft.Problem.from_arrays(seconds, edges, data, bandwidth=1.0)
digest = hashlib.sha256()
for name in {names!r}:
    for column in weft.plan(problem, name, seed=1).schedule.to_arrays().values():
        digest.update(column.tobytes())
print(digest.hexdigest())
"""


def test_the_same_bytes_under_any_hash_seed():
    command = [sys.executable, "-c", SCRIPT.format(names=CLASSIC)]
    digests = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        digests.add(
            subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            ).stdout
        )
    assert len(digests) == 1


def published_workflows() -> list[Path]:
    """Every tenth file or so of three collections of published workflows."""
    folders = [data_dir() / name / "dev" for name in ("wfinstances", "ml_dags", "tiled_dags")]
    return [path for folder in folders for path in sorted(folder.rglob("*.json.gz"))[::10]]


def test_valid_on_published_workflows():
    paths = published_workflows()
    assert len(paths) >= 3
    for path in paths:
        workflow = load_workflow(path)
        kinds = (sorted(workflow.durations) or ["device"]) * 4
        cluster = Cluster(
            speed=np.array([1.0, 2.0, 0.5, 3.0]),
            bandwidth=1e8,
            latency=1e-4,
            kinds=tuple(kinds[:4]),
            cores=256,
        )
        problem = Problem.bind(workflow, cluster)
        for name in CLASSIC:
            assert check(problem, plan(problem, name).schedule) == [], (path.name, name)


def test_only_problems_are_planned():
    with pytest.raises(InvalidInput, match="plan takes a Problem, not a dict"):
        plan({}, "heft")
