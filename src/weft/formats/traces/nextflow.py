"""Nextflow's trace file (``-with-trace``): a table of tabs, one task per line."""

from __future__ import annotations

import math
import re

from weft.formats.traces.cells import Cells, binary_size, moment, number, table, whole
from weft.formats.traces.recording import MeasuredExecution, Recording, distinct

DONE = frozenset({"COMPLETED", "CACHED"})

_DURATION = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(ms|s|m|h|d)")
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def is_nextflow(header: str) -> bool:
    """Return whether a first line is that of a trace file."""
    columns = header.split("\t")
    return "name" in columns and "status" in columns and ("realtime" in columns)


def read_nextflow(text: str, *, name: str) -> Recording:
    """Return the tasks of a trace, with readable or raw values.

    The kind of a task is its process: the column `process`, or the name without the tag in
    brackets. Tasks that failed are kept as such; the file has no dependencies.
    """
    rows = [row for row in table(text, "\t", needed=("name",)) if _seconds(row) is not None]
    finished = [row for row in rows if _done(row)]
    names = distinct(row.text("name", default="task") for row in finished)
    task = dict(zip((row.line for row in finished), names, strict=True))
    made = [_execution(row, task.get(row.line, "")) for row in rows]
    return Recording(name, "Nextflow", tuple(made))


def _done(row: Cells) -> bool:
    return row.text("status", default="COMPLETED") in DONE


def _execution(row: Cells, task: str) -> MeasuredExecution:
    title = row.text("name", default="task")
    return MeasuredExecution(
        task=task or title,
        kind=row.text("process") or title.partition(" (")[0] or title,
        seconds=_seconds(row) or 0.0,
        start=row.read(_moment, math.nan, "start", "submit"),
        host=row.text("hostname"),
        memory=row.read(binary_size, 0.0, "peak_rss", "rss"),
        cores=row.read(whole, 1, "cpus"),
        output=row.read(binary_size, 0.0, "write_bytes", "wchar"),
        done=_done(row),
    )


def _seconds(row: Cells) -> float | None:
    return row.read(duration, None, "realtime", "duration")


def duration(cell: str) -> float:
    """Read ``1m 5s``, or milliseconds where the trace is raw.

    Examples
    --------
    >>> duration("1m 5s"), duration("931ms"), duration("2500")
    (65.0, 0.931, 2.5)
    """
    if cell.isascii() and cell.isdigit() and len(cell) < 19:
        return int(cell) / 1000.0
    parts = [_DURATION.fullmatch(part) for part in cell.split(" ")]
    if len(parts) > len(_UNITS) or not all(parts):
        raise ValueError("a duration such as 1m 5s, or milliseconds")
    return sum(float(part[1]) * _UNITS[part[2]] for part in parts if part)


def _moment(cell: str) -> float:
    return number(cell) / 1000.0 if cell.isascii() and cell.isdigit() else moment(cell)
