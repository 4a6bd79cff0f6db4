"""The planner `partitioned`: known answers, any number of threads, its twin, its refusals."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import problems
from weft.errors import InvalidInput, UnknownName
from weft.experiments.benchmarks.large import layered
from weft.model import Problem
from weft.model.check import check
from weft.planners import Plan, plan
from weft.planners.lists.insertion import Rows
from weft.planners.partitioned import planner as module
from weft.planners.partitioned.planner import append, only_link

PLAIN = problems(min_tasks=1, max_tasks=14)


def same(one: Plan, other: Plan) -> bool:
    a, b = one.schedule.to_arrays(), other.schedule.to_arrays()
    return all(a[column].tobytes() == b[column].tobytes() for column in a)


def copies(count: int, speed: list[float]) -> Problem:
    """Copies of a fork: one task, then two; their numbers are mixed."""
    fork = np.array([[0, 1], [0, 2]])
    edges = np.concatenate([fork * count + c for c in range(count)])
    work = np.repeat([2.0, 1.0, 3.0], count)
    return Problem.from_arrays(work=work, speed=speed, edges=edges, data=4.0, bandwidth=1.0)


def test_one_part_is_heft() -> None:
    problem = Problem.from_arrays(**layered(400, 6))  # type: ignore[arg-type]  # arrays by name
    assert same(plan(problem, "partitioned", parts=1), plan(problem, "heft"))


def test_parts_that_exchange_no_data_have_devices_of_their_own() -> None:
    made = plan(copies(2, [1.0, 1.0]), "partitioned", parts=2)
    # 2 + 1 + 3 s on one device each: a transfer takes 4 s.
    assert made.makespan == 6.0
    assert made.schedule.device.tolist() == [0, 1] * 3


def test_parts_in_sequence_are_joined_without_waiting_for_one_another() -> None:
    # Two chains that meet: 0 -> 1 -> 4 and 2 -> 3 -> 4, 1 s each, and free data. Upward ranks are
    # 3, 2, 3, 2 and 1, so the first of two parts has tasks 0 and 2 (2 of 5 s). On two devices all
    # chains run side by side; the parts take 1 and 2 s.
    problem = Problem.from_arrays(np.ones((5, 2)), [[0, 1], [1, 4], [2, 3], [3, 4]])
    made = plan(problem, "partitioned", parts=2, tolerance=0.0)
    assert made.makespan == 3.0


def test_a_part_is_cut_where_no_edge_crosses() -> None:
    # A task of 7 s on the mean device, and a chain of 2 s: the cut nearest to the half is between
    # them. So each has a device of its own: 5 s on the first, and 2 s on the second.
    problem = Problem.from_arrays([[5.0, 9.0], [1.0, 1.0], [1.0, 1.0]], [[1, 2]])
    made = plan(problem, "partitioned", parts=2)
    assert made.makespan == 5.0
    assert made.schedule.device.tolist() == [0, 1, 1]


def test_equal_parts_are_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []

    def counted(a, order, pin):  # type: ignore[no-untyped-def]  # as the function it replaces
        planned.append(len(order))
        return insert(a, order, pin)

    insert = module.insert
    monkeypatch.setattr(module, "insert", counted)
    equal = copies(8, [1.0, 2.0] * 4)
    made = plan(equal, "partitioned", parts=4, threads=2)
    assert planned == [6]  # two copies of three tasks
    assert check(equal, made) == []
    planned.clear()
    plan(copies(8, [1.0, 2.0, 3.0, 4.0]), "partitioned", parts=4)
    assert planned != [6]  # devices that differ


def test_an_error_in_a_part_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(a, order, pin):  # type: ignore[no-untyped-def]  # as the function it replaces
        raise MemoryError(len(order))

    monkeypatch.setattr(module, "insert", failing)
    with pytest.raises(MemoryError):
        plan(copies(8, [1.0] * 4), "partitioned", parts=4, threads=2)


def test_many_devices_with_links_alike() -> None:
    problem = Problem.from_arrays(**layered(600, 130))  # type: ignore[arg-type]  # arrays by name
    assert only_link(problem.arrays).tolist() == [0.0, 0.5]
    few = copies(1, [1.0, 2.0])
    assert np.isnan(only_link(few.arrays)).all()
    made = plan(problem, "partitioned", parts=3)
    assert check(problem, made) == []


@settings(max_examples=100, deadline=None)
@given(PLAIN, st.integers(1, 5))
def test_valid_and_the_same_for_any_number_of_threads(problem: Problem, parts: int) -> None:
    one, two, five = (plan(problem, "partitioned", parts=parts, threads=t) for t in (1, 2, 5))
    assert check(problem, one) == []
    assert same(one, two)
    assert same(one, five)


@settings(max_examples=100, deadline=None)
@given(PLAIN, st.randoms(use_true_random=False))
def test_append_equals_its_twin(problem: Problem, random: Random) -> None:
    order = problem.workflow.order
    able = [np.flatnonzero(np.isfinite(problem.per_work[r])).tolist() for r in problem.row]
    device = np.array([random.choice(devices) for devices in able], np.int64)
    rows = Rows(device, np.empty(problem.n), np.empty(problem.n))
    append(problem.arrays, order, rows, np.full(2, np.nan))
    start, finish, w = {}, {}, problem.workflow
    free = [0.0] * problem.p
    for t in order.tolist():
        d = int(device[t])
        inputs = [
            finish[int(w.src[e])] + problem.transfer(int(e), int(device[w.src[e]]), d)
            for e in np.flatnonzero(w.dst == t)
        ]
        start[t] = max([free[d], *inputs])
        finish[t] = free[d] = start[t] + problem.duration(t, d)
    assert rows.start.tolist() == [start[t] for t in range(problem.n)]
    assert rows.finish.tolist() == [finish[t] for t in range(problem.n)]


def test_options_are_checked() -> None:
    problem = copies(2, [1.0])
    for options, message in (
        ({"parts": 0}, "parts is 0; it must be a whole number, 1 or more"),
        ({"threads": -1}, "threads is -1; it must be a whole number, 1 or more"),
        ({"tolerance": 0.7}, "tolerance is 0.7; it must be a number 0 or more, at most 0.5"),
    ):
        with pytest.raises(InvalidInput, match=message):
            plan(problem, "partitioned", **options)  # type: ignore[arg-type]  # options by name
    with pytest.raises(UnknownName, match="part"):
        plan(problem, "partitioned", part=2)


def test_more_parts_than_tasks() -> None:
    problem = copies(1, [1.0, 2.0])
    assert check(problem, plan(problem, "partitioned", parts=50)) == []
