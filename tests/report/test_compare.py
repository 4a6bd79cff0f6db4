"""`compare`: what may be compared, and how contenders are named."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft

PROBLEM = weft.Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)


def test_plans_and_schedules_are_replayed_under_short_names():
    plan = weft.plan(PROBLEM, "heft")
    schedule = weft.plan(PROBLEM, "round-robin").schedule
    rows = weft.compare(PROBLEM, [plan, schedule, "heft"]).rows
    # HEFT runs both tasks on device 1, 1 + 4 s; round robin: 2 s, 10 bytes at 5 per second, 4 s.
    assert {(row.contender, row.kind, row.makespan) for row in rows} == {
        ("heft", "plan", 5.0),
        ("heft (planner)", "planner", 5.0),
        ("schedule", "plan", 8.0),
    }


def test_a_plan_brings_its_makespan_its_bound_and_its_planning_time():
    plan = weft.plan(PROBLEM, "heft")
    (row,) = weft.compare(PROBLEM, plan).rows
    assert (row.planned, row.seconds) == (plan.makespan, plan.seconds)
    assert row.gap == pytest.approx(plan.gap)


def test_the_bound_of_a_plan_counts_for_no_other_problem():
    slow = weft.Problem.from_arrays([[20.0, 10.0], [30.0, 40.0]], [[0, 1]], [0.0])
    proven = replace(weft.plan(slow, "heft"), proved=40.0)
    (row,) = weft.compare(PROBLEM, proven).rows
    # The plan of `slow` uses both devices: 1 s, then 2 s for 10 bytes, then 3 s. No plan of PROBLEM
    # takes less than 5 s: 2 + 3 s or 1 + 4 s on one device, 1 + 2 + 3 s or more on both.
    assert (row.makespan, row.gap) == (6.0, pytest.approx(0.2))
    assert np.isnan(row.planned)


@pytest.mark.parametrize(
    ("problems", "contenders", "message"),
    [
        ([], ["heft"], "problems is empty; give a Problem or a Workload"),
        (PROBLEM, [], "contenders is empty; name planners or policies"),
        ([3], ["heft"], "cannot compare on a int; give a Problem, a Workload or a path"),
        ("nowhere.json", "heft", "nowhere.json: there is no such file"),
        (PROBLEM, [3], "policy is int; it must be a name, a path, or have begin and decide"),
    ],
)
def test_nothing_to_compare_is_refused(problems, contenders, message):
    with pytest.raises(weft.InvalidInput, match=message):
        weft.compare(problems, contenders)


def test_contenders_that_all_refuse_are_refused():
    with pytest.raises(weft.Unsupported, match="policy 'rollout' samples future arrivals"):
        weft.compare(PROBLEM, ["rollout"])


@pytest.mark.parametrize(("typed", "meant"), [("nois", "noise"), ("scenario", "scenarios")])
def test_unknown_options_are_refused_with_the_closest_one(typed, meant):
    with pytest.raises(weft.errors.UnknownName, match=rf"no option '{typed}'; .* '{meant}'\?$"):
        weft.compare(PROBLEM, "heft", **{typed: 1})


def test_a_workload_a_name_and_a_single_problem_need_no_list():
    stream = weft.Workload.of(PROBLEM, arrival=[0.0, 9.0])
    (row,) = weft.compare(stream, "fifo").rows
    assert (row.contender, row.kind) == ("fifo", "policy")


def test_a_path_stands_for_what_its_file_holds(tmp_path):
    stream, bare = weft.Workload.of(PROBLEM, arrival=[0.0, 9.0]), weft.generate("montage", images=4)
    for name, given in (("p.json", PROBLEM), ("w.json", stream), ("only.json", bare)):
        weft.save(given, tmp_path / name)
    single = weft.compare(str(tmp_path / "p.json"), "heft")
    assert single.rows[0].makespan == weft.compare(PROBLEM, "heft").rows[0].makespan == 5.0
    several = weft.compare([tmp_path / "p.json", str(tmp_path / "w.json"), PROBLEM], "eft")
    assert [w.jobs for w in several.workloads] == [1, 2, 1]
    assert len({w.name for w in several.workloads}) == 3
    with pytest.raises(weft.InvalidInput, match=r"only.json: holds a workflow without machines"):
        weft.compare(tmp_path / "only.json", "heft")
    weft.save(PROBLEM.cluster, tmp_path / "machines.json")
    with pytest.raises(weft.InvalidInput, match=r"machines.json: holds a cluster, not a"):
        weft.compare([PROBLEM, tmp_path / "machines.json"], "heft")


def test_a_future_in_which_no_job_ends_has_no_completion_time():
    cancelled = {"cancellations": 1.0, "scenarios": 3}
    with pytest.raises(weft.InvalidInput, match=r"no job of 'problem' ends in scenario . under 'h"):
        weft.compare(PROBLEM, "heft", objective="mean", **cancelled)
    (row,) = weft.compare(PROBLEM, "heft", **cancelled).rows
    assert np.isfinite(row.makespan)


def test_trained_policies_of_one_name_are_told_apart_by_their_paths(tmp_path):
    bundled = Path(weft.policies.__file__).parent / "bundled"
    paths = [tmp_path / folder / "tuned-list" for folder in ("first", "second")]
    for path in paths:
        path.parent.mkdir()
        for file in bundled.glob("tuned-list.*"):
            shutil.copy(file, path.parent)
    found = weft.compare(PROBLEM, [*map(str, paths), "heft"])
    assert {row.contender for row in found.rows} == {*map(str, paths), "heft"}
