"""Rows of the history: measured executions and transfers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple

from weft.arguments import as_float
from weft.runtime.costs.keys import Sizes


@dataclass(frozen=True)
class Measurement:
    """One finished task.

    `cold`: the first of its kind on its worker; `batch`: tasks that ran together, in `seconds`.
    """

    kind: str
    device: str
    seconds: float
    work: float = 0.0
    data: float = 0.0
    output: float = 0.0
    sizes: Sizes = ()
    cold: bool = False
    batch: int = 1


class TaskRow(NamedTuple):
    """A measured task in the file; `at` is the time of writing, seconds since 1970."""

    kind: str
    device: str
    work: float
    data: float
    seconds: float
    output: float
    at: float
    sizes: Sizes
    cold: float = 0.0
    batch: float = 1.0


class LinkRow(NamedTuple):
    """A measured transfer in the file."""

    source: str
    target: str
    data: float
    seconds: float
    at: float


def usual_rows(rows: Sequence[TaskRow], *, batches: bool = False) -> list[TaskRow]:
    """Return the warm executions; those in batches only with `batches`.

    Of a kind and device without such executions, return all.

    Examples
    --------
    >>> first = TaskRow("f", "cpu", 0, 0, 3.0, 0, 0, (), cold=1.0)
    >>> later = TaskRow("f", "cpu", 0, 0, 1.0, 0, 0, ())
    >>> usual_rows([first, later]) == [later], usual_rows([first]) == [first]
    (True, True)
    """
    usual = [row for row in rows if not row.cold and (batches or row.batch == 1)]
    if len(usual) == len(rows):
        return usual
    known = {(row.kind, row.device) for row in usual}
    chosen = set(map(id, usual))
    return [row for row in rows if id(row) in chosen or (row.kind, row.device) not in known]


def sizes_text(sizes: Sizes) -> str:
    """Return sizes as text, empty if there are none."""
    return json.dumps(dict(sizes)) if sizes else ""


def parse_sizes(text: str) -> Sizes:
    """Return the sizes in a text written by `sizes_text`; `ValueError` if it is none."""
    if not text:
        return ()
    try:
        values = json.loads(text)
    except RecursionError:
        values = None
    if not isinstance(values, dict) or not all(
        type(v) in (int, float) and isfinite(as_float(v)) for v in values.values()
    ):
        raise ValueError(f"sizes must be an object of numbers, not {text[:80]!r}")
    return tuple((name, float(value)) for name, value in values.items())


def checked(row: Any) -> Any:
    """Return a row; `ValueError` if a value has another type or is out of range."""
    for name, value in zip(row._fields, row, strict=True):
        if name == "sizes":
            continue
        if name in ("kind", "device", "source", "target"):
            if type(value) is not str:
                raise ValueError(f"{name} must be a text, not {value!r}")
        elif type(value) not in (int, float) or not 0 <= value < float("inf"):
            raise ValueError(f"{name} must be a finite number, zero or more, not {value!r}")
    return row
