"""ONNX models, written without the onnx package: the protobuf messages they need.

Field numbers are those of onnx.proto3 (IR version 8, operator set 13).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.formats.parsing.source import write_file

_FLOAT, _BY_LENGTH, _VARINT = 1, 2, 0
_INT, _STRING, _FLOATS, _INTS, _STRINGS = 2, 3, 6, 7, 8  # types of attributes

LEARNING = "ai.onnx.ml"
"""The domain of trees and other models that are no networks."""

Attribute = int | str | Sequence[int] | Sequence[float] | Sequence[str]


def node(
    operator: str,
    inputs: Iterable[str],
    outputs: str | Sequence[str],
    *,
    domain: str = "",
    **attributes: Attribute,
) -> bytes:
    """Return one operator; an input "" is left out, the first of a list sets its type."""
    named = [outputs] if isinstance(outputs, str) else outputs
    return b"".join(
        [
            *(_part(1, name.encode()) for name in inputs),
            *(_part(2, name.encode()) for name in named),
            _part(4, operator.encode()),
            *(_part(5, _attribute(key, value)) for key, value in attributes.items()),
            _part(7, domain.encode()),
        ]
    )


def write_model(
    path: Path,
    nodes: Iterable[bytes],
    *,
    constants: Mapping[str, Any],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    name: str,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a model: float32 or int64 constants; named dimensions may have any size."""
    graph = b"".join(
        [
            *(_part(1, part) for part in nodes),
            _part(2, name.encode()),
            *(_part(5, _tensor(key, array)) for key, array in constants.items()),
            *(_part(11, _value(key, shape)) for key, shape in inputs.items()),
            *(_part(12, _value(key, shape)) for key, shape in outputs.items()),
        ]
    )
    sets = _part(8, _whole(2, 13)) + _part(8, _part(1, LEARNING.encode()) + _whole(2, 3))
    notes = b"".join(
        _part(14, _part(1, key.encode()) + _part(2, text.encode()))
        for key, text in (metadata or {}).items()
    )
    write_file(path, _whole(1, 8) + _part(2, b"weft") + _part(7, graph) + sets + notes)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers in two's complement, as protobuf has them
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _part(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | _BY_LENGTH) + _varint(len(data)) + data


def _whole(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _attribute(key: str, value: Attribute) -> bytes:
    start = _part(1, key.encode())
    if isinstance(value, str):
        return start + _part(4, value.encode()) + _whole(20, _STRING)
    if isinstance(value, int):
        return start + _whole(3, value) + _whole(20, _INT)
    first = value[0] if value else 0
    if isinstance(first, str):
        return start + b"".join(_part(9, str(v).encode()) for v in value) + _whole(20, _STRINGS)
    if isinstance(first, float):
        return start + _part(7, np.asarray(value, "<f4").tobytes()) + _whole(20, _FLOATS)
    return start + b"".join(_whole(8, int(v)) for v in value) + _whole(20, _INTS)


def _tensor(name: str, array: Any) -> bytes:
    data = np.asarray(array)
    kind = 7 if data.dtype == np.int64 else 1  # TensorProto: INT64, FLOAT
    return (
        b"".join(_whole(1, n) for n in data.shape)
        + _whole(2, kind)
        + _part(8, name.encode())
        + _part(9, data.tobytes())
    )


def _value(name: str, shape: Sequence[int | str]) -> bytes:
    dims = b"".join(
        _part(1, _part(2, n.encode()) if isinstance(n, str) else _whole(1, n)) for n in shape
    )
    return _part(1, name.encode()) + _part(2, _part(1, _whole(1, _FLOAT) + _part(2, dims)))
