"""Chrome trace events: slices of threads as tasks, arrows between them as edges."""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections import defaultdict
from typing import Any, NamedTuple

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record, records, valid_text
from weft.formats.traces.recording import MeasuredExecution, Recording, distinct
from weft.model.trace import DONE, STATUS

MICROSECONDS = 1e6
FAILED = frozenset(STATUS) - {STATUS[DONE]}
"""Values of ``args.status`` in weft's own traces of executions without a result."""

Lane = tuple[str, str]


class _Slice(NamedTuple):
    start: float
    end: float
    event: Record


class _Arrow(NamedTuple):
    lane: Lane
    time: float
    data: float


def is_chrome(document: object) -> bool:
    """Return whether a JSON document holds trace events."""
    if isinstance(document, dict):
        return isinstance(document.get("traceEvents"), list)
    first = document[0] if isinstance(document, list) and document else None
    return isinstance(first, dict) and "ph" in first


def read_chrome(document: Any, *, name: str) -> Recording:
    """Return the outermost slices of every thread.

    Complete events (X) and pairs of begin and end (B, E) are read. The kind of a task is
    ``args.kind``, else its name; a flow (s, f) makes an edge, with ``args.bytes``.
    """
    rows = document["traceEvents"] if isinstance(document, dict) else document
    events = records(rows, "traceEvents")
    labels = _labels(events)
    slices = {lane: _outermost(found) for lane, found in _slices(events).items()}
    flat = [(lane, s) for lane, found in slices.items() for s in found]
    names = distinct(s.event.text("name", "") or "slice" for _, s in flat)
    task = {id(s): names[i] for i, (_, s) in enumerate(flat)}
    parents, output = _edges(events, slices, task)
    made = [
        MeasuredExecution(
            task=task[id(s)],
            kind=_argument(s.event, "kind") or s.event.text("name", "") or "slice",
            seconds=s.end - s.start,
            start=s.start,
            host=labels.get((lane[0], ""), f"process {lane[0]}"),
            lane=labels.get(lane, f"thread {lane[1]}"),
            output=output.get(task[id(s)], 0.0),
            parents=tuple(dict.fromkeys(parents.get(task[id(s)], ()))),
            done=_argument(s.event, "status") not in FAILED,
        )
        for lane, s in flat
    ]
    made.sort(key=lambda e: (e.start, e.task))
    return Recording(name, "a Chrome trace", tuple(made))


def _labels(events: list[Record]) -> dict[Lane, str]:
    """Return the names of processes and threads."""
    found: dict[Lane, str] = {}
    for event in events:
        if event.content.get("ph") == "M" and (label := _argument(event, "name")):
            pid, tid = _lane(event)
            what = event.content.get("name")
            if what == "process_name":
                found[pid, ""] = label
            elif what == "thread_name":
                found[pid, tid] = label
    return found


def _slices(events: list[Record]) -> dict[Lane, list[_Slice]]:
    found: dict[Lane, list[_Slice]] = defaultdict(list)
    begun: dict[Lane, list[tuple[float, Record]]] = defaultdict(list)
    for event in events:
        phase = event.content.get("ph")
        if phase == "X":
            start = _seconds(event, "ts")
            found[_lane(event)].append(_Slice(start, start + _seconds(event, "dur", 0.0), event))
        elif phase == "B":
            begun[_lane(event)].append((_seconds(event, "ts"), event))
        elif phase == "E" and begun[_lane(event)]:
            start, first = begun[_lane(event)].pop()
            found[_lane(event)].append(_Slice(start, _seconds(event, "ts"), first))
    for slices in found.values():
        for s in slices:
            if s.end < s.start:
                raise InvalidInput(f"{s.event.where} ends before it starts")
    return found


def _outermost(slices: list[_Slice]) -> list[_Slice]:
    """Return the slices that no longer slice of the same thread contains."""
    kept: list[_Slice] = []
    around = _Slice(-math.inf, -math.inf, Record({}))
    for s in sorted(slices, key=lambda s: (s.start, -s.end)):
        same = (s.start, s.end) == (around.start, around.end)  # a batch
        if s.start >= around.end or same or s.end > around.end:
            kept.append(s)
            around = s
    return kept


def _edges(
    events: list[Record], slices: dict[Lane, list[_Slice]], task: dict[int, str]
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """Return the parents of tasks by name, and the bytes that they sent."""
    sent: dict[str, _Arrow] = {}
    parents: dict[str, list[str]] = defaultdict(list)
    output: dict[str, float] = {}
    starts = {lane: [s.start for s in found] for lane, found in slices.items()}

    def at(lane: Lane, time: float) -> str | None:
        i = bisect_right(starts.get(lane, []), time) - 1
        return task[id(slices[lane][i])] if i >= 0 and time <= slices[lane][i].end else None

    for event in events:
        phase = event.content.get("ph")
        if phase not in ("s", "f"):
            continue
        flow, lane, time = (json.dumps(event.raw("id", "")), _lane(event), _seconds(event, "ts"))
        if phase == "s":
            arguments = event.content.get("args")
            data = arguments.get("bytes", 0.0) if isinstance(arguments, dict) else 0.0
            sent[flow] = _Arrow(lane, time, quantity(data, "bytes", event.path("args.bytes")))
        elif flow in sent:
            source, target = at(*sent[flow][:2]), at(lane, time)
            if source is not None and target is not None and source != target:
                parents[target].append(source)
                output[source] = max(output.get(source, 0.0), sent[flow].data)
    return parents, output


def _lane(event: Record) -> Lane:
    pid, tid = (_label(event.content.get(key, 0), event.path(key)) for key in ("pid", "tid"))
    return pid, tid


def _label(value: object, where: str) -> str:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise InvalidInput(f"{where} is {shown(value)}; it must be a number or a name")
    return value if isinstance(value, str) else shown(value)


def _argument(event: Record, key: str) -> str:
    """Return an argument that is text; others have another meaning and are left out."""
    arguments = event.content.get("args")
    value = arguments.get(key) if isinstance(arguments, dict) else None
    return valid_text(value, event.path(f"args.{key}")) if isinstance(value, str) else ""


def _seconds(event: Record, key: str, *default: float) -> float:
    return event.finite(key, *default) / MICROSECONDS
