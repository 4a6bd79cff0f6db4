"""The file of a saved session: JSON, with a version; reading it runs no code."""

from __future__ import annotations

import base64
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput, cause
from weft.formats.native.weft_json import write_json
from weft.formats.native.weft_schema import decode, encode
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, naming, parse_json, read_bytes, write_file
from weft.model import Cluster, Problem

FORMAT = "weft-session-1"
_KINDS = ("b1", "i8", "u8", "f4", "f8")


def encoded(thing: object) -> bytes:
    """Return an object as JSON; equal objects give equal bytes."""
    return write_json(encode(thing))


def write_session(
    path: Path, cluster: Cluster, problems: list[Problem], state: dict[str, Any]
) -> Path:
    """Write a session; the file replaces an older one at once."""
    record = {
        "format": FORMAT,
        "cluster": json.loads(encoded(cluster)),
        "problems": [json.loads(encoded(problem)) for problem in problems],
        "state": _plain(state),
    }
    partial = path.parent / f"{path.name}.part"
    write_file(partial, json.dumps({**record, "digest": _digest(record)}, allow_nan=False))
    with naming(str(path)):
        try:
            partial.replace(path)
        except OSError as error:
            partial.unlink()
            raise InvalidInput(f"cannot be written ({error.strerror})") from None
    return path


def read_session(path: Path) -> tuple[Cluster, list[Problem], dict[str, Any]]:
    """Read a session, or say in one line what is wrong with the file."""
    with naming(str(path)):
        try:
            record = parse_json(decode_text(read_bytes(path)))
        except OSError as error:
            raise InvalidInput(f"cannot be read ({cause(error)})") from None
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise InvalidInput(f"is no session of this version of weft ('{FORMAT}')")
        if record.pop("digest", "") != _digest(record):
            raise InvalidInput("is damaged: its digest is not that of its content")
        try:
            cluster: Any = decode(Record(record["cluster"]))
            problems: list[Any] = [decode(Record(problem)) for problem in record["problems"]]
            return cluster, problems, _read(record["state"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"is damaged ({error!r})") from None


def _digest(record: dict[str, Any]) -> str:
    """Return the digest that shows damage.

    Compiled code trusts the state of a session.
    """
    return sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode("ascii")
        return {"array": data, "type": value.dtype.str.lstrip("<|"), "shape": list(value.shape)}
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float | np.floating) and not np.isfinite(value):
        return {"number": str(float(value))}
    return value.item() if isinstance(value, np.generic) else value


def _read(value: Any) -> Any:
    if isinstance(value, list):
        return [_read(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    if "number" in value:
        return float(value["number"])
    if "array" in value:
        if value["type"] not in _KINDS:
            raise ValueError(f"type {value['type']}")
        data = np.frombuffer(base64.b64decode(value["array"]), f"<{value['type']}")
        return data.reshape(value["shape"]).copy()
    return {key: _read(entry) for key, entry in value.items()}
