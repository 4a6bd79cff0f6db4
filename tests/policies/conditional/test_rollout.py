"""Rollouts: exact copies of the state, no look at the real future, better than the index."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.support.networks import rollout_tables
from tests.support.streams import INSPECTION
from weft.errors import InvalidInput, Unsupported
from weft.formats.native.stream_toml import load_stream, read_stream_toml
from weft.policies.conditional.index import load_index
from weft.policies.conditional.network_policy import load_network
from weft.policies.conditional.networks import logits, network_of
from weft.policies.conditional.proposer import make_proposer, propose, propose_around
from weft.policies.conditional.rollout import Rollout, continue_rollout
from weft.policies.conditional.rules import INDEX, choose_one
from weft.policies.conditional.sampled_future import (
    PRESENT,
    load_state,
    make_sampler,
    sample_future,
)
from weft.policies.conditional.trained_network import TrainedNetwork, read_network, save_network
from weft.policies.load import load_policy
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import JOB_HERE
from weft.sim.vector.batch import StepBatch, StepOptions
from weft.sim.vector.state import sim_of, state_of
from weft.sim.vector.step import act

WEIGHTS = load_index().weights
AHEAD = 20


@njit_noalloc
def run_index(tables, weights, actions, steps):
    """Return the job ticks in the system over some steps of the index."""
    sim, state, cost = sim_of(tables, 0), state_of(tables, 0), 0.0
    for _ in range(steps):
        choose_one(sim, state, INDEX, weights, actions)
        answer = act(sim, state, actions)
        cost += state.counters[0].cost
        if answer != MOMENT:
            break
    return cost


@njit_noalloc
def run_network(tables, proposer, actions):
    """Return the job ticks in the system until a network has run all jobs."""
    sim, state, cost, answer = sim_of(tables, 0), state_of(tables, 0), 0.0, MOMENT
    while answer == MOMENT:
        propose(sim, state, proposer, actions)
        answer = act(sim, state, actions)
        cost += state.counters[0].cost
    return cost


@njit_noalloc
def first_actions(tables, proposer, actions):
    propose(sim_of(tables, 0), state_of(tables, 0), proposer, actions)


@njit_noalloc
def actions_around(tables, proposer, unit, kind, actions):
    propose(sim_of(tables, 0), state_of(tables, 0), proposer, actions)
    propose_around(sim_of(tables, 0), state_of(tables, 0), proposer, unit, kind, actions)


@njit_noalloc
def load_present(tables, sampler, ahead):
    return load_state(sim_of(tables, 0), state_of(tables, 0), sampler, ahead)


@njit_noalloc
def draw_one(tables, sampler, jobs, ahead):
    sample_future(sim_of(tables, 0), sampler, jobs, ahead)


def stepped(waiting: str, draw, steps: int) -> StepBatch:
    """Return the published stream after some steps of the index."""
    batch = StepBatch(
        load_stream("conditional-paper").with_jobs(len(draw[0])),
        1,
        StepOptions(idle=waiting, window=500.0),
    )
    batch.begin(0, *draw)
    run_index(batch.tables, WEIGHTS, np.zeros(4, np.int64), steps)
    return batch


@pytest.mark.parametrize("waiting", ["event", "block"])
@pytest.mark.parametrize("steps", [1, 40, 97])
@pytest.mark.parametrize("base", [None, "conditional-pi4"])
def test_with_the_real_future_a_rollout_costs_as_much_as_the_run(waiting, steps, base):
    arrival, outcome = load_stream("conditional-paper").with_jobs(200).draw_ticks(7)
    batch = stepped(waiting, (arrival, outcome), steps)
    arrived = int(batch.tables.sim.world[0, 0]["next_arrival"])
    here = np.flatnonzero(batch.tables.sim.job[0]["state"][:arrived] == JOB_HERE)
    sampler = make_sampler(batch.stream, batch, room=256, seed=0)
    jobs = load_present(batch.tables, sampler, AHEAD)
    assert jobs == len(here) + AHEAD
    # Present jobs get their real branches, the next jobs their real arrivals.
    sampler.tables.sim.job[PRESENT]["arrival"][len(here) : jobs] = arrival[
        arrived : arrived + AHEAD
    ]
    numbers = np.concatenate([here, np.arange(arrived, arrived + AHEAD)])
    sampler.tables.sim.outcome[PRESENT][: jobs * 2] = outcome[numbers].reshape(-1)

    # A simulation of the same jobs only.
    alone = stepped(waiting, (arrival[: arrived + AHEAD], outcome[: arrived + AHEAD]), steps)
    actions = np.zeros((1, 4), np.int64)
    network = None if base is None else read_network(base).network
    player, spare = make_proposer(network, alone), np.zeros(4, np.int64)
    load_index().choose(alone, actions)
    if base is not None:
        first_actions(alone.tables, player, actions[0])
    tables = rollout_tables(sampler, WEIGHTS, player, units=4, ahead=AHEAD)
    rollout = continue_rollout(tables, jobs, actions[0], spare)
    if base is None:
        real = run_index(alone.tables, WEIGHTS, actions[0], 10_000)
    else:
        real = run_network(alone.tables, player, actions[0])
    assert rollout == pytest.approx(real, rel=1e-12)


@pytest.mark.parametrize("steps", [20, 55, 90])
def test_variants_around_a_network_leave_the_rest_to_it(steps):
    draw = load_stream("conditional-paper").with_jobs(200).draw_ticks(7)
    batch = stepped("event", draw, steps)
    player = make_proposer(read_network("conditional-pi4").network, batch)
    ready, actions = batch.tables.sim.kind["ready"][0].tolist(), np.zeros(4, np.int64)
    capacity = batch.stream.problem.cluster.batch.tolist()
    first_actions(batch.tables, player, actions)
    wish, mask = logits(player.network, player.seen), player.mask.copy()
    tried = 0
    for unit, kind in np.argwhere(mask).tolist():
        left = list(ready)
        expected = [kind if u == unit else -1 for u in range(4)]
        for u in (unit, *(u for u in range(4) if u != unit)):
            free = [k for k in range(7) if mask[u, k] and (k == 6 or left[k] > 0)]
            if u != unit:
                expected[u] = max(free, key=lambda k, u=u: wish[u, k]) if free else 6
            if expected[u] < 6:
                left[expected[u]] -= capacity[u]
        actions_around(batch.tables, player, unit, kind, actions)
        assert actions.tolist() == expected
        tried += 1
    assert tried > 4


def test_futures_start_now_and_follow_the_estimates():
    arrival, outcome = load_stream("conditional-paper").with_jobs(200).draw_ticks(3)
    batch = stepped("event", (arrival, outcome), 60)
    sampler = make_sampler(batch.stream, batch, room=256, seed=1)
    jobs = load_present(batch.tables, sampler, AHEAD)
    sim, began = sampler.tables.sim, jobs - AHEAD
    branches = []
    for _ in range(200):
        draw_one(batch.tables, sampler, jobs, AHEAD)
        times = sim.job[PRESENT]["arrival"][began:jobs]
        assert (np.diff(times) >= 0).all()
        assert times[0] >= batch.tables.sim.world[0, 0]["now"]
        branches.append(sim.outcome[PRESENT][began * 2 : jobs * 2].reshape(-1, 2).mean(axis=0))
    # 4000 draws: the first choice is even, the second as estimated; five deviations are 0.04.
    assert np.mean(branches, axis=0) == pytest.approx(
        [0.5, 1.0 - batch.tables.state.estimate[0, 0]], abs=0.04
    )


def test_the_real_future_is_not_read():
    """Two streams that are equal up to a job have equal completions before its arrival."""
    stream = load_stream("conditional-paper").with_jobs(80)
    arrival, outcome = stream.draw_ticks(11)
    later, other = arrival.copy(), outcome.copy()
    later[50:] += 400.0
    other[50:] = 1 - other[50:]
    policy = Rollout(weights=WEIGHTS, most=8)
    finished = []
    for draw in ((arrival, outcome), (later, other)):
        batch = StepBatch(stream, 1, policy.options("event"))
        batch.place(0, *draw)
        policy.run(batch)
        finished.append(batch.tables.sim.job["finish"][0, :-1].copy())
    before = finished[0] < arrival[50]
    assert before.sum() > 30
    assert (finished[0][before] == finished[1][before]).all()


def test_looking_ahead_is_better_than_the_index():
    stream = load_stream("conditional-paper").with_jobs(400)
    draw = stream.draw_ticks(5)
    policy = Rollout(weights=WEIGHTS, proposer=read_network("conditional-best"))
    batch = StepBatch(stream, 1, policy.options())
    batch.place(0, *draw)
    load_index().run(batch)
    alone = batch.jct(0).mean()
    batch.place(0, *draw)
    steps, _, changed, futures = policy.run(batch)[0]
    assert batch.jct(0).mean() < 0.99 * alone
    assert 0 < changed < steps < futures


def test_values_out_of_range_are_refused():
    with pytest.raises(InvalidInput, match="least 2 or more"):
        Rollout(weights=WEIGHTS, least=1)


def test_a_rollout_of_another_stream_never_reaches_compiled_code():
    other = read_stream_toml(INSPECTION, name="line")
    batch = StepBatch(other, 1, StepOptions(idle="event"))
    with pytest.raises(Unsupported, match=r"the index has weights .* 'line' has \(1, 3\)"):
        Rollout(weights=WEIGHTS).run(batch)
    fitting = np.zeros((1, 3, WEIGHTS.shape[2]))
    with pytest.raises(Unsupported, match="'line'"):
        Rollout(weights=fitting, proposer=read_network("conditional-best")).run(batch)


@pytest.mark.parametrize("base", ["index", "network"])
def test_a_network_learns_from_rollouts(base, tmp_path, capsys):
    pytest.importorskip("torch")
    from weft.cli.main import main
    from weft.learn.conditional.rollout_examples import ImitationSettings
    from weft.learn.conditional.rollout_imitation import improve

    stream = load_stream("conditional-paper")
    policy = read_network("conditional-pi4")
    rows, kept = [], []
    better = improve(
        stream,
        policy,
        ImitationSettings(
            rounds=1, steps=600, jobs=200, futures=4, epochs=2, validation=1, base=base
        ),
        progress=rows.append,
        keep=kept.append,
    )
    record = better.training["rollouts"]
    assert kept == [better]
    assert record["base"] == base
    assert record["score"] <= record["start"]
    assert [row["epoch"] for row in rows] == [1.0, 2.0]
    assert better.network.sizes.tolist() == policy.network.sizes.tolist()
    assert better.training["samples"] == policy.training["samples"]

    # Wider, and stopped after the first round: it goes on from what it kept.
    longer = ImitationSettings(
        rounds=2, steps=300, jobs=200, futures=4, epochs=2, validation=1, base=base, hidden=(72, 64)
    )
    wide = improve(stream, policy, longer)
    assert wide.network.sizes.tolist() == [31, 72, 64, 28]
    assert wide.training["rollouts"]["start"] == pytest.approx(record["start"], rel=1e-6)
    improve(stream, policy, dataclasses.replace(longer, rounds=1), folder=tmp_path / "kept")
    again = improve(stream, policy, longer, folder=tmp_path / "kept")
    assert (tmp_path / "kept" / "round_2.npz").exists()
    np.testing.assert_array_equal(again.network.weight, wide.network.weight)
    with pytest.raises(InvalidInput, match="they can grow"):
        improve(stream, policy, dataclasses.replace(longer, hidden=(32, 64)))

    # What was learned before stays on the card.
    more = ImitationSettings(
        rounds=1, steps=300, jobs=200, futures=4, epochs=1, validation=1, base=base, ahead=3
    )
    assert improve(stream, better, more).training["rollouts"]["before"] == record
    older = dataclasses.replace(better, training={"lessons": record})  # the former key
    training = improve(stream, older, more).training
    assert (list(training), training["rollouts"]["before"]) == (["rollouts"], record)

    start = ["train", "rollouts", "--start", "conditional-pi44", "--out", str(tmp_path)]
    assert main(start) == 2
    assert "did you mean 'conditional-pi4'" in capsys.readouterr().err


def test_networks_to_begin_with_are_names_paths_and_objects(tmp_path):
    policy = read_network("conditional-pi4")
    path = save_network(policy, tmp_path / "mine")
    for given in ("conditional-pi4", path, str(path), load_policy(path), policy):
        np.testing.assert_array_equal(load_network(given).network.weight, policy.network.weight)
    pairs = read_network("conditional-any")
    for given in ("fifo", "conditional-any", load_policy("conditional-any"), pairs):
        with pytest.raises(Unsupported, match="has no network for one stream; use 'conditional-b"):
            load_network(given)
    pytest.importorskip("torch")
    from weft.learn.conditional.rollout_imitation import improve
    from weft.learn.conditional.training import train_policy

    stream = load_stream("conditional-paper")
    for begin in (improve, lambda stream, start: train_policy(stream, "pi4", start=start)):
        with pytest.raises(Unsupported, match="policy 'fifo' has no network for one stream"):
            begin(stream, "fifo")
    with pytest.raises(InvalidInput, match="start from a policy of the same recipe"):
        train_policy(stream, "best", start=path)


def test_a_network_learns_to_observe_details():
    pytest.importorskip("torch")
    from weft.learn.conditional.rollout_examples import ImitationSettings
    from weft.learn.conditional.rollout_imitation import improve

    settings = ImitationSettings(
        rounds=1, steps=300, jobs=200, futures=4, epochs=1, validation=1, detail=True
    )
    stream, policy = load_stream("conditional-paper"), units_observed()
    better = improve(stream, policy, settings)
    assert better.observation["detail"]
    assert better.network.sizes.tolist() == [61, 8, 28]
    for wrong in (better, read_network("conditional-pi4")):  # has it; does not observe the units
        with pytest.raises(InvalidInput, match="cannot learn to observe details"):
            improve(stream, wrong, settings)


def units_observed() -> TrainedNetwork:
    """Return a small random network that observes the units."""
    rng, sizes = np.random.default_rng(0), (60, 8, 28)
    arrays = {"input.mean": np.zeros(60), "input.scale": np.ones(60)}
    for i in range(2):
        arrays[f"{i}.weight"] = rng.normal(0, 0.3, (sizes[i + 1], sizes[i]))
        arrays[f"{i}.bias"] = np.zeros(sizes[i + 1])
    policy = read_network("conditional-pi4")
    network = network_of(arrays, units=4, actions=7)
    return dataclasses.replace(
        policy, network=network, observation={**policy.observation, "units": True}
    )
