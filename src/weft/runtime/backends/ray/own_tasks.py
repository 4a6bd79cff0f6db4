"""A graph as Ray's own tasks, which Ray places, for runs without measurements.

The tasks run in Ray's worker processes, beside the actors of the devices. The node of a task is its
device; among several devices of a node, one that was free.

Each function of the user is a remote function of its own, as in a program for Ray, which queues
tasks and leases workers by function.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

from weft.runtime.backends.local.worker import loaded_once
from weft.runtime.backends.protocol import Finished
from weft.runtime.backends.ray.actor import Pickled, perform, pickling
from weft.runtime.backends.ray.slots import ActorSlot, TransferEstimator
from weft.runtime.deciders.whole_plan import OnFinish, ParentsFirst, PlanRow
from weft.runtime.inputs.functions import in_order

TICK = 0.5
"""Seconds between two looks for lost devices."""


class Host(NamedTuple):
    """The devices of a node of Ray, and the seconds to add to its clock."""

    devices: Sequence[int]
    offset: float


class OwnTasks:
    """A graph in execution by Ray's own scheduling.

    Parameters
    ----------
    ray : the module
    hosts : node of Ray -> its devices
    zero : reading of the clock when the run began
    """

    def __init__(
        self, ray: Any, hosts: Mapping[str, Host], transfers: TransferEstimator, zero: float
    ) -> None:
        self._ray, self._hosts, self._transfers = ray, hosts, transfers
        self._remote = ray.remote(max_retries=0, num_returns=2)
        self._functions: dict[bytes, Any] = {}
        """Pickle of a function -> the remote function that calls it."""
        self._began = time.perf_counter() - zero
        self._zero = zero
        self._free = {device: 0.0 for host in hosts.values() for device in host.devices}
        self._values: dict[int, Any] = {}
        self._reports: dict[Any, PlanRow] = {}

    def submit(
        self, rows: Sequence[PlanRow], call_of: Callable[[int], tuple[str, bytes, Pickled]]
    ) -> None:
        """Make the calls of all rows.

        `call_of` gives the name of the function of an instance, its pickle and its arguments. Ray
        runs first what was called first.
        """
        for row in parents_first(rows):
            name, function, arguments = call_of(row.instance)
            if function not in self._functions:
                self._functions[function] = self._remote(task_of(function, name))
            inputs = [self._values[parent] for parent in row.parents]
            report, value = self._functions[function].remote(arguments, *inputs)
            self._reports[report], self._values[row.instance] = row, value

    def follow(
        self, disturbed: Callable[[], bool], keep: Callable[[int, Any], None], on_finish: OnFinish
    ) -> None:
        """Report the ends, parents first, until all ended, one failed or a device is lost."""
        ends = ParentsFirst(self._reports.values())
        while self._reports and not disturbed():
            found, _ = self._ray.wait(list(self._reports), num_returns=1, timeout=TICK)
            if found:
                found, _ = self._ray.wait(
                    list(self._reports), num_returns=len(self._reports), timeout=0
                )
            collected = [self._collect(ref) for ref in found]
            if None in collected:
                break
            for row, event in filter(None, collected):
                ends.add(row.instance, event)
            for instance, event in ends.take():
                keep(instance, self._values.pop(instance))  # Ray drops results without references
                on_finish(instance, event)
        for ref in self._reports:
            self._ray.cancel(ref)

    def _collect(self, ref: Any) -> tuple[PlanRow, Finished] | None:
        """Return a task and its end; None if it failed or was lost."""
        try:
            (word, begin, end, *rest), node, process = self._ray.get(ref)
        except self._ray.exceptions.RayError:
            return None
        row, host = self._reports.pop(ref), self._hosts.get(node)
        if word != "done" or host is None:
            return None
        shift = host.offset - self._zero
        start, finish = begin + shift, end + shift
        start = max([start, *(self._transfers.finish_of(parent) for parent in row.parents)])
        device = min(host.devices, key=lambda d: (self._free[d] > start, self._free[d]))
        start = max(start, self._free[device])
        size, branches = rest
        moved = self._transfers.started(
            row.parents, device, since=self._began, free_at=self._free[device], start=start
        )
        self._free[device] = finish = max(finish, start)
        self._transfers.made(row.instance, device, float(size), finish)
        return row, Finished(
            0, device, start, finish, (float(size),), (branches,), moved, f"{node}-{process}"
        )


def hosts_of(slots: Iterable[ActorSlot | None]) -> dict[str, Host]:
    """Return node of Ray -> its devices, of those whose actors are up."""
    hosts: dict[str, Host] = {}
    for slot in slots:
        if slot is not None:
            devices = hosts[slot.node].devices if slot.node in hosts else ()
            hosts[slot.node] = Host((*devices, slot.device), slot.offset)
    return hosts


def parents_first(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """Return rows in their order, but parents first.

    Examples
    --------
    >>> rows = [PlanRow(0, 0, (2,)), PlanRow(2, 0, ()), PlanRow(1, 0, (0,))]
    >>> [row.instance for row in parents_first(rows)]
    [2, 0, 1]
    """
    known = {row.instance: row for row in rows}
    needs = {i: [p for p in row.parents if p in known] for i, row in known.items()}
    return [known[i] for i in in_order(list(known), needs.__getitem__)]


def task_of(function: bytes, name: str) -> Callable[..., tuple[Any, Any]]:
    """Return a function for Ray that runs calls of the pickled one, under its name."""

    def task(arguments: Pickled, *inputs: Pickled) -> tuple[Any, Any]:
        return perform_task(function, arguments, *inputs)

    task.__name__ = task.__qualname__ = name
    return task


def perform_task(function: bytes, arguments: Pickled, *inputs: Pickled) -> tuple[Any, Any]:
    """Run a call in a process of Ray; return (report, node, process) and the result."""
    report, value = perform(loaded_once(function), arguments, inputs, pickling(), chooses=False)
    node = import_module("ray").get_runtime_context().get_node_id()
    return (report, node, os.getpid()), value
