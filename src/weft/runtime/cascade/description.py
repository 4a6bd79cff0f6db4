"""The file of a cascade: program and processes of each task of a stream.

Example::

    stream = "stream.toml"              # graph, units and batches; by default the file's own name
    policy = "conditional-any"
    queue = 1000                        # requests that may be open at once

    [stages.small]
    call = "stages:small"               # a function of stages.py beside this file
    setup = "stages:load_small"         # called once per unit; its result goes to `call` first
    timeout = "2 s"

    [units.fast]
    threads = 2
    cores = [0, 1]
    environment = {CUDA_VISIBLE_DEVICES = "0"}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from weft.arguments import shown, whole
from weft.errors import InvalidInput, UnknownName
from weft.formats.native.cluster_toml import parse_toml
from weft.formats.native.stream_toml import load_stream, stream_names
from weft.formats.parsing.quantity import quantity
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, is_there, naming, read_bytes
from weft.model.conditional_stream import ConditionalStream
from weft.registry import closest
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.cascade.stage import Stage
from weft.runtime.costs.profiler import cores_here
from weft.typed import description

DEFAULT_POLICY = "conditional-any"
QUEUE = 1000
"""Requests that may be open at once, by default."""

MOST = 2**31
"""Above every number of threads and of waiting requests."""


@description
@dataclass(frozen=True)
class UnitProcess:
    """The process of each unit of a name: library threads, cores, environment."""

    threads: int = 1
    cores: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse numbers and variables that no process can have."""
        whole(self.threads, "threads of a unit", most=MOST)
        for core in self.cores:
            whole(core, "a core of a unit", least=0, most=MOST)
        for name, value in self.environment.items():
            if not (isinstance(name, str) and isinstance(value, str)):
                raise TypeError("environment variables are text")  # the caller learns which one


@description
@dataclass(frozen=True, eq=False)
class CascadeDescription:
    """A stream, a stage per task, and processes of its units by unit or kind of unit."""

    stream: ConditionalStream
    stages: Mapping[str, Stage]
    units: Mapping[str, UnitProcess] = field(default_factory=dict)
    policy: str = DEFAULT_POLICY
    queue: int = QUEUE
    folder: str = ""
    """Of the cascade file; empty: there is none."""

    def __post_init__(self) -> None:
        """Refuse names that the stream does not have, and tasks without a stage."""
        workflow, cluster = self.stream.problem.workflow, self.stream.problem.cluster
        tasks = list(workflow.task_names)
        _known(self.stages, tasks, "stage", "task")
        _known(self.units, [*cluster.names, *cluster.kinds], "unit", "unit")
        missing = [task for task in tasks if task not in self.stages]
        if missing:
            raise InvalidInput(f"task '{missing[0]}' has no stage; add [stages.{missing[0]}]")
        if self.queue < 1:
            raise InvalidInput(f"queue is {self.queue}; it must be at least 1")

    def devices(self) -> list[LocalDevice]:
        """Return the processes, in the order of the units."""
        cluster = self.stream.problem.cluster
        rows = zip(cluster.names, cluster.kinds, strict=True)
        return [self._device(name, kind) for name, kind in rows]

    def _device(self, name: str, kind: str) -> LocalDevice:
        unit = self.units.get(name, self.units.get(kind, UnitProcess()))
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(unit.threads))
        environment = {**threads, **unit.environment}
        return LocalDevice(name, kind=kind, cores=unit.cores, environment=environment)


def load_cascade(
    path: str | os.PathLike[str], *, stream: str | os.PathLike[str] | None = None
) -> CascadeDescription:
    """Load a cascade file; `stream` replaces the stream that it names."""
    where = Path(path)
    with naming(str(where)):
        record = Record(parse_toml(decode_text(read_bytes(where))))
        record.only(("stream", "policy", "queue", "stages", "units"))
        named = record.text("stream")
        stages = {name: _stage(r, where.parent) for name, r in _tables(record, "stages")}
        units = {name: _unit(r) for name, r in _tables(record, "units")}
        queue = _count(record, "queue", QUEUE)
        policy = record.text("policy", DEFAULT_POLICY)
    if stream is None:
        stream = named if named in stream_names() else where.parent / named
    if is_there(where.parent / policy):
        policy = str(where.parent / policy)
    loaded = load_stream(stream)
    with naming(str(where)):
        return CascadeDescription(loaded, stages, units, policy, queue, str(where.parent.resolve()))


def _tables(record: Record, key: str) -> list[tuple[str, Record]]:
    if key not in record:
        return []
    tables = record.child(key)
    return [(name, tables.child(name)) for name in tables.content]


def _stage(r: Record, folder: Path) -> Stage:
    r.only(("call", "setup", "timeout"))
    timeout = quantity(r.raw("timeout"), "seconds", r.path("timeout")) if "timeout" in r else None
    if timeout is not None and not timeout > 0:
        raise InvalidInput(f"{r.path('timeout')} is {timeout:g} s; it must be above zero")
    setup = r.text("setup") if "setup" in r else None
    for key, text in (("call", r.text("call")), ("setup", setup)):
        if text is not None and not all(text.partition(":")):
            raise InvalidInput(f"{r.path(key)} is '{text}'; write module:function")
    return Stage(r.text("call"), setup, timeout, str(folder.resolve()))


def _unit(r: Record) -> UnitProcess:
    r.only(("threads", "cores", "environment"))
    threads = _count(r, "threads", 1)
    cores = tuple(np.atleast_1d(r.integers("cores", [])).tolist())
    lacking = [core for core in cores if core not in cores_here()]
    if lacking:
        raise InvalidInput(f"{r.path('cores')} has {lacking[0]}; the cores here: {cores_here()}")
    environment = r.child("environment") if "environment" in r else Record({})
    return UnitProcess(
        threads, cores, {name: environment.text(name) for name in environment.content}
    )


def _count(r: Record, key: str, default: int) -> int:
    value = r.raw(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < MOST:
        raise InvalidInput(
            f"{r.path(key)} is {shown(value)}; it must be a whole number, 1 or more, below {MOST}"
        )
    return value


def _known(given: Mapping[str, object], known: list[str], what: str, of: str) -> None:
    for name in given:
        if name not in known:
            near = closest(name, dict.fromkeys(known))
            raise UnknownName(f"{what} '{name}' is no {of} of the stream{near}")
