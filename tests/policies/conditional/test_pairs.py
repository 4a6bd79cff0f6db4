"""One policy for any conditional graph: features, training and evaluation; online learning."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from weft.errors import InvalidInput
from weft.experiments.conditional.any_graph import AnyGraph
from weft.formats.graphs.callgraph import load_callgraph
from weft.formats.native.stream_toml import load_stream
from weft.generators.conditional_streams import random_conditional_stream
from weft.learn.conditional.pair_network import (
    PairEvaluator,
    PairSettings,
    first_parameters,
    policy_of,
    tune_pairs,
    widened,
)
from weft.model import Scenario, Workload
from weft.model.conditional_stream import ticked
from weft.model.machines.capacity import offered_load
from weft.policies import simulate
from weft.policies.conditional.evaluate import WINDOW
from weft.policies.conditional.networks import arrays_of, network_of
from weft.policies.conditional.pair_network import OBSERVATION, PAIR_FEATURES, PairPolicy
from weft.policies.conditional.pair_view import PairNetworkPolicy
from weft.policies.conditional.rules import ConditionalRule
from weft.policies.conditional.trained_network import TrainedNetwork, read_network, save_network
from weft.policies.load import load_policy
from weft.sim.vector.batch import StepBatch, StepOptions

EVENT = StepOptions(idle="event", window=WINDOW)


def numbers(seed: int):
    """Parameters near those of a working policy, by the seed."""
    return first_parameters() + np.random.default_rng(seed).normal(0.0, 0.3, len(PAIR_FEATURES) + 1)


def card(policy: PairPolicy) -> TrainedNetwork:
    return TrainedNetwork("any", policy.network, OBSERVATION, {"idle": "event"}, {"samples": 1})


@pytest.mark.parametrize("seed", range(6))
def test_the_view_is_read_like_the_simulation(seed):
    stream = random_conditional_stream(seed, jobs=40)
    if seed % 2:  # a service level
        stream = dataclasses.replace(stream, deadline=60.0 * stream.tick, priority=2.0)
    policy = policy_of(numbers(seed), 0)
    arrival, outcome = stream.draw_ticks(seed)
    batch = StepBatch(stream, 1, EVENT)
    batch.place(0, arrival, outcome)
    policy.run(batch)
    workload = Workload.of(
        ticked(stream.problem, stream.tick),
        arrival=arrival,
        deadline=arrival + stream.deadline / stream.tick,
        priority=stream.priority,
        template=np.zeros(stream.jobs, np.int64),
    )
    scenario = Scenario.of(workload, outcome=outcome.reshape(-1))
    trace = simulate(workload, PairNetworkPolicy(card(policy), tick=stream.tick), scenario=scenario)
    assert trace.jct.mean() * stream.tick == pytest.approx(batch.jct(0).mean(), rel=1e-9)


def test_service_levels_are_seen():
    parameters = first_parameters()
    parameters[PAIR_FEATURES.index("urgency")] = 20.0
    parameters[PAIR_FEATURES.index("late")] = -20.0
    heeds, plain = policy_of(parameters, 0), policy_of(first_parameters(), 0)
    stream, times = random_conditional_stream(3, jobs=60), {}
    for deadline in (np.inf, 40.0 * stream.tick):
        batch = StepBatch(dataclasses.replace(stream, deadline=deadline), 1, EVENT)
        for policy in (heeds, plain):
            batch.place(0, *stream.draw_ticks(1))
            policy.run(batch)
            times[deadline, policy] = batch.jct(0).tolist()
    assert times[np.inf, heeds] == times[np.inf, plain]  # no deadline: nothing to heed
    assert times[40.0 * stream.tick, plain] == times[np.inf, plain]
    assert times[40.0 * stream.tick, heeds] != times[np.inf, heeds]


def test_random_streams_have_the_given_load():
    for seed in range(4):
        stream = random_conditional_stream(seed, load=0.6)
        assert offered_load(stream) == pytest.approx(0.6, rel=1e-6)
        assert stream.problem.workflow.conditional
        assert len(stream.watched) == len(stream.drift) > 0
    one, same = random_conditional_stream(5), random_conditional_stream(5)
    np.testing.assert_array_equal(one.draw_ticks(1)[0], same.draw_ticks(1)[0])


def test_a_widened_network_scores_as_the_linear_one():
    linear = numbers(1)
    wide = widened(linear, 5, np.random.default_rng(0))
    stream = random_conditional_stream(9, jobs=100)
    batch = StepBatch(stream, 1, EVENT)
    times = []
    for policy in (policy_of(linear, 0), policy_of(wide, 5)):
        batch.place(0, *stream.draw_ticks(2))
        policy.run(batch)
        times.append(batch.jct(0).mean())
    assert times[0] == pytest.approx(times[1], rel=0.02)  # float32 rounds differently


def test_the_search_repeats():
    search = PairSettings(
        generations=3, population=6, streams=2, jobs=30, every=1, validation=3, hidden=2
    )
    found, again = tune_pairs(search), tune_pairs(search)
    np.testing.assert_array_equal(found.parameters, again.parameters)
    assert found.score <= min(row["validation"] for row in found.curve)


def test_a_larger_norm_makes_slow_jobs_count_more():
    policy = policy_of(first_parameters(), 0)
    norms = (1.0, 2.0, 3.0)
    scores = [PairEvaluator([1, 2], 40, norm=norm).score(policy) for norm in norms]
    assert scores == sorted(scores)
    assert len(set(scores)) == 3
    stream = random_conditional_stream(1, jobs=40)
    batch = StepBatch(stream, 1, EVENT)
    batch.place(0, *stream.draw_ticks(1))
    policy.run(batch)
    expected = 0.5 * np.log((batch.jct(0) ** 2).mean())
    assert PairEvaluator([1], 40, norm=2.0).score(policy) == pytest.approx(expected)
    with pytest.raises(InvalidInput, match=r"norm is 0\.5"):
        PairSettings(norm=0.5)


@pytest.mark.parametrize("objective", ["late", "tardiness"])
def test_deadlines_can_be_the_objective(objective):
    policy, plain = policy_of(first_parameters(), 0), random_conditional_stream(1, jobs=40)
    stream = dataclasses.replace(plain, deadline=50.0 * plain.tick)
    batch = StepBatch(stream, 1, EVENT)
    batch.place(0, *stream.draw_ticks(1))
    policy.run(batch)
    times = batch.jct(0)
    late = times > stream.deadline
    count = late.mean() if objective == "late" else (late * (times - stream.deadline)).mean()
    tie = times.mean() / (stream.deadline if objective == "late" else 1.0)
    assert late.any()
    found = PairEvaluator([1], 40, objective=objective, stream=stream).score(policy)
    assert found == pytest.approx(np.log(count + 1e-3 * tie))
    with pytest.raises(InvalidInput, match="needs a deadline"):
        PairEvaluator([1], 40, objective=objective, stream=plain).score(policy)
    with pytest.raises(InvalidInput, match="objective is 'soon'"):
        PairSettings(objective="soon")


@pytest.mark.parametrize("waiting", ["event", "block"])
def test_it_runs_the_published_stream_with_both_kinds_of_idling(waiting):
    stream = load_stream("conditional-paper").with_jobs(400)
    batch = StepBatch(stream, 1, dataclasses.replace(EVENT, idle=waiting))
    times = {}
    for name, who in {
        "any": policy_of(first_parameters(), 0),
        "unit-fifo": ConditionalRule("unit-fifo"),
    }.items():
        batch.place(0, *stream.draw_ticks(3))
        who.run(batch)
        times[name] = batch.jct(0).mean()
    assert times["any"] < times["unit-fifo"]


def test_chosen_actions_are_allowed():
    stream = load_stream("conditional-paper").with_jobs(100)
    batch = StepBatch(stream, 3, EVENT)
    steps, actions, policy = batch.reset(1), np.zeros((3, 4), np.int64), policy_of(numbers(2), 0)
    for _ in range(150):
        policy.choose(batch, actions)
        assert np.take_along_axis(steps.mask.reshape(3, 4, 7), actions[:, :, None], axis=2).all()
        steps = batch.step(actions)


def test_cards(tmp_path):
    policy = policy_of(numbers(0), 0)
    save_network(card(policy), tmp_path / "any")
    assert isinstance(load_policy(tmp_path / "any"), PairNetworkPolicy)
    np.testing.assert_array_equal(
        read_network(tmp_path / "any").network.weight, policy.network.weight
    )
    other = json.loads((tmp_path / "any.json").read_text())
    other["settings"]["observation"]["features"][0] = "fil"
    (tmp_path / "any.json").write_text(json.dumps(other))
    with pytest.raises(InvalidInput, match="train it again"):
        load_policy(tmp_path / "any")
    arrays = arrays_of(policy.network)
    # A card from before the last features were added reads as one that does not heed them.
    older = {name: array[..., :-3] for name, array in arrays.items() if name != "0.bias"}
    older["0.bias"] = arrays["0.bias"]
    seen = {**OBSERVATION, "features": list(PAIR_FEATURES[:-3])}
    network = network_of(older, units=1, actions=1)
    before = dataclasses.replace(card(policy), network=network, observation=seen)
    save_network(before, tmp_path / "older")
    read = load_policy(tmp_path / "older").learned
    assert read.observation["features"] == list(PAIR_FEATURES)
    assert arrays_of(read.network)["0.weight"][0, -4:].tolist() == [
        arrays["0.weight"][0, -4],
        0,
        0,
        0,
    ]
    odd = {
        **arrays,
        "input.mean": np.zeros(2),
        "input.scale": np.ones(2),
        "0.weight": np.zeros((1, 2)),
    }
    with pytest.raises(InvalidInput, match="reads 26 numbers and gives one"):
        PairPolicy(network_of(odd, units=1, actions=1))


CALLS = {
    "format": "conditional-graph-v1",
    "id": "ms/x",
    "nodes": {"name": ["a", "b", "c"]},
    "edges": {"src": [0, 0], "dst": [1, 2], "prob_given_src": [1.0, 0.25]},
    "variants": [{"count": 3, "edges": [0]}, {"count": 1, "edges": [0, 1]}],
}


def test_call_graphs(tmp_path):
    file = tmp_path / "x.json"
    file.write_text(json.dumps(CALLS))
    graph = load_callgraph(file)
    # a calls c, or not; b is always called
    assert graph.workflow.choices.probability.tolist() == [0.25, 0.75]
    assert graph.shapes.tolist() == [[1], [0]]
    assert (graph.draw(4000, np.random.default_rng(0)) == 0).mean() == pytest.approx(0.25, abs=0.03)
    for change, message in (
        ({"format": "v2"}, "expected 'conditional-graph-v1'"),
        ({"nodes": {"name": ["a"]}}, "beyond the 1 there are"),
    ):
        file.write_text(json.dumps(CALLS | change))
        with pytest.raises(InvalidInput, match=message):
            load_callgraph(file)


def test_call_graphs_of_services(data, monkeypatch):
    monkeypatch.setenv("WEFT_DATA", str(data))
    trial = AnyGraph(policy_of(first_parameters(), 0), streams=2, jobs=60)
    for kind, at in trial.steps:
        trial.add(kind, trial.run(kind, at))
    assert {kind: found["streams"] for kind, found in trial.document()["sets"].items()} == {
        "random": 2,
        "larger": 1,
        "call graphs": 2,
    }
    row = trial.document()["sets"]["random"]["rows"][1]
    assert row["policy"] == "unit-fifo"
    assert row["low"] <= row["over_any"] <= row["high"]


def test_online_learning_runs_to_the_end_and_repeats():
    ppo = pytest.importorskip(
        "weft.learn.ppo", reason="training needs torch: pip install 'weft-scheduling[learn]'"
    )
    from weft.experiments.conditional.online import ONLINE, simulate_online

    stream = load_stream("conditional-paper").with_jobs(150)
    policy = load_policy("conditional-pi3").learned
    settings = dataclasses.replace(ONLINE, rollout=64, minibatch=32, warm_up=64)
    assert isinstance(settings, ppo.PpoSettings)
    times = simulate_online(policy, stream, stream.draw_ticks(1), settings=settings)
    assert np.isfinite(times).all()
    np.testing.assert_array_equal(
        times, simulate_online(policy, stream, stream.draw_ticks(1), settings=settings)
    )
    other = simulate_online(
        policy,
        stream,
        stream.draw_ticks(1),
        settings=dataclasses.replace(settings, learning_rate=(0.05, 0.05)),
    )
    assert (other != times).any()  # another learning rate changes the result
