"""Writing a network as ONNX, for runtimes elsewhere: the few protobuf messages it takes, without the onnx package.

Field numbers are those of onnx.proto3 (IR version 8, operator set 13).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from weft.policies.networks import CLIP, Network, arrays_of

_FLOAT, _BY_LENGTH, _VARINT = 1, 2, 0


def export_onnx(network: Network, path: Path) -> None:
    """Write a model with input "observation" (batch, inputs) and output "logits" (batch, units, actions), both float32.

    The mask is the caller's: take the best allowed action of each unit.
    """
    arrays = arrays_of(network)
    layers = len(network.sizes) - 1
    constants: dict[str, Any] = {
        **arrays,
        "low": np.float32(-CLIP),
        "high": np.float32(CLIP),
        "shape": np.array([-1, network.units, network.actions], np.int64),
    }
    nodes = [
        _node("Sub", ["observation", "input.mean"], "centred"),
        _node("Mul", ["centred", "input.scale"], "scaled"),
        _node("Clip", ["scaled", "low", "high"], "x0"),
    ]
    for i in range(layers):
        last = i == layers - 1
        nodes.append(_node("Gemm", [f"x{i}", f"{i}.weight", f"{i}.bias"], "flat" if last else f"y{i}", transB=1))
        if not last:
            nodes.append(_node("Relu", [f"y{i}"], f"x{i + 1}"))
    nodes.append(_node("Reshape", ["flat", "shape"], "logits"))
    graph = b"".join(
        [
            *(_part(1, node) for node in nodes),
            _part(2, b"policy"),
            *(_part(5, _tensor(name, array)) for name, array in constants.items()),
            _part(11, _value("observation", [int(network.sizes[0])])),
            _part(12, _value("logits", [network.units, network.actions])),
        ]
    )
    path.write_bytes(_whole(1, 8) + _part(2, b"weft") + _part(7, graph) + _part(8, _whole(2, 13)))


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


def _node(operator: str, inputs: Iterable[str], output: str, **attributes: int) -> bytes:
    kind_whole = 2
    return b"".join(
        [
            *(_part(1, name.encode()) for name in inputs),
            _part(2, output.encode()),
            _part(4, operator.encode()),
            *(_part(5, _part(1, key.encode()) + _whole(3, value) + _whole(20, kind_whole)) for key, value in attributes.items()),
        ]
    )


def _tensor(name: str, array: Any) -> bytes:
    data = np.asarray(array)
    kind = 7 if data.dtype == np.int64 else 1  # TensorProto: INT64, FLOAT
    return b"".join(_whole(1, n) for n in data.shape) + _whole(2, kind) + _part(8, name.encode()) + _part(9, data.tobytes())


def _value(name: str, shape: list[int]) -> bytes:
    """A float tensor whose first dimension is any batch."""
    dims = _part(1, _part(2, b"batch")) + b"".join(_part(1, _whole(1, n)) for n in shape)
    return _part(1, name.encode()) + _part(2, _part(1, _whole(1, _FLOAT) + _part(2, dims)))
