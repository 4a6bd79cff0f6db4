"""Writing any object: the suffix says how."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput
from weft.formats.chrome_trace import refuse_strangers, write_chrome_trace
from weft.formats.graphs.dot import write_dot
from weft.formats.loading import PathLike
from weft.formats.native.cluster_toml import write_cluster_toml
from weft.formats.native.weft_json import write_json
from weft.formats.native.weft_npz import write_npz
from weft.formats.native.weft_schema import encode
from weft.formats.parsing.source import naming, suffix_of, write_bytes
from weft.model import Cluster, Problem, Schedule, Trace, Workflow, Workload

Savable = Problem | Workflow | Cluster | Workload | Schedule | Trace


def save(thing: Savable, path: PathLike, *, problem: Problem | None = None) -> None:
    """Save an object; equal objects give equal bytes, and loading gives the object back bit for bit.

    ``.json`` and ``.npz`` hold anything, ``.toml`` a cluster, ``.dot`` and ``.gv`` a workflow or the workflow of a problem; add
    ``.gz`` to pack the file. ``.chrome.json`` holds a trace, or a schedule of `problem`, for Perfetto. Where `problem` is given, a
    schedule is saved with the names of its tasks and devices, for people to read.
    """
    target = Path(path)
    with naming(os.fspath(path)):
        write_bytes(target, _writer(thing, target, problem)())


def to_text(thing: Savable) -> str:
    """Return what `save` would write to a ``.json`` file."""
    return write_json(encode(thing)).decode("ascii")


def save_chrome_trace(
    source: Schedule | Trace, path: PathLike, *, problem: Problem | None = None, flows: bool = True
) -> None:
    """Save a trace, or a schedule of a problem, for Perfetto (ui.perfetto.dev) and chrome://tracing."""
    with naming(os.fspath(path)):
        write_bytes(Path(path), write_chrome_trace(source, problem, flows=flows))


def _writer(thing: Savable, path: Path, problem: Problem | None) -> Callable[[], bytes]:
    suffix = suffix_of(path)
    if isinstance(thing, (Trace, Schedule)) and path.name.removesuffix(".gz").lower().endswith(
        ".chrome.json"
    ):
        return lambda: write_chrome_trace(thing, problem)
    if suffix == ".json":
        return lambda: write_json(_record(thing, problem))
    if suffix == ".npz":
        return lambda: write_npz(_record(thing, problem))
    if suffix == ".toml" and isinstance(thing, Cluster):
        return lambda: write_cluster_toml(thing)
    if suffix in {".dot", ".gv"} and isinstance(thing, (Workflow, Problem)):
        return lambda: write_dot(thing.workflow if isinstance(thing, Problem) else thing)
    others = {
        Cluster: ", .toml",
        Workflow: ", .dot, .gv",
        Problem: ", .dot, .gv",
        Trace: ", .chrome.json",
    }.get(type(thing), "")
    raise InvalidInput(
        f"a {type(thing).__name__} cannot be saved as '{suffix}'; known: .json, .npz{others}"
    )


def _record(thing: Savable, problem: Problem | None) -> dict[str, Any]:
    if problem is None or not isinstance(thing, Schedule):
        return encode(thing)
    refuse_strangers(thing, problem)
    tasks = [problem.workflow.task_name(t) for t in thing.task.tolist()]
    devices = [problem.cluster.names[d] for d in thing.device.tolist()]
    return encode(thing) | {"task_name": tasks, "device_name": devices}
