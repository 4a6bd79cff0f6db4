"""Policies on disk: round trips, peers that read the same numbers, and broken files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import struct
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput, UnknownName
from weft.formats.safetensors_file import read_arrays, write_arrays
from weft.policies.conditional import files, networks
from weft.policies.conditional.onnx_export import export_onnx


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
    return files.Learned("mine", network, about=("a test"), **about)


@pytest.mark.parametrize("sizes", [(5, 6), (5, 8, 6), (3, 16, 4, 8)])
def test_the_compiled_pass_equals_numpy(sizes):
    network, arrays = make_network(sizes)
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=sizes[0]) * (
            30 if seed == 4 else 1
        )  # the last one meets the clip
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
    # Both like stock 0 best. Unit 0 takes up to 2 of its 2 items, so unit 1 takes its second
    # choice.
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


def test_a_policy_comes_back_bit_for_bit(policy, tmp_path):
    path = files.save_policy(policy, tmp_path / "mine")
    assert path.name == "mine.safetensors"
    again = files.read_policy(tmp_path / "mine.json")
    for one, two in zip(policy.network, again.network, strict=True):
        assert np.array_equal(one, two)
    assert again.card() == policy.card()
    assert files.find_policy(path) == path
    first = path.read_bytes()
    files.save_policy(again, path)
    assert path.read_bytes() == first


def test_the_safetensors_package_reads_and_writes_the_same(tmp_path):
    peer = pytest.importorskip(
        "safetensors.numpy", reason="the peer is not installed: pip install 'weft[learn]'"
    )
    arrays = {
        "b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a": np.float32([1.5]),
        "empty": np.zeros((0, 4), np.float32),
    }
    write_arrays(tmp_path / "ours.safetensors", arrays)
    peer.save_file(arrays, tmp_path / "theirs.safetensors", metadata={"who": "peer"})
    for name, found in (
        ("ours", peer.load_file(tmp_path / "ours.safetensors")),
        ("theirs", read_arrays(tmp_path / "theirs.safetensors")),
    ):
        assert sorted(found) == sorted(arrays), name
        assert all(
            np.array_equal(found[k], arrays[k]) and found[k].shape == arrays[k].shape
            for k in arrays
        )


def _file(path, header, body=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


@pytest.mark.parametrize(
    ("header", "body", "words"),
    [
        ({"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}, b"8 bytes.", "F64"),
        ({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234", "does not fill"),
        (
            {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}},
            b"12345678",
            "cut off or has a tail",
        ),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"12", "cut off"),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}, b"1234", "whole numbers"),
        (
            {"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}},
            b"1234",
            "whole numbers",
        ),
        (
            {k: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for k in "ab"},
            b"1234",
            "overlap",
        ),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, b"12345678", "gap"),
        ({"a": {"dtype": "F32", "shape": [1]}}, b"", "needs dtype"),
        ([1], b"", "not a table"),
        (b'{"a": 1, "a": 2}', b"", "twice"),
        (b"{", b"", "not readable"),
        (b"\xff\xfe", b"", "not readable"),
    ],
)
def test_broken_numbers_are_refused(tmp_path, header, body, words):
    with pytest.raises(InvalidInput, match=words):
        read_arrays(_file(tmp_path / "x.safetensors", header, body))


def test_a_header_that_claims_too_much(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    with pytest.raises(InvalidInput, match="claims"):
        read_arrays(path)
    path.write_bytes(b"abc")
    with pytest.raises(InvalidInput, match="too short"):
        read_arrays(path)


@given(st.binary(max_size=120))
def test_any_bytes_give_arrays_or_one_clear_error(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "x.safetensors"
    path.write_bytes(data)
    with contextlib.suppress(InvalidInput):
        read_arrays(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "not the card"),
        ({"version": 9}, "version 9"),
        ({"trainig": 1}, "did you mean 'training'"),
        ({"training": 3}, "must be a table"),
        ({"architecture": {"kind": "relu"}}, "architecture"),
        (
            {
                "architecture": {
                    "kind": "relu",
                    "inputs": 5,
                    "hidden": [8, 7],
                    "units": 0,
                    "actions": 3,
                }
            },
            "architecture.units is 0",
        ),
        (
            {
                "architecture": {
                    "kind": "relu",
                    "inputs": 5,
                    "hidden": [8, 7],
                    "units": 3,
                    "actions": 3,
                }
            },
            "units times actions",
        ),
        (
            {
                "architecture": {
                    "kind": "relu",
                    "inputs": 5,
                    "hidden": [8, 8],
                    "units": 2,
                    "actions": 3,
                }
            },
            "layers",
        ),
    ],
)
def test_broken_cards_are_refused(policy, tmp_path, change, words):
    files.save_policy(policy, tmp_path / "mine")
    card = policy.card() | change
    (tmp_path / "mine.json").write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(InvalidInput, match=words):
        files.read_policy(tmp_path / "mine")


def test_a_missing_card_and_unknown_names(policy, tmp_path):
    path = files.save_policy(policy, tmp_path / "mine")
    path.with_suffix(".json").unlink()
    with pytest.raises(InvalidInput, match="json beside it"):
        files.read_policy(path)
    with pytest.raises(InvalidInput, match="no such file"):
        files.find_policy(tmp_path / "gone.safetensors")
    with pytest.raises(UnknownName, match="unknown learned policy 'surely-not'"):
        files.find_policy("surely-not")


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


def test_onnxruntime_computes_the_same(policy, tmp_path):
    runtime = pytest.importorskip(
        "onnxruntime", reason="the peer is not installed: pip install 'weft[learn]'"
    )
    path = tmp_path / "mine.onnx"
    export_onnx(policy.network, path)
    session = runtime.InferenceSession(str(path))
    x = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float32)
    (found,) = session.run(None, {"observation": x})
    assert found.shape == (7, 2, 3)
    for row, one in zip(x, found, strict=True):
        assert networks.logits(policy.network, row) == pytest.approx(one, rel=1e-5, abs=1e-5)


def test_a_learned_policy_is_frozen(policy):
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.name = "other"
