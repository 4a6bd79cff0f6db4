"""The one format of every trained model: a card and numbers.

The card is NAME.json, the numbers are NAME.safetensors. The card says what the model is (`kind`),
what it reads (`settings`) and how it was trained. It lists the shape of every array, so that card
and numbers cannot be mixed up. A model without arrays has no second file. Loading runs no code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput, UnknownName
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import (
    decode_text,
    is_there,
    naming,
    parse_json,
    read_bytes,
    write_bytes,
)
from weft.model.columns import Numbers
from weft.registry import closest

FORMAT, VERSION = "weft-model", 2
KEYS = ("format", "version", "kind", "name", "about", "settings", "arrays", "training")
BUNDLED = Path(__file__).parents[1] / "policies" / "bundled"
"""The folder of every model that ships with weft."""

MAX_CARD_BYTES = 4 * 2**20
MAX_ARRAY_BYTES = 256 * 2**20
MAX_RANK = 4
DTYPES: dict[str, np.dtype[np.floating[Any]]] = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """A trained model as data.

    Attributes
    ----------
    name : the name it is listed under
    kind : which builder reads it, e.g. "conditional-network"
    about : a description in one sentence, for users
    settings : all that the builder needs beside the arrays: features, architecture, options
    arrays : float32 or float64 arrays by name
    training : how it was trained: seeds, seconds, settings, curve
    """

    name: str
    kind: str
    about: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Numbers] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)


def save_model(model: Model, path: str | Path) -> Path:
    """Write the card and the numbers of a model; return the path of the card.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "mine"
    >>> card = save_model(Model(name="mine", kind="test", arrays={"w": np.ones((1, 2))}), path)
    >>> card.name, read_model(path).arrays["w"].tolist()
    ('mine.json', [[1.0, 1.0]])
    """
    card = card_path(path)
    arrays = {name: np.ascontiguousarray(array) for name, array in model.arrays.items()}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "kind": model.kind,
        "name": model.name,
        "about": model.about,
        "settings": dict(model.settings),
        "arrays": {name: list(arrays[name].shape) for name in sorted(arrays)},
        "training": dict(model.training),
    }
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    card.parent.mkdir(parents=True, exist_ok=True)
    with naming(str(card)):
        if arrays:
            write_bytes(card.with_suffix(".safetensors"), _pack(arrays))
        write_bytes(card, text.encode())
    return card


def read_model(path: str | Path, *kinds: str) -> Model:
    """Read a model from its files; with `kinds`, refuse any other kind."""
    card = card_path(path)
    with naming(str(card)):
        model = _read_card(card)
        if kinds and model.kind not in kinds:
            raise InvalidInput(f"is a model of kind '{model.kind}'; expected {' or '.join(kinds)}")
    shapes: Mapping[str, Any] = model.arrays
    if not shapes:
        return model
    numbers = card.with_suffix(".safetensors")
    with naming(str(numbers)):
        arrays = _unpack(_bounded(numbers, MAX_ARRAY_BYTES))
        found = {name: list(array.shape) for name, array in arrays.items()}
        if found != shapes:
            names = sorted(
                name
                for name in dict.fromkeys((*found, *shapes))
                if found.get(name) != shapes.get(name)
            )
            raise InvalidInput(
                f"does not fit its card: arrays {', '.join(map(shown, names[:4]))} differ"
            )
    return Model(**{**vars(model), "arrays": arrays})


def find_model(name_or_path: str | Path) -> Path:
    """Return the card of a bundled model by name, or of a model at a path."""
    name = str(name_or_path)
    if name in bundled_models():
        return BUNDLED / f"{name}.json"
    card = card_path(name_or_path)
    if is_there(card):
        return card
    if card.parent != Path() or name.endswith((".safetensors", ".json")):
        raise InvalidInput(
            f"{card}: no such file; a model is a .json card, with its numbers beside"
        )
    raise UnknownName(f"unknown model {shown(name)}{closest(name, bundled_models())}")


def is_model_path(name: str) -> bool:
    """Return whether a text is the path of a model, which may not exist, and no name.

    Examples
    --------
    >>> is_model_path("trained/own"), is_model_path("own.json"), is_model_path("heft")
    (True, True, False)
    """
    if not name:
        return False
    named = Path(name).parent != Path() or name.endswith((".json", ".safetensors"))
    return named or is_there(card_path(name))


def bundled_models() -> list[str]:
    """List the names of all models that ship with weft, sorted."""
    return sorted(path.stem for path in BUNDLED.glob("*.json"))


def card_path(path: str | Path) -> Path:
    """Return the path of the card, for a path with or without a suffix."""
    place = Path(path)
    if not place.name:
        raise InvalidInput(f"{place}: is no file; a model is a .json card, with its numbers beside")
    if place.suffix in {".safetensors", ".json"}:
        return place.with_suffix(".json")
    return place.with_name(place.name + ".json")


def _read_card(path: Path) -> Model:
    card = Record(parse_json(decode_text(_bounded(path, MAX_CARD_BYTES))))
    if card.text("format") != FORMAT:
        raise InvalidInput(f"is of format {shown(card.raw('format'))}; expected '{FORMAT}'")
    if card.raw("version") != VERSION or isinstance(card.raw("version"), bool):
        raise InvalidInput(
            f"has version {shown(card.raw('version'))} of the format; this weft reads {VERSION}"
        )
    card.only(KEYS)
    shapes = card.child("arrays").content
    for name, shape in shapes.items():
        if not _is_shape(shape):
            raise InvalidInput(f"arrays.{shown(name)} is {shown(shape)}; it must be a shape")
    return Model(
        name=card.text("name"),
        kind=card.text("kind"),
        about=card.text("about"),
        settings=card.child("settings").content,
        arrays=shapes,
        training=card.child("training").content,
    )


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, list)
        and len(shape) <= MAX_RANK
        and all(type(size) is int and 0 <= size <= MAX_ARRAY_BYTES for size in shape)
    )


def _bounded(path: Path, limit: int) -> bytes:
    """Read a file unless it is larger than a limit."""
    try:
        size = path.stat().st_size
    except (OSError, ValueError):  # ValueError: a name that no file can have
        size = 0  # read_bytes then raises the error that names the reason
    if size > limit:
        raise InvalidInput(f"has {size} bytes; a model may have at most {limit}")
    return read_bytes(path)


def _pack(arrays: Mapping[str, Numbers]) -> bytes:
    from safetensors.numpy import save

    for name, array in arrays.items():
        if array.dtype not in DTYPES.values():
            raise InvalidInput(
                f"array '{name}' is of {array.dtype}; models hold float32 or float64"
            )
    return bytes(save({name: arrays[name] for name in sorted(arrays)}))


def _unpack(content: bytes) -> dict[str, Numbers]:
    from safetensors import SafetensorError, deserialize

    try:
        tensors = deserialize(content)  # type: ignore[no-untyped-call]  # compiled, no stubs
    except (SafetensorError, ValueError, OverflowError) as error:
        raise InvalidInput(f"is not a safetensors file ({error})") from None
    return {name: _array(name, entry) for name, entry in tensors}


def _array(name: str, entry: Mapping[str, Any]) -> Numbers:
    shape = list(entry["shape"])
    if entry["dtype"] not in DTYPES:
        raise InvalidInput(f"array {shown(name)} has type {entry['dtype']}; weft reads F32 and F64")
    if not _is_shape(shape):
        raise InvalidInput(
            f"array {shown(name)} has {len(shape)} axes; at most {MAX_RANK} are read"
        )
    array = np.frombuffer(bytes(entry["data"]), DTYPES[entry["dtype"]]).reshape(shape).copy()
    if not np.isfinite(array).all():
        raise InvalidInput(f"array {shown(name)} holds values that are not finite")
    return array
