"""Reading any known file: what it is, is told by its content first and its suffix second."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TypeVar

from weft.errors import InvalidInput
from weft.formats.binding import bind, own_cluster
from weft.formats.graphs.dot import read_dot
from weft.formats.graphs.static_graph import is_static_graph, read_static_graph
from weft.formats.graphs.stg import read_stg
from weft.formats.graphs.taskgraph import FORMAT, read_taskgraph
from weft.formats.graphs.wfformat import is_wfformat, read_wfformat
from weft.formats.native.cluster_toml import read_cluster_toml
from weft.formats.native.weft_npz import ZIP_MAGIC, read_npz
from weft.formats.native.weft_schema import decode
from weft.formats.parsing.record import Record, shown
from weft.formats.parsing.source import decode_text, naming, parse_json, read_bytes, suffix_of
from weft.model import Cluster, Problem, Schedule, Trace, Workflow, Workload
from weft.registry import closest

PathLike = str | os.PathLike[str]
T = TypeVar("T")

_DOT = re.compile(
    r"\s*(?:(?://[^\n]*|/\*.*?\*/|#[^\n]*)\s*)*(?:strict\s+)?(?:di)?graph\b",
    re.DOTALL | re.IGNORECASE,
)
_STG = re.compile(r"\s*\d+\s*\n\s*0\s")
_NOUNS: dict[type, str] = {
    Problem: "problem",
    Workflow: "workflow",
    Cluster: "cluster",
    Workload: "workload",
    Schedule: "schedule",
    Trace: "trace",
}


def load(
    path: PathLike, cluster: PathLike | Cluster | None = None, *, tile_bytes: float = 0.0
) -> Problem:
    """Load a problem from a file of any known format, packed with gzip or not.

    Parameters
    ----------
    path : weft JSON or NPZ, taskgraph-v1, WfFormat 1.5, STG, DOT, or a static graph
    cluster : a `Cluster`, or a path to one (TOML, or weft JSON or NPZ), for files that hold a workflow alone. Where the file is a complete
        problem, this cluster takes the place of its own. Where it is left out and the workflow has durations by device kind, there
        is one device of each kind, with links that cost nothing.
    tile_bytes : bytes of one tile, for graphs that count their data in tiles; by default tiles move at no cost

    Raises
    ------
    InvalidInput
        One line that names the file, the object in it and the value.
    """
    where = os.fspath(path)
    machines = load_cluster(cluster) if isinstance(cluster, (str, os.PathLike)) else cluster
    if machines is not None and not isinstance(machines, Cluster):
        raise InvalidInput(f"cluster is {shown(machines)}; it must be a path or a Cluster")
    with naming(where):
        found = _read(Path(path), tile_bytes)
        if isinstance(found, Problem):
            return found if machines is None else bind(found.workflow, machines)
        workflow = _expect(found, Workflow)
        return bind(workflow, own_cluster(workflow) if machines is None else machines)


def load_workflow(path: PathLike, *, tile_bytes: float = 0.0) -> Workflow:
    """Load a workflow, or the workflow of a problem."""
    with naming(os.fspath(path)):
        found = _read(Path(path), tile_bytes)
        return found.workflow if isinstance(found, Problem) else _expect(found, Workflow)


def load_cluster(path: PathLike) -> Cluster:
    """Load a cluster (TOML, or weft JSON or NPZ), or the cluster of a problem or workload."""
    with naming(os.fspath(path)):
        found = _read(Path(path), 0.0)
        return found.cluster if isinstance(found, (Problem, Workload)) else _expect(found, Cluster)


def load_workload(path: PathLike) -> Workload:
    """Load a workload; a problem is a workload of one job at time 0."""
    with naming(os.fspath(path)):
        found = _read(Path(path), 0.0)
        return Workload.of(found) if isinstance(found, Problem) else _expect(found, Workload)


def load_schedule(path: PathLike) -> Schedule:
    """Load a schedule."""
    with naming(os.fspath(path)):
        return _expect(_read(Path(path), 0.0), Schedule)


def load_trace(path: PathLike) -> Trace:
    """Load a trace with its workload and scenario."""
    with naming(os.fspath(path)):
        return _expect(_read(Path(path), 0.0), Trace)


def _expect(found: object, kind: type[T]) -> T:
    if isinstance(found, kind):
        return found
    noun = _NOUNS[type(found)]
    reader = "load" if noun == "problem" else f"load_{noun}"
    hint = (
        "; give it as cluster= beside a workflow"
        if noun == "cluster"
        else f"; read it with weft.formats.{reader}"
    )
    raise InvalidInput(f"holds a {noun}, not a {_NOUNS[kind]}{hint}")


def _read(path: Path, tile_bytes: float) -> object:
    content = read_bytes(path)
    name = path.name.removesuffix(".gz").removesuffix(Path(path.name.removesuffix(".gz")).suffix)
    if content.startswith(ZIP_MAGIC):
        return _from_record(Record(read_npz(content)), name, tile_bytes)
    text, suffix = decode_text(content), suffix_of(path)
    if suffix == ".toml":
        return read_cluster_toml(text, name=name)
    if suffix == ".stg":
        return read_stg(text, name=name)
    if suffix in {".dot", ".gv"} or _DOT.match(text):
        return read_dot(text, name=name)
    if suffix == ".json" or text.lstrip()[:1] in {"{", "["}:
        return _from_record(Record(parse_json(text)), name, tile_bytes)
    if _STG.match(text):
        return read_stg(text, name=name)
    known = "weft JSON and NPZ, taskgraph-v1, WfFormat, static graphs, STG (.stg), DOT (.dot, .gv), clusters (.toml)"
    raise InvalidInput(f"is of no known format; known: {known}")


def _from_record(record: Record, name: str, tile_bytes: float) -> object:
    if "format" in record:
        wanted = record.text("format")
        if wanted == FORMAT:
            return read_taskgraph(record, tile_bytes=tile_bytes)
        if wanted.startswith("weft-"):
            return decode(record)
        known = [FORMAT, *(f"weft-{noun}-1" for noun in _NOUNS.values())]
        raise InvalidInput(f"is of the unknown format '{wanted}'{closest(wanted, known)}")
    if is_wfformat(record):
        return read_wfformat(record, name=name)
    if is_static_graph(record):
        return read_static_graph(record, name=name)
    keys = ", ".join(str(key) for key in list(record.content)[:8]) or "none"
    raise InvalidInput(
        f"is of no known format: there is no key 'format', and its keys ({keys}) are not those of WfFormat or a static graph"
    )


def list_formats() -> list[str]:
    """List."""
    return []
