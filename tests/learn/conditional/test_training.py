"""Policies for conditional streams: training, evaluation, use through views."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from weft.errors import InvalidInput, Unsupported
from weft.formats.native.stream_toml import load_stream
from weft.learn.conditional.scores import completions
from weft.model import Scenario, Workload
from weft.model.conditional_stream import ticked
from weft.policies import simulate
from weft.policies.conditional import networks
from weft.policies.conditional.evaluate import evaluate_network, options_of, with_first
from weft.policies.conditional.network_policy import NetworkPolicy
from weft.policies.conditional.trained_network import TrainedNetwork
from weft.policies.load import list_policies, load_policy
from weft.sim.vector.batch import StepBatch, StepOptions


@pytest.fixture(scope="module")
def stream():
    return load_stream("conditional-paper").with_jobs(300)


def make_learned(*, units, estimate=True, detail=False, seed=0, window=50.0):
    """A policy with random weights that likes to work more than to wait."""
    size = 30 + estimate + (29 + detail if units else 0)
    rng = np.random.default_rng(seed)
    arrays = {"input.mean": np.zeros(size), "input.scale": np.full(size, 3.0)}
    for i, (a, b) in enumerate([(size, 16), (16, 28)]):
        arrays |= {f"{i}.weight": rng.normal(size=(b, a)), f"{i}.bias": rng.normal(size=b)}
    arrays["1.bias"][6::7] -= 2.0
    shown = {
        "name": "steps",
        "version": 1,
        "watched": ["D"],
        "estimate": estimate,
        "units": units,
        "detail": detail,
        "window": window,
    }
    return TrainedNetwork(
        "random", networks.network_of(arrays, units=4, actions=7), shown, {"idle": "event"}, {}
    )


@pytest.mark.parametrize(("units", "detail"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_view_shows_the_same_as_the_steps(stream, units, detail, seed):
    # In ticks of 1 ms all times are exact in both, so the two ways to run the policy agree to the
    # last bit.
    learned = make_learned(units=units, detail=detail, seed=seed)
    short = stream.with_jobs(120)
    times = evaluate_network(learned.network, short, [seed], options=options_of(learned))
    ticks, outcome = short.draw_ticks(seed)
    problem = ticked(short.problem, short.tick)
    workload = Workload.of(problem, arrival=ticks, template=np.zeros(short.jobs, np.int64))
    trace = simulate(
        workload,
        NetworkPolicy(learned, tick=short.tick),
        scenario=Scenario.of(workload, outcome=outcome.reshape(-1)),
    )
    assert trace.jct.mean() * short.tick == pytest.approx(times[0], rel=1e-12)


def test_a_policy_that_only_waits_finishes_late(stream):
    # Waiting is not allowed to it when nothing is due, not even where the paper's mask would: the
    # jobs get done, one by one.
    learned = make_learned(units=False)
    arrays = networks.arrays_of(learned.network)
    arrays["1.bias"][6::7] = 1000.0
    waiting = networks.network_of(arrays, units=4, actions=7)
    for way in ("block", "event"):
        times = evaluate_network(waiting, stream.with_jobs(20), [0], options=StepOptions(idle=way))
        assert np.isfinite(times).all()
        assert (
            times[0]
            > 2
            * evaluate_network(
                learned.network, stream.with_jobs(20), [0], options=StepOptions(idle=way)
            )[0]
        )


def test_a_policy_of_another_shape_is_refused(stream):
    learned = make_learned(units=True)
    with pytest.raises(Unsupported, match="shows 31"):
        evaluate_network(learned.network, stream, [0], options=StepOptions(idle="event"))
    other = Workload.of(load_stream("conditional-paper").problem)
    odd = dataclasses.replace(learned, observation=learned.observation | {"watched": ["B", "D"]})
    with pytest.raises(Unsupported, match="train one for it"):
        simulate(other, NetworkPolicy(odd))
    for change in ({"version": 2}, {"windw": 3}):
        with pytest.raises(InvalidInput, match="observation"):
            options_of(dataclasses.replace(learned, observation=learned.observation | change))


@pytest.mark.parametrize("name", [n for n in list_policies() if n.startswith("conditional-")])
def test_shipped_policies_beat_the_authors_rules(stream, name):
    policy = load_policy(name)
    assert policy.learned.training["samples"] > 0
    assert policy.learned.training["curve"]
    assert policy.name == name
    target = policy.learned.environment["probability"]
    p = target if isinstance(target, float) else 0.5
    variant = with_first(stream.with_jobs(2000), "D", p)
    from weft.policies.conditional.rules import ConditionalRule

    fleet = StepBatch(variant, 1, StepOptions(idle="block"))
    best = np.inf
    for rule in ("unit-fifo", "unit-mru", "unit-depth-first"):
        fleet.place(0, *variant.draw_ticks(7))
        ConditionalRule(rule).run(fleet)
        best = min(best, float(fleet.jct(0).mean()))
    ((jobs,),) = completions(name, [variant], [7])
    assert jobs.mean() < best


@pytest.mark.parametrize("name", [n for n in list_policies() if n.startswith("conditional-")])
def test_shipped_policies_finish_with_the_papers_waiting(stream, name):
    variants = [with_first(stream, "D", p) for p in (0.0, 0.5, 1.0)]
    times = completions(name, variants, [3, 4], idle="block")
    assert np.isfinite(np.array(times)).all()


# -- training ------------------------------------------------------------------


def _quick(**changes):
    ppo = pytest.importorskip(
        "weft.learn.ppo", reason="training needs torch: pip install 'weft-scheduling[learn]'"
    )
    settings = {
        "samples": 16_000,
        "rollout": 32,
        "minibatch": 512,
        "hidden": (32,),
        "horizon": 2.0,
        "evaluations": 4,
    }
    return ppo.PpoSettings(**settings | changes)


def test_training_improves_on_the_first_network_and_is_repeatable(stream):
    settings = _quick()
    from weft.learn.conditional.training import train_policy

    learned, training = train_policy(stream, "pi1", settings=settings, seed=3, envs=16)
    scores = [entry["score"] for entry in training.curve if "score" in entry]
    assert training.score == min(scores)
    assert learned.network.sizes.tolist() == [30, 32, 28]
    rates = [entry["reward_rate"] for entry in training.curve]
    assert np.mean(rates[-3:]) > min(
        rates
    )  # it starts empty, fills up under a random network, and recovers
    again, _ = train_policy(stream, "pi1", settings=settings, seed=3, envs=16)
    assert np.array_equal(again.network.weight, learned.network.weight)
    assert again.training["curve"][-1]["score"] == learned.training["curve"][-1]["score"]


def test_episodes_are_cut_off_when_the_last_job_has_arrived(stream):
    pytest.importorskip(
        "torch", reason="training needs torch: pip install 'weft-scheduling[learn]'"
    )
    from weft.learn.conditional.training import BatchEnv, longest_path

    short = stream.with_jobs(30)
    # On the fastest units: A 8, B 8, D 8, F 80 ms.
    assert longest_path(short) == pytest.approx(0.104)
    env = BatchEnv(short, 3, StepOptions(idle="event"))
    env.reset(0)
    env._limit[:] = 30
    cut, cost, span = np.zeros(3, bool), 0.0, 0.0
    while not cut[0]:
        mask = env.batch._steps.mask.reshape(3, 4, 7)
        _, _, reward, elapsed, done, cut, last = env.step(mask.argmax(-1))
        cost, span = cost - float(reward[0]), span + float(elapsed[0])
        assert not done.any()  # a stream goes on: the value of what follows counts
    assert last[0, :6].sum() > 0  # jobs are left when it is cut off
    arrival, _ = short.draw_ticks(1000)
    # It lasts from the first decision, which comes with the first job, to the arrival of the last
    # one, or a step later.
    assert span * env.span == pytest.approx(float(arrival[-1] - arrival[0]) * short.tick, abs=0.05)
    assert cost > span  # more than one job on average


def test_relative_rewards_weigh_probabilities_alike(stream):
    pytest.importorskip(
        "torch", reason="training needs torch: pip install 'weft-scheduling[learn]'"
    )
    from weft.learn.conditional.training import BatchEnv

    options = StepOptions(idle="event")
    weights = {}
    for p in (0.0, 1.0):
        env = BatchEnv(with_first(stream, "D", p), 2, options, relative=True)
        env.reset(0)
        weights[p] = env._weight.copy()
    assert (weights[0.0] > 2 * weights[1.0]).all()  # jobs take three times as long at p(c) = 0


def test_unknown_recipes_offer_the_closest():
    pytest.importorskip(
        "torch", reason="training needs torch: pip install 'weft-scheduling[learn]'"
    )
    from weft.errors import UnknownName
    from weft.learn.conditional.training import recipe_of

    with pytest.raises(UnknownName, match="did you mean"):
        recipe_of("p4")


def test_the_reference_learns_about_the_same(stream):
    reference = pytest.importorskip(
        "sb3_contrib", reason="the reference is not installed: pip install sb3-contrib"
    )
    from weft.learn.conditional.env import ConditionalEnv
    from weft.learn.conditional.training import train_policy

    short = with_first(stream.with_jobs(200), "D", 0.5)
    options = StepOptions(idle="event", estimate=False, window=500.0)
    settings = _quick(
        samples=40_000, hidden=(64, 64), rollout=128, minibatch=256, learning_rate=(1e-3, 1e-4)
    )
    learned, _ = train_policy(short, "pi1", settings=settings, seed=0, envs=16)
    ours = evaluate_network(learned.network, short, list(range(10)), options=options).mean()
    env = ConditionalEnv(short, options=options)
    peer = reference.MaskablePPO(
        "MlpPolicy",
        env,
        n_steps=2048,
        batch_size=256,
        learning_rate=1e-3,
        gamma=0.98,
        seed=0,
        device="cpu",
    )
    peer.learn(40_000)
    times = []
    for seed in range(10):
        fleet = StepBatch(short, 1, options)
        fleet.reset(seed)
        steps = fleet._steps
        done = False
        while not done:
            action, _ = peer.predict(
                steps.observation[0], action_masks=steps.mask[0], deterministic=True
            )
            steps = fleet.step(action[None], renew=False)
            done = bool(steps.done[0])
        times.append(fleet.jct(0).mean())
    assert ours <= 1.25 * np.mean(times)  # ours may be well ahead after so few samples
