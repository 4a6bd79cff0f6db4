"""Histories as CSV and JSON files, and measurements from traces of other engines."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput, cause
from weft.formats import Recording, load_recording
from weft.formats.parsing.source import write_file
from weft.runtime.costs import measurements as measured
from weft.runtime.costs.history import History
from weft.runtime.costs.measurements import LinkRow, Measurement, TaskRow

FORMAT = "weft-history-1"
FIELDS = (
    *("record", "kind", "device", "source", "target"),
    *("work", "data", "seconds", "output", "at", "sizes", "cold", "batch"),
)
"""Columns of the CSV form; `record` is "task" or "link"."""

MOST_BYTES = 1 << 28
"""Largest file that is imported, in bytes."""


def export_history(history: History, path: str | Path) -> int:
    """Write all measurements to a .csv or .json file; return their number."""
    path = Path(path)
    tasks, links = history.tasks, history.transfers
    if path.suffix == ".json":
        document = {
            "format": FORMAT,
            "tasks": [{**row._asdict(), "sizes": dict(row.sizes)} for row in tasks],
            "links": [row._asdict() for row in links],
        }
        write_file(path, json.dumps(document, indent=1, allow_nan=False))
    elif path.suffix == ".csv":
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, FIELDS, restval="")
        table.writeheader()
        for task in tasks:
            sizes = measured.sizes_text(task.sizes)
            table.writerow({"record": "task", **task._asdict(), "sizes": sizes})
        table.writerows({"record": "link", **link._asdict()} for link in links)
        write_file(path, text.getvalue())
    else:
        raise InvalidInput(f"{path}: a history is written as .csv or .json")
    return len(tasks) + len(links)


def import_history(history: History, path: str | Path) -> int:
    """Add measurements from a .csv, .json or .sqlite file; return how many are new.

    Measurements that the history has already are left out. A bad value refuses the whole file.
    """
    path = Path(path)
    if path.is_dir():
        raise InvalidInput(f"{path}: this is a directory; give a file")
    if not path.is_file():
        raise InvalidInput(f"{path}: there is no such file")
    if path.suffix in (".sqlite", ".db"):
        other = History(path)
        tasks, links = other.tasks, other.transfers
    elif path.suffix in (".csv", ".json"):
        tasks, links = _rows(path)
    else:
        raise InvalidInput(f"{path}: a history is read from .csv, .json or .sqlite")
    here: set[Any] = {*history.tasks, *history.transfers}
    new_tasks = [row for row in tasks if row not in here]
    new_links = [row for row in links if row not in here]
    history.add_rows(new_tasks, new_links)
    return len(new_tasks) + len(new_links)


def _rows(path: Path) -> tuple[list[TaskRow], list[LinkRow]]:
    if path.stat().st_size > MOST_BYTES:
        raise InvalidInput(f"{path}: has more than {MOST_BYTES} bytes; import it in parts")
    try:
        text = path.read_text(encoding="utf-8-sig")
        records = _from_csv(text) if path.suffix == ".csv" else _from_json(text)
    except (OSError, ValueError, RecursionError, csv.Error) as error:
        raise InvalidInput(f"{path}: is no history: {cause(error)}") from None
    tasks, links = [], []
    for number, record in enumerate(records, 1):
        try:
            if record.get("record") == "link":
                links.append(_row(LinkRow, record))
            else:
                tasks.append(_row(TaskRow, record))
        except (ValueError, TypeError, KeyError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else error
            raise InvalidInput(f"{path}: measurement {number}: {reason}") from None
    return tasks, links


def _from_csv(text: str) -> list[dict[str, Any]]:
    table = csv.DictReader(text.splitlines(), strict=True)
    if not {"kind", "device", "seconds"} <= set(table.fieldnames or ()):
        raise ValueError("it needs the columns kind, device and seconds")
    return [dict(row) for row in table]


def _from_json(text: str) -> list[dict[str, Any]]:
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ValueError(f"its format is not '{FORMAT}'")
    records = []
    for name in ("tasks", "links"):
        part = document.get(name, [])
        if not isinstance(part, list) or not all(isinstance(row, dict) for row in part):
            raise ValueError(f"'{name}' must be a list of objects")
        records += [{**row, "record": name.removesuffix("s")} for row in part]
    return records


def _row(make: Any, record: dict[str, Any]) -> Any:
    """Return a row of a record; unknown columns are left out."""
    needed = ("kind", "device", "source", "target", "seconds")
    values: list[Any] = []
    for name in make._fields:
        given = record.get(name)
        if name in needed and given in (None, ""):
            raise KeyError(name)
        if name == "sizes":
            values.append(
                measured.parse_sizes(given if isinstance(given, str) else json.dumps(given or {}))
            )
        elif name in needed[:4]:
            values.append(given)
        else:
            missing = make._field_defaults.get(name, 0.0)
            values.append(missing if given in (None, "") else _number(given, name))
    return measured.checked(make(*values))


def _number(value: Any, name: str) -> float:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {value!r}")
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, not {str(value)[:80]!r}") from None


def measurements(recording: Recording, *, device: str | None = None) -> list[Measurement]:
    """Return a measurement per successful execution; `device` replaces its kind.

    Examples
    --------
    >>> from weft.formats import MeasuredExecution
    >>> done = MeasuredExecution("align-1", "align", 12.5, output=1e6)
    >>> measurements(Recording("run", "Nextflow", (done,)), device="A100")[0].device
    'A100'
    """
    return [
        Measurement(e.kind, device or e.device, e.seconds, output=e.output)
        for e in recording.executions
        if e.done
    ]


def import_recording(history: History, path: str | Path, *, device: str | None = None) -> int:
    """Add the executions of a trace of another engine; return their number.

    A file with a bad value adds nothing. The same file added twice counts twice.
    """
    found = measurements(load_recording(path), device=device)
    history.add(found)
    return len(found)
