"""Public entries refuse schedules, plans, traces and scenarios of other problems.

Compiled code checks no index, so what is let through reads or writes outside its arrays. The
objects are made by hand: a refusal comes before any compiled code.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import weft
from weft.sim.reference import simulate_reference

SMALL = weft.Problem.from_arrays(
    [[2.0, 1.0], [3.0, 4.0], [1.0, 1.0]], [[0, 1], [0, 2]], [10.0, 20.0], bandwidth=5.0
)
LARGE = weft.Problem.from_arrays(np.ones((20, 6)), [[k, k + 1] for k in range(19)], np.ones(19))
RIGHT = weft.Schedule.of(device=[1, 0, 1], start=[0.0, 3.0, 1.0], finish=[1.0, 6.0, 2.0])
PLAN = weft.Plan(SMALL, RIGHT, "mine", 0.0)
TIMES = {"start": [0, 1, 2], "finish": [1, 2, 3]}
STRANGE = {
    "of another problem": weft.Schedule.of(
        device=np.arange(20) % 6, start=np.arange(20.0), finish=np.arange(20.0) + 1.0
    ),
    **{
        f"on device {d}": weft.Schedule.of(device=[0, d, 1], **TIMES)
        for d in (2, 10**6, -1, -(10**6))
    },
    **{
        f"of task {t}": weft.Schedule.of(task=[0, t, 1], device=[0, 0, 1], **TIMES)
        for t in (3, 10**9, -1, -(10**9))
    },
}
"""Schedules with tasks or devices that the small problem does not have."""
PARTIAL = {
    "of one task": weft.Schedule.of(device=[0], start=[0], finish=[1]),
    "with a task twice": weft.Schedule.of(task=[0, 1, 1], device=[0, 0, 1], **TIMES),
}
BY_SCHEDULE = {
    "simulate": partial(weft.simulate, SMALL),
    "simulate a plan": lambda s: weft.simulate(SMALL, replace(PLAN, schedule=s)),
    "replan": lambda s: weft.replan(replace(PLAN, schedule=s), lost="d0"),
}
BY_ROWS = {
    "explain": lambda s: weft.explain(s, SMALL),
    "forecast": lambda s: weft.forecast(replace(PLAN, schedule=s)),
    "RunState": lambda s: weft.RunState.before(replace(PLAN, schedule=s)),
}
"""Entries for which a part of a plan will do."""


def test_the_schedule_by_hand_is_right():
    assert weft.check(SMALL, PLAN) == []


@pytest.mark.parametrize("name", [*STRANGE, *PARTIAL])
@pytest.mark.parametrize("entry", BY_SCHEDULE)
def test_schedules_of_other_problems(entry, name):
    with pytest.raises(weft.InvalidInput, match=r"give the problem|exactly once"):
        BY_SCHEDULE[entry]((STRANGE | PARTIAL)[name])


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("entry", BY_ROWS)
def test_rows_of_other_problems(entry, name):
    with pytest.raises(weft.InvalidInput, match="give the problem the schedule is for"):
        BY_ROWS[entry](STRANGE[name])


@pytest.mark.parametrize("name", [*STRANGE, *PARTIAL])
def test_the_oracle_reports_them(name):
    assert weft.check(SMALL, (STRANGE | PARTIAL)[name])


def test_a_picture_of_another_problem(tmp_path):
    for schedule in STRANGE.values():
        with pytest.raises(weft.InvalidInput, match="give the problem the schedule is for"):
            weft.save_gantt(schedule, tmp_path / "x.html", SMALL)


def test_columns_of_different_lengths():
    columns = {"device": np.zeros(1, int), "start": np.zeros(2), "finish": np.ones(5)}
    with pytest.raises(weft.InvalidInput, match="columns of a schedule have shapes"):
        weft.Schedule(task=np.arange(3), copy=np.zeros(3, bool), **columns)


@pytest.mark.parametrize("longer", [{10**6: 2.0}, {-(10**6): 2.0}, {"none": 2.0}])
def test_longer_tasks_that_there_are_not(longer):
    with pytest.raises(weft.WeftError):
        weft.replan(PLAN, longer=longer)


WORKLOAD = weft.Workload.of(LARGE, arrival=[0.0, 5.0])
FUTURE = weft.Scenario.draw(WORKLOAD)


@pytest.mark.parametrize("policy", ["fifo", "heft-replanned", "conditional-any"])
def test_scenarios_of_other_workloads(policy):
    with pytest.raises(weft.InvalidInput, match="give the scenario of this workload"):
        weft.simulate(SMALL, policy, scenario=FUTURE)
    with pytest.raises(weft.InvalidInput, match="give the scenario of this workload"):
        weft.simulate(WORKLOAD, policy, scenario=weft.Scenario.draw(weft.Workload.of(SMALL)))


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("outcome", np.zeros(5, int)),
        ("factor", np.ones(1)),
        ("bias", np.ones((9, 9))),
        ("cancel", np.ones(0)),
        ("change_device", np.array([1])),
        ("change_time", np.ones(2)),
    ],
)
def test_columns_of_scenarios(name, column):
    with pytest.raises(weft.InvalidInput, match="of the scenario has shape"):
        weft.simulate(WORKLOAD, "fifo", scenario=replace(FUTURE, **{name: column}))


@pytest.mark.parametrize("device", [6, 10**6, -1])
def test_changes_of_devices_that_there_are_not(device):
    rows = {"change_time": np.ones(1), "change_pace": np.ones(1)}
    future = replace(FUTURE, change_device=np.array([device]), **rows)
    with pytest.raises(weft.InvalidInput, match="device of change 0"):
        weft.simulate(WORKLOAD, "fifo", scenario=future)


@pytest.mark.parametrize("by", [10**6, -(10**6)])
@pytest.mark.parametrize("name", ["task", "device", "job"])
def test_the_oracle_reports_rows_of_traces(name, by):
    rule = weft.load_policy("fifo").rule(WORKLOAD)
    trace = simulate_reference(WORKLOAD, rule, scenario=FUTURE)
    assert weft.check(WORKLOAD, replace(trace, **{name: getattr(trace, name) + by}))
