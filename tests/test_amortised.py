"""`amortised`: what the network changes, that it changes nothing when it is zero, and that plans stay valid and the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.learn.amortised_data import draw_problem, solve
from weft.learn.amortised_training import Evolution, exercise_of, train
from weft.model import Problem, Schedule
from weft.model.check import check
from weft.planners import plan
from weft.planners.amortised import Amortised, Observation, ask_quick, observe
from weft.planners.amortised_features import NAMES, SIZE
from weft.planners.amortised_network import (
    SHIPPED,
    Weights,
    free_order,
    one_pass,
    read_weights,
    save_weights,
    score_pairs,
    shipped_weights,
    zero_weights,
)
from weft.planners.clock import Clock
from weft.planners.decoder import make_decoder
from weft.planners.quick_start import FRONTS, LISTS, REST
from weft.planners.ranks import rank_order
from weft.sim.ranks import upward_rank


def seen_of(problem: Problem) -> Observation:
    return observe(problem, *ask_quick(problem, Clock(None)))


def random_weights(seed: int) -> Weights:
    rng = np.random.default_rng(seed)
    return Weights(*(rng.normal(size=array.shape).astype(np.float32) for array in zero_weights()))


def passed(problem: Problem, weights: Weights) -> Schedule:
    decoder = make_decoder(problem.n, problem.p)
    one_pass(weights, *seen_of(problem), decoder)
    return Schedule.of(device=decoder.device, start=decoder.start, finish=decoder.finish)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_zero_weights_are_heft(seed: int) -> None:
    problem = draw_problem(seed, most=60)
    rank = upward_rank(problem)
    assert free_order(problem.arrays, rank).tolist() == rank_order(problem, rank).tolist()
    made, heft = passed(problem, zero_weights()), plan(problem, "heft").schedule
    assert made.device.tolist() == heft.device.tolist()
    assert made.start.tolist() == heft.start.tolist()


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 100))
def test_any_network_makes_valid_plans(seed: int, draw: int) -> None:
    problem = draw_problem(seed, most=60)
    assert check(problem, passed(problem, random_weights(draw))) == []


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_plans_are_valid_the_same_and_not_above_the_quick_ones(seed: int) -> None:
    problem = draw_problem(seed, most=60)
    quick = min(plan(problem, name).makespan for name in (*LISTS, *FRONTS, *REST))
    one = plan(problem, "amortised", search=False, seed=seed)
    searched = plan(problem, "amortised", iterations=500, seed=seed)
    assert check(problem, one.schedule) == [] == check(problem, searched.schedule)
    assert searched.makespan <= one.makespan <= quick
    again = plan(problem, "amortised", iterations=500, seed=seed)
    assert again.schedule.start.tolist() == searched.schedule.start.tolist()
    assert again.schedule.device.tolist() == searched.schedule.device.tolist()


def test_network_by_hand() -> None:
    """One input of 3, mean 1, scale 2: x = 4. Hidden: 4 - 1 = 3. First output 3 * 2 + 4 = 10; second -3 + 0.5 * 4 = -1."""
    w = zero_weights()
    w.mean[0], w.scale[0], w.hidden[0, 0], w.offset[0] = 1.0, 2.0, 1.0, -1.0
    w.output[0, 0], w.output[1, 0], w.skip[0, 0], w.skip[1, 0] = 2.0, -1.0, 1.0, 0.5
    features = np.zeros((1, 3, SIZE), np.float32)
    features[0, 0, 0] = 3.0
    # Device 1: x = -2, hidden -3 is cut: outputs -2 and -1. Device 2 cannot run the task.
    correction, handicap = score_pairs(w, features, np.array([[True, True, False]]))
    assert correction.tolist() == [4.0]  # (10 - 2) / 2
    assert handicap.tolist() == [[0.0, 0.0, 0.0]]  # both -1, less the least
    w.skip[1, 0] = 1.0  # second outputs: 1 and -2
    assert score_pairs(w, features, np.array([[True, True, False]]))[1].tolist() == [[3.0, 0.0, 0.0]]


def test_features_by_hand() -> None:
    """Two tasks in a row, 2 s and 4 s on either device, 6 s between them: all quick plans worth having put both on one device."""
    problem = Problem.from_arrays([[2.0, 2.0], [4.0, 4.0]], [[0, 1]], [6.0])
    start, votes = ask_quick(problem, Clock(None))
    seen = observe(problem, start, votes)
    here = int(start.device[1])
    assert start.value == 6.0
    x = dict(zip(NAMES, seen.features[1, here].tolist(), strict=True))
    y = dict(zip(NAMES, seen.features[1, 1 - here].tolist(), strict=True))
    assert (x["here"], y["here"]) == (1.0, 0.0)
    assert x["votes"] + y["votes"] == pytest.approx(1.0)
    assert x["arrival"] == 0.0
    assert y["arrival"] == pytest.approx(2.0)  # 6 s more, over a mean duration of 3 s
    assert x["through"] == 1.0  # (2 + 4) / 6
    assert y["through"] == 2.0  # (8 + 4) / 6
    assert (x["parents"], y["parents"]) == (1.0, 0.0)
    assert x["load"] == 1.0
    assert x["depth"] == pytest.approx(2.0 / 6.0)
    assert x["ccr"] == pytest.approx(np.log(2.0))


def test_features_do_not_depend_on_units_or_the_numbers_of_devices() -> None:
    rng = np.random.default_rng(5)
    seconds, data = rng.uniform(1.0, 9.0, (6, 3)), rng.uniform(1.0, 9.0, 5)
    edges = [[0, 1], [0, 2], [1, 3], [2, 3], [3, 5]]
    one, other = Problem.from_arrays(seconds, edges, data), Problem.from_arrays(4.0 * seconds[:, ::-1], edges, 4.0 * data)
    start, votes = ask_quick(one, Clock(None))
    turned = start.schedule
    mirrored = Schedule.of(device=2 - turned.device, start=4.0 * turned.start, finish=4.0 * turned.finish)
    image = start._replace(device=mirrored.device.copy(), schedule=mirrored, value=mirrored.makespan)
    a = observe(one, start, votes).features
    b = observe(other, image, np.ascontiguousarray(votes[:, ::-1])).features
    np.testing.assert_allclose(a, b[:, ::-1], rtol=1e-6, atol=1e-6)


def test_training_sees_what_the_planner_sees() -> None:
    problem = draw_problem(4, most=30)
    exercise, seen = exercise_of(solve(problem, moves=200)), seen_of(problem)
    assert (exercise.seen.features == seen.features).all()
    assert exercise.score(zero_weights()) == pytest.approx(np.log(plan(problem, "heft").makespan / exercise.target))


def test_training_learns_to_stay_on_one_device() -> None:
    """A chain on equal devices of which each task prefers another by a hair, transfers long: EFT pays them when inputs are late anyway."""
    exercises = [exercise_of(solve(draw_problem(seed, ccr=8.0, most=25), moves=2000)) for seed in range(16)]
    evolution = Evolution(generations=12, pairs=6, problems=12, every=4)
    found = train(exercises, evolution)
    assert found.score < found.start
    again = train(exercises, evolution, threads=1)
    assert all((a == b).all() for a, b in zip(found.weights, again.weights, strict=True))


def test_weights_survive_the_file_and_bad_ones_are_refused(tmp_path: Path) -> None:
    path = save_weights(random_weights(1), tmp_path / "w.safetensors", {"seconds": 1.0})
    assert all((a == b).all() for a, b in zip(read_weights(path), random_weights(1), strict=True))
    assert json.loads(path.with_suffix(".json").read_text())["features"] == list(NAMES)
    problem = draw_problem(2, most=30)
    assert check(problem, plan(problem, "amortised", search=False, weights=path).schedule) == []
    broken = random_weights(1)
    broken.skip[0, 0] = np.nan
    save_weights(broken, path, {})
    with pytest.raises(InvalidInput, match="'skip' must be finite"):
        read_weights(path)
    with pytest.raises(InvalidInput, match="no such file"):
        Amortised(weights=tmp_path / "none.safetensors").solve(problem)


def test_shipped_weights_have_a_card_with_these_features() -> None:
    card = json.loads(SHIPPED.with_suffix(".json").read_text())
    assert card["features"] == list(NAMES)
    assert card["training"]["score"] < card["training"]["score_of_heft"]
    assert all(np.isfinite(array).all() for array in shipped_weights())


@pytest.mark.parametrize(("option", "value"), [("iterations", 0), ("threads", 0), ("samples", -1)])
def test_options_that_mean_nothing_are_refused(option: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=option):
        Amortised(**{option: value})  # type: ignore[arg-type]
