"""Weights of the index as JSON: numbers only, with the names they belong to and a record of how they were tuned."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, naming, parse_json, read_bytes, write_bytes
from weft.policies.conditional.rules import FEATURES, ConditionalRule
from weft.registry import closest
from weft.sim.vector.batch import StepBatch

FORMAT = "weft-index-1"


def index_names() -> list[str]:
    """Names of the streams for which weights ship with weft."""
    return ["conditional-paper"]


def load_index(source: str | os.PathLike[str] = "conditional-paper") -> ConditionalRule:
    """Load an index from a JSON file, or the one that ships for a stream.

    Examples
    --------
    >>> load_index("conditional-paper").name
    'index'
    """
    return ConditionalRule("index", _read(source)[0])


def index_record(source: str | os.PathLike[str] = "conditional-paper") -> dict[str, Any]:
    """How the weights were tuned."""
    return _read(source)[1]


def _read(
    source: str | os.PathLike[str],
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], dict[str, Any]]:
    where, shipped = os.fspath(source), index_names()
    if where in shipped:
        text = (
            files("weft.policies").joinpath("bundled", f"{where}.json").read_text(encoding="utf-8")
        )
    elif not where.endswith(".json"):
        raise UnknownName(f"unknown index '{where}'{closest(where, shipped)}; or give a JSON file")
    else:
        with naming(where):
            text = decode_text(read_bytes(Path(where)))
    with naming(where):
        record = Record(parse_json(text))
        record.only(("format", "stream", "groups", "kinds", "features", "weights", "tuned"))
        if record.text("format") != FORMAT:
            raise InvalidInput(f"is of format '{record.text('format')}'; expected '{FORMAT}'")
        if tuple(record.strings("features")) != FEATURES:
            raise InvalidInput(
                "its features are not those of this version of weft; tune the weights again"
            )
        groups, kinds = record.raw("groups"), record.strings("kinds")
        flat = record.floats("weights")
        shape = (len(groups), len(kinds), len(FEATURES))
        if flat.shape != (int(np.prod(shape)),) or not np.isfinite(flat).all():
            raise InvalidInput(
                f"weights must be {int(np.prod(shape))} finite numbers, {shape[0]} x {shape[1]} x {shape[2]}"
            )
        return flat.reshape(shape), record.child("tuned").content if "tuned" in record else {}


def save_index(
    path: str | os.PathLike[str], rule: ConditionalRule, fleet: StepBatch, *, tuned: dict[str, Any]
) -> None:
    """Write the weights of an index tuned for the stream of `fleet`, with a record of how."""
    rule.check_fits(fleet)
    group, names = fleet.tables.state.group, fleet.stream.problem.cluster.names
    content = {
        "format": FORMAT,
        "stream": fleet.stream.name,
        "groups": [
            [names[d] for d in np.flatnonzero(group == g)] for g in range(int(group.max()) + 1)
        ],
        "kinds": list(fleet.kind_names),
        "features": list(FEATURES),
        "weights": [round(float(w), 6) for w in rule.weights.reshape(-1)],
        "tuned": tuned,
    }
    with naming(os.fspath(path)):
        write_bytes(Path(path), (json.dumps(content, indent=1) + "\n").encode())
