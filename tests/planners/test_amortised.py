"""The planner `amortised`: effect of the network, valid plans, and repeatable plans."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.formats.model_file import find_model, read_model
from weft.learn.imitation.amortised.data import draw_problem, solve
from weft.learn.imitation.amortised.training import EvolutionSettings, instance_of, train
from weft.model import Problem, Schedule
from weft.model.check import check
from weft.planners import plan
from weft.planners.bounds import device_tails
from weft.planners.imitation.amortised.features import NAMES, SIZE
from weft.planners.imitation.amortised.moves import guided_team, make_path, trace_path
from weft.planners.imitation.amortised.network import (
    AmortisedWeights,
    bundled_weights,
    free_order,
    one_pass,
    read_weights,
    save_weights,
    score_pairs,
    zero_weights,
)
from weft.planners.imitation.amortised.planner import FEW, Amortised, Observation, observe
from weft.planners.lists.ranks import rank_order
from weft.planners.objective import Objective
from weft.planners.search.annealing import CURRENT
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import ANY, decode, make_decoder
from weft.planners.search.warm_start import FRONTS, LISTS, REST, WarmStart, quick_start
from weft.sim.kernel.ranks import upward_rank


def quick(problem: Problem) -> WarmStart:
    return quick_start(problem, Objective.of("makespan"), Clock(None))


def seen_of(problem: Problem) -> Observation:
    return observe(problem, quick(problem))


def random_weights(seed: int) -> AmortisedWeights:
    rng = np.random.default_rng(seed)
    return AmortisedWeights(
        *(rng.normal(size=array.shape).astype(np.float32) for array in zero_weights())
    )


def passed(problem: Problem, weights: AmortisedWeights) -> Schedule:
    decoder = make_decoder(problem.n, problem.p)
    one_pass(weights, seen_of(problem), decoder)
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
    least = min(plan(problem, name).makespan for name in (*LISTS, *FRONTS, *REST))
    one = plan(problem, "amortised", search=False, seed=seed)
    searched = plan(problem, "amortised", iterations=500, seed=seed)
    assert check(problem, one.schedule) == [] == check(problem, searched.schedule)
    assert searched.makespan <= one.makespan <= least
    again = plan(problem, "amortised", iterations=500, seed=seed)
    assert again.schedule.start.tolist() == searched.schedule.start.tolist()
    assert again.schedule.device.tolist() == searched.schedule.device.tolist()


def test_network_by_hand() -> None:
    """One input of 3, mean 1, scale 2: x = 4. Hidden: 4 - 1 = 3.

    First output 3 * 2 + 4 = 10; second -3 + 0.5 * 4 = -1.
    """
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
    assert score_pairs(w, features, np.array([[True, True, False]]))[1].tolist() == [
        [3.0, 0.0, 0.0]
    ]


def test_features_by_hand() -> None:
    """Two tasks in a row, 2 s and 4 s on either device, 6 s between them.

    The best quick plan puts both on one device.
    """
    problem = Problem.from_arrays([[2.0, 2.0], [4.0, 4.0]], [[0, 1]], [6.0], bandwidth=1.0)
    start = quick(problem)
    seen = observe(problem, start)
    here = int(start.device[1])
    assert start.value == 6.0
    x = dict(zip(NAMES, seen.features[1, here].tolist(), strict=True))
    y = dict(zip(NAMES, seen.features[1, 1 - here].tolist(), strict=True))
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
    one, other = (
        Problem.from_arrays(seconds, edges, data, bandwidth=1.0),
        Problem.from_arrays(4.0 * seconds[:, ::-1], edges, 4.0 * data, bandwidth=1.0),
    )
    start = quick(one)
    turned = start.schedule
    mirrored = Schedule.of(
        device=2 - turned.device, start=4.0 * turned.start, finish=4.0 * turned.finish
    )
    image = start._replace(
        device=mirrored.device.copy(), schedule=mirrored, value=mirrored.makespan
    )
    a = observe(one, start).features
    b = observe(other, image).features
    np.testing.assert_allclose(a, b[:, ::-1], rtol=1e-6, atol=1e-6)


def test_training_sees_what_the_planner_sees() -> None:
    problem = draw_problem(4, most=30)
    instance, seen = instance_of(solve(problem, moves=200)), seen_of(problem)
    assert (instance.seen.features == seen.features).all()
    heft = plan(problem, "heft").makespan
    assert instance.makespan(zero_weights()) == heft
    # Half of HEFT's own distance and half of that of the best quick plan.
    assert instance.score(zero_weights()) == pytest.approx(
        np.log(heft * quick(problem).value / instance.target**2) / 2
    )


def test_training_improves_where_transfers_are_long_and_repeats() -> None:
    instances = [
        instance_of(solve(draw_problem(seed, ccr=8.0, most=25), moves=2000)) for seed in range(16)
    ]
    evolution = EvolutionSettings(generations=12, pairs=6, problems=12, every=4)
    found = train(instances, evolution)
    assert found.score < found.start
    again = train(instances, evolution, threads=1)
    assert all((a == b).all() for a, b in zip(found.weights, again.weights, strict=True))


def test_weights_survive_the_file_and_bad_ones_are_refused(tmp_path: Path) -> None:
    path = save_weights(random_weights(1), tmp_path / "w", {"seconds": 1.0})
    assert all((a == b).all() for a, b in zip(read_weights(path), random_weights(1), strict=True))
    assert read_model(path).settings["features"] == list(NAMES)
    problem = draw_problem(2, most=30)
    assert check(problem, plan(problem, "amortised", search=False, weights=path).schedule) == []
    broken = random_weights(1)
    broken.skip[0, 0] = np.nan
    save_weights(broken, path, {})
    with pytest.raises(InvalidInput, match="'skip' holds values that are not finite"):
        read_weights(path)
    with pytest.raises(InvalidInput, match="no such file"):
        Amortised(weights=tmp_path / "none.safetensors").solve(problem)


def test_bundled_weights_have_a_card_with_these_features() -> None:
    card = read_model(find_model("amortised"))
    assert card.settings["features"] == list(NAMES)
    assert card.training["score"] < card.training["score_of_heft"]
    assert all(np.isfinite(array).all() for array in bundled_weights())


@pytest.mark.parametrize(("option", "value"), [("iterations", 0), ("threads", 0), ("samples", -1)])
def test_options_that_mean_nothing_are_refused(option: str, value: int) -> None:
    with pytest.raises(InvalidInput, match=option):
        Amortised(**{option: value})  # type: ignore[arg-type]


def test_critical_path_by_hand() -> None:
    """Two chains on one device: 0 (2 s), 1 (3 s); then 2 after 1 (1 s).

    The last task waits for 1, and 1 for 0.
    """
    problem = Problem.from_arrays([[2.0], [3.0], [1.0]], [[1, 2]], [4.0], bandwidth=1.0)
    tail, decoder, path = device_tails(problem), make_decoder(3, 1), make_path(3)
    order = np.array([0, 1, 2])
    goal = Objective.of("makespan").goal(problem)
    assert decode(problem.arrays, goal, order, np.full(3, ANY), tail, decoder) == 6.0
    trace_path(problem.arrays, decoder, path)
    assert path.size[0] == 3
    assert path.task.tolist() == [2, 1, 0]
    assert path.wait.tolist() == [1, 0, -1]


def test_critical_path_follows_data() -> None:
    """Task 1 runs on device 1 only, task 0 on device 0 only: task 1 waits for the data of 0.

    It starts after 2 s of task 0 and 3 s of transfer.
    """
    problem = Problem.from_arrays([[2.0, np.inf], [np.inf, 1.0]], [[0, 1]], [3.0], bandwidth=1.0)
    tail, decoder, path = device_tails(problem), make_decoder(2, 2), make_path(2)
    goal = Objective.of("makespan").goal(problem)
    assert decode(problem.arrays, goal, np.array([0, 1]), np.full(2, ANY), tail, decoder) == 6.0
    trace_path(problem.arrays, decoder, path)
    assert path.task[: path.size[0]].tolist() == [1, 0]
    assert path.wait[: path.size[0]].tolist() == [0, -1]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_guided_moves_keep_the_state_whole(seed: int, draw: int) -> None:
    """After many moves the order respects the graph, and decoding it gives the stored value."""
    problem = draw_problem(seed, most=40)
    team = guided_team(problem, quick(problem), chains=1, seed=draw)
    worker = team.workers[0]
    worker.heat(2000)
    worker.anneal(300, 0.0, 0.0)
    chain = worker.chain
    assert chain.order[chain.place].tolist() == list(range(problem.n))
    assert (chain.place[problem.workflow.src] < chain.place[problem.workflow.dst]).all()
    fresh = make_decoder(problem.n, problem.p)
    assert (
        decode(problem.arrays, worker.goal, chain.order, chain.choice, worker.tail, fresh)
        == chain.value[CURRENT]
    )
    assert check(problem, team.schedule()) == []
    assert team.schedule().makespan == worker.best


def test_the_network_can_be_left_out() -> None:
    """Then the search begins at the best quick plan; without a search that is the answer."""
    problem = draw_problem(8, most=60)
    alone = plan(problem, "amortised", network=False, search=False)
    assert alone.makespan == quick(problem).value
    searched = plan(problem, "amortised", network=False, iterations=500)
    assert check(problem, searched.schedule) == []
    assert searched.makespan <= alone.makespan


def test_with_little_time_few_quick_planners_run() -> None:
    problem = draw_problem(12, most=60)
    made = plan(problem, "amortised", seconds=0.05, threads=1)
    assert check(problem, made.schedule) == []
    assert made.makespan <= min(plan(problem, name).makespan for name in FEW)
    assert made.bound <= made.makespan
