"""Lower bounds: known answers, never above an optimum, never above anybody's schedule."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.slow_twins.brute_force import shortest
from tests.support.strategies import problems
from weft.formats import load
from weft.model import Problem
from weft.planners import PLANNERS, bounds, plan
from weft.planners.bounds import lower_bound
from weft.planners.colocation import colocation_bound, refutes

ROUNDING = 1 + 1e-12


def test_empty():
    assert lower_bound(Problem.from_arrays(work=[], speed=[1.0])) == 0.0


def test_path():
    # 2 + 4 at best, wherever they run; the third task runs beside them.
    p = Problem.from_arrays([[2.0, 3.0], [4.0, 5.0], [2.0, 2.0]], [[0, 1]], [0.0], bandwidth=1.0)
    assert lower_bound(p) == 6.0


def test_area():
    # 12 units of work on speeds 1 and 2: 12 / 3.
    p = Problem.from_arrays(work=np.ones(12), speed=[1.0, 2.0])
    assert lower_bound(p) == pytest.approx(4.0)


def test_area_of_unrelated_devices():
    # Each task is quick on one device only. With weights 1/2 and 1/2 each of 6 tasks counts
    # min(1, 9) / 2 seconds: 3.
    quick = np.array([[1.0, 9.0]] * 3 + [[9.0, 1.0]] * 3)
    assert lower_bound(Problem.from_arrays(quick)) == pytest.approx(3.0, rel=0.01)


def test_forced_transfer():
    # The two tasks can run on different devices only, so the data must be sent.
    p = Problem.from_arrays(
        [[1.0, np.inf], [np.inf, 2.0]], [[0, 1]], [6.0], bandwidth=2.0, latency=0.5
    )
    assert lower_bound(p) == pytest.approx(1 + (0.5 + 6 / 2) + 2)
    assert lower_bound(p, copies=True) == pytest.approx(6.5)


def test_parents_compete_for_a_device():
    # Three parents of 4 s, a child of 1 s, transfers of 100 s: all parents on the child's device,
    # 3 x 4 + 1. The area is only 13 / 3.
    p = Problem.from_arrays(
        np.array([[4.0] * 3] * 3 + [[1.0] * 3]), [[0, 3], [1, 3], [2, 3]], 100.0, bandwidth=1.0
    )
    assert lower_bound(p) == pytest.approx(13.0)


def test_children_compete_for_a_device():
    # The same from the end: without copies, all children follow their parent on its device. With
    # copies, each child has its own parent.
    p = Problem.from_arrays(
        np.array([[1.0] * 3] + [[4.0] * 3] * 3), [[0, 1], [0, 2], [0, 3]], 100.0, bandwidth=1.0
    )
    assert lower_bound(p) == pytest.approx(13.0)
    assert lower_bound(p, copies=True) == pytest.approx(5.0)
    assert plan(p, "anytime", iterations=2000, duplicate=True).makespan == pytest.approx(5.0)


def test_work_between():
    # A head of 5 s, then 8 tasks of 1 s on two devices, then a tail of 5 s: 5 + 4 + 5.
    durations = np.full((10, 2), 1.0)
    durations[0] = durations[9] = 5.0
    p = Problem.from_arrays(
        durations, [[0, t] for t in range(1, 9)] + [[t, 9] for t in range(1, 9)], 0.0, bandwidth=1.0
    )
    assert lower_bound(p) == pytest.approx(14.0)


@given(problems(min_tasks=1, max_tasks=5, max_devices=3))
@settings(max_examples=60)
def test_not_above_the_optimum(problem):
    best = shortest(problem)
    assert lower_bound(problem) <= best * ROUNDING + 1e-12
    assert lower_bound(problem, copies=True) <= best * ROUNDING + 1e-12


@given(problems(max_tasks=9))
@settings(max_examples=40)
def test_not_above_schedules_with_copies(problem):
    for name in ("heft-deft", "tdca"):
        assert (
            lower_bound(problem, copies=True)
            <= PLANNERS.create(name).solve(problem).schedule.makespan * ROUNDING + 1e-12
        )


@given(problems(min_tasks=1, max_tasks=8))
@settings(max_examples=40)
def test_the_ways_for_large_problems_are_weaker(problem):
    exact = bounds._device_heads(problem.arrays)
    rough = bounds._device_heads_of_many(problem.arrays)
    chain = bounds._chain_heads(problem.arrays, problem.work * problem.best_per_work[problem.row])
    assert np.array_equal(np.isinf(exact), np.isinf(rough))
    able = np.isfinite(exact)
    assert (rough[able] <= exact[able] * ROUNDING + 1e-12).all()
    assert (chain <= rough.min(axis=1) * ROUNDING + 1e-12).all()


def small_problem(seed: int) -> Problem:
    """Two to five tasks on two or three devices, with transfers of any length."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 6)), int(rng.integers(2, 4))
    pairs = [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.5]
    return Problem.from_arrays(
        rng.integers(1, 10, (n, p)).astype(float),
        pairs,
        rng.integers(0, 30, len(pairs)).astype(float),
        bandwidth=float(rng.choice([0.5, 1.0, 4.0])),
    )


def test_colocation_is_never_above_the_optimum():
    better = 0
    for seed in range(300):
        problem = small_problem(seed)
        known = lower_bound(problem)
        bound, best = colocation_bound(problem, known), plan(problem, "heft").makespan
        if bound > best * 0.999:  # else it is below any schedule anyway
            best = shortest(problem)
        assert known <= bound <= best * ROUNDING, seed
        better += bound > known * 1.02
    assert better > 15


def test_colocation_by_hand():
    # A fork of 2 s and six children of 3 s on two devices; transfers take 100 s. Within less than
    # 20 s no child can leave its parent's device, and one device needs 2 + 6 x 3 s. The bound by
    # paths sees only LOCAL_PARENTS of a join; here both agree.
    durations = np.array([[2.0, 2.0]] + [[3.0, 3.0]] * 6)
    p = Problem.from_arrays(durations, [[0, t] for t in range(1, 7)], 100.0, bandwidth=1.0)
    heads, tails = bounds.device_heads(p), bounds.device_tails(p)
    assert refutes(p.arrays, heads, tails, 19.9)
    assert not refutes(p.arrays, heads, tails, 20.0)
    # Two such forks joined at the root by a chain: 2 x 18 s of children must share one device.
    two = np.array([[2.0, 2.0]] * 2 + [[3.0, 3.0]] * 12)
    edges = [[0, 1]] + [[t % 2, t] for t in range(2, 14)]
    p = Problem.from_arrays(two, edges, 100.0, bandwidth=1.0)
    assert lower_bound(p) < 39.0
    assert colocation_bound(p, lower_bound(p)) == pytest.approx(40.0, rel=0.02)


def test_colocation_is_not_for_copies():
    p = Problem.from_arrays(
        np.array([[1.0] * 3] + [[4.0] * 3] * 3), [[0, 1], [0, 2], [0, 3]], 100.0, bandwidth=1.0
    )
    assert plan(p, "anytime", iterations=2000, duplicate=True).bound == pytest.approx(5.0)


def test_scales_with_time():
    p = Problem.from_arrays([[1.5, 2.0], [3.0, 1.0]], [[0, 1]], 4.0, bandwidth=1.0)
    double = Problem.from_arrays([[3.0, 4.0], [6.0, 2.0]], [[0, 1]], 8.0, bandwidth=1.0)
    assert lower_bound(double) == pytest.approx(2 * lower_bound(p))


def test_not_above_best_known(data):
    known = json.loads((data / "static_graphs" / "results.json").read_text())
    for name, row in known.items():
        problem = load(data / "static_graphs" / f"{name}.json")
        bound = lower_bound(problem)
        assert bound <= row["best"] * ROUNDING, name
        assert bound >= 0.5 * row["best"], name  # worth printing
        assert lower_bound(problem, copies=True) <= bound * ROUNDING, name
        assert colocation_bound(problem, bound) <= row["best"] * ROUNDING, name
