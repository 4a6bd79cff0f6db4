"""Chrome's trace event format, for Perfetto and chrome://tracing.

Perfetto is at ui.perfetto.dev. A process for each node, a thread for each device, a complete event
("X") for each execution, in microseconds, and arrows for data that moved between devices.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Schedule, Trace, Workload
from weft.model.trace import DONE, STATUS
from weft.typed import typed

MICROSECONDS = 1e6

TraceEvent = dict[str, Any]


@typed
def chrome_trace(
    source: Schedule | Trace, problem: Problem | None = None, *, flows: bool = True
) -> dict[str, Any]:
    """Return the JSON of a trace, or of a schedule of a problem; `flows` adds arrows.

    Examples
    --------
    >>> p = Problem.from_arrays([[2.0]])
    >>> document = chrome_trace(Schedule.of(device=[0], start=[1.0], finish=[3.0]), p)
    >>> [(e["name"], e["ts"], e["dur"]) for e in document["traceEvents"] if e["ph"] == "X"]
    [('t0', 1000000.0, 2000000.0)]
    """
    if isinstance(source, Trace):
        t, workload = source, source.workload
        rows = _rows(t.job, t.task, t.device, t.start, t.finish, t.copy, t.status, t.batch)
    elif problem is None:
        raise InvalidInput("a schedule needs its problem to be drawn; give problem=")
    else:
        s, workload = source, Workload.of(problem)
        s.refuse_other_problem(problem)
        rows = _rows(np.zeros_like(s.task), s.task, s.device, s.start, s.finish, s.copy)
    place = _places(workload.cluster)
    events = _metadata(workload.cluster, place)
    events += [_complete(row, workload, place) for row in rows]
    if flows:
        events += _flows(rows, workload, place, source if isinstance(source, Trace) else None)
    return {"displayTimeUnit": "ms", "traceEvents": events}


def write_chrome_trace(source: Schedule | Trace, problem: Problem | None = None) -> bytes:
    """Return the text of `chrome_trace`."""
    document = chrome_trace(source, problem)
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


class _TraceRow(NamedTuple):
    """An execution; `batch` is None in a plan."""

    job: int
    task: int
    device: int
    start: float
    finish: float
    copy: bool
    status: int = DONE
    batch: int | None = None


def _rows(*columns: NDArray[Any]) -> list[_TraceRow]:
    return [_TraceRow(*row) for row in zip(*(x.tolist() for x in columns), strict=True)]


def _places(cluster: Cluster) -> list[tuple[int, int]]:
    """Return (process, thread) of each device, from 1: viewers treat 0 as the system."""
    nodes = list(dict.fromkeys(cluster.nodes))
    return [(nodes.index(node) + 1, d + 1) for d, node in enumerate(cluster.nodes)]


def _metadata(cluster: Cluster, place: list[tuple[int, int]]) -> list[TraceEvent]:
    events: list[TraceEvent] = []
    for i, node in enumerate(dict.fromkeys(cluster.nodes), 1):
        events += _named("process", i, 0, node, order=i)
    for d, (pid, tid) in enumerate(place):
        label = f"{cluster.names[d]} ({cluster.kinds[d]})"
        events += _named("thread", pid, tid, label, order=tid)
    return events


def _named(what: str, pid: int, tid: int, name: str, *, order: int) -> list[TraceEvent]:
    """Return the events that name a process or a thread and give its place."""
    return [
        {"ph": "M", "name": f"{what}_{key}", "pid": pid, "tid": tid, "args": args}
        for key, args in (("name", {"name": name}), ("sort_index", {"sort_index": order}))
    ]


def _complete(row: _TraceRow, workload: Workload, place: list[tuple[int, int]]) -> TraceEvent:
    workflow = workload.problem_of(row.job).workflow
    kind = workflow.kinds[int(workflow.kind[row.task])]
    args: dict[str, Any] = {
        "job": row.job,
        "task": row.task,
        "kind": kind,
        "copy": row.copy,
        "status": STATUS[row.status],
    }
    if row.batch is not None:
        args["batch"] = row.batch
    pid, tid = place[row.device]
    times = {"ts": row.start * MICROSECONDS, "dur": (row.finish - row.start) * MICROSECONDS}
    return {
        "ph": "X",
        "name": workflow.task_name(row.task),
        "cat": kind,
        "pid": pid,
        "tid": tid,
        **times,
        "args": args,
    }


def _flows(
    rows: list[_TraceRow], workload: Workload, place: list[tuple[int, int]], trace: Trace | None
) -> list[TraceEvent]:
    """Return one arrow per transfer between devices, from the earliest source."""
    done: dict[tuple[int, int], list[_TraceRow]] = defaultdict(list)
    for row in rows:
        if row.status == DONE:
            done[row.job, row.task].append(row)
    cluster, events, number = workload.cluster, [], 0
    for row in rows:
        workflow = workload.problem_of(row.job).workflow
        for e in workflow.pred_edge[
            workflow.pred_ptr[row.task] : workflow.pred_ptr[row.task + 1]
        ].tolist():
            givers = done.get((row.job, int(workflow.src[e])), [])
            if not givers or (trace is not None and not _taken(trace, row.job, e)):
                continue
            data = float(workflow.data[e])
            giver = min(
                givers, key=lambda x: x.finish + cluster.transfer_time(x.device, row.device, data)
            )
            if giver.device != row.device:
                events += _arrow(number, giver, row, place, data)
                number += 1
    return events


def _taken(trace: Trace, job: int, edge: int) -> bool:
    choices = trace.workload.problem_of(job).workflow.choices
    c = int(choices.edge_choice[edge])
    return (
        c < 0
        or trace.scenario.outcome[trace.workload.first_choice[job] + c] == choices.edge_branch[edge]
    )


def _arrow(
    number: int, giver: _TraceRow, taker: _TraceRow, place: list[tuple[int, int]], data: float
) -> list[TraceEvent]:
    # Viewers tie an arrow to the slice around its time; the end of a slice is outside it.
    sent = giver.start + 0.999 * (giver.finish - giver.start)
    shared = {"name": "data", "cat": "transfer", "id": number}
    ends = (("s", sent, giver.device), ("f", taker.start, taker.device))
    made = [
        {"ph": ph, **shared, "ts": ts * MICROSECONDS, "pid": place[d][0], "tid": place[d][1]}
        for ph, ts, d in ends
    ]
    made[0]["args"] = {"bytes": data}
    made[1]["bp"] = "e"
    return made
