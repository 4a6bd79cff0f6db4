"""`genetic`: valid individuals, the same for the same seed, and fitness that means what it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.instances import drawn_problem
from tests.support.strategies import problems
from weft.errors import InvalidInput
from weft.model import Problem
from weft.model.check import check
from weft.planners import plan
from weft.planners.objective import Objective
from weft.planners.search.clock import Clock
from weft.planners.search.genetic import ELITE, GeneticSearch, breed, keep_elite


@given(problems(max_tasks=9))
@settings(max_examples=30)
def test_valid(problem):
    for name in ("genetic", "genetic-waiting"):
        assert check(problem, plan(problem, name, generations=3, population=8).schedule) == []


def test_same_seed_same_plan():
    problem = drawn_problem()
    one, two, other = (
        plan(problem, "genetic", generations=20, seed=seed).schedule.to_arrays()
        for seed in (1, 1, 2)
    )
    assert all(np.array_equal(one[c], two[c]) for c in one)
    assert not all(np.array_equal(one[c], other[c]) for c in one)


def test_children_respect_edges_and_devices():
    problem = Problem.from_arrays(
        work=np.arange(1.0, 13.0),
        speed=[1.0, 2.0, 3.0],
        edges=[[t, t + 3] for t in range(9)],
        memory=[2.0] * 6 + [1.0] * 6,
        device_memory=[2.0, 1.0, 2.0],
    )
    e = GeneticSearch.of(
        problem, Objective.of("makespan"), Clock(None), population=20, seeded=False, seed=3
    )
    keep_elite(e.people, 0)
    for i in range(ELITE, 20):
        breed(problem.arrays, e.objective, e.tail, e.people, e.decoder, 0, i)
    for generation in (0, 1):
        for order, device in zip(
            e.people.order[generation], e.people.device[generation], strict=True
        ):
            assert sorted(order.tolist()) == list(range(12))
            place = np.argsort(order)
            assert (place[problem.workflow.src] < place[problem.workflow.dst]).all()
            assert all(problem.duration(t, int(device[t])) < np.inf for t in range(12))
    assert e.people.value[1].min() <= e.people.value[0].min()


def test_not_worse_than_heft_when_seeded():
    for seed in range(3):
        problem = drawn_problem(ccr=4.0, seed=seed)
        assert plan(problem, "genetic", generations=10).makespan <= plan(problem, "heft").makespan


def test_fitness_is_the_waiting_time():
    # One device, tasks of 1, 2 and 3 s: shortest first waits least, (0 + 1 + 3) / 3.
    problem = Problem.from_arrays([[3.0], [1.0], [2.0]])
    found = plan(problem, "genetic-waiting", generations=30)
    assert found.schedule.start.tolist() == [3.0, 0.0, 1.0]
    assert Objective.of("waiting").value(problem, found.schedule) == pytest.approx(4 / 3)


def test_a_weighted_mix_lies_between():
    problem = drawn_problem(20, ccr=2.0)
    value = {
        name: (s.makespan, float(s.start.mean()))
        for name, weights in {
            "makespan": {"makespan": 1.0},
            "mix": {"makespan": 1.0, "waiting": 1.0},
            "waiting": {"waiting": 1.0},
        }.items()
        for s in [plan(problem, "genetic", generations=150, objective=weights).schedule]
    }
    assert (
        value["mix"][0] + value["mix"][1]
        <= min(sum(value["makespan"]), sum(value["waiting"])) * 1.02
    )


def test_options_are_checked():
    with pytest.raises(InvalidInput, match="population is 1; it must be a whole number, 4 or more"):
        plan(drawn_problem(5), "genetic", population=1)
    with pytest.raises(
        InvalidInput, match="generations is 0; it must be a whole number, 1 or more"
    ):
        plan(drawn_problem(5), "genetic", generations=0)
