"""The one model format: round trips, bundled models, and broken files."""

from __future__ import annotations

import json
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput, UnknownName
from weft.formats.model_file import (
    BUNDLED,
    MAX_CARD_BYTES,
    Model,
    bundled_models,
    find_model,
    read_model,
    save_model,
)

MODEL = Model(
    name="mine",
    kind="test",
    about="For a test.",
    settings={"features": ["a", "b"]},
    arrays={"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([0.1, 1e-300])},
    training={"seed": 1},
)


def test_a_model_comes_back_bit_for_bit(tmp_path):
    card = save_model(MODEL, tmp_path / "mine")
    again = read_model(tmp_path / "mine.safetensors")
    for name, array in MODEL.arrays.items():
        assert again.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(again.arrays[name], array)
    assert {**vars(again), "arrays": 0} == {**vars(MODEL), "arrays": 0}
    first = card.read_bytes(), card.with_suffix(".safetensors").read_bytes()
    save_model(again, card)
    assert (card.read_bytes(), card.with_suffix(".safetensors").read_bytes()) == first


def test_a_model_without_arrays_has_no_second_file(tmp_path):
    card = save_model(Model(name="plain", kind="test"), tmp_path / "plain")
    assert not card.with_suffix(".safetensors").exists()
    assert read_model(card).arrays == {}


@pytest.mark.parametrize("name", bundled_models())
def test_a_bundled_model_is_numbers_and_a_card(name, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError(f"{name} was unpickled")

    for function in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, function, refuse)
    model = read_model(find_model(name))
    assert model.name == name
    assert model.about
    assert model.training
    assert all(np.isfinite(array).all() for array in model.arrays.values())


def test_the_folder_holds_nothing_else():
    files = sorted(path.name for path in BUNDLED.iterdir() if path.name != "__pycache__")
    expected = [f"{name}.json" for name in bundled_models()]
    expected += [
        f"{name}.safetensors" for name in bundled_models() if read_model(find_model(name)).arrays
    ]
    assert files == sorted(expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "other"}, "format 'other'"),
        ({"version": 9}, "version 9"),
        ({"version": True}, "version true"),
        ({"trainig": 1}, "did you mean 'training'"),
        ({"training": 3}, "training"),
        ({"arrays": {"w": [2, 2], "b": [2]}}, "does not fit its card"),
        ({"arrays": {"w": [2, 3]}}, "does not fit its card"),
        ({"arrays": {"w": [-1]}}, "must be a shape"),
        ({"arrays": {"w": "x"}}, "must be a shape"),
        ({"arrays": [1]}, "arrays"),
        ({"name": 3}, "name"),
    ],
)
def test_broken_cards_are_refused(tmp_path, change, words):
    card = save_model(MODEL, tmp_path / "mine")
    content = json.loads(card.read_text(encoding="utf-8")) | change
    card.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InvalidInput, match=words):
        read_model(card)


@pytest.mark.parametrize(
    ("header", "body"),
    [
        ({"w": {"dtype": "I64", "shape": [1], "data_offsets": [0, 8]}}, b"8 bytes."),
        ({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"1234"),
        ({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"12345678"),
        ({"w": {"dtype": "F32", "shape": [1] * 70, "data_offsets": [0, 4]}}, b"1234"),
        ({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, b"\x00\x00\xc0\x7f"),
        ([1], b""),
        (b"{", b""),
        (b"\xff\xfe", b""),
    ],
)
def test_broken_numbers_are_refused(tmp_path, header, body):
    card = save_model(MODEL, tmp_path / "mine")
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    card.with_suffix(".safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    with pytest.raises(InvalidInput, match=r"mine\.safetensors"):
        read_model(card)


@given(st.binary(max_size=120))
def test_any_bytes_give_one_clear_error(tmp_path_factory, data):
    card = save_model(MODEL, tmp_path_factory.mktemp("fuzz") / "mine")
    card.with_suffix(".safetensors").write_bytes(data)
    with pytest.raises(InvalidInput) as caught:
        read_model(card)
    assert str(caught.value).startswith(str(card.with_suffix("")))
    assert "\n" not in str(caught.value)


def test_other_kinds_missing_files_and_large_ones(tmp_path):
    card = save_model(MODEL, tmp_path / "mine")
    with pytest.raises(InvalidInput, match="kind 'test'; expected deepsched"):
        read_model(card, "deepsched")
    with pytest.raises(InvalidInput, match="no such file"):
        find_model(tmp_path / "gone.safetensors")
    with pytest.raises(UnknownName, match="unknown model 'dqnn'; did you mean 'dqn'"):
        find_model("dqnn")
    card.with_suffix(".safetensors").unlink()
    with pytest.raises(InvalidInput, match=r"mine\.safetensors"):
        read_model(card)
    card.write_bytes(b" " * (MAX_CARD_BYTES + 1))
    with pytest.raises(InvalidInput, match="at most"):
        read_model(card)
    with pytest.raises(InvalidInput, match="float32 or float64"):
        save_model(Model(name="odd", kind="test", arrays={"w": np.arange(3)}), tmp_path / "odd")
