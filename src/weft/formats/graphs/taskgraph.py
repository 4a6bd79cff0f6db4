"""`taskgraph-v1`: workflows with measured run times as JSON columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.formats.parsing.limits import check_graph
from weft.formats.parsing.record import Record
from weft.model import Workflow
from weft.model.columns import FloatArray, IntArray, floats

FORMAT = "taskgraph-v1"


def read_taskgraph(record: Record, *, tile_bytes: float) -> Workflow:
    """Return the workflow that a task graph describes.

    type -> kind, runtime_s -> work, runtime_by_device -> durations. Missing memory counts as 0
    bytes and missing cores as 1. Edges counted in tiles carry `tile_bytes` each.
    """
    tasks, edges = record.child("tasks"), record.child("edges")
    names = tasks.strings("id")
    kinds, kind = number_kinds(tasks.strings("type"))
    if len(kind) != len(names):
        raise InvalidInput(f"tasks.type has {len(kind)} entries, tasks.id has {len(names)}")
    if "runtime_s" not in tasks and "runtime_by_device" not in tasks:
        raise InvalidInput("tasks has neither runtime_s nor runtime_by_device")
    src, dst = edges.integers("src"), edges.integers("dst")
    check_graph(len(names), src.size)
    return Workflow(
        name=record.text("id", "taskgraph"),
        names=tuple(names),
        kinds=kinds,
        kind=kind,
        work=floats(tasks.floats("runtime_s", 0.0), "tasks.runtime_s", shape=(len(names),)),
        durations=_durations(tasks),
        memory=_filled(tasks, "memory_bytes", 0.0, len(names)),
        cores=whole_cores(_filled(tasks, "cores", 1.0, len(names)), names),
        src=np.atleast_1d(src),
        dst=np.atleast_1d(dst),
        data=_bytes(edges, tile_bytes),
    )


def number_kinds(labels: Sequence[str]) -> tuple[tuple[str, ...], IntArray]:
    """Return the distinct labels in order of appearance, and each label's number.

    Examples
    --------
    >>> number_kinds(["b", "a", "b"])[0], number_kinds(["b", "a", "b"])[1].tolist()
    (('b', 'a'), [0, 1, 0])
    """
    kinds = tuple(dict.fromkeys(labels)) or ("task",)
    number = {kind: i for i, kind in enumerate(kinds)}
    return kinds, np.array([number[label] for label in labels], np.int64)


def whole_cores(cores: FloatArray, names: Sequence[str]) -> IntArray:
    """Round cores up, to at least one, as a device has whole cores."""
    bad = ~((cores >= 0) & (cores < 2.0**53))
    if bad.any():
        t = int(np.flatnonzero(bad)[0])
        raise InvalidInput(
            f"cores of task '{names[t]}' is {cores[t]}; it must be a finite number, zero or more"
        )
    return np.maximum(1, np.ceil(cores)).astype(np.int64)


def _durations(tasks: Record) -> dict[str, Any]:
    if "runtime_by_device" not in tasks:
        return {}
    columns = tasks.child("runtime_by_device")
    return {device: columns.floats(device) for device in columns.content}


def _filled(tasks: Record, key: str, default: float, n: int) -> FloatArray:
    column = floats(tasks.floats(key, default), tasks.path(key), shape=(n,))
    return np.where(np.isnan(column), default, column)


def _bytes(edges: Record, tile_bytes: float) -> FloatArray:
    if "bytes" in edges:
        return edges.floats("bytes")
    if "tiles" not in edges:
        return np.zeros(())
    if not 0 <= tile_bytes < np.inf:
        raise InvalidInput(f"tile_bytes is {tile_bytes}; it must be a finite number, zero or more")
    with np.errstate(over="ignore"):
        return edges.floats("tiles") * tile_bytes
