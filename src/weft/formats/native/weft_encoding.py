"""Objects of the model as nested dicts of weft's files (see `weft_schema`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.formats.native.costs import encode_costs
from weft.formats.native.network import encode_network
from weft.model import Cluster, Problem, Schedule, Trace, Variant, Workflow, Workload

CHOICE_COLUMNS = ("task", "first", "probability", "labels", "edge_choice", "edge_branch")

CLUSTER_FLOATS = ("memory", "power", "idle_power", "price")

JOB_COLUMNS = ("template", "arrival", "deadline", "priority")


def _encode_variant(way: Variant) -> dict[str, Any]:
    made: dict[str, Any] = {"name": way.name, "factor": way.factor, "cost": way.cost}
    if isinstance(way.seconds, Mapping):
        made["seconds_on"] = dict(way.seconds)
    elif way.seconds is not None:
        made["seconds"] = way.seconds
    optional = {"cores": way.cores, "memory": way.memory}
    made |= {key: value for key, value in optional.items() if value is not None}
    if not np.isnan(way.accuracy):
        made["accuracy"] = way.accuracy
    if way.needs:
        made["needs"] = dict(way.needs)
    if way.devices:
        made["devices"] = list(way.devices)
    return made


def encode_workflow(w: Workflow) -> dict[str, Any]:
    """Return the content of a workflow."""
    made: dict[str, Any] = {"name": w.name}
    if w.names is not None:
        made["names"] = list(w.names)
    made |= {
        "work": w.work,
        "kinds": list(w.kinds),
        "kind": _compact(w.kind),
        "memory": _compact(w.memory),
        "cores": _compact(w.cores),
    }
    made |= {"src": w.src, "dst": w.dst, "data": _compact(w.data)}
    made |= _table("need_names", "needs", w.needs)
    made |= _table("duration_devices", "durations", w.durations)
    if w.variants:
        made["variants"] = [
            {"of": of, **_encode_variant(way)} for of, ways in w.variants.items() for way in ways
        ]
    if w.conditional:
        made["choices"] = {key: getattr(w.choices, key) for key in CHOICE_COLUMNS} | {
            "labels": list(w.choices.labels)
        }
    return made


def encode_cluster(c: Cluster) -> dict[str, Any]:
    """Return the content of a cluster."""
    made: dict[str, Any] = {
        "name": c.name,
        "names": list(c.names),
        "kinds": list(c.kinds),
        "nodes": list(c.nodes),
        "speed": c.speed,
    }
    made |= {key: _compact(getattr(c, key)) for key in (*CLUSTER_FLOATS, "cores", "batch")}
    made |= {key: _compact_links(getattr(c, key)) for key in ("bandwidth", "latency")}
    made |= _table("throughput_kinds", "throughput", c.throughput)
    made |= _table("capacity_names", "capacity", c.capacity)
    made |= _table("curve_kinds", "curves", c.batch_curve)
    if c.network is not None:
        made["network"] = encode_network(c.network)
    made |= _table("setup_kinds", "setup", c.setup)
    if np.isfinite(c.cache).any() or c.switch.any():
        made |= {key: _compact(getattr(c, key)) for key in ("cache", "switch")}
    return made


def encode_problem(problem: Problem) -> dict[str, Any]:
    """Return the content of a problem."""
    return {"workflow": _encode_bound(problem), "cluster": encode_cluster(problem.cluster)}


def _encode_bound(problem: Problem) -> dict[str, Any]:
    costs = encode_costs(problem)
    return encode_workflow(problem.workflow) | ({"costs": costs} if costs else {})


def encode_workload(w: Workload) -> dict[str, Any]:
    """Return the content of a workload."""
    number: dict[int, int] = {}
    clusters: list[dict[str, Any]] = []
    for problem in w.problems:
        if id(problem.cluster) not in number:
            number[id(problem.cluster)] = len(clusters)
            clusters.append(encode_cluster(problem.cluster))
    return {
        "name": w.name,
        "clusters": clusters,
        "workflows": [_encode_bound(p) for p in w.problems],
        "cluster_of": np.array([number[id(p.cluster)] for p in w.problems], np.int64),
        **{key: getattr(w, key) for key in JOB_COLUMNS},
    }


def encode_schedule(s: Schedule) -> dict[str, Any]:
    """Return the content of a schedule."""
    return dict(s.to_arrays())


def encode_trace(t: Trace) -> dict[str, Any]:
    """Return the content of a trace."""
    s = t.scenario
    scenario = {key: _compact(getattr(s, key)) for key in ("factor", "bias", "cancel")}
    scenario |= {key: getattr(s, key) for key in ("outcome", "change_time", "change_device")}
    scenario["change_pace"] = s.change_slowdown  # the key of the format
    columns = {**t.to_arrays(), "job_finish": t.job_finish}
    return {
        "policy": t.policy,
        "eager": bool(t.eager),
        "measured": bool(t.measured),
        "workload": encode_workload(t.workload),
        "scenario": scenario,
        **({} if t.transfers is None else {"transfers": t.transfers.to_arrays()}),
        **columns,
    }


def _table(names: str, values: str, rows: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the names of rows and the rows, each as one line; nothing without rows."""
    if not rows:
        return {}
    return {names: list(rows), values: np.stack([row.reshape(-1) for row in rows.values()])}


def _compact(column: NDArray[Any]) -> NDArray[Any]:
    """Return one number if all entries are equal."""
    if (
        column.size == 0
        or np.isnan(column.flat[0])
        or (column.view(np.int64) != column.view(np.int64).flat[0]).any()
    ):
        return column
    return np.asarray(column.flat[0])


def _compact_links(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return one number if all links are equal; the diagonal is implied."""
    between = matrix[~np.eye(len(matrix), dtype=bool)]
    compact = _compact(between) if between.size else matrix[0, 0]
    return np.asarray(compact) if np.ndim(compact) == 0 else matrix
