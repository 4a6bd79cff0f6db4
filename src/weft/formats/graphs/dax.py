"""DAX, the XML of Pegasus workflows: jobs, their files, and their order.

The parser stops at a document type, so no entity is ever declared or expanded.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

import numpy as np

from weft.arguments import shown, unique_names
from weft.errors import InvalidInput, UnknownName, WeftError
from weft.formats.graphs.taskgraph import number_kinds, whole_cores
from weft.formats.graphs.wfformat import shared_bytes
from weft.formats.holding import REMEDY, refuse_empty_names
from weft.formats.parsing.limits import MAX_DEPTH, MAX_NUMBER_LENGTH, check_cells, check_graph
from weft.formats.parsing.quantity import quantity
from weft.model import Workflow
from weft.registry import closest

RUNTIME = frozenset({"runtime", "time"})
"""Keys of profiles and metadata that hold the run time of a job, in seconds."""

MEBIBYTE = 2.0**20
"""Bytes per unit of the profile "memory"."""

ELEMENT_CELLS, ATTRIBUTE_CELLS = 64, 12
"""Cells that an element and an attribute count for: a quarter of a million take a second."""

NAMESPACE = "http://pegasus.isi.edu/schema/DAX"

_NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that no document of XML 1.0 holds (section 2.2)."""


class _DaxJob(NamedTuple):
    name: str
    kind: str
    seconds: list[float]
    cores: list[float]
    memory: list[float]
    reads: list[str]
    writes: list[str]


class _Reader:
    """Collects jobs and dependencies while the parser runs."""

    def __init__(self, parser: expat.XMLParserType) -> None:
        self._parser = parser
        self.jobs: list[_DaxJob] = []
        self.after: dict[tuple[str, str], None] = {}
        self.sizes: dict[str, float] = {}
        self.name = ""
        self._path: list[str] = []
        self._child = self._key = self._text = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        self._path.append(tag)
        if len(self._path) > MAX_DEPTH:
            raise InvalidInput(f"is nested too deeply to be read: at most {MAX_DEPTH} elements")
        inside = self._path[-2] if len(self._path) > 1 else ""
        if not inside:
            if tag != "adag":
                raise InvalidInput(f"is XML, but no DAX: its root is {shown(tag)}, not 'adag'")
            self.name = attributes.get("name", "")
        elif tag in {"job", "dax", "dag"}:
            self._job(attributes)
        elif tag == "uses" and inside in {"job", "dax", "dag"}:
            self._uses(attributes)
        elif tag == "child":
            self._child = _needed(attributes, "ref", tag)
        elif tag == "parent" and inside == "child":
            self.after[_needed(attributes, "ref", tag), self._child] = None
        elif tag in {"profile", "metadata"} and inside == "job":
            self._key, self._text = attributes.get("key", ""), ""
            # Only for these elements: the parser calls it for every line end and reference of a
            # text.
            self._parser.CharacterDataHandler = self.characters

    def characters(self, text: str) -> None:
        if self._key and len(self._text) < MAX_NUMBER_LENGTH:
            self._text += text
        else:  # no more than `quantity` reads
            self._parser.CharacterDataHandler = None

    def end(self, tag: str) -> None:
        self._path.pop()
        if self._key and tag.rpartition(":")[2] in {"profile", "metadata"}:
            key, self._key = self._key, ""
            if key in RUNTIME or key in {"cores", "memory"}:
                job = self.jobs[-1]
                value = quantity(self._text, "seconds", f"{key} of job {shown(job.name)}")
                {"cores": job.cores, "memory": job.memory}.get(key, job.seconds).append(value)

    def _job(self, attributes: dict[str, str]) -> None:
        name = _needed(attributes, "id", "job")
        kind = attributes.get("name") or attributes.get("file") or name
        job = _DaxJob(name, kind, [], [], [], [], [])
        if "runtime" in attributes:
            what = f"runtime of job {shown(name)}"
            job.seconds.append(quantity(attributes["runtime"], "seconds", what))
        self.jobs.append(job)

    def _uses(self, attributes: dict[str, str]) -> None:
        file = attributes.get("name") or _needed(attributes, "file", "uses")
        if "size" in attributes:
            size = quantity(attributes["size"], "bytes", f"size of file {shown(file)}")
            if not 0 <= size < math.inf:
                raise InvalidInput(f"size of file {shown(file)} is {size:g}; it must be 0 or more")
            self.sizes[file] = max(self.sizes.get(file, 0.0), size)
        self.sizes.setdefault(file, 0.0)
        link = attributes.get("link", "").lower()
        if link in {"input", "inout"}:
            self.jobs[-1].reads.append(file)
        if link in {"output", "inout"}:
            self.jobs[-1].writes.append(file)


def read_dax(content: bytes, *, name: str) -> Workflow:
    """Return the workflow: run times -> work at speed 1, shared files -> edge bytes.

    The run time of a job is its attribute `runtime`, or a profile or metadata of that key.
    """
    elements = content.count(b"<") - content.count(b"</")
    check_cells(ELEMENT_CELLS * elements, f"an XML text of {elements} elements")
    attributes = content.count(b"=")
    check_cells(ATTRIBUTE_CELLS * attributes, f"an XML text of {attributes} attributes")
    parts = content.count(b"\r") + content.count(b"&")  # each begins another call of the parser
    check_cells(parts, f"an XML text of {parts} returns and references")
    parser = expat.ParserCreate()
    reader = _Reader(parser)
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(content, True)
    except WeftError:
        raise
    except (expat.ExpatError, ValueError, LookupError) as error:  # also an unknown encoding
        raise InvalidInput(f"is not valid XML: {error}") from None
    return _workflow(reader, name)


def _refuse(*_: object) -> None:
    raise InvalidInput("has a document type (DOCTYPE); weft reads DAX files without one")


def _needed(attributes: dict[str, str], key: str, tag: str) -> str:
    if not attributes.get(key):
        raise InvalidInput(f"an element '{tag}' has no attribute '{key}'")
    return attributes[key]


def _workflow(reader: _Reader, name: str) -> Workflow:
    jobs = reader.jobs
    names = [job.name for job in jobs]
    index = unique_names(names, "job")
    check_graph(len(jobs), len(reader.after))
    for job in jobs:
        if not job.seconds:
            raise InvalidInput(
                f'job {shown(job.name)} has no run time; give it as an attribute: runtime="12.5"'
            )
    for ends in reader.after:
        for end in ends:
            if end not in index:
                raise UnknownName(
                    f"a dependency names the unknown job {shown(end)}{closest(end, index)}"
                )
    pairs = sorted((index[parent], index[child]) for parent, child in reader.after)
    kinds, kind = number_kinds([job.kind for job in jobs])
    written = [list(dict.fromkeys(job.writes)) for job in jobs]
    cores = np.array([job.cores[-1] if job.cores else 1.0 for job in jobs], float)
    return Workflow(
        name=reader.name or name,
        names=tuple(names),
        kinds=kinds,
        kind=kind,
        work=np.array([job.seconds[-1] for job in jobs], float),
        cores=whole_cores(cores, names),
        memory=MEBIBYTE * np.array([job.memory[-1] if job.memory else 0.0 for job in jobs]),
        src=np.array([s for s, _ in pairs], np.int64),
        dst=np.array([d for _, d in pairs], np.int64),
        data=shared_bytes(pairs, written, [job.reads for job in jobs], reader.sizes),
    )


def write_dax(workflow: Workflow) -> bytes:
    """Return a DAX of a workflow with one run time per task.

    Every edge with data is a file.
    """
    refuse_empty_names(workflow, "dax")
    _refuse_inexact(workflow)
    names = [_attribute(name) for name in workflow.task_names]
    uses: list[list[str]] = [[] for _ in names]
    after: list[list[str]] = [[] for _ in names]
    edges = zip(workflow.src.tolist(), workflow.dst.tolist(), workflow.data.tolist(), strict=True)
    for e, (s, d, data) in enumerate(edges):
        after[d].append(f"    <parent ref={names[s]}/>")
        if data > 0:
            for task, link in ((s, "output"), (d, "input")):
                uses[task].append(f'    <uses name="file{e}" link="{link}" size="{data!r}"/>')
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<adag xmlns="{NAMESPACE}" version="3.6" name={_attribute(workflow.name)}>',
    ]
    for t, job in enumerate(names):
        kind = _attribute(workflow.kinds[int(workflow.kind[t])])
        lines.append(f'  <job id={job} name={kind} runtime="{float(workflow.work[t])!r}">')
        if workflow.cores[t] > 1:
            cores = f'    <profile namespace="pegasus" key="cores">{workflow.cores[t]}</profile>'
            lines.append(cores)
        if workflow.memory[t] > 0:
            size = f"{float(workflow.memory[t]) / MEBIBYTE!r}"
            lines.append(f'    <profile namespace="pegasus" key="memory">{size}</profile>')
        lines += [*uses[t], "  </job>"]
    for t, job in enumerate(names):
        if after[t]:
            lines += [f"  <child ref={job}>", *after[t], "  </child>"]
    return "\n".join([*lines, "</adag>", ""]).encode()


def _refuse_inexact(workflow: Workflow) -> None:
    """Refuse empty kinds, which the reader replaces, and memory inexact in MiB."""
    inexact = workflow.memory / MEBIBYTE * MEBIBYTE != workflow.memory
    for t, kind in enumerate(workflow.kind.tolist()):
        if not workflow.kinds[kind]:
            raise InvalidInput(
                f"the kind of task '{workflow.task_name(t)}' is '', which dax cannot hold; rename "
                f"it, or {REMEDY}"
            )
        if inexact[t]:
            raise InvalidInput(
                f"memory of task '{workflow.task_name(t)}' is {workflow.memory[t]:g} bytes, which "
                f"dax cannot hold in MiB; {REMEDY}"
            )


def _attribute(text: str) -> str:
    """Quote a text; refuse characters that XML cannot hold."""
    if (bad := _NO_XML.search(text)) is not None:
        raise InvalidInput(
            f"the name {shown(text)} has the character {bad[0]!r}, which dax cannot hold; rename "
            f"it, or {REMEDY}"
        )
    return quoteattr(text)
