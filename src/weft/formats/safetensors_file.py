"""Reading and writing safetensors: a JSON header with types, shapes and offsets, then the numbers. Loading runs no code.

The format is 8 bytes of header length (little endian), the header, and one buffer without gaps. We
read float32 only, strictly.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import InvalidInput

Numbers: TypeAlias = npt.NDArray[np.floating[Any]]

LARGEST_HEADER = 1 << 20
"""Bytes; ours take a thousand. A length beyond it is a broken or foreign file, not a reason to fill the memory."""


def write_arrays(path: Path, arrays: Mapping[str, Numbers]) -> None:
    """Write float32 arrays, by name; the same arrays give the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.safetensors"
    >>> write_arrays(file, {"w": np.array([[1.0, 2.0]])})
    >>> read_arrays(file)["w"].tolist()
    [[1.0, 2.0]]
    """
    header: dict[str, object] = {}
    parts: list[bytes] = []
    offset = 0
    for name in sorted(arrays):
        data = np.ascontiguousarray(arrays[name], dtype="<f4")
        header[name] = {
            "dtype": "F32",
            "shape": list(data.shape),
            "data_offsets": [offset, offset + data.nbytes],
        }
        parts.append(data.tobytes())
        offset += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the buffer starts at a multiple of 8
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def read_arrays(path: Path) -> dict[str, Numbers]:
    """Read the arrays of a safetensors file, or say what is wrong with it."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read ({error.strerror})") from None
    if len(raw) < 8:
        raise InvalidInput(f"{path}: {len(raw)} bytes are too short for a safetensors file")
    (length,) = struct.unpack("<Q", raw[:8])
    if length > min(LARGEST_HEADER, len(raw) - 8):
        raise InvalidInput(
            f"{path}: its safetensors header claims {length} bytes; the file is cut off or of "
            "another format"
        )
    try:
        header = json.loads(raw[8 : 8 + length].decode(), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path}: its safetensors header is not readable ({error})") from None
    if not isinstance(header, dict):
        raise InvalidInput(f"{path}: its safetensors header is not a table of arrays")
    body = raw[8 + length :]
    header.pop("__metadata__", None)
    spans = {name: _span(path, name, entry) for name, entry in header.items()}
    _check_cover(path, [span for span, _ in spans.values()], len(body))
    return {
        name: np.frombuffer(body, "<f4", count=(stop - start) // 4, offset=start)
        .reshape(shape)
        .astype(np.float32)
        for name, ((start, stop), shape) in spans.items()
    }


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _span(path: Path, name: str, entry: Any) -> tuple[tuple[int, int], tuple[int, ...]]:
    """Return where an array lies and its shape."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise InvalidInput(f"{path}: array '{name}' needs dtype, shape and data_offsets")
    if entry["dtype"] != "F32":
        raise InvalidInput(f"{path}: array '{name}' has type {entry['dtype']}; weft reads F32")
    shape, offsets = entry["shape"], entry["data_offsets"]
    for numbers in (shape, offsets):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise InvalidInput(
                f"{path}: array '{name}' has a shape or offsets that are not whole numbers"
            )
    if len(offsets) != 2 or offsets[1] - offsets[0] != 4 * math.prod(shape):
        raise InvalidInput(
            f"{path}: array '{name}' has shape {shape}, which does not fill its bytes {offsets}"
        )
    return (offsets[0], offsets[1]), tuple(shape)


def _check_cover(path: Path, spans: list[tuple[int, int]], size: int) -> None:
    """Arrays lie one after another and fill the file."""
    at = 0
    for start, stop in sorted(spans):
        if start != at:
            raise InvalidInput(
                f"{path}: its arrays overlap or leave a gap at byte {min(at, start)}"
            )
        at = stop
    if at != size:
        raise InvalidInput(
            f"{path}: {size} bytes of numbers, but its arrays take {at}; the file is cut off or "
            "has a tail"
        )
