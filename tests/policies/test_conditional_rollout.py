"""Rollouts: the present is copied truly, the real future is not read, and looking ahead pays; a network learns from it."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import InvalidInput
from weft.formats.native.stream_toml import load_stream
from weft.policies.conditional.index import load_index
from weft.policies.conditional.rollout import Rollout, live_on
from weft.policies.conditional.rules import INDEX, choose_one
from weft.policies.conditional.sampled_future import PRESENT, draw_scenario, imagine, take_in
from weft.policies.conditional.trained_network import read_network
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import JOB_HERE
from weft.sim.vector.batch import StepBatch, StepOptions
from weft.sim.vector.step import act, proceed, sim_of, state_of

WEIGHTS = load_index().weights
AHEAD = 20


@njit_noalloc
def live(fleet, weights, actions, steps):
    """Job ticks in the system over some steps of the index."""
    sim, desk, cost = sim_of(fleet, 0), state_of(fleet, 0), 0.0
    for _ in range(steps):
        choose_one(sim, desk, INDEX, weights, actions)
        act(sim, desk, actions)
        answer = proceed(sim, desk)
        cost += desk.counters[0].cost
        if answer != MOMENT:
            break
    return cost


@njit_noalloc
def take_present(fleet, mind, ahead):
    return take_in(sim_of(fleet, 0), state_of(fleet, 0), mind, ahead)


@njit_noalloc
def draw_one(fleet, mind, jobs, ahead):
    draw_scenario(sim_of(fleet, 0), mind, jobs, ahead)


def stepped(waiting: str, draw, steps: int) -> StepBatch:
    """The paper's stream after some steps of the index."""
    fleet = StepBatch(
        load_stream("conditional-paper").with_jobs(len(draw[0])),
        1,
        StepOptions(idle=waiting, window=500.0),
    )
    fleet.begin(0, *draw)
    live(fleet.tables, WEIGHTS, np.zeros(4, np.int64), steps)
    return fleet


@pytest.mark.parametrize("waiting", ["event", "block"])
@pytest.mark.parametrize("steps", [1, 40, 97])
def test_with_the_real_future_the_imagined_run_ends_as_the_real_one(waiting, steps):
    arrival, outcome = load_stream("conditional-paper").with_jobs(200).draw_ticks(7)
    fleet = stepped(waiting, (arrival, outcome), steps)
    came = int(fleet.tables.sim.world[0, 0]["next_arrival"])
    here = np.flatnonzero(fleet.tables.sim.job[0]["state"][:came] == JOB_HERE)
    mind = imagine(fleet.stream, fleet, room=256, seed=0)
    jobs = take_present(fleet.tables, mind, AHEAD)
    assert jobs == len(here) + AHEAD
    # Jobs that are here take their real branches, the next ones come when they really come.
    mind.fleet.sim.job[PRESENT]["arrival"][len(here) : jobs] = arrival[came : came + AHEAD]
    numbers = np.concatenate([here, np.arange(came, came + AHEAD)])
    mind.fleet.sim.outcome[PRESENT][: jobs * 2] = outcome[numbers].reshape(-1)

    # The same jobs and no more after the last one imagined, in a simulation of their own.
    alone = stepped(waiting, (arrival[: came + AHEAD], outcome[: came + AHEAD]), steps)
    actions = np.zeros((1, 4), np.int64)
    load_index().choose(alone, actions)
    imagined = live_on(mind, jobs, WEIGHTS, actions[0], np.zeros(4, np.int64))
    assert imagined == pytest.approx(live(alone.tables, WEIGHTS, actions[0], 10_000), rel=1e-12)


def test_futures_come_after_now_and_keep_what_was_decided():
    arrival, outcome = load_stream("conditional-paper").with_jobs(200).draw_ticks(3)
    fleet = stepped("event", (arrival, outcome), 60)
    mind = imagine(fleet.stream, fleet, room=256, seed=1)
    jobs = take_present(fleet.tables, mind, AHEAD)
    sim, began = mind.fleet.sim, jobs - AHEAD
    branches = []
    for _ in range(200):
        draw_one(fleet.tables, mind, jobs, AHEAD)
        times = sim.job[PRESENT]["arrival"][began:jobs]
        assert (np.diff(times) >= 0).all()
        assert times[0] >= fleet.tables.sim.world[0, 0]["now"]
        branches.append(sim.outcome[PRESENT][began * 2 : jobs * 2].reshape(-1, 2).mean(axis=0))
    # 4000 draws: the first choice is even, the second as estimated; five deviations are 0.04.
    assert np.mean(branches, axis=0) == pytest.approx(
        [0.5, 1.0 - fleet.tables.state.estimate[0, 0]], abs=0.04
    )


def test_the_real_future_is_not_read():
    """Two streams that are alike up to a job: all that ended before it came ended alike."""
    stream = load_stream("conditional-paper").with_jobs(80)
    arrival, outcome = stream.draw_ticks(11)
    later, other = arrival.copy(), outcome.copy()
    later[50:] += 400.0
    other[50:] = 1 - other[50:]
    policy = Rollout(weights=WEIGHTS, most=8)
    finished = []
    for draw in ((arrival, outcome), (later, other)):
        fleet = StepBatch(stream, 1, policy.options("event"))
        fleet.place(0, *draw)
        policy.play(fleet)
        finished.append(fleet.tables.sim.job["finish"][0, :-1].copy())
    before = finished[0] < arrival[50]
    assert before.sum() > 30
    assert (finished[0][before] == finished[1][before]).all()


def test_looking_ahead_is_better_than_the_index():
    stream = load_stream("conditional-paper").with_jobs(400)
    draw = stream.draw_ticks(5)
    policy = Rollout(weights=WEIGHTS, proposer=read_network("conditional-best"))
    fleet = StepBatch(stream, 1, policy.options())
    fleet.place(0, *draw)
    load_index().play(fleet)
    alone = fleet.jct(0).mean()
    fleet.place(0, *draw)
    steps, _, changed, futures = policy.play(fleet)[0]
    assert fleet.jct(0).mean() < 0.99 * alone
    assert 0 < changed < steps < futures


def test_nonsense_is_refused():
    with pytest.raises(InvalidInput, match="least 2 or more"):
        Rollout(weights=WEIGHTS, least=1)


def test_a_network_learns_from_rollouts(tmp_path, capsys):
    pytest.importorskip("torch")
    from weft.cli.main import main
    from weft.learn.conditional.rollout_imitation import ImitationSettings, improve

    stream = load_stream("conditional-paper")
    policy = read_network("conditional-pi4")
    rows = []
    better = improve(
        stream,
        policy,
        ImitationSettings(rounds=1, steps=600, jobs=200, futures=4, epochs=2, validation=1),
        progress=rows.append,
    )
    record = better.training["lessons"]
    assert record["score"] <= record["start"]
    assert [row["epoch"] for row in rows] == [1.0, 2.0]
    assert better.network.sizes.tolist() == policy.network.sizes.tolist()
    assert better.training["samples"] == policy.training["samples"]

    assert main(["train", "rollouts", "--rounds", "1", "--out", str(tmp_path)]) == 2
    assert "required: --start" in capsys.readouterr().err
