"""`Recording`: executions that another engine measured, and their problem."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from weft.arguments import shown
from weft.errors import InvalidInput
from weft.formats.parsing.limits import check_devices, check_graph
from weft.model import Cluster, Device, Problem, Workflow, WorkflowBuilder
from weft.typed import typed_dataclass


@dataclass(frozen=True)
class MeasuredExecution:
    """One execution of a task; times are in seconds, sizes in bytes.

    Attributes
    ----------
    kind : executions of one kind have similar costs
    start : NaN if unknown
    host, lane : the machine, and the thread or slot of it; empty if unknown
    device : kind of device, as in `Device.kind`
    output : bytes the task wrote or returned
    parents : tasks that had to end before
    done : false if the execution failed
    """

    task: str
    kind: str
    seconds: float
    start: float = math.nan
    host: str = ""
    lane: str = ""
    device: str = "cpu"
    memory: float = 0.0
    cores: int = 1
    output: float = 0.0
    parents: tuple[str, ...] = ()
    done: bool = True

    def __post_init__(self) -> None:
        if not self.task or not self.kind:
            raise InvalidInput("an execution has no name")
        for what in ("seconds", "memory", "output"):
            value = getattr(self, what)
            if not 0 <= value < math.inf:
                raise InvalidInput(
                    f"{what} of task {shown(self.task)} is {value:g}; it must be 0 or more"
                )
        if math.isinf(self.start):
            raise InvalidInput(f"start of task {shown(self.task)} is {self.start:g}")
        if not 1 <= self.cores < 2**31:
            raise InvalidInput(f"task {shown(self.task)} uses {self.cores} cores; at least 1 is")


@typed_dataclass(frozen=True)
class Recording:
    """The executions of a file, in its order."""

    name: str
    engine: str
    executions: tuple[MeasuredExecution, ...]

    @cached_property
    def finished(self) -> dict[str, MeasuredExecution]:
        """The last successful execution of each task."""
        found = {e.task: e for e in self.executions if e.done}
        if not found:
            raise InvalidInput(f"is a record of {self.engine}, but no task of it has finished")
        return found

    def workflow(self) -> Workflow:
        """Return the tasks with their measured seconds as work at speed 1.

        The output of a task goes to every task that needs it. With several kinds of devices, a task
        has a duration on the kinds on which tasks of its kind were measured.
        """
        tasks = self.finished
        edges = [(p, e) for e in tasks.values() for p in dict.fromkeys(e.parents) if p in tasks]
        check_graph(len(tasks), len(edges))
        build = WorkflowBuilder(self.name)
        measured = self._by_device()
        for e in tasks.values():
            seconds = {**measured[e.kind], e.device: e.seconds} if measured else None
            build.task(
                e.task,
                work=e.seconds,
                kind=e.kind,
                memory=e.memory,
                cores=e.cores,
                durations=seconds,
            )
        for parent, child in edges:
            build.edge(parent, child.task, data=tasks[parent].output)
        return build.build()

    def _by_device(self) -> dict[str, dict[str, float]]:
        """Return the median seconds by kind of task and device; empty: one kind of device."""
        found: dict[str, dict[str, list[float]]] = {}
        for e in self.finished.values():
            found.setdefault(e.kind, {}).setdefault(e.device, []).append(e.seconds)
        if len({e.device for e in self.finished.values()}) == 1:
            return {}
        return {
            kind: {device: median(seconds) for device, seconds in rows.items()}
            for kind, rows in found.items()
        }

    def cluster(self) -> Cluster:
        """Return the machines: a device per lane, or per task that ran at once on a host.

        If tasks used several cores, the tasks of a host share its most cores in use at once.
        """
        places: dict[tuple[str, str], list[MeasuredExecution]] = {}
        for e in self.finished.values():
            places.setdefault((e.host, e.device), []).append(e)
        devices: list[Device] = []
        shared: dict[str, float] = {}
        for (host, kind), found in places.items():
            node = host or "host"
            lanes = list(dict.fromkeys(e.lane for e in found))
            if lanes == [""] or "" in lanes:
                lanes = [f"{kind}{i}" for i in range(_most_at_once(found))]
            check_devices(len(devices) + len(lanes))
            cores = max(e.cores for e in found)
            devices += [Device(f"{node}/{x}", kind=kind, node=node, cores=cores) for x in lanes]
            if cores > 1 and not any(math.isnan(e.start) for e in found):
                shared[node] = shared.get(node, 0.0) + _most_at_once(found, cores=True)
        return Cluster.of(devices, capacity={"cores": shared}, name="the recorded devices")

    def problem(self) -> Problem:
        """Return the workflow on the machines of the recording, with free links."""
        return Problem.bind(self.workflow(), self.cluster())

    def warn_of_dependencies(self, where: str) -> None:
        """Warn if several tasks have no dependencies."""
        if len(self.finished) > 1 and not any(e.parents for e in self.finished.values()):
            warnings.warn(
                f"{where}: {self.engine} records no dependencies here: its "
                f"{len(self.finished)} tasks are planned as independent of each other",
                UnknownDependencies,
                stacklevel=5,
            )


class UnknownDependencies(UserWarning):
    """A recording names no dependencies: its tasks are planned as independent."""


def _most_at_once(executions: list[MeasuredExecution], *, cores: bool = False) -> int:
    """Return the most executions, or cores, in use at once; 1 if starts are unknown."""
    if any(math.isnan(e.start) for e in executions):
        return 1
    counted = [(e, e.cores if cores else 1) for e in executions if e.seconds > 0]
    steps = [(e.start, count) for e, count in counted]
    steps += [(e.start + e.seconds, -count) for e, count in counted]
    running = most = 0
    for _, step in sorted(steps):  # ends (-1) come before starts (+1) at the same time
        running += step
        most = max(most, running)
    return max(most, 1)


def distinct(names: Iterable[str]) -> list[str]:
    """Number repeated names.

    Examples
    --------
    >>> distinct(["a", "b", "a", "a-1"])
    ['a', 'b', 'a-1', 'a-1-1']
    """
    seen: dict[str, int] = {}
    made = []
    for name in names:
        unique = name
        while unique in seen:
            seen[name] = seen.get(name, 0) + 1
            unique = f"{name}-{seen[name]}"
        seen[unique] = 0
        made.append(unique)
    return made
