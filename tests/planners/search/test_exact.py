"""`exact`: optimal where it says so, and a bound that holds for every planner."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.instances import drawn_problem
from tests.support.slow_twins.brute_force import shortest
from tests.support.strategies import problems
from weft.errors import MissingExtra, UnknownName
from weft.formats import load
from weft.model import Cluster, Device, Problem, Variant, Workflow
from weft.model.check import check
from weft.planners import plan

pytest.importorskip("ortools", reason="OR-Tools is not installed")


@given(problems(min_tasks=1, max_tasks=5, max_devices=3))
@settings(max_examples=15)
def test_tiny_problems_are_proved(problem):
    found = plan(problem, "exact", seconds=600.0, threads=1)
    assert check(problem, found.schedule) == []
    assert found.status == "optimal"
    assert found.makespan == pytest.approx(shortest(problem), rel=1e-9, abs=1e-12)


def test_topcuoglu(data):
    found = plan(load(data / "static_graphs" / "topcuoglu10.json"), "exact", seconds=600.0)
    assert found.makespan == 73.0
    assert found.status == "optimal"
    assert found.gap == pytest.approx(0.0, abs=1e-9)


def test_proves_a_graph_of_twenty_tasks(data):
    name = "s21_unrelated_n20_P4_ccr1_het0.5"
    best = json.loads((data / "static_graphs" / "results.json").read_text())[name]["best"]
    found = plan(load(data / "static_graphs" / f"{name}.json"), "exact", seconds=600.0)
    assert found.makespan == pytest.approx(best, rel=1e-9)
    assert found.status == "optimal"


def test_bound_is_below_every_schedule_when_time_is_short():
    problem = drawn_problem(40, ccr=2.0)
    found = plan(problem, "exact", seconds=0.5)
    assert check(problem, found.schedule) == []
    others = [plan(problem, name).makespan for name in ("heft", "peft", "dls")] + [
        plan(problem, "anytime", iterations=50_000).makespan
    ]
    assert found.bound <= min([*others, found.makespan]) * (1 + 1e-12)


@pytest.mark.parametrize(("given", "used"), [({}, 8), ({"threads": 3}, 3)])
def test_threads_without_a_time_limit(monkeypatch, given, used):
    from ortools.sat.python import cp_model

    seen = []

    class Solver(cp_model.CpSolver):
        def solve(self, model):
            seen.append((self.parameters.num_workers, self.parameters.interleave_search))
            return super().solve(model)

    monkeypatch.setattr(cp_model, "CpSolver", Solver)
    problem = drawn_problem(20, ccr=2.0)
    one, other = (plan(problem, "exact", seed=5, **given) for _ in range(2))
    assert seen == [(used, True)] * 2
    np.testing.assert_array_equal(one.schedule.device, other.schedule.device)
    np.testing.assert_array_equal(one.schedule.start, other.schedule.start)


def test_per_pair_links():
    # Two tasks bound to devices 0 and 2 by limits; the link 0 -> 2 takes 8 s, 0 -> 1 takes 1 s:
    # 2 + 8 + 3.
    bandwidth = np.full((3, 3), 10.0)
    bandwidth[0, 2] = 1.25
    durations = [[2.0, np.inf, np.inf], [np.inf, np.inf, 3.0]]
    found = plan(
        Problem.from_arrays(durations, [[0, 1]], [10.0], bandwidth=bandwidth),
        "exact",
        seconds=600.0,
    )
    assert found.makespan == 13.0
    assert found.status == "optimal"


def test_memory_limits_hold():
    problem = Problem.from_arrays(
        work=np.arange(1.0, 9.0),
        speed=[4.0, 1.0],
        edges=[[t, t + 2] for t in range(6)],
        memory=[8.0, 1.0] * 4,
        device_memory=[2.0, 8.0],
    )
    found = plan(problem, "exact", seconds=600.0)
    assert check(problem, found.schedule) == []
    assert found.status == "optimal"


def test_large_problems_get_the_search_and_the_bound():
    problem = drawn_problem(400, p=40)
    found = plan(problem, "exact", seconds=0.3)
    assert check(problem, found.schedule) == []
    assert 0 < found.bound <= found.makespan


def test_without_ortools(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools.sat.python", None)
    with pytest.raises(
        MissingExtra,
        match=r"ortools is not installed; install it with: pip install 'weft-scheduling\[exact\]'",
    ):
        plan(drawn_problem(5), "exact")


def test_other_objectives_are_refused():
    with pytest.raises(UnknownName, match=r"'exact' has no option 'objective'; .*anytime"):
        plan(drawn_problem(5), "exact", objective="energy")


def test_tasks_that_take_no_time_and_share_a_capacity():
    none = np.zeros(0, np.int64)
    tasks = Workflow(np.zeros(2), none, none, np.zeros(0), needs={"licence": np.zeros(2)})
    machine = Cluster.of([Device("d", node="x")], capacity={"licence": {"x": 2.0}})
    problem = Problem.bind(tasks, machine)
    made = plan(problem, "exact", seconds=1.0)
    assert check(problem, made.schedule) == []
    assert made.makespan < 1e-300


def test_a_device_that_takes_a_billion_times_as_long():
    problem = Problem.from_arrays([[3.0, 3.0, 3e9], [3.0, 3.0, 3e9], [2.0, 2.0, 3e9]])
    made = plan(problem, "exact", seconds=60.0)
    assert check(problem, made.schedule) == []
    assert made.makespan == 5.0
    assert made.bound == pytest.approx(5.0)


def test_a_task_that_takes_no_time_in_one_of_two_ways():
    none = np.zeros(0, np.int64)
    ways = {"task": (Variant("whole"), Variant("half", factor=0.5))}
    one = Workflow(np.zeros(1), none, none, np.zeros(0), variants=ways)
    made = plan(Problem.bind(one, Cluster.of([Device("d")])), "exact", seconds=1.0)
    assert made.makespan == 0.0
