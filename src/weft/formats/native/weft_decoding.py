"""Objects of the model from the records of weft's files (see `weft_schema`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.arguments import unique_names
from weft.errors import InvalidInput
from weft.formats.binding import bind
from weft.formats.native.costs import decode_costs
from weft.formats.native.network import decode_network
from weft.formats.native.variants import read_variants
from weft.formats.native.weft_encoding import CHOICE_COLUMNS, CLUSTER_FLOATS, JOB_COLUMNS
from weft.formats.parsing.limits import TASK_CELLS, check_cells, check_devices, check_graph
from weft.formats.parsing.record import Record
from weft.model import (
    Choices,
    Cluster,
    Problem,
    Scenario,
    Schedule,
    Trace,
    Transfers,
    Workflow,
    Workload,
)
from weft.model.columns import FloatArray, floats, frozen, integers

WORKFLOW_KEYS = (
    *("name", "names", "work", "kinds", "kind", "memory", "cores", "src", "dst", "data"),
    *("need_names", "needs", "duration_devices", "durations", "choices", "variants"),
)
CLUSTER_KEYS = (
    *("name", "names", "kinds", "nodes", "speed", *CLUSTER_FLOATS, "cores", "batch"),
    *("bandwidth", "latency", "throughput_kinds", "throughput", "curve_kinds", "curves"),
    *("capacity_names", "capacity", "network", "setup_kinds", "setup", "cache", "switch"),
)


def decode_workflow(r: Record) -> Workflow:
    """Return the workflow of a record."""
    r.only(WORKFLOW_KEYS)
    work, src = np.atleast_1d(r.floats("work")), np.atleast_1d(r.integers("src", []))
    check_graph(len(work), len(src))
    return Workflow(
        name=r.text("name", "workflow"),
        names=tuple(r.strings("names")) if "names" in r else None,
        work=work,
        kinds=tuple(r.strings("kinds", ("task",))),
        kind=r.integers("kind", 0),
        memory=r.floats("memory", 0.0),
        cores=r.integers("cores", 1),
        src=src,
        dst=np.atleast_1d(r.integers("dst", [])),
        data=r.floats("data", 0.0),
        needs=r.table("need_names", "needs"),
        durations=r.table("duration_devices", "durations"),
        variants=read_variants(r.children("variants")) if "variants" in r else {},
        **({"choices": _decode_choices(r.child("choices"))} if "choices" in r else {}),
    )


def _decode_choices(r: Record) -> Choices:
    r.only(CHOICE_COLUMNS)
    task, probability = r.integers("task"), r.floats("probability")
    first, labels = r.integers("first"), r.strings("labels")
    if (
        first.shape != (task.size + 1,)
        or first[0] != 0
        or (np.diff(first) < 1).any()
        or first[-1] != probability.size
    ):
        raise InvalidInput(
            f"{r.path('first')} must rise from 0 to the number of branches, {probability.size}, "
            "with one more entry than choices"
        )
    if len(labels) != probability.size:
        raise InvalidInput(
            f"{r.path('labels')} has {len(labels)} entries, but there are {probability.size} "
            "branches"
        )
    for c in range(task.size):
        unique_names(labels[first[c] : first[c + 1]], f"label of choice {c}")
    columns = {
        "task": np.atleast_1d(task),
        "first": first,
        "probability": np.atleast_1d(probability),
    }
    columns |= {key: np.atleast_1d(r.integers(key)) for key in ("edge_choice", "edge_branch")}
    return Choices(labels=tuple(labels), **{key: frozen(column) for key, column in columns.items()})


def decode_cluster(r: Record) -> Cluster:
    """Return the cluster of a record."""
    columns = ("names", "kinds", "nodes")
    r.only(CLUSTER_KEYS)
    given: dict[str, Any] = {key: tuple(r.strings(key)) for key in columns if key in r}
    given |= {key: r.floats(key) for key in (*CLUSTER_FLOATS, "cache", "switch") if key in r}
    given |= {key: r.integers(key) for key in ("cores", "batch") if key in r}
    speed = np.atleast_1d(r.floats("speed"))
    check_devices(len(speed))
    return Cluster(
        name=r.text("name", "cluster"),
        speed=speed,
        throughput=r.table("throughput_kinds", "throughput"),
        bandwidth=r.floats("bandwidth", "inf", rank=2),
        latency=r.floats("latency", 0.0, rank=2),
        capacity=r.table("capacity_names", "capacity"),
        network=decode_network(r.child("network")) if "network" in r else None,
        batch_curve={
            kind: _curve_rows(curve, len(speed), r.path("curves"))
            for kind, curve in r.table("curve_kinds", "curves").items()
        },
        setup={
            kind: _curve_rows(rows, len(speed), r.path("setup"))
            for kind, rows in r.table("setup_kinds", "setup").items()
        },
        **given,
    )


def _curve_rows(curve: FloatArray, devices: int, path: str) -> FloatArray:
    """Return a batch curve or a set-up as one row per device."""
    if not devices or len(curve) % devices:
        raise InvalidInput(f"{path} has rows of {len(curve)} numbers for {devices} devices")
    return np.asarray(curve).reshape(devices, -1)


def decode_problem(r: Record) -> Problem:
    """Return the problem of a record."""
    r.only(("workflow", "cluster"))
    child = r.child("workflow")
    workflow = decode_workflow(_without_costs(child))
    return _bound(workflow, decode_cluster(r.child("cluster")), child)


def _without_costs(r: Record) -> Record:
    return Record({key: value for key, value in r.content.items() if key != "costs"}, r.where)


def _bound(workflow: Workflow, cluster: Cluster, r: Record) -> Problem:
    problem = bind(workflow, cluster)
    return decode_costs(r.child("costs"), problem) if "costs" in r else problem


def decode_workload(r: Record) -> Workload:
    """Return the workload of a record."""
    r.only(("name", "clusters", "workflows", "cluster_of", *JOB_COLUMNS))
    clusters = [decode_cluster(child) for child in r.children("clusters")]
    children = r.children("workflows")
    workflows = [decode_workflow(_without_costs(child)) for child in children]
    of = integers(
        r.integers("cluster_of", 0), r.path("cluster_of"), shape=(len(workflows),)
    ).tolist()
    if any(not 0 <= c < len(clusters) for c in of):
        raise InvalidInput(
            f"{r.path('cluster_of')} names cluster {max(of)} or a negative one, but there are "
            f"{len(clusters)}"
        )
    jobs = r.integers("template")
    return Workload.of(
        [
            _bound(w, clusters[c], child)
            for w, c, child in zip(workflows, of, children, strict=True)
        ],
        name=r.text("name", "workload"),
        template=jobs,
        arrival=floats(r.floats("arrival", 0.0), r.path("arrival"), shape=(jobs.size,)),
        deadline=r.floats("deadline", "inf"),
        priority=r.floats("priority", 0.0),
    )


def decode_schedule(r: Record) -> Schedule:
    """Return the schedule of a record."""
    r.only(("task", "device", "start", "finish", "copy", "task_name", "device_name"))
    columns: Mapping[str, Any] = {key: np.atleast_1d(r.integers(key)) for key in ("task", "device")}
    rows = len(columns["task"])
    for key, column in columns.items():
        if len(column) != rows:
            raise InvalidInput(
                f"{r.path(key)} has {len(column)} entries, {r.path('task')} has {rows}"
            )
        _refuse_outside(column, np.iinfo(np.int64).max, r.path(key))
    copy = r.booleans("copy", False)
    if copy.ndim and len(copy) != rows:
        raise InvalidInput(f"{r.path('copy')} has {len(copy)} entries, {r.path('task')} has {rows}")
    return Schedule.of(start=r.floats("start"), finish=r.floats("finish"), copy=copy, **columns)


def decode_trace(r: Record) -> Trace:
    """Return the trace of a record."""
    parts = ("workload", "scenario", "job_finish", "transfers")
    r.only(("policy", "eager", "measured", *parts, *Trace.columns()))
    workload = decode_workload(r.child("workload"))
    rows = (r.integers("job").size,)
    whole: dict[str, Any] = {
        key: integers(r.integers(key), r.path(key), shape=rows)
        for key in ("job", "task", "device", "status", "batch")
    }
    _refuse_outside(whole["job"], workload.jobs, r.path("job"))
    _refuse_outside(whole["task"], np.diff(workload.first_instance)[whole["job"]], r.path("task"))
    _refuse_outside(whole["device"], workload.cluster.p, r.path("device"))
    _refuse_outside(whole["status"], 3, r.path("status"))
    times: dict[str, Any] = {
        key: floats(r.floats(key), r.path(key), shape=rows)
        for key in ("decided", "start", "finish")
    }
    for key, column in times.items():
        if not np.isfinite(column).all():
            raise InvalidInput(
                f"{r.path(key)}[{int(np.flatnonzero(~np.isfinite(column))[0])}] is not a finite "
                "time"
            )
    _refuse_rows(times["start"] < 0, times["start"], r.path("start"), "zero or more")
    early = times["finish"] < times["start"]
    _refuse_rows(early, times["finish"], r.path("finish"), "at or after its start")
    instances = int(workload.first_instance[-1])
    check_cells(TASK_CELLS * instances, f"a trace of {instances} tasks of all jobs")
    copy = r.booleans("copy", False)
    if copy.ndim and copy.shape != rows:
        raise InvalidInput(
            f"{r.path('copy')} has {len(copy)} entries, {r.path('job')} has {rows[0]}"
        )
    return Trace(
        workload=workload,
        scenario=_decode_scenario(r.child("scenario"), workload),
        copy=np.broadcast_to(copy, rows),
        job_finish=floats(r.floats("job_finish"), r.path("job_finish"), shape=(workload.jobs,)),
        eager=r.flag("eager", default=True),
        policy=r.text("policy", ""),
        measured=r.flag("measured", default=False),
        transfers=_decode_transfers(r.child("transfers")) if "transfers" in r else None,
        **whole,
        **times,
    )


def _decode_transfers(r: Record) -> Transfers:
    r.only((*Transfers.integers(), "begin", "end"))
    rows = (r.integers("edge").size,)
    columns: dict[str, Any] = {
        key: integers(r.integers(key), r.path(key), shape=rows) for key in Transfers.integers()
    }
    columns |= {key: floats(r.floats(key), r.path(key), shape=rows) for key in ("begin", "end")}
    return Transfers(**columns)


def _decode_scenario(r: Record, workload: Workload) -> Scenario:
    r.only(("outcome", "factor", "bias", "change_time", "change_device", "change_pace", "cancel"))
    time = np.atleast_1d(r.floats("change_time", []))
    changes = [time, r.integers("change_device", []).astype(float), r.floats("change_pace", [])]
    if any(column.shape != time.shape for column in changes):
        raise InvalidInput(
            f"{r.path('change_time')}, change_device and change_pace must have the same length"
        )
    return Scenario.of(
        workload,
        outcome=r.integers("outcome") if "outcome" in r else None,
        factor=r.floats("factor", 1.0),
        bias=r.floats("bias", 1.0, rank=2),
        changes=np.stack(changes, axis=1),
        cancel=r.floats("cancel", "inf"),
    )


def _refuse_rows(bad: NDArray[Any], column: NDArray[Any], where: str, rule: str) -> None:
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise InvalidInput(f"{where}[{i}] is {column[i]}; it must be {rule}")


def _refuse_outside(column: NDArray[Any], limit: int | NDArray[Any], where: str) -> None:
    bad = (column < 0) | (column >= limit)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        top = int(np.broadcast_to(limit, column.shape)[i]) - 1
        raise InvalidInput(f"{where}[{i}] is {column[i]}; it must be a number from 0 to {top}")
