"""weft's own schema: every object as one nested dict of named columns, in JSON and in NPZ.

The key ``format`` is one of ``weft-problem-1``, ``weft-workflow-1``, ``weft-cluster-1``,
``weft-workload-1``, ``weft-schedule-1`` and ``weft-trace-1``. Columns have the names and meaning of
the fields of the classes in `weft.model`. A column whose entries are all equal may be a single
number. In JSON, null stands for NaN and "inf" for infinity; in NPZ, a nested key is a path
(``workflow/work``). Round trips are exact to the last bit.

- workflow: name, names, work, kinds, kind, memory, cores, variants (`variants.py`), need_names +
  needs (one row per
  capacity), src, dst, data, duration_devices + durations (one row per device or device kind),
  choices (task, first, probability, labels, edge_choice, edge_branch)
- cluster: name, names, kinds, nodes, speed, memory, cores, batch, power, idle_power, price,
  bandwidth, latency (a number, or one row per device), throughput_kinds + throughput (one row per
  task kind), curve_kinds + curves (one row per task kind: the batch curve of each device in turn),
  capacity_names + capacity (one row per capacity: the amount of each node), network (sharing;
  nodes, up, down, latency and switch of ports; one, other, trunk_bandwidth, trunk_latency)
- weft-problem-1: workflow, cluster
- weft-workload-1: name, clusters, workflows, cluster_of (one entry per workflow), template,
  arrival, deadline, priority
- weft-schedule-1: task, device, start, finish, copy; task_name and device_name are for people and
  skipped by the reader
- weft-trace-1: workload, scenario, the columns of `Trace`, job_finish, eager, policy, measured,
  transfers (on a network: the columns of `Transfers`)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.formats.binding import bind
from weft.formats.native.costs import decode_costs, encode_costs
from weft.formats.native.network import decode_network, encode_network
from weft.formats.native.variants import read_variants
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
    Variant,
    Workflow,
    Workload,
)
from weft.model.columns import FloatArray, floats, frozen, integers, unique_names

CHOICE_COLUMNS = ("task", "first", "probability", "labels", "edge_choice", "edge_branch")
CLUSTER_FLOATS = ("memory", "power", "idle_power", "price")
JOB_COLUMNS = ("template", "arrival", "deadline", "priority")

# -- writing ----------------------------------------------------------------


def encode(thing: object) -> dict[str, Any]:
    """Return the nested dict of any object weft can save."""
    for kind, (word, encoder, _) in _CODECS.items():
        if isinstance(thing, kind):
            return {"format": f"weft-{word}-1", **encoder(thing)}
    raise InvalidInput(
        f"a {type(thing).__name__} cannot be saved; known: {', '.join(k.__name__ for k in _CODECS)}"
    )


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


def _encode_workflow(w: Workflow) -> dict[str, Any]:
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
    if w.needs:
        made |= {"need_names": list(w.needs), "needs": np.stack(list(w.needs.values()))}
    if w.durations:
        made |= {
            "duration_devices": list(w.durations),
            "durations": np.stack(list(w.durations.values())),
        }
    if w.variants:
        made["variants"] = [
            {"of": of, **_encode_variant(way)} for of, ways in w.variants.items() for way in ways
        ]
    if w.conditional:
        made["choices"] = {key: getattr(w.choices, key) for key in CHOICE_COLUMNS} | {
            "labels": list(w.choices.labels)
        }
    return made


def _encode_cluster(c: Cluster) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": c.name,
        "names": list(c.names),
        "kinds": list(c.kinds),
        "nodes": list(c.nodes),
        "speed": c.speed,
    }
    made |= {key: _compact(getattr(c, key)) for key in (*CLUSTER_FLOATS, "cores", "batch")}
    made |= {key: _compact_links(getattr(c, key)) for key in ("bandwidth", "latency")}
    if c.throughput:
        made |= {
            "throughput_kinds": list(c.throughput),
            "throughput": np.stack(list(c.throughput.values())),
        }
    if c.capacity:
        made |= {
            "capacity_names": list(c.capacity),
            "capacity": np.stack(list(c.capacity.values())),
        }
    if c.batch_curve:
        made |= {
            "curve_kinds": list(c.batch_curve),
            "curves": np.stack([v.reshape(-1) for v in c.batch_curve.values()]),
        }
    if c.network is not None:
        made["network"] = encode_network(c.network)
    if c.setup:
        made |= {
            "setup_kinds": list(c.setup),
            "setup": np.stack([v.reshape(-1) for v in c.setup.values()]),
        }
    if np.isfinite(c.cache).any() or c.switch.any():
        made |= {key: _compact(getattr(c, key)) for key in ("cache", "switch")}
    return made


def _encode_problem(problem: Problem) -> dict[str, Any]:
    return {"workflow": _encode_bound(problem), "cluster": _encode_cluster(problem.cluster)}


def _encode_bound(problem: Problem) -> dict[str, Any]:
    costs = encode_costs(problem)
    return _encode_workflow(problem.workflow) | ({"costs": costs} if costs else {})


def _encode_workload(w: Workload) -> dict[str, Any]:
    number: dict[int, int] = {}
    clusters: list[dict[str, Any]] = []
    for problem in w.problems:
        if id(problem.cluster) not in number:
            number[id(problem.cluster)] = len(clusters)
            clusters.append(_encode_cluster(problem.cluster))
    return {
        "name": w.name,
        "clusters": clusters,
        "workflows": [_encode_bound(p) for p in w.problems],
        "cluster_of": np.array([number[id(p.cluster)] for p in w.problems], np.int64),
        **{key: getattr(w, key) for key in JOB_COLUMNS},
    }


def _encode_schedule(s: Schedule) -> dict[str, Any]:
    return dict(s.to_arrays())


def _encode_trace(t: Trace) -> dict[str, Any]:
    s = t.scenario
    scenario = {key: _compact(getattr(s, key)) for key in ("factor", "bias", "cancel")}
    scenario |= {
        key: getattr(s, key) for key in ("outcome", "change_time", "change_device", "change_pace")
    }
    columns = {**t.to_arrays(), "job_finish": t.job_finish}
    return {
        "policy": t.policy,
        "eager": bool(t.eager),
        "measured": bool(t.measured),
        "workload": _encode_workload(t.workload),
        "scenario": scenario,
        **({} if t.transfers is None else {"transfers": t.transfers.to_arrays()}),
        **columns,
    }


def _compact(column: NDArray[Any]) -> NDArray[Any]:
    """Return one number if all links are equal; the diagonal is implied."""
    if (
        column.size == 0
        or np.isnan(column.flat[0])
        or (column.view(np.int64) != column.view(np.int64).flat[0]).any()
    ):
        return column
    return np.asarray(column.flat[0])


def _compact_links(matrix: NDArray[Any]) -> NDArray[Any]:
    """One number where all links are alike; the diagonal follows by itself."""
    between = matrix[~np.eye(len(matrix), dtype=bool)]
    compact = _compact(between) if between.size else matrix[0, 0]
    return np.asarray(compact) if np.ndim(compact) == 0 else matrix


# -- reading ----------------------------------------------------------------


def decode(record: Record) -> object:
    """Return the object a record describes."""
    wanted = record.text("format")
    for word, _, decoder in _CODECS.values():
        if wanted == f"weft-{word}-1":
            return decoder(Record({k: v for k, v in record.content.items() if k != "format"}))
    known = ", ".join(f"weft-{word}-1" for word, _, _ in _CODECS.values())
    raise InvalidInput(f"format '{wanted}' is unknown; known: {known}")


def _decode_workflow(r: Record) -> Workflow:
    r.only(
        (
            "name",
            "names",
            "work",
            "kinds",
            "kind",
            "memory",
            "cores",
            "src",
            "dst",
            "data",
            "need_names",
            "needs",
            "duration_devices",
            "durations",
            "choices",
            "variants",
        )
    )
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
        choices=_choices(r),
        variants=read_variants(r.children("variants")) if "variants" in r else {},
    )


def _choices(record: Record) -> Any:
    return _decode_choices(record.child("choices")) if "choices" in record else None


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


def _decode_cluster(r: Record) -> Cluster:
    columns = ("names", "kinds", "nodes")
    r.only(
        (
            "name",
            *columns,
            "speed",
            *CLUSTER_FLOATS,
            "cores",
            "batch",
            "bandwidth",
            "latency",
            "throughput_kinds",
            "throughput",
            "curve_kinds",
            "curves",
            "capacity_names",
            "capacity",
            "network",
            "setup_kinds",
            "setup",
            "cache",
            "switch",
        )
    )
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
    if len(curve) % devices:
        raise InvalidInput(f"{path} has rows of {len(curve)} numbers for {devices} devices")
    return np.asarray(curve).reshape(devices, -1)


def _decode_problem(r: Record) -> Problem:
    r.only(("workflow", "cluster"))
    child = r.child("workflow")
    workflow = _decode_workflow(_without_costs(child))
    return _bound(workflow, _decode_cluster(r.child("cluster")), child)


def _without_costs(r: Record) -> Record:
    return Record({key: value for key, value in r.content.items() if key != "costs"}, r.where)


def _bound(workflow: Workflow, cluster: Cluster, r: Record) -> Problem:
    problem = bind(workflow, cluster)
    return decode_costs(r.child("costs"), problem) if "costs" in r else problem


def _decode_workload(r: Record) -> Workload:
    r.only(("name", "clusters", "workflows", "cluster_of", *JOB_COLUMNS))
    clusters = [_decode_cluster(child) for child in r.children("clusters")]
    children = r.children("workflows")
    workflows = [_decode_workflow(_without_costs(child)) for child in children]
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


def _decode_schedule(r: Record) -> Schedule:
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


def _decode_trace(r: Record) -> Trace:
    parts = ("workload", "scenario", "job_finish", "transfers")
    r.only(("policy", "eager", "measured", *parts, *Trace.columns()))
    workload = _decode_workload(r.child("workload"))
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


_CODECS: dict[type, tuple[str, Any, Any]] = {
    Problem: ("problem", _encode_problem, _decode_problem),
    Workflow: ("workflow", _encode_workflow, _decode_workflow),
    Cluster: ("cluster", _encode_cluster, _decode_cluster),
    Workload: ("workload", _encode_workload, _decode_workload),
    Schedule: ("schedule", _encode_schedule, _decode_schedule),
    Trace: ("trace", _encode_trace, _decode_trace),
}
