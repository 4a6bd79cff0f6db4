"""Snakemake's benchmark files, and its records in ``.snakemake/metadata``."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from weft.errors import InvalidInput
from weft.formats.parsing.limits import JSON_LINE_CELLS, TASK_CELLS, check_cells, split_lines
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, parse_json, read_bytes
from weft.formats.traces.cells import Cells, number, table, whole
from weft.formats.traces.recording import MeasuredExecution, Recording, distinct

MEBIBYTE = 2.0**20


def is_benchmark(header: str) -> bool:
    """Return whether a first line is that of a benchmark file, in columns or in JSON."""
    return header.startswith("s\th:m:s") or (header.startswith("{") and '"h:m:s"' in header)


def read_benchmark(text: str, *, name: str) -> Recording:
    """Return one execution per line: the repetitions of one job.

    The rule is the column `rule_name` of extended benchmarks, else the file's name up to the
    first dot. Sizes are in MiB.
    """
    rows = _lines(text) if text.lstrip().startswith("{") else table(text, "\t", needed=("s",))
    kinds = [row.text("rule_name") or name.partition(".")[0] or name for row in rows]
    made = [
        MeasuredExecution(
            task=task,
            kind=kind,
            seconds=row.read(number, 0.0, "s"),
            memory=MEBIBYTE * row.read(number, 0.0, "max_rss"),
            cores=row.read(whole, 1, "threads"),
            output=MEBIBYTE * row.read(number, 0.0, "io_out"),
        )
        for row, kind, task in zip(rows, kinds, distinct(kinds), strict=True)
    ]
    return Recording(name, "Snakemake", tuple(made))


def _lines(text: str) -> list[Cells]:
    rows = []
    for i, line in enumerate(split_lines(text, cells=JSON_LINE_CELLS), 1):
        if line.strip():
            content = Record(parse_json(line), f"line {i}").content
            flat = {k: str(v) for k, v in content.items() if isinstance(v, int | float | str)}
            rows.append(Cells(i, flat))
    return rows


def metadata_folder(folder: Path) -> Path | None:
    """Return the folder of records, this one or that inside `.snakemake`, or None."""
    try:
        for path in (folder, folder / "metadata", folder / ".snakemake" / "metadata"):
            if path.name == "metadata" and path.is_dir():
                return path
    except OSError:  # a name that is too long
        pass
    return None


def read_metadata(folder: Path) -> Recording:
    """Return the finished jobs; a job needs those that wrote its input files.

    A record is a file per output file, named by the base64 code of its path.
    """
    place = metadata_folder(folder)
    if place is None:
        raise InvalidInput("this is a directory without Snakemake's records (.snakemake/metadata)")
    paths = sorted(p for p in place.rglob("*") if p.is_file())
    check_cells(TASK_CELLS * len(paths), f"a folder of {len(paths)} records")
    jobs: dict[tuple[str, str], list[Record]] = {}
    writer: dict[str, tuple[str, str]] = {}
    for path in paths:
        record = Record(parse_json(decode_text(read_bytes(path))), path.name)
        if record.content.get("incomplete") or "endtime" not in record:
            continue
        key = (record.text("rule"), str(record.raw("job_hash", path.name))[:60])
        jobs.setdefault(key, []).append(record)
        writer[_output(path, place)] = key
    names = dict(zip(jobs, distinct(rule for rule, _ in jobs), strict=True))
    made = []
    for key, records in jobs.items():
        inputs = dict.fromkeys(file for r in records for file in r.strings("input", ()))
        parents = dict.fromkeys(writer[f] for f in inputs if f in writer)
        start = min(r.finite("starttime") for r in records)
        made.append(
            MeasuredExecution(
                task=names[key],
                kind=key[0],
                seconds=max(r.finite("endtime") for r in records) - start,
                start=start,
                parents=tuple(names[p] for p in parents if p != key),
            )
        )
    made.sort(key=lambda e: (e.start, e.task))
    return Recording(folder.resolve().name, "Snakemake", tuple(made))


def _output(path: Path, place: Path) -> str:
    """Return the path of a record's output file; long names are split into folders."""
    parts = [part.removeprefix("@") for part in path.relative_to(place).parts]
    try:
        return base64.b64decode("".join(parts), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return path.name
