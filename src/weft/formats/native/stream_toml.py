"""Streams of conditional jobs as TOML, written by hand.

Example::

    name = "inspection"
    jobs = 5000
    tick = "1 ms"                       # clock of step-wise simulations; by default a second
    deadline = "400 ms"                 # after its arrival, a job should be finished
    start = "detect"                    # first tasks of a job; by default the first in the file

    [arrivals]
    process = "normal"                  # regular, normal, poisson or trace
    gap = "8 ms"
    deviation = "4 ms"                  # of normal gaps; a trace has times = [...] instead

    [[tasks]]
    name = "detect"
    time = "10 ms"                      # on a unit of coefficient 1; or {GPU = "10 ms", ...}
    then = "classify"                   # always; one task or a list
    kind = "vision"                     # tasks of one kind share a batch; default: its name
    memory = "2 GB"
    output = "3 MB"                     # what the tasks after it read; see links
    repeat = {most = 3, again = 0.2}    # runs again with that probability, at most 3 times in all

    [links]                             # between any two units; default: no time
    bandwidth = "10 GB/s"
    latency = "50 us"

    [[choices]]                         # when the task ends, exactly one branch is taken
    task = "classify"
    branches = {defect = 0.1, good = 0.9}
    leads_to = {defect = ["explain"], good = []}    # default: the task of the branch's name
    estimate = true                     # policies observe an estimate of the probabilities
    change = "steps"                    # steps, ramps (see `at`); walk (spread, low, high); uniform
    at = [{time = "60 s", branches = {defect = 0.3, good = 0.7}}]

    [[units]]
    name = "GPU"
    count = 2
    coefficient = 1.0                   # time is multiplied by it
    batch = 8                           # the most tasks of one kind at once
    batch_curve = {classify = 0.4}      # what each further task adds, or [1, 1.2, ...] by size
    memory = "16 GB"
    setup = {classify = {time = "2 s", memory = "4 GB", pinned = true}}  # loading; or a time
    cache = "8 GB"                      # for what is loaded; the kind used last is kept
    switch = "1 ms"                     # before a batch of another kind than the last one

Several streams share units if a file has [[streams]], each with `name`, `jobs`, `deadline`,
`priority`, `start`, `arrivals`, `tasks` and `choices` of its own, beside `tick`, `units` and
`links`. Tasks of the same kind share batches and set-ups.
"""

from __future__ import annotations

import os
import warnings
from decimal import Decimal
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import InvalidInput, UnknownName
from weft.formats.native.cluster_toml import MACHINE_KEYS, parse_toml, read_batch_curve, read_setup
from weft.formats.parsing.limits import check_cells, check_devices
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record, shown
from weft.formats.parsing.source import decode_text, naming, read_bytes
from weft.model import Cluster, Device, Links, Problem, Workflow, WorkflowBuilder
from weft.model.conditional_stream import (
    Arrivals,
    ConditionalStream,
    ProbabilityDrift,
    SharedStreams,
)
from weft.model.machines.capacity import offered_load
from weft.registry import closest

_OWN_KEYS = ("name", "jobs", "deadline", "priority", "start", "arrivals", "tasks", "choices")
_SHARED_KEYS = ("tick", "units", "links")
_KEYS = (*_OWN_KEYS, *_SHARED_KEYS)
_CHANGE_KEYS = {
    "fixed": (),
    "steps": ("at",),
    "ramps": ("at",),
    "walk": ("spread", "low", "high"),
    "uniform": ("low", "high"),
}


MOST_ROUNDS = 100
"""Rounds of a task that repeats."""


class UnstableLoad(UserWarning):
    """A stream asks for more than its units can do."""


def stream_names() -> list[str]:
    """Names of the streams that ship with weft."""
    return sorted(
        p.name.removesuffix(".toml")
        for p in files("weft.formats").joinpath("streams").iterdir()
        if p.name.endswith(".toml")
    )


def load_stream(source: str | os.PathLike[str]) -> ConditionalStream:
    """Load a stream: a TOML file, or the name of one that ships with weft.

    Warns with `UnstableLoad` when the units cannot keep up.

    Examples
    --------
    >>> s = load_stream("conditional-paper")
    >>> s.jobs, s.problem.workflow.names, s.problem.cluster.batch.tolist()
    (10000, ('A', 'B', 'C', 'D', 'E', 'F'), [1, 1, 5, 10])
    """
    where = os.fspath(source)
    text = _read(where)
    with naming(where):
        stream = read_stream_toml(text, name=Path(where).stem)
        load = offered_load(stream)
    if load > 1:
        warnings.warn(
            f"{where}: the load is {load:.3g} times the capacity of the units; "
            "queues will grow without end",
            UnstableLoad,
            stacklevel=2,
        )
    return stream


def load_streams(source: str | os.PathLike[str]) -> SharedStreams:
    """Load all streams of a file: [[streams]] on the same units, or a single one.

    Examples
    --------
    >>> [s.name for s in load_streams("conditional-paper").streams]
    ['conditional-paper']
    """
    where = os.fspath(source)
    with naming(where):
        return read_streams_toml(_read(where), name=Path(where).stem)


def _read(where: str) -> str:
    """Return the text of a stream: a TOML file, or the name of one that ships with weft."""
    shipped = stream_names()
    if where in shipped:
        place = files("weft.formats").joinpath("streams", f"{where}.toml")
        return place.read_text(encoding="utf-8")
    if not where.endswith(".toml") and not Path(where).exists():
        raise UnknownName(f"unknown stream '{where}'{closest(where, shipped)}; or give a TOML file")
    with naming(where):
        return decode_text(read_bytes(Path(where)))


def read_stream_toml(text: str, *, name: str) -> ConditionalStream:
    """Return the stream a TOML text describes; `name` is used where the text has none."""
    record = Record(parse_toml(text))
    if "streams" in record:
        raise InvalidInput("has several streams; read it with load_streams or: weft evaluate")
    record.only(_KEYS)
    title = record.text("name", name)
    _tasks(record)
    return _stream(record, record, title, _units(record, title))


def read_streams_toml(text: str, *, name: str) -> SharedStreams:
    """Return the streams a TOML text describes: [[streams]] on the same [[units]], or one."""
    record = Record(parse_toml(text))
    title = record.text("name", name)
    if "streams" not in record:
        return SharedStreams((read_stream_toml(text, name=name),), title)
    record.only(("name", "streams", *_SHARED_KEYS))
    units, found = _units(record, title), []
    for r in record.children("streams"):
        r.only(_OWN_KEYS)
        found.append(_stream(r, record, r.text("name"), units))
    if len({s.name for s in found}) < len(found):
        raise InvalidInput("has two streams of the same name; give each its own")
    return SharedStreams(tuple(found), title)


def _stream(record: Record, shared: Record, title: str, units: Cluster) -> ConditionalStream:
    """Return one stream; `shared` has the units and the tick of all streams of the file."""
    workflow, drift, watched = _workflow(record, _tasks(record), title, _unit_rows(shared))
    _refuse_unreachable(workflow, _names(record, "start", [str(workflow.task_name(0))]))
    return ConditionalStream(
        problem=Problem.bind(workflow, units),
        arrivals=_arrivals(record),
        drift=tuple(drift),
        jobs=_count(record, "jobs", 1000),
        watched=tuple(watched),
        tick=quantity(shared.raw("tick", 1.0), "seconds", "tick"),
        name=title,
        deadline=quantity(record.raw("deadline", np.inf), "seconds", record.path("deadline")),
        priority=_number(record.raw("priority", 0.0), record.path("priority")),
    )


def _tasks(record: Record) -> list[Record]:
    tasks = record.children("tasks") if "tasks" in record else []
    if not tasks:
        raise InvalidInput("has no tasks; add at least one [[tasks]] table")
    return tasks


def _arrivals(record: Record) -> Arrivals:
    r = record.child("arrivals")
    r.only(("process", "gap", "deviation", "times"))
    process = r.text("process", "regular")
    times = tuple(
        quantity(t, "seconds", f"{r.path('times')}[{i}]")
        for i, t in enumerate(_list(r, "times", []))
    )
    gap = quantity(r.raw("gap", 0.0 if process == "trace" else 1.0), "seconds", r.path("gap"))
    return Arrivals(
        process, gap, quantity(r.raw("deviation", 0.0), "seconds", r.path("deviation")), times
    )


# -- the graph ---------------------------------------------------------------


def _workflow(
    record: Record, tasks: list[Record], title: str, units: dict[str, float]
) -> tuple[Workflow, list[ProbabilityDrift], list[int]]:
    builder = WorkflowBuilder(title)
    check_cells(len(tasks) * len(units), f"a table of {len(tasks)} tasks x {len(units)} units")
    output = {}
    for r in tasks:
        r.only(("name", "time", "then", "kind", "memory", "output", "repeat"))
        by_unit = _times(r, units)
        memory = quantity(r.raw("memory", 0.0), "bytes", r.path("memory"))
        output[r.text("name")] = quantity(r.raw("output", 0.0), "bytes", r.path("output"))
        for name in _rounds(r):
            builder.task(
                name,
                work=max(by_unit.values()) if isinstance(r.raw("time"), dict) else _time(r),
                kind=r.text("kind", r.text("name")),
                memory=memory,
                durations=by_unit,
            )
    drift, watched = [], []
    for c, r in enumerate(record.children("choices") if "choices" in record else []):
        drift.append(_choice(r, builder, output, [t for t in tasks if "repeat" in t]))
        watched += [c] if r.flag("estimate", default=False) else []
    for r in tasks:
        drift += _repeat(r, builder, _names(r, "then", []), output[r.text("name")])
    return builder.build(), drift, watched


def _rounds(r: Record) -> list[str]:
    """Return the names of the rounds of a task: its name, then name~2, name~3, ..."""
    name = r.text("name")
    most = 1
    if "repeat" in r:
        r.child("repeat").only(("most", "again"))
        most = _count(r.child("repeat"), "most")
    if most > MOST_ROUNDS:
        raise InvalidInput(f"task '{name}' repeats {most} times; at most {MOST_ROUNDS} are read")
    return [name, *(f"{name}~{k}" for k in range(2, most + 1))]


def _repeat(
    r: Record, builder: WorkflowBuilder, then: list[str], output: float
) -> list[ProbabilityDrift]:
    """Add the edges of a task that always follow, and the choices between its rounds."""
    names, drift = _rounds(r), []
    for this, following in pairwise(names):
        again = _number(r.child("repeat").raw("again"), f"{r.path('repeat')}.again")
        if not 0.0 <= again <= 1.0:
            raise InvalidInput(f"{r.path('repeat')}.again is {again:g}; it must be 0 to 1")
        builder.choice(this, {"again": again, "done": 1.0 - again})
        builder.edge(this, following, data=output, when="again")
        for target in then:
            builder.edge(this, target, data=output, when="done")
        drift.append(ProbabilityDrift("fixed", np.array([[again, 1.0 - again]])))
    for target in then:
        builder.edge(names[-1], target, data=output)
    return drift


def _times(r: Record, units: dict[str, float]) -> dict[str, float]:
    """Return the seconds of a task on each unit: given for each, or one time with coefficients."""
    if isinstance(r.raw("time"), dict):
        given = r.child("time")
        given.only(units)
        return {name: _time(given, name) for name in units}
    # In decimal: 10 ms at a coefficient of 0.8 is the number nearest to 0.008.
    seconds = Decimal(repr(_time(r)))
    return {name: float(seconds * Decimal(repr(factor))) for name, factor in units.items()}


def _time(r: Record, key: str = "time") -> float:
    seconds = quantity(r.raw(key), "seconds", r.path(key))
    if not 0 <= seconds < np.inf:
        raise InvalidInput(f"{r.path(key)} is {seconds}; it must be a finite time, zero or more")
    return seconds


def _choice(
    r: Record, builder: WorkflowBuilder, output: dict[str, float], repeating: list[Record]
) -> ProbabilityDrift:
    """Add a choice and its edges; `output` has the bytes that each task gives."""
    known = list(output)
    change = r.text("change", "fixed")
    if change not in _CHANGE_KEYS:
        raise UnknownName(f"{r.path('change')} is '{change}'{closest(change, _CHANGE_KEYS)}")
    r.only(("task", "branches", "leads_to", "estimate", "change", *_CHANGE_KEYS[change]))
    task, branches = r.text("task"), _branches(r)
    if task in [t.text("name") for t in repeating]:
        raise InvalidInput(
            f"task '{task}' repeats, so it has no other choice; let a task after it choose"
        )
    leads_to = r.child("leads_to").content if "leads_to" in r else {}
    for label in leads_to:
        if label not in branches:
            raise UnknownName(
                f"{r.path('leads_to')} names the unknown branch '{label}'{closest(label, branches)}"
            )
    builder.choice(task, branches)
    for label in branches:
        if label not in leads_to and label not in known:
            raise UnknownName(
                f"branch '{label}' of task '{task}' is no task{closest(label, known)}; or name "
                "its target in leads_to"
            )
        for target in _targets(leads_to.get(label, [label]), f"{r.path('leads_to')}.{label}"):
            builder.edge(task, target, data=output.get(task, 0.0), when=label)
    rows, times = [list(branches.values())], [0.0]
    for i, entry in enumerate(_list(r, "at", [])):
        step = Record(entry, f"{r.path('at')}[{i}]")
        step.only(("time", "branches"))
        share = _branches(step)
        if set(share) != set(branches):
            raise InvalidInput(
                f"{step.path('branches')} must have the branches {', '.join(branches)}"
            )
        rows.append([share[label] for label in branches])
        times.append(quantity(step.raw("time"), "seconds", step.path("time")))
    limits = {
        key: _number(r.raw(key), r.path(key)) for key in ("spread", "low", "high") if key in r
    }
    return ProbabilityDrift(change, np.array(rows, float), np.array(times, float), **limits)


def _targets(value: object, where: str) -> list[str]:
    if not isinstance(value, list):
        raise InvalidInput(f"{where} is {shown(value)}; it must be a list of tasks")
    return Record({where: value}).strings(where)


def _branches(r: Record) -> dict[str, float]:
    content = r.child("branches").content
    share = {
        str(label): _number(p, f"{r.path('branches')}.{label}") for label, p in content.items()
    }
    total = sum(share.values())
    if not share or not all(p >= 0 for p in share.values()) or abs(total - 1.0) > 1e-9:
        raise InvalidInput(
            f"{r.path('branches')}: the probabilities of {', '.join(share) or 'nothing'} add up to "
            f"{total:g}; they must add up to 1"
        )
    return share


def _refuse_unreachable(workflow: Workflow, starts: list[str]) -> None:
    names = [workflow.task_name(t) for t in range(workflow.n)]
    for start in starts:
        if start not in names:
            raise UnknownName(f"start names the unknown task '{start}'{closest(start, names)}")
    reached = [name in starts for name in names]
    for u in workflow.order.tolist():
        for v in workflow.dst[int(workflow.succ_ptr[u]) : int(workflow.succ_ptr[u + 1])].tolist():
            reached[v] = reached[v] or reached[u]
    lost = [name for name, here in zip(names, reached, strict=True) if not here]
    if lost:
        raise InvalidInput(
            f"task '{lost[0]}' is never reached from {', '.join(starts)}; lead to it with then or "
            "a branch, or add it to start"
        )
    for start in starts:
        if workflow.pred_ptr[names.index(start) + 1] > workflow.pred_ptr[names.index(start)]:
            raise InvalidInput(f"a job begins with task '{start}', so no other task may lead to it")


# -- units -------------------------------------------------------------------


def _unit_rows(record: Record) -> dict[str, float]:
    rows = {}
    for r in record.children("units") if "units" in record else []:
        coefficient = _coefficient(r)
        if r.text("name") in rows:
            raise InvalidInput(
                f"unit '{r.text('name')}' is given twice; use count = 2 for two of them"
            )
        rows[r.text("name")] = coefficient
    if not rows:
        raise InvalidInput("has no units; add at least one [[units]] table")
    return rows


def _coefficient(r: Record) -> float:
    found = _number(r.raw("coefficient", 1.0), r.path("coefficient"))
    if not 0 < found < np.inf:
        raise InvalidInput(
            f"{r.path('coefficient')} is {found}; it must be a finite number above zero"
        )
    return found


def _units(record: Record, title: str) -> Cluster:
    devices: list[Device] = []
    for r in record.children("units"):
        r.only(("name", "count", "coefficient", "batch", "memory", *MACHINE_KEYS))
        name, count = r.text("name"), _count(r, "count", 1)
        if "batch" not in r:
            raise InvalidInput(
                f"unit '{name}' has no batch; give the number of tasks of one kind that it "
                "takes at once (1: one at a time)"
            )
        memory = quantity(r.raw("memory", np.inf), "bytes", r.path("memory"))
        coefficient = _coefficient(r)
        check_devices(len(devices) + count)
        batch = _count(r, "batch")
        machine = {"memory": memory, "batch_curve": read_batch_curve(r), **read_setup(r)}
        for i in range(count):
            label = f"{name}{i}" if count > 1 else name
            devices.append(
                Device(label, kind=name, speed=1.0 / coefficient, batch=batch, **machine)
            )
    links = Links()
    if "links" in record:
        r = record.child("links")
        r.only(("bandwidth", "latency"))
        links = Links(
            quantity(r.raw("bandwidth", np.inf), "bytes per second", r.path("bandwidth")),
            quantity(r.raw("latency", 0.0), "seconds", r.path("latency")),
        )
    return Cluster.of(devices, links, name=title)


# -- small readers -----------------------------------------------------------


def _number(value: object, what: str) -> float:
    return quantity(value, "work per second", what)  # a dimension without units


def _count(r: Record, key: str, default: int | None = None) -> int:
    value = r.raw(key) if default is None else r.raw(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**31:
        raise InvalidInput(f"{r.path(key)} is {shown(value)}; it must be a whole number, 1 or more")
    return value


def _list(r: Record, key: str, default: list[Any]) -> list[Any]:
    value = r.raw(key, default)
    if not isinstance(value, list):
        raise InvalidInput(f"{r.path(key)} is {shown(value)}; it must be a list")
    return value


def _names(r: Record, key: str, default: list[str]) -> list[str]:
    value = r.raw(key, default)
    return [value] if isinstance(value, str) else r.strings(key, default)
