"""The table of file formats that `load` and `save` go through.

A new format is a new row: how to recognise a file, how to read it, how to write it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.formats.chrome_trace import refuse_strangers, write_chrome_trace
from weft.formats.graphs.dot import read_dot, write_dot
from weft.formats.graphs.static_graph import is_static_graph, read_static_graph
from weft.formats.graphs.stg import read_stg
from weft.formats.graphs.task_table import read_task_table
from weft.formats.graphs.taskgraph import FORMAT, read_taskgraph
from weft.formats.graphs.wfformat import is_wfformat, read_wfformat
from weft.formats.native.cluster_toml import read_cluster_toml, write_cluster_toml
from weft.formats.native.weft_json import write_json
from weft.formats.native.weft_npz import ZIP_MAGIC, read_npz, write_npz
from weft.formats.native.weft_schema import decode, encode
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, parse_json, read_bytes, suffix_of
from weft.model import Cluster, Problem, Schedule, Trace, Workflow, Workload

Savable = Problem | Workflow | Cluster | Workload | Schedule | Trace

NOUNS: dict[type, str] = {
    Problem: "problem",
    Workflow: "workflow",
    Cluster: "cluster",
    Workload: "workload",
    Schedule: "schedule",
    Trace: "trace",
}

_DOT = re.compile(
    # Possessive and atomic, so that the time is linear in the length of the text.
    r"\s*+(?:(?://[^\n]*+|(?>/\*.*?\*/)|#[^\n]*+)\s*+)*+(?:strict\s++)?(?:di)?graph\b",
    re.DOTALL | re.IGNORECASE,
)
_STG = re.compile(r"\s*+\d++[^\S\n]*+\n\s*+0\s")


class File:
    """The content of a file whose format is not known yet."""

    def __init__(self, path: Path, *, tile_bytes: float = 0.0) -> None:
        self.content, self.tile_bytes = read_bytes(path), tile_bytes
        plain = path.name.removesuffix(".gz")
        self.name = plain.removesuffix(Path(plain).suffix)
        self.zipped = self.content.startswith(ZIP_MAGIC)
        self.suffix = "" if self.zipped else suffix_of(path)

    @cached_property
    def text(self) -> str:
        """The content as text."""
        return decode_text(self.content)

    @cached_property
    def syntax(self) -> str | None:
        """One of `record` (JSON or NPZ), `toml`, `stg`, `csv` and `dot`; None if unknown."""
        if self.zipped:
            return "record"
        if self.suffix in {".toml", ".stg"}:
            return self.suffix[1:]
        if self.suffix in {".csv", ".tsv"}:
            return "csv"
        if self.suffix in {".dot", ".gv"} or _DOT.match(self.text):
            return "dot"
        if self.suffix == ".json" or self.text.lstrip()[:1] in {"{", "["}:
            return "record"
        return "stg" if _STG.match(self.text) else None

    @cached_property
    def record(self) -> Record:
        """The content as keys and values."""
        return Record(read_npz(self.content) if self.zipped else parse_json(self.text))

    def tagged(self, tag: str) -> bool:
        """Whether the value of the key `format` begins with a tag."""
        record = self.syntax == "record" and "format" in self.record
        return record and self.record.text("format").startswith(tag)

    def untagged(self, test: Callable[[Record], bool]) -> bool:
        """Whether a record without the key `format` passes a test."""
        return self.syntax == "record" and "format" not in self.record and test(self.record)


@dataclass(frozen=True)
class Format:
    """One file format; without `read` it is only written, without `write` only read.

    `seconds`: its work is in seconds on the machine of the record, which has speed 1.
    """

    name: str
    suffixes: tuple[str, ...]
    holds: tuple[type, ...]
    summary: str
    recognise: Callable[[File], bool] = lambda file: False  # noqa: ARG005
    read: Callable[[File], object] | None = None
    write: Callable[[Any, Problem | None], bytes] | None = None
    seconds: bool = False


def _named_record(thing: Savable, problem: Problem | None) -> dict[str, Any]:
    """Encode an object; a schedule gets the names of its tasks and devices if they are known."""
    if problem is None or not isinstance(thing, Schedule):
        return encode(thing)
    refuse_strangers(thing, problem)
    tasks = [problem.workflow.task_name(t) for t in thing.task.tolist()]
    devices = [problem.cluster.names[d] for d in thing.device.tolist()]
    return encode(thing) | {"task_name": tasks, "device_name": devices}


def _workflow_of(thing: Workflow | Problem) -> Workflow:
    return thing.workflow if isinstance(thing, Problem) else thing


_ROWS = (
    Format(
        "weft-json",
        (".json",),
        tuple(NOUNS),
        "Every object of weft as readable JSON; read and written.",
        recognise=lambda file: not file.zipped and file.tagged("weft-"),
        read=lambda file: decode(file.record),
        write=lambda thing, problem: write_json(_named_record(thing, problem)),
    ),
    Format(
        "weft-npz",
        (".npz",),
        tuple(NOUNS),
        "Every object of weft in binary columns; read and written.",
        recognise=lambda file: file.zipped and file.tagged("weft-"),
        read=lambda file: decode(file.record),
        write=lambda thing, problem: write_npz(_named_record(thing, problem)),
    ),
    Format(
        "cluster-toml",
        (".toml",),
        (Cluster,),
        "Clusters written by hand, with units (GB/s, GiB); read and written.",
        recognise=lambda file: file.syntax == "toml",
        read=lambda file: read_cluster_toml(file.text, name=file.name),
        write=lambda thing, _: write_cluster_toml(thing),
    ),
    Format(
        "dot",
        (".dot", ".gv"),
        (Workflow, Problem),
        "Workflows as Graphviz graphs; read and written.",
        recognise=lambda file: file.syntax == "dot",
        read=lambda file: read_dot(file.text, name=file.name),
        write=lambda thing, _: write_dot(_workflow_of(thing)),
    ),
    Format(
        "stg",
        (".stg",),
        (Workflow,),
        "Workflows of the Standard Task Graph Set; read.",
        recognise=lambda file: file.syntax == "stg",
        read=lambda file: read_stg(file.text, name=file.name),
    ),
    Format(
        "task-table",
        (".csv", ".tsv"),
        (Workflow,),
        "Workflows as tables, one row per task: task, after, seconds:KIND, bytes; read.",
        recognise=lambda file: file.syntax == "csv",
        read=lambda file: read_task_table(file.text, name=file.name),
        seconds=True,
    ),
    Format(
        "taskgraph-v1",
        (".json",),
        (Workflow,),
        "Workflows in columns, with durations per device kind; read.",
        recognise=lambda file: file.tagged(FORMAT) and file.record.text("format") == FORMAT,
        read=lambda file: read_taskgraph(file.record, tile_bytes=file.tile_bytes),
    ),
    Format(
        "wfformat",
        (".json",),
        (Workflow,),
        "Workflows of WfCommons (WfFormat 1.5); read.",
        recognise=lambda file: file.untagged(is_wfformat),
        read=lambda file: read_wfformat(file.record, name=file.name),
        seconds=True,
    ),
    Format(
        "static-graph",
        (".json",),
        (Problem,),
        "Cost matrices and edges of the scheduling literature; read.",
        recognise=lambda file: file.untagged(is_static_graph),
        read=lambda file: read_static_graph(file.record, name=file.name),
    ),
    Format(
        "chrome-trace",
        (".chrome.json",),
        (Schedule, Trace),
        "Schedules and traces for ui.perfetto.dev and chrome://tracing; written.",
        write=write_chrome_trace,
    ),
)
FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}
"""Every file format by name."""
