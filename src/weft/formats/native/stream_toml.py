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
    latency = "50 us"                   # or [network], with ports of units, see `network`

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
    batch_curve = {classify = 0.4}      # what each further task adds, or [1, 1.2, ...] by size, up
                                        # to the largest batch of the kind
    memory = "16 GB"
    setup = {classify = {time = "2 s", memory = "4 GB", pinned = true}}  # loading; or a time
    cache = "8 GB"                      # for what is loaded; the kind used last is kept
    switch = "1 ms"                     # before a batch of another kind than the last one
    node = "host"                       # of a [network]; by default each unit is a node

Several streams share units if a file has [[streams]], each with `name`, `jobs`, `deadline`,
`priority`, `start`, `arrivals`, `tasks` and `choices` of its own, beside `tick`, `units`,
`links` and `network`. Tasks of the same kind share batches and set-ups.
"""

from __future__ import annotations

import os
import warnings
from importlib.resources import files
from pathlib import Path

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput, UnknownName
from weft.formats.native.cluster_toml import MACHINE_KEYS, parse_toml, read_batch_curve, read_setup
from weft.formats.native.network import read_network
from weft.formats.native.stream_graph import read_graph, read_list, read_names, refuse_unreachable
from weft.formats.parsing.limits import check_devices
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, is_there, naming, read_bytes
from weft.model import Cluster, Device, Links, Problem
from weft.model.conditional_stream import Arrivals, ConditionalStream, SharedStreams
from weft.model.machines.capacity import offered_load
from weft.model.machines.device import LARGEST_CURVE, Curve
from weft.registry import closest

_OWN_KEYS = ("name", "jobs", "deadline", "priority", "start", "arrivals", "tasks", "choices")

_SHARED_KEYS = ("tick", "units", "links", "network")

_KEYS = (*_OWN_KEYS, *_SHARED_KEYS)

_WANTED = "; a stream is a TOML file with [[tasks]] and [[units]] (see: weft list streams)"


class UnstableLoad(UserWarning):
    """A stream asks for more than its units can do."""


def stream_names() -> list[str]:
    """Return the names of the streams that ship with weft."""
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
    text = _read(where)
    with naming(where):
        return read_streams_toml(text, name=Path(where).stem)


def _read(where: str) -> str:
    """Return the text of a TOML file, or of a stream that ships with weft, by name."""
    shipped = stream_names()
    if where in shipped:
        place = files("weft.formats").joinpath("streams", f"{where}.toml")
        return place.read_text(encoding="utf-8")
    if not where.endswith(".toml") and not is_there(Path(where)):
        near = closest(where, shipped)
        raise UnknownName(f"unknown stream {shown(where)}{near}; or give a TOML file")
    with naming(where):
        return decode_text(read_bytes(Path(where)))


def read_stream_toml(text: str, *, name: str) -> ConditionalStream:
    """Return the stream a TOML text describes; `name` is used where the text has none."""
    record = _document(text)
    if "streams" in record:
        raise InvalidInput("has several streams; read it with load_streams or: weft evaluate")
    record.only(_KEYS)
    title = record.text("name", name)
    _tasks(record)
    return _stream(record, record, title, _units(record, title))


def read_streams_toml(text: str, *, name: str) -> SharedStreams:
    """Return the streams of a TOML text: [[streams]] on the same units, or one."""
    record = _document(text)
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


def _document(text: str) -> Record:
    """Return the document of a stream; refuse files of other kinds by what they hold."""
    try:
        record = Record(parse_toml(text))
    except InvalidInput as error:
        if text.lstrip()[:1] == "{":
            raise InvalidInput(f"holds JSON, not a stream{_WANTED}") from None
        raise InvalidInput(f"{error}" if "units" in text else f"{error}{_WANTED}") from None
    if "devices" in record and "units" not in record:
        raise InvalidInput(f"holds a cluster, not a stream{_WANTED}")
    return record


def _stream(record: Record, shared: Record, title: str, units: Cluster) -> ConditionalStream:
    """Return one stream; `shared` has the units and the tick of all in the file."""
    workflow, drift, watched = read_graph(record, _tasks(record), title, _unit_rows(shared))
    refuse_unreachable(workflow, read_names(record, "start", [str(workflow.task_name(0))]))
    return ConditionalStream(
        problem=Problem.bind(workflow, units),
        arrivals=_arrivals(record),
        drift=tuple(drift),
        jobs=record.count("jobs", 1000),
        watched=tuple(watched),
        tick=shared.quantity("tick", "seconds", 1.0),
        name=title,
        deadline=record.quantity("deadline", "seconds", np.inf),
        priority=record.quantity("priority", "number", 0.0),
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
        for i, t in enumerate(read_list(r, "times", []))
    )
    gap = r.quantity("gap", "seconds", 0.0 if process == "trace" else 1.0)
    return Arrivals(process, gap, r.quantity("deviation", "seconds", 0.0), times)


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
    found = r.quantity("coefficient", "number", 1.0)
    if not 0 < found < np.inf:
        raise InvalidInput(
            f"{r.path('coefficient')} is {found}; it must be a finite number above zero"
        )
    return found


def _continued(curve: Curve, batch: int) -> Curve:
    """Return a curve up to `batch`.

    A larger batch than the curve has numbers for takes as long as several batches, and a little
    longer, so that no policy fills a batch that far.
    """
    if isinstance(curve, int | float) or not 0 < len(curve) < batch <= LARGEST_CURVE:
        return curve
    known, largest = [0.0, *curve], len(curve)
    more = range(largest + 1, batch + 1)
    again = [(size // largest) * known[-1] + known[size % largest] for size in more]
    return [*curve, *(seconds * (1.0 + 1e-9) for seconds in again)]


def _units(record: Record, title: str) -> Cluster:
    devices: list[Device] = []
    for r in record.children("units"):
        r.only(("name", "count", "coefficient", "batch", "memory", "node", *MACHINE_KEYS))
        name, count = r.text("name"), r.count("count", 1)
        if "batch" not in r:
            raise InvalidInput(
                f"unit '{name}' has no batch; give the number of tasks of one kind that it "
                "takes at once (1: one at a time)"
            )
        memory = r.quantity("memory", "bytes", np.inf)
        coefficient = _coefficient(r)
        check_devices(len(devices) + count)
        batch = r.count("batch")
        curves = {k: _continued(c, batch) for k, c in read_batch_curve(r).items()}
        machine = {"memory": memory, "batch_curve": curves, **read_setup(r)}
        for i in range(count):
            label = f"{name}{i}" if count > 1 else name
            devices.append(
                Device(
                    label,
                    kind=name,
                    speed=1.0 / coefficient,
                    batch=batch,
                    node=r.text("node", label if "network" in record else "node0"),
                    **machine,
                )
            )
    links = Links()
    if "links" in record:
        r = record.child("links")
        r.only(("bandwidth", "latency"))
        links = Links(
            r.quantity("bandwidth", "bytes per second", np.inf),
            r.quantity("latency", "seconds", 0.0),
        )
    network = read_network(record.child("network")) if "network" in record else None
    return Cluster.of(devices, links, name=title, network=network)
