"""The PPO loop on problems with one obvious answer, and its parts against arithmetic by hand."""

# ruff: noqa: E402  # imports that need torch
from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="training needs torch: pip install 'weft-scheduling[learn]'"
)

from weft.errors import InvalidInput
from weft.learn import ppo
from weft.policies.conditional.networks import logits, network_of


class Identity:
    """Every unit must name the number it observes; one wrong action per unit is masked."""

    def __init__(self, envs=32, units=2, actions=4, length=8, forbid=True):
        self.envs, self.units, self.actions, self.length, self.forbid = (
            envs,
            units,
            actions,
            length,
            forbid,
        )
        self.observation_size = units * actions
        self.offered: list[np.ndarray] = []

    def reset(self, seed):
        self.rng = np.random.default_rng(seed)
        self.clock = np.zeros(self.envs, int)
        return self._draw()

    def _draw(self):
        self.answer = self.rng.integers(0, self.actions, (self.envs, self.units))
        seen = np.eye(self.actions, dtype=np.float32)[self.answer].reshape(self.envs, -1)
        self.mask = np.ones((self.envs, self.units, self.actions), bool)
        if self.forbid:
            wrong = (
                self.answer + self.rng.integers(1, self.actions, self.answer.shape)
            ) % self.actions
            np.put_along_axis(self.mask, wrong[..., None], False, axis=-1)
        return seen, self.mask

    def step(self, actions):
        assert np.take_along_axis(self.mask, actions[..., None], -1).all(), (
            "a masked action was chosen"
        )
        reward = (actions == self.answer).mean(1)
        self.clock += 1
        truncated = self.clock >= self.length
        self.clock[truncated] = 0
        seen, mask = self._draw()
        return seen, mask, reward, np.ones(self.envs), np.zeros(self.envs, bool), truncated, seen


class Delayed:
    """Two steps: the first action is rewarded after the second, whatever that is."""

    envs, observation_size, units, actions = 64, 2, 1, 3

    def reset(self, seed):
        self.rng = np.random.default_rng(seed)
        self.stage = np.zeros(self.envs, int)
        self.first = np.zeros(self.envs, int)
        return self._seen(), np.ones((self.envs, 1, 3), bool)

    def _seen(self):
        return np.eye(2, dtype=np.float32)[self.stage]

    def step(self, actions):
        done = self.stage == 1
        reward = np.where(done, (self.first == 2) * 1.0, 0.0)
        self.first = np.where(done, 0, actions[:, 0])
        self.stage = 1 - self.stage
        none = np.zeros(self.envs, bool)
        return (
            self._seen(),
            np.ones((self.envs, 1, 3), bool),
            reward,
            np.ones(self.envs),
            done,
            none,
            self._seen(),
        )


QUICK = {
    "samples": 20_000,
    "rollout": 16,
    "minibatch": 128,
    "hidden": (16,),
    "horizon": 2.0,
    "evaluations": 0,
    "learning_rate": (5e-3, 0.0),
}


def _greedy(weights, seen, units, actions):
    return logits(network_of(weights, units=units, actions=actions), seen).argmax(-1)


def test_identity_is_learned_and_masked_actions_are_never_chosen():
    env = Identity()
    result = ppo.train(env, ppo.PpoSettings(**QUICK), seed=1)
    for a in range(4):
        for b in range(4):
            seen = np.eye(4, dtype=np.float32)[[a, b]].ravel()
            assert _greedy(result.weights, seen, 2, 4).tolist() == [a, b]
    rates = [entry["reward_rate"] for entry in result.curve]
    assert rates[0] < 0.6
    assert rates[-1] > 0.95


def test_credit_reaches_the_step_before():
    result = ppo.train(Delayed(), ppo.PpoSettings(**QUICK | {"samples": 15_000}), seed=0)
    assert _greedy(result.weights, np.array([1.0, 0.0]), 1, 3).tolist() == [2]


def test_the_same_seed_gives_the_same_curve():
    def curve(seed):
        found = ppo.train(Identity(), ppo.PpoSettings(**QUICK | {"samples": 3000}), seed=seed)
        return [
            {k: v for k, v in entry.items() if k != "cpu_seconds"} for entry in found.curve
        ], found.weights

    (one, w1), (two, w2), (other, _) = curve(3), curve(3), curve(4)
    assert str(one) == str(two)
    assert all((w1[k] == w2[k]).all() for k in w1)
    assert str(one) != str(other)


def test_the_best_network_is_kept():
    scores = iter([3.0, 1.0, 2.0, 5.0])
    kept = []

    def evaluate(weights):
        kept.append(weights)
        return next(scores)

    result = ppo.train(
        Identity(),
        ppo.PpoSettings(**QUICK | {"samples": 4 * 16 * 32, "evaluations": 4}),
        evaluate=evaluate,
    )
    assert result.score == 1.0
    assert (result.weights["0.weight"] == kept[1]["0.weight"]).all()
    assert [entry["score"] for entry in result.curve] == [3.0, 1.0, 2.0, 5.0]


def test_an_interrupt_keeps_what_was_learned():
    def progress(training):
        if len(training.curve) == 2:
            raise KeyboardInterrupt

    result = ppo.train(
        Identity(),
        ppo.PpoSettings(**QUICK | {"evaluations": 1000}),
        evaluate=lambda w: 1.0,
        progress=progress,
    )
    assert result.interrupted
    assert result.samples == 2 * 16 * 32
    assert result.score == 1.0


def test_advantages_by_hand_with_a_cut_and_an_end():
    # Four steps of two copies, lambda 0.5. Copy 0 is cut off after step 1 (its last observation is
    # worth 8) and goes on to a value of 2;
    # discounts differ by step, since steps differ in elapsed time. Copy 1 ends after step 2:
    # nothing comes after.
    reward = np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 3.0], [1.0, 1.0]])
    discount = np.array([[0.5, 1.0], [0.25, 1.0], [1.0, 1.0], [0.5, 0.5]])
    value = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 1.0], [4.0, 0.0]])
    after = np.array([[2.0, 2.0], [8.0, 1.0], [4.0, 0.0], [2.0, 6.0]])
    ended = np.array([[False, False], [True, False], [False, True], [False, False]])
    out = np.zeros((4, 2))
    ppo.advantages(reward, discount, value, after, ended, 0.5, out)
    # Copy 0: step 3: 1 + .5*2 - 4 = -2. step 2: 0 + 1*4 - 3 = 1, + 1*.5*-2 = 0. step 1, cut: 2 +
    # .25*8 - 2 = 2. step 0: 1 + .5*2 - 1 = 1,
    # + .5*.5*2 = 1.5.
    assert out[:, 0].tolist() == [1.5, 2.0, 0.0, -2.0]
    # Copy 1: step 3: 1 + .5*6 - 0 = 4. step 2, end: 3 + 0 - 1 = 2. step 1: 1 + 1 - 2 = 0, + 1*.5*2
    # = 1.
    # step 0: 0 + 2 - 1 = 1, + .5*1 = 1.5.
    assert out[:, 1].tolist() == [1.5, 1.0, 2.0, 4.0]


def test_units_in_order_share_what_is_there():
    # Two units, stocks 0 and 1, action 2 is idle. One item lies in stock 0 and unit 0 may only take
    # that: unit 1 is left with idle.
    mask = np.array([[[True, False, False], [True, False, True]]])
    remaining, capacity = np.array([[1, 0]]), np.array([1, 1])
    action, log_prob = np.zeros((1, 2), np.int64), np.zeros(1)
    ppo.sample(
        np.zeros((1, 2, 3), np.float32),
        mask,
        np.full((1, 2), 0.1),
        remaining,
        capacity,
        action,
        log_prob,
    )
    assert action.tolist() == [[0, 2]]
    assert log_prob[0] == 0.0  # neither unit had a choice
    assert mask[0, 1].tolist() == [False, False, True]


def test_a_unit_that_may_not_wait_waits_when_nothing_is_left():
    mask = np.array([[[True, False], [True, False]]])
    action, log_prob = np.zeros((1, 2), np.int64), np.zeros(1)
    ppo.sample(
        np.zeros((1, 2, 2), np.float32),
        mask,
        np.full((1, 2), 0.9),
        np.array([[1]]),
        np.array([1, 1]),
        action,
        log_prob,
    )
    assert action.tolist() == [[0, 1]]
    assert log_prob[0] == 0.0


def test_samples_follow_the_masked_softmax():
    rng = np.random.default_rng(0)
    n = 20_000
    mask = np.broadcast_to(np.array([[True, False, True, True]]), (n, 1, 4)).copy()
    preference = np.broadcast_to(
        np.log(np.array([[1.0, 9.0, 2.0, 5.0]], np.float32)), (n, 1, 4)
    ).copy()
    action, log_prob = np.zeros((n, 1), np.int64), np.zeros(n)
    ppo.sample(
        preference,
        mask,
        rng.random((n, 1)),
        np.zeros((n, 0), np.int64),
        np.ones(1, np.int64),
        action,
        log_prob,
    )
    share = np.bincount(action[:, 0], minlength=4) / n
    assert share == pytest.approx([1 / 8, 0, 2 / 8, 5 / 8], abs=0.015)
    assert np.exp(log_prob) == pytest.approx(np.array([1, 0, 2, 5])[action[:, 0]] / 8, rel=1e-6)


@pytest.mark.parametrize("wrong", [{"samples": 0}, {"horizon": 0.0}, {"trace": 1.5}])
def test_bad_settings_are_refused(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        ppo.PpoSettings(**wrong)
