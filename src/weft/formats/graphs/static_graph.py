"""Static problems as JSON or NPZ.

Keys: `cost` (or `work`, `speeds`), `edges`, `data`, `bandwidth`.
"""

from __future__ import annotations

import numpy as np

from weft.errors import InvalidInput
from weft.formats.binding import bind
from weft.formats.parsing.limits import check_devices, check_graph
from weft.formats.parsing.record import Record
from weft.model import Cluster, Problem, Workflow
from weft.model.columns import FloatArray


def is_static_graph(record: Record) -> bool:
    """Return whether a record has the keys of a static problem."""
    return (
        "edges" in record
        and "bandwidth" in record
        and ("cost" in record or ("work" in record and "speeds" in record))
    )


def read_static_graph(record: Record, *, name: str) -> Problem:
    """Return the problem; `cost` overrides work / speed, and null means "cannot run"."""
    edges = record.integers("edges", rank=2)
    if edges.size and (edges.ndim != 2 or edges.shape[1] != 2):
        raise InvalidInput(f"edges has shape {edges.shape}; it must be pairs of task numbers")
    edges = edges.reshape(-1, 2)
    if "cost" in record:
        cost = record.floats("cost", rank=2)
        if cost.ndim != 2 or cost.shape[1] == 0:
            raise InvalidInput(
                f"cost has shape {cost.shape}; "
                "it must have one row per task and one column per device"
            )
        cost = np.where(np.isposinf(cost), np.nan, cost)
        work, speed = np.zeros(len(cost)), np.ones(cost.shape[1])
        durations = {f"d{d}": cost[:, d] for d in range(cost.shape[1])}
    else:
        work, speed, durations = (
            np.atleast_1d(record.floats("work")),
            np.atleast_1d(record.floats("speeds")),
            {},
        )
    check_graph(len(work), len(edges))
    check_devices(len(speed))
    name = record.text("name", name)
    workflow = Workflow(
        name=name,
        work=work,
        durations=durations,
        src=edges[:, 0].copy(),
        dst=edges[:, 1].copy(),
        data=record.floats("data", 0.0),
    )
    return bind(workflow, Cluster(name=name, speed=speed, bandwidth=_bandwidth(record)))


def _bandwidth(record: Record) -> FloatArray:
    bandwidth = record.floats("bandwidth", rank=2)
    if bandwidth.ndim == 2 and bandwidth.shape[0] == bandwidth.shape[1]:
        np.fill_diagonal(bandwidth, np.inf)  # files may have null there, as data stays local
    return bandwidth
