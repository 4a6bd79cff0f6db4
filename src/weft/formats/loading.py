"""Load any supported file; the format is detected by content, then by suffix."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TypeVar

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.binding import bind, own_cluster
from weft.formats.graphs.taskgraph import FORMAT
from weft.formats.parsing.source import naming
from weft.formats.table import FORMATS, NOUNS, File, Format
from weft.formats.traces.recording import Recording
from weft.model import Cluster, Problem, Schedule, Trace, Workflow, Workload
from weft.registry import Entry, closest
from weft.typed import typed

PathLike = str | os.PathLike[str]
Opened = tuple[File, Format, object]
"""A file, its format and the object that it holds."""
T = TypeVar("T")


REMEDIES = {
    "problem": "read it with weft plan (in Python: weft.load)",
    "workflow": "read it with weft plan --gpus (in Python: weft.formats.load_workflow)",
    "cluster": "give it as --cluster (in Python: cluster=) beside a workflow",
    "workload": "read it with weft simulate --workload (in Python: weft.formats.load_workload)",
    "schedule": "read it with weft explain or weft view, and --problem (in Python: "
    "weft.formats.load_schedule)",
    "trace": "read it with weft explain or weft view (in Python: weft.formats.load_trace)",
}
"""Object of a file that another one was expected of -> the verb and the function for it."""


class ReferenceSpeed(UserWarning):
    """Warning: recorded seconds are divided by speeds, none of which is 1."""


@typed
def load(
    path: PathLike, cluster: PathLike | Cluster | None = None, *, tile_bytes: float = 0.0
) -> Problem:
    """Load a problem from a file of any supported format, compressed with gzip or not.

    Parameters
    ----------
    path : a file of one of `weft.list_formats()`
    cluster : a `Cluster` or a path to one, for files that hold only a workflow. It replaces the
        cluster of a complete problem. If it is missing, the problem gets the machines that the
        file names beside its workflow (WfFormat, recordings), or one device of each kind if the
        workflow has durations per device kind; both with free links.
    tile_bytes : bytes of one tile, for graphs that count their data in tiles (default: free moves)

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
        return _problem(where, _opened(path, tile_bytes), machines)


def load_work(path: PathLike) -> Problem | Workload:
    """Load a workload, or what `load` makes of the file: a problem."""
    where = os.fspath(path)
    with naming(where):
        opened = _opened(path)
        return opened[2] if isinstance(opened[2], Workload) else _problem(where, opened, None)


@typed
def load_workflow(path: PathLike, *, tile_bytes: float = 0.0) -> Workflow:
    """Load a workflow, or the workflow of a problem or a recording."""
    with naming(os.fspath(path)):
        return _workflow(_read(path, tile_bytes))


@typed
def load_cluster(path: PathLike) -> Cluster:
    """Load a cluster, or that of a problem or workload: TOML, weft JSON or weft NPZ."""
    with naming(os.fspath(path)):
        file, row, found = _opened(path)
        if isinstance(found, Recording):
            return found.cluster()
        if isinstance(found, Workflow) and (machines := row.machines(file, found)) is not None:
            return machines
        return found.cluster if isinstance(found, (Problem, Workload)) else _expect(found, Cluster)


@typed
def load_recording(path: PathLike) -> Recording:
    """Load the measurements of another engine.

    Known: Nextflow, Snakemake, Slurm, Dask, Chrome and OTLP traces. `Recording.executions` has a
    record per execution; `problem()` makes a problem of them.
    """
    with naming(os.fspath(path)):
        found = _read(path)
        if not isinstance(found, Recording):
            raise InvalidInput(f"holds a {NOUNS[type(found)]}, not the record of an engine")
        return found


@typed
def load_workload(path: PathLike) -> Workload:
    """Load a workload; a problem is a workload of one job at time 0."""
    with naming(os.fspath(path)):
        found = _read(path)
        return Workload.of(found) if isinstance(found, Problem) else _expect(found, Workload)


@typed
def load_schedule(path: PathLike) -> Schedule:
    """Load a schedule."""
    with naming(os.fspath(path)):
        return _expect(_read(path), Schedule)


@typed
def load_trace(path: PathLike) -> Trace:
    """Load a trace with its workload and scenario."""
    with naming(os.fspath(path)):
        return _expect(_read(path), Trace)


@typed
def load_result(path: PathLike) -> Schedule | Trace:
    """Load a schedule or a trace, whichever the file holds."""
    with naming(os.fspath(path)):
        found = _read(path)
        return found if isinstance(found, Trace) else _expect(found, Schedule)


def _problem(where: str, opened: Opened, machines: Cluster | None) -> Problem:
    """Return the problem of a file, on other machines if given."""
    file, row, found = opened
    if isinstance(found, Recording):
        found.warn_of_dependencies(where)
        found = found.workflow() if machines is not None else found.problem()
    if isinstance(found, Problem) and machines is None:
        return found
    workflow = _workflow(found)
    if row.seconds and machines is not None:
        _warn_of_speeds(workflow, machines, where)
    if machines is None:
        machines = row.machines(file, workflow) or own_cluster(workflow)
    return bind(workflow, machines)


def _workflow(found: object) -> Workflow:
    if isinstance(found, Recording):
        return found.workflow()
    return found.workflow if isinstance(found, Problem) else _expect(found, Workflow)


def _expect(found: object, kind: type[T]) -> T:
    if isinstance(found, kind):
        return found
    if isinstance(found, Recording):
        raise InvalidInput(f"holds a record of {found.engine}, not a {NOUNS[kind]}")
    noun = NOUNS[type(found)]
    raise InvalidInput(f"holds a {noun}, not a {NOUNS[kind]}; {REMEDIES[noun]}")


def _warn_of_speeds(workflow: Workflow, cluster: Cluster, where: str) -> None:
    """Warn if recorded seconds are divided by speeds of another scale, e.g. TFLOP/s."""
    if workflow.durations or not cluster.p or bool((cluster.speed == 1.0).any()):
        return
    fastest = int(np.argmax(cluster.speed))
    name, speed = cluster.names[fastest], cluster.speed[fastest]
    warnings.warn(
        f"{where}: its run times are seconds on the recorded machine, taken as speed 1: device "
        f"'{name}' of speed {speed:g} takes 1/{speed:g} of them; give speeds relative to the "
        "recorded machine in --cluster machines.toml (cluster=) if that is wrong",
        ReferenceSpeed,
        stacklevel=5,
    )


def _read(path: PathLike, tile_bytes: float = 0.0) -> object:
    return _opened(path, tile_bytes)[2]


def _opened(path: PathLike, tile_bytes: float = 0.0) -> Opened:
    """Return a file, its format and the object that it holds."""
    file = File(Path(path), tile_bytes=tile_bytes)
    row = _format_of(file)
    assert row.read is not None
    return file, row, row.read(file)


def _format_of(file: File) -> Format:
    for row in FORMATS.values():
        if row.read is not None and row.recognise(file):
            return row
    if file.syntax != "record":
        known = ", ".join(
            f"{row.name} ({', '.join(row.suffixes)})" for row in FORMATS.values() if row.read
        )
        raise InvalidInput(f"is of no known format; known: {known}")
    if "format" in file.record:
        wanted = file.record.text("format")
        known_tags = [FORMAT, *(f"weft-{noun}-1" for noun in NOUNS.values())]
        raise InvalidInput(f"is of the unknown format '{wanted}'{closest(wanted, known_tags)}")
    keys = ", ".join(str(key) for key in list(file.record.content)[:8]) or "none"
    raise InvalidInput(
        f"is of no known format: it has no key 'format', and its keys ({keys}) "
        "are not those of WfFormat or a static graph"
    )


@typed
def list_formats() -> list[Entry]:
    """Return the names of all file formats; each has a `summary`.

    Examples
    --------
    >>> list_formats()[:3]
    ['weft-json', 'weft-npz', 'cluster-toml']
    """
    return [Entry(row.name, summary=row.summary) for row in FORMATS.values()]
