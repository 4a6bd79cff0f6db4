"""Acyclic partitions: known answers, their promises on drawn problems, and plain twins."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import problems
from weft.model import Cluster, Device, Problem, ProblemArrays, Workflow
from weft.planners.lists.ranks import rank_order
from weft.planners.partitioned.partition import components, crossing_data, refine, slices
from weft.planners.partitioned.planner import device_groups, partition
from weft.sim.kernel.ranks import mean_durations, upward_rank

PLAIN = problems(min_tasks=1, max_tasks=14)


def edges_of(problem: Problem) -> list[tuple[int, int, float]]:
    w = problem.workflow
    return list(zip(w.src.tolist(), w.dst.tolist(), w.data.tolist(), strict=True))


def cut(problem: Problem, part: np.ndarray) -> float:
    return math.fsum(1.0 + data for u, v, data in edges_of(problem) if part[u] != part[v])


# -- known answers -----------------------------------------------------------------


def test_slices_are_cut_where_few_data_cross() -> None:
    data = [9.0, 9.0, 1.0, 9.0, 9.0]
    chain = Problem.from_arrays([[1.0]] * 6, [[t, t + 1] for t in range(5)], data)
    half = np.array([0.5, 0.5])
    # The target is 3 of 6 s. Within 3 - 1.5 and 3 + 1.5, the third edge has the least data.
    assert slices(chain.arrays, np.arange(6), np.ones(6), half, 1.0).tolist() == [0, 0, 0, 1, 1, 1]
    # Shares of 1 and 2 thirds: the target is 2 s, the window 1 to 3 s, which holds that edge too.
    third = np.array([1.0, 2.0]) / 3.0
    assert slices(chain.arrays, np.arange(6), np.ones(6), third, 1.0).tolist() == [0, 0, 0, 1, 1, 1]
    # Without tolerance the cut is at 2 s, whatever crosses there.
    assert slices(chain.arrays, np.arange(6), np.ones(6), third, 0.0).tolist() == [0, 0, 1, 1, 1, 1]


def test_a_task_larger_than_the_window_is_cut_on_its_nearer_side() -> None:
    tasks = Problem.from_arrays([[1.0], [8.0], [1.0]])
    work = np.array([1.0, 8.0, 1.0])
    # The large task lies between 1 and 9 s; 4 s is nearer to 1 s, and 6 s to 9 s.
    for share, expected in ((0.4, [0, 1, 1]), (0.6, [0, 0, 1])):
        shares = np.array([share, 1.0 - share])
        assert slices(tasks.arrays, np.arange(3), work, shares, 0.1).tolist() == expected


def test_a_task_moves_to_its_data_between_parents_and_children() -> None:
    edges, data = [[0, 2], [1, 2], [2, 3]], [1.0, 1.0, 5.0]
    problem = Problem.from_arrays([[1.0]] * 4, edges, data)
    part = np.array([0, 0, 0, 1])
    # Task 2 has 2 + 2 with part 0 and 6 with part 1, which has room for it. Then nothing is better.
    assert refine(problem.arrays, np.ones(4), part, np.array([3.0, 2.0]), 5) == 1
    assert part.tolist() == [0, 0, 1, 1]
    full = np.array([0, 0, 0, 1])
    assert refine(problem.arrays, np.ones(4), full, np.array([3.0, 1.0]), 5) == 0


def test_a_move_against_an_edge_is_not_made() -> None:
    # Task 1 has most data with task 2, but a parent in part 1 and its own child in part 2.
    problem = Problem.from_arrays([[1.0]] * 3, [[0, 1], [1, 2]], [1.0, 9.0])
    part = np.array([1, 1, 2])
    refine(problem.arrays, np.ones(3), part, np.full(4, 9.0), 1)
    assert part.tolist() == [1, 2, 2]


def test_components_have_the_number_of_their_first_task() -> None:
    problem = Problem.from_arrays([[1.0]] * 6, [[4, 1], [5, 3], [1, 5]])
    assert components(problem.arrays).tolist() == [0, 1, 2, 1, 1, 1]


def test_nodes_stay_whole_if_there_are_enough() -> None:
    devices = [
        Device(f"d{i}", node=f"n{i // 2}", speed=s) for i, s in enumerate([1, 3, 2, 2, 9, 1])
    ]
    workflow = Workflow(work=[1.0], src=[], dst=[], data=[])
    problem = Problem.bind(workflow, Cluster.of(devices))
    found = device_groups(problem, 2)
    assert found is not None  # nodes of 4, 4 and 10: the last one alone
    assert [sorted(group.tolist()) for group in found[0]] == [[4, 5], [0, 1, 2, 3]]
    np.testing.assert_allclose(found[1], [10 / 18, 8 / 18])
    single = device_groups(problem, 4)  # more groups than nodes: 9, 3, 2 + 1, 2 + 1
    assert single is not None
    assert [sorted(group.tolist()) for group in single[0]] == [[4], [1], [0, 2], [3, 5]]


def test_groups_run_every_task_or_there_are_none() -> None:
    problem = Problem.from_arrays([[1.0, np.inf], [1.0, 2.0]])
    assert device_groups(problem, 2) is None


# -- promises on drawn problems ----------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(PLAIN, st.integers(1, 6), st.sampled_from([0.0, 0.1, 0.5]))
def test_quotient_is_acyclic_and_parts_are_balanced(
    problem: Problem, count: int, tolerance: float
) -> None:
    count = min(count, max(1, problem.n))
    parts = partition(problem, count, tolerance)
    part, work = parts.part, mean_durations(problem)
    assert all(part[u] <= part[v] for u, v, _ in edges_of(problem))
    assert sorted(parts.task.tolist()) == list(range(problem.n))
    for j in range(count):
        inside = parts.task[parts.first[j] : parts.first[j + 1]]
        assert (part[inside] == j).all()
        assert parts.place[inside].tolist() == list(range(len(inside)))
    found = device_groups(problem, count) if 1 < count <= problem.p else None
    apart = found is not None and len(parts.devices[0]) < problem.p
    share = found[1] if apart and found is not None else np.full(count, 1.0 / count)
    most = (1.0 + tolerance) * share * work.sum() + work.max(initial=0.0)
    assert (np.bincount(part, work, count) <= most * (1.0 + 1e-9)).all()
    if apart:
        assert all(part[u] == part[v] for u, v, _ in edges_of(problem))
        assert sorted(d for group in parts.devices for d in group) == list(range(problem.p))


@settings(max_examples=150, deadline=None)
@given(PLAIN, st.integers(2, 5))
def test_moves_reduce_the_cut(problem: Problem, count: int) -> None:
    work, order = np.ones(problem.n), rank_order(problem, upward_rank(problem))
    part = slices(problem.arrays, order, work, np.full(count, 1.0 / count), 0.2)
    before, own = cut(problem, part), part.copy()
    moves = refine(problem.arrays, work, part, np.full(count, 0.6 * problem.n + 1.0), 3)
    assert all(part[u] <= part[v] for u, v, _ in edges_of(problem))
    assert cut(problem, part) < before if moves else np.array_equal(part, own)


# -- plain twins -------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(PLAIN)
def test_crossing_data_and_components(problem: Problem) -> None:
    place = {t: i for i, t in enumerate(problem.workflow.order.tolist())}
    found = crossing_data(problem.arrays, problem.workflow.order)
    for i in range(problem.n + 1):
        across = [1.0 + data for u, v, data in edges_of(problem) if place[u] < i <= place[v]]
        np.testing.assert_allclose(found[i], sum(across), rtol=1e-9)
        assert across or found[i] == 0.0
    label = list(range(problem.n))
    for _ in range(problem.n):
        for u, v, _data in edges_of(problem):
            label[u] = label[v] = min(label[u], label[v])
    assert components(problem.arrays).tolist() == label


def refine_plainly(problem: Problem, part: list[int], most: list[float], rounds: int) -> list[int]:
    """Do what `refine` does for tasks of equal work, on lists of edges."""
    order, edges = problem.workflow.order.tolist(), edges_of(problem)
    for k in range(rounds):
        before = list(part)
        for t in order if k % 2 == 0 else order[::-1]:
            parents = [(part[u], data) for u, v, data in edges if v == t]
            children = [(part[v], data) for u, v, data in edges if u == t]
            near = [0.0] * len(most)
            for where, data in parents + children:
                near[where] += 1.0 + data
            first = max((p for p, _ in parents), default=0)
            last = min((p for p, _ in children), default=len(most) - 1)
            room = [p for p in range(first, last + 1) if part.count(p) + 1 <= most[p]]
            best = max(room, key=lambda p: (near[p], -p), default=part[t])
            if near[best] > near[part[t]]:
                part[t] = best
        if part == before:
            break
    return part


@settings(max_examples=150, deadline=None)
@given(PLAIN, st.integers(2, 4), st.integers(1, 4))
def test_refine_equals_its_twin(problem: Problem, count: int, rounds: int) -> None:
    a: ProblemArrays = problem.arrays
    start = slices(a, problem.workflow.order, np.ones(problem.n), np.full(count, 1 / count), 0.3)
    most = np.full(count, problem.n // count + 1.0)
    expected = refine_plainly(problem, start.tolist(), most.tolist(), rounds)
    refine(a, np.ones(problem.n), start, most, rounds)
    assert start.tolist() == expected
