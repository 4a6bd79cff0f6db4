"""Dask's task stream as JSON (``get_task_stream()``), and performance reports."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.parsing.limits import RECORD_CELLS, check_cells, json_cells
from weft.formats.parsing.record import Record, records
from weft.formats.parsing.source import parse_json
from weft.formats.traces.recording import MeasuredExecution, Recording

STREAM = ("key", "start", "duration", "worker", "worker_thread", "alpha")
"""Columns of the task stream in a report."""

_SCRIPT = re.compile(r"<script\b([^>]{0,400}+)>", re.IGNORECASE)
_HASH = re.compile(r"[0-9a-f]{8,}|\d+")


def is_task_stream(document: object) -> bool:
    """Return whether a JSON document is a list of messages of the task stream."""
    first = document[0] if isinstance(document, list) and document else None
    return isinstance(first, dict) and "startstops" in first


def read_task_stream(document: list[Any], *, name: str) -> Recording:
    """Return the tasks; their seconds are those of computing, without transfers."""
    executions = [made for m in records(document, "") if (made := _execution(m)) is not None]
    return Recording(name, "Dask", tuple(executions))


def _execution(message: Record) -> MeasuredExecution | None:
    spans = [
        (r.finite("start"), r.finite("stop"))
        for r in message.children("startstops")
        if r.text("action") == "compute"
    ]
    if not spans:
        return None
    key, worker = message.text("key"), message.text("worker", "")
    thread = message.raw("thread", "")
    return MeasuredExecution(
        task=key,
        kind=kind_of(key),
        seconds=sum(stop - start for start, stop in spans),
        start=min(start for start, _ in spans),
        host=worker,
        lane=thread if isinstance(thread, str) else shown(thread),
        output=message.finite("nbytes", 0.0),
        done=message.text("status", "OK") == "OK",
    )


def kind_of(key: str) -> str:
    """Return the name of a Dask key without its hash.

    Examples
    --------
    >>> kind_of("load-2a8f6812-43f1-4234-ad26-44c5e7f161c9"), kind_of("('sum-part-1f2e3d4c5b', 0)")
    ('load', 'sum-part')
    """
    words = key.strip("('\"").split("'", 1)[0].split("-")
    for i, word in enumerate(words[1:], 1):
        if _HASH.fullmatch(word):
            words = words[:i]
            break
    return "-".join(words) or key


def read_report(text: str, *, name: str) -> Recording:
    """Return the tasks of the task stream in a performance report."""
    for document in _documents(text):
        for columns in _tables(document):
            return Recording(name, "Dask", tuple(_of_columns(columns)))
    raise InvalidInput("is no performance report of Dask: it holds no task stream")


def _documents(text: str) -> Iterator[Any]:
    """Return the JSON inside scripts."""
    cells = 0
    for match in _SCRIPT.finditer(text):
        if "application/json" in match[1]:
            end = text.find("</script", match.end())
            content = text[match.end() : end if end >= 0 else len(text)]
            cells += RECORD_CELLS + json_cells(content.encode())
            check_cells(cells, "a report of this size")
            yield parse_json(content)


def _tables(document: Any) -> Iterator[dict[str, Any]]:
    """Yield the tables with the columns of a task stream, of Bokeh 2 or 3."""
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            columns = _columns(part)
            if columns.keys() >= set(STREAM):
                yield columns
                continue
            waiting += list(part.values())[::-1]
        elif isinstance(part, list):
            waiting += part[::-1]


def _columns(part: dict[str, Any]) -> dict[str, Any]:
    entries = part.get("entries")
    if part.get("type") != "map" or not isinstance(entries, list):
        return part
    pairs = [e for e in entries if isinstance(e, list) and len(e) == 2 and isinstance(e[0], str)]
    return dict(pairs)


def _of_columns(columns: dict[str, Any]) -> Iterator[MeasuredExecution]:
    plain = {name: _list(columns[name], name) for name in (*STREAM, "color") if name in columns}
    count = len(plain["key"])
    for name, cells in plain.items():
        if len(cells) != count:
            raise InvalidInput(f"column '{name}' has {len(cells)} rows, others have {count}")
    check_cells(RECORD_CELLS * count, f"a task stream of {count} rows")
    for i in range(count):
        row = Record({name: cells[i] for name, cells in plain.items()}, f"row {i}")
        if row.finite("alpha") < 1:  # Dask draws transfers, disk and deserialising pale
            continue
        seconds = row.finite("duration") / 1000.0
        key = row.text("key")
        yield MeasuredExecution(
            task=key,
            kind=kind_of(key),
            seconds=seconds,
            start=row.finite("start") / 1000.0 - seconds / 2,  # the chart has the middle
            host=row.text("worker"),
            lane=row.text("worker_thread"),
            done=row.content.get("color") != "black",
        )


def _list(column: Any, name: str) -> list[Any]:
    if isinstance(column, list):
        return column
    if isinstance(column, dict):
        array = column.get("array")
        packed = column.get("__ndarray__") or (isinstance(array, dict) and array.get("data"))
        if isinstance(packed, str) and column.get("dtype") in {"float64", "int32", "float32"}:
            kind = np.dtype(column["dtype"])
            kind = kind.newbyteorder(">" if column.get("order") == "big" else "<")
            try:
                return list(np.frombuffer(base64.b64decode(packed, validate=True), kind).tolist())
            except (binascii.Error, ValueError):
                pass
    raise InvalidInput(f"column '{name}' of the task stream is {shown(column)}; it must be a list")
