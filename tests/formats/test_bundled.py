"""Every model that comes with weft is numbers and a card: nothing in it can run."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from weft.formats.safetensors_file import read_arrays

import weft

ROOT = Path(weft.__file__).parent
SHIPPED = sorted(path for path in ROOT.rglob("shipped/*") if path.is_file())
MODELS = [path for path in SHIPPED if path.suffix == ".safetensors"]
NUMBERS = {"F64", "F32", "F16", "I64", "I32", "I16", "I8", "U8", "BOOL"}


def test_there_is_nothing_but_numbers_and_cards() -> None:
    assert {path.suffix for path in SHIPPED} == {".safetensors", ".json"}
    assert {"amortised", "deepsched", "conditional-best"} <= {path.stem for path in MODELS}


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_file_is_a_header_and_numbers_to_its_last_byte(path: Path) -> None:
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    assert {entry["dtype"] for entry in header.values()} <= NUMBERS
    spans = sorted(tuple(entry["data_offsets"]) for entry in header.values())
    assert [begin for begin, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert 8 + size + spans[-1][1] == len(content)


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_loading_unpickles_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError(f"{path.name} was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    arrays = read_arrays(path)
    assert arrays
    assert all(np.isfinite(array).all() for array in arrays.values())
    card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert str(card["format"]).startswith("weft")
