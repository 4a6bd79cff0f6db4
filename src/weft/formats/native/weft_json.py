"""weft's schema as strict JSON: a line per column, equal bytes for equal objects."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_json(record: dict[str, Any]) -> bytes:
    r"""Return the text of a nested dict of columns.

    Examples
    --------
    >>> print(write_json({"work": np.array([1.0, np.inf]), "name": "a"}).decode(), end="")
    {
     "work": [1.0,"inf"],
     "name": "a"
    }
    """
    return (_text(record, 1) + "\n").encode("ascii")


def _text(value: object, depth: int) -> str:
    if isinstance(value, dict):
        lines = [
            f"{' ' * depth}{json.dumps(key)}: {_text(entry, depth + 1)}"
            for key, entry in value.items()
        ]
        return "{\n" + ",\n".join(lines) + "\n" + " " * (depth - 1) + "}" if lines else "{}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        lines = [" " * depth + _text(entry, depth + 1) for entry in value]
        return "[\n" + ",\n".join(lines) + "\n" + " " * (depth - 1) + "]"
    return json.dumps(
        _plain(value) if isinstance(value, np.ndarray) else value,
        separators=(",", ":"),
        allow_nan=False,
    )


def _plain(column: NDArray[Any]) -> Any:
    """Return Python numbers, with null for NaN and "inf" for infinity."""
    if column.dtype.kind != "f" or np.isfinite(column).all():
        return column.tolist()
    if column.ndim > 1:
        return [_plain(row) for row in column]
    return _spelled(float(column)) if column.ndim == 0 else [_spelled(x) for x in column.tolist()]


def _spelled(x: float) -> float | str | None:
    if np.isnan(x):
        return None
    return x if np.isfinite(x) else ("inf" if x > 0 else "-inf")
