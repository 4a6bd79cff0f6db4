"""Variants of tasks: records of the JSON schema, and TOML files for any workflow.

[[variants]]
of = "classify"        # a task, or a kind of tasks
name = "small"
seconds = 2.0          # or factor = 0.5; or seconds_on = {cpu = 2.0, gpu = "300 ms"}
cores = 2              # memory = "4 GB", needs = {licence = 1}
accuracy = 0.81
cost = 0.01            # devices = ["gpu"]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.formats.native.cluster_toml import parse_toml
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, naming, read_bytes
from weft.model import Variant

KEYS = (
    *("of", "name", "seconds", "seconds_on", "factor", "cores", "memory", "needs"),
    *("accuracy", "cost", "devices"),
)

TOO_MANY_CORES = 2**31


def read_variants(rows: Sequence[Record]) -> dict[str, tuple[Variant, ...]]:
    """Return the variants of each task or kind."""
    found: dict[str, tuple[Variant, ...]] = {}
    for row in rows:
        row.only(KEYS)
        name = row.text("of")
        found[name] = (*found.get(name, ()), _variant(row))
    return found


def load_variants(path: str | Path) -> dict[str, tuple[Variant, ...]]:
    """Read a TOML file of variants."""
    with naming(str(path)):
        record = Record(parse_toml(decode_text(read_bytes(Path(path)))))
        record.only(("variants",))
        return read_variants(record.children("variants"))


def _variant(row: Record) -> Variant:
    seconds = _number(row, "seconds", "seconds")
    cores = _number(row, "cores")
    if cores is not None and not (cores.is_integer() and cores < TOO_MANY_CORES):
        raise InvalidInput(f"{row.path('cores')} is {cores:g}; it must be a whole number of cores")
    accuracy, factor, cost = (_number(row, key) for key in ("accuracy", "factor", "cost"))
    return Variant(
        row.text("name"),
        seconds=_amounts(row, "seconds_on", "seconds") if "seconds_on" in row else seconds,
        factor=1.0 if factor is None else factor,
        cores=None if cores is None else int(cores),
        memory=_number(row, "memory", "bytes"),
        needs=_amounts(row, "needs", "bytes") if "needs" in row else {},
        accuracy=np.nan if accuracy is None else accuracy,
        cost=0.0 if cost is None else cost,
        devices=tuple(row.strings("devices", ())),
    )


def _number(row: Record, key: str, unit: str = "number") -> float | None:
    """Return a number, which NPZ files hold as an array; None if it is not given."""
    if key not in row:
        return None
    value: Any = row.raw(key)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    return quantity(value, unit, row.path(key))


def _amounts(row: Record, key: str, unit: str) -> dict[str, float]:
    given = row.child(key)
    return {name: _number(given, name, unit) or 0.0 for name in given.content}
