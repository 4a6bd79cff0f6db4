"""The table of file formats that `load` and `save` go through, a row for each."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from weft.formats.chrome_trace import write_chrome_trace
from weft.formats.graphs.dax import read_dax, write_dax
from weft.formats.graphs.dot import read_dot, write_dot
from weft.formats.graphs.static_graph import is_static_graph, read_static_graph
from weft.formats.graphs.stg import read_stg
from weft.formats.graphs.task_table import read_task_table
from weft.formats.graphs.taskgraph import FORMAT, read_taskgraph
from weft.formats.graphs.wfformat import is_wfformat, machines_of, read_wfformat, write_wfformat
from weft.formats.holding import GRAPH
from weft.formats.native.cluster_toml import read_cluster_toml, write_cluster_toml
from weft.formats.native.weft_json import write_json
from weft.formats.native.weft_npz import ZIP_MAGIC, read_npz, write_npz
from weft.formats.native.weft_schema import CODECS, decode, encode
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, parse_json, read_bytes, suffix_of
from weft.formats.traces.chrome_events import is_chrome, read_chrome
from weft.formats.traces.dask_stream import is_task_stream, read_report, read_task_stream
from weft.formats.traces.nextflow import is_nextflow, read_nextflow
from weft.formats.traces.otlp import is_otlp, is_otlp_lines, read_otlp, read_otlp_lines
from weft.formats.traces.recording import Recording
from weft.formats.traces.slurm import is_sacct, is_sacct_json, read_sacct, read_sacct_json
from weft.formats.traces.snakemake import (
    is_benchmark,
    metadata_folder,
    read_benchmark,
    read_metadata,
)
from weft.model import Cluster, Problem, Schedule, Trace, Workflow, Workload
from weft.typed import typed_dataclass

Savable = Problem | Workflow | Cluster | Workload | Schedule | Trace

NOUNS: dict[type, str] = {kind: word for kind, (word, _, _) in CODECS.items()}
"""Objects that weft saves, and what they are called."""

SYNTAX = {
    ".toml": "toml",
    ".stg": "stg",
    ".csv": "csv",
    ".tsv": "csv",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
    ".dax": "xml",
    ".xml": "xml",
    ".dot": "dot",
    ".gv": "dot",
}
"""Suffix -> syntax; the syntax of other files is found by their content."""

MOST_HEADER = 10_000
"""Most characters of a header line: the first line of a table, with the names of columns."""

_DOT = re.compile(
    # Possessive and atomic, so that the time is linear in the length of the text.
    r"\s*+(?:(?://[^\n]*+|(?>/\*.*?\*/)|#[^\n]*+)\s*+)*+(?:strict\s++)?(?:di)?graph\b",
    re.DOTALL | re.IGNORECASE,
)
_XML = re.compile(r"\s*+<(?:\?xml|adag)\b")
_STG = re.compile(r"\s*+\d++[^\S\n]*+\n\s*+0\s")


class File:
    """The content of a file whose format is not known yet."""

    def __init__(self, path: Path, *, tile_bytes: float = 0.0) -> None:
        self.folder = path if metadata_folder(path) is not None else None
        self.content = b"" if self.folder is not None else read_bytes(path)
        self.tile_bytes = tile_bytes
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
        """One of `record` (JSON or NPZ), `toml`, `xml` and so on; None if unknown."""
        if self.zipped or self.folder is not None:
            return "record" if self.zipped else "folder"
        if self.suffix in SYNTAX:
            return SYNTAX[self.suffix]
        if _XML.match(self.text):
            return "xml"
        if _DOT.match(self.text):
            return "dot"
        if self.suffix == ".json" or self.text.lstrip()[:1] in {"{", "["}:
            return "record"
        return "stg" if _STG.match(self.text) else None

    @cached_property
    def header(self) -> str:
        """The first line of a text, which may name columns; empty if there is no text."""
        plain = self.syntax in {None, "csv", "jsonl"} and self.folder is None
        return self.text[:MOST_HEADER].lstrip().split("\n", 1)[0].rstrip("\r") if plain else ""

    @cached_property
    def document(self) -> Any:
        """The content of a JSON or NPZ file; None for all others."""
        if self.syntax != "record":
            return None
        return read_npz(self.content) if self.zipped else parse_json(self.text)

    @cached_property
    def record(self) -> Record:
        """The content as keys and values."""
        return Record(self.document)

    def tagged(self, tag: str) -> bool:
        """Return whether the value of the key `format` begins with a tag."""
        record = isinstance(self.document, dict) and "format" in self.record
        return record and self.record.text("format").startswith(tag)

    def untagged(self, test: Callable[[Record], bool]) -> bool:
        """Return whether a record without the key `format` passes a test."""
        record = isinstance(self.document, dict) and "format" not in self.record
        return record and test(self.record)


@typed_dataclass(frozen=True)
class Format:
    """One file format; without `read` it is only written, without `write` only read.

    `seconds`: the file gives work in seconds on the recorded machine, which has speed 1. `machines`
    returns the machines that the file names beside its workflow. `keeps`: the fields of a workflow
    that the format holds, if these are not all; `save` refuses a workflow that uses others.
    """

    name: str
    suffixes: tuple[str, ...]
    holds: tuple[type, ...]
    summary: str
    recognise: Callable[[File], bool] = lambda file: False  # noqa: ARG005  # recognises none
    read: Callable[[File], object] | None = None
    write: Callable[[Any, Problem | None], bytes] | None = None
    machines: Callable[[File, Workflow], Cluster | None] = lambda *_: None
    seconds: bool = False
    keeps: frozenset[str] | None = None


def _named_record(thing: Savable, problem: Problem | None) -> dict[str, Any]:
    """Encode an object; a schedule of a problem gets names of tasks and devices."""
    if problem is None or not isinstance(thing, Schedule):
        return encode(thing)
    return encode(thing) | thing.names(problem)


def _lines_or(
    read_lines: Callable[..., object], read_document: Callable[[File], object]
) -> Callable[[File], object]:
    """Return a reader of files that are lines of text or one JSON document."""
    return lambda file: (
        read_lines(file.text, name=file.name) if file.document is None else read_document(file)
    )


def _graph_format(
    name: str,
    suffixes: tuple[str, ...],
    summary: str,
    read: Callable[..., object],
    write: Callable[[Workflow], bytes] | None = None,
    *,
    of: str = "text",
    seconds: bool = False,
    keeps: frozenset[str] = GRAPH,
) -> Format:
    """Return a format of workflows without machines; `of` is what `read` receives."""
    return Format(
        name,
        suffixes,
        (Workflow,),
        summary,
        recognise=lambda file: file.syntax == SYNTAX[suffixes[0]],
        read=lambda file: read(getattr(file, of), name=file.name),
        write=None if write is None else lambda thing, _: write(thing),
        seconds=seconds,
        keeps=keeps,
    )


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
    _graph_format(
        "dot",
        (".dot", ".gv"),
        "Workflows as Graphviz graphs; read and written.",
        read_dot,
        write_dot,
        keeps=GRAPH | {"durations"},
    ),
    _graph_format("stg", (".stg",), "Workflows of the Standard Task Graph Set; read.", read_stg),
    Format(
        "nextflow-trace",
        (".txt", ".tsv"),
        (Recording,),
        "Nextflow's trace.txt (-with-trace), readable or raw; read.",
        recognise=lambda file: is_nextflow(file.header),
        read=lambda file: read_nextflow(file.text, name=file.name),
        seconds=True,
    ),
    Format(
        "slurm-sacct",
        (".txt", ".csv", ".json"),
        (Recording,),
        "Slurm's accounts: sacct --parsable2 or sacct --json; read.",
        recognise=lambda file: is_sacct(file.header) or file.untagged(is_sacct_json),
        read=_lines_or(read_sacct, lambda file: read_sacct_json(file.record, name=file.name)),
        seconds=True,
    ),
    Format(
        "snakemake",
        (".tsv", ".txt", ".jsonl"),
        (Recording,),
        "Snakemake's benchmark files, and a folder .snakemake with its records; read.",
        recognise=lambda file: file.folder is not None or is_benchmark(file.header),
        read=lambda file: (
            read_benchmark(file.text, name=file.name)
            if file.folder is None
            else read_metadata(file.folder)
        ),
        seconds=True,
    ),
    Format(
        "dask-stream",
        (".json", ".html"),
        (Recording,),
        "Dask's task stream: get_task_stream() as JSON, or a performance report; read.",
        recognise=lambda file: file.syntax == "html" or is_task_stream(file.document),
        read=_lines_or(read_report, lambda file: read_task_stream(file.document, name=file.name)),
        seconds=True,
    ),
    Format(
        "otlp",
        (".json", ".jsonl"),
        (Recording,),
        "OpenTelemetry spans in OTLP JSON, in one document or one per line; read.",
        recognise=lambda file: is_otlp_lines(file.header) or file.untagged(is_otlp),
        read=_lines_or(read_otlp_lines, lambda file: read_otlp([file.record], name=file.name)),
        seconds=True,
    ),
    _graph_format(
        "task-table",
        (".csv", ".tsv"),
        "Workflows as tables, one row per task: task, after, seconds:KIND, bytes; read.",
        read_task_table,
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
        (".wfformat.json",),
        (Workflow, Problem),
        "Workflows of WfCommons, with machines: WfFormat 1.5 and 1.6 read; 1.5 read and written.",
        recognise=lambda file: file.untagged(is_wfformat),
        read=lambda file: read_wfformat(file.record, name=file.name),
        write=lambda thing, _: write_wfformat(thing),
        machines=lambda file, workflow: machines_of(file.record, workflow),
        seconds=True,
        keeps=GRAPH,
    ),
    Format(
        "wfformat-1.6",
        (".wfformat-1.6.json",),
        (Workflow, Problem),
        "WfFormat 1.6, which has the keys of 1.5; written.",
        write=lambda thing, _: write_wfformat(thing, version="1.6"),
        keeps=GRAPH,
    ),
    _graph_format(
        "dax",
        (".dax", ".xml"),
        "Workflows of Pegasus (DAX, XML) with run times; read and written.",
        read_dax,
        write_dax,
        of="content",
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
        "Trace events of ui.perfetto.dev and chrome://tracing; read as a recording, and written.",
        recognise=lambda file: is_chrome(file.document),
        read=lambda file: read_chrome(file.document, name=file.name),
        write=write_chrome_trace,
        seconds=True,
    ),
)
FORMATS: dict[str, Format] = {row.name: row for row in _ROWS}
"""Every file format by name."""
