"""Networks of conditional policies: the forward pass, files, and peers."""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest

from weft.errors import InvalidInput
from weft.policies.conditional import networks
from weft.policies.conditional.trained_network import TrainedNetwork, read_network, save_network
from weft.policies.load import load_policy


def make_network(sizes=(5, 8, 7, 6), units=2, seed=0):
    rng = np.random.default_rng(seed)
    arrays = {"input.mean": rng.normal(size=sizes[0]), "input.scale": rng.random(sizes[0]) + 0.5}
    for i, (a, b) in enumerate(pairwise(sizes)):
        arrays |= {f"{i}.weight": rng.normal(size=(b, a)), f"{i}.bias": rng.normal(size=b)}
    return networks.network_of(arrays, units=units, actions=sizes[-1] // units), arrays


def plain_logits(arrays, x):
    layers = sum(name.endswith(".weight") for name in arrays)
    x = np.clip((x - arrays["input.mean"]) * arrays["input.scale"], -10, 10)
    for i in range(layers):
        x = arrays[f"{i}.weight"] @ x + arrays[f"{i}.bias"]
        x = np.maximum(x, 0) if i < layers - 1 else x
    return x


@pytest.fixture
def policy():
    network, _ = make_network()
    about = {
        "observation": {"name": "test", "version": 1},
        "environment": {"name": "none"},
        "training": {"seed": 1},
    }
    return TrainedNetwork("mine", network, about="a test", **about)


@pytest.mark.parametrize("sizes", [(5, 6), (5, 8, 6), (3, 16, 4, 8)])
def test_the_compiled_pass_equals_numpy(sizes):
    network, arrays = make_network(sizes)
    for seed in range(5):
        spread = 30 if seed == 4 else 1  # the last input is clipped
        x = np.random.default_rng(seed).normal(size=sizes[0]) * spread
        assert networks.logits(network, x).ravel() == pytest.approx(
            plain_logits(arrays, x), rel=1e-4, abs=1e-4
        )


def test_the_best_allowed_action_in_order():
    network, arrays = make_network((2, 8), units=2)
    arrays["0.weight"][:] = 0
    arrays["0.bias"][:] = [3, 2, 1, 0, 3, 2, 1, 0]
    network = networks.network_of(arrays, units=2, actions=4)
    space, action = networks.working_space(network), np.zeros(2, np.int64)
    mask = np.ones((2, 4), bool)
    # Both prefer queue 0. Unit 0 takes both of its tasks, so unit 1 takes its second choice.
    networks.choose(
        network, np.zeros(2, np.float32), mask, np.array([2, 1, 1]), np.array([2, 1]), space, action
    )
    assert action.tolist() == [0, 1]
    networks.choose(
        network, np.zeros(2, np.float32), mask, np.array([3, 1, 1]), np.array([2, 1]), space, action
    )
    assert action.tolist() == [0, 0]
    mask[0, :3] = False
    networks.choose(
        network, np.zeros(2, np.float32), mask, np.array([0, 0, 0]), np.array([2, 1]), space, action
    )
    assert action.tolist() == [3, 3]


def test_a_network_comes_back_bit_for_bit(policy, tmp_path):
    again = read_network(save_network(policy, tmp_path / "mine"))
    for one, two in zip(policy.network, again.network, strict=True):
        assert np.array_equal(one, two)
    assert (again.observation, again.environment) == (policy.observation, policy.environment)
    assert again.training == policy.training


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layers": "tanh"}, "must be 'relu'"),
        ({"units": 0}, "architecture.units is 0"),
        ({"units": 3}, "units times actions"),
        ({"hidden": [8, 8]}, "does not fit"),
        ({"hidden": 7}, "must be a list"),
        ({"depth": 2}, "unknown key"),
    ],
)
def test_broken_architectures_are_refused(policy, tmp_path, change, words):
    card = save_network(policy, tmp_path / "mine")
    content = json.loads(card.read_text(encoding="utf-8"))
    content["settings"]["architecture"] |= change
    card.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InvalidInput, match=words):
        read_network(card)


def test_wrong_shapes_never_reach_compiled_code():
    policy = load_policy("conditional-pi4")
    n = policy.network
    good = {
        "observation": np.zeros(n.sizes[0]),
        "mask": np.ones((n.units, n.actions), bool),
        "remaining": np.ones(n.actions - 1, np.int64),
        "capacity": np.ones(n.units, np.int64),
    }
    assert policy.act(**good).shape == (n.units,)
    for name, array in good.items():
        with pytest.raises(InvalidInput, match=f"{name} has shape"):
            policy.act(**{**good, name: array[:-1]})


def test_networks_that_cannot_be(policy):
    arrays = networks.arrays_of(policy.network)
    with pytest.raises(InvalidInput, match="not finite"):
        networks.network_of(arrays | {"0.bias": np.full(8, np.nan)}, units=2, actions=3)
    with pytest.raises(InvalidInput, match="has shape"):
        networks.network_of(arrays | {"input.scale": np.ones(4)}, units=2, actions=3)
    with pytest.raises(InvalidInput, match="arrays are"):
        networks.network_of({k: v for k, v in arrays.items() if k != "0.bias"}, units=2, actions=3)
    with pytest.raises(InvalidInput, match="observation has shape"):
        networks.logits(policy.network, np.zeros(3))


def test_a_learned_policy_is_frozen(policy):
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.name = "other"
