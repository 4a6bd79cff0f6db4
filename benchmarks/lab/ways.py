"""The ways to run a workload in a lab: an engine alone, and weft on it."""

from __future__ import annotations

import functools
import importlib
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lab.workloads import MODULES, WORKLOADS

import weft

OWN, FIRST, PLAN = "own", "first", "plan"
PLANNER = "list-portfolio"
"""Planner of the plans after one run of history."""

POLICIES = ("rank-eft", "portfolio-makespan")
"""Policies of which the table shows the best, after one run of history."""


class Round(NamedTuple):
    """One run: seconds from the call to the result, its value, and the trace if it is weft's."""

    seconds: float
    value: Any
    trace: Any = None


@functools.cache
def task_of(function: Callable[..., Any]) -> Any:
    return weft.task(function)


def promised(function: Callable[..., Any], *args: Any) -> Any:
    """Make a task of weft."""
    return task_of(function)(*args)


class DaskSide:
    """Dask in a lab, from a process on its head."""

    def __init__(self, address: str) -> None:
        from distributed import Client

        from weft.runtime.backends.dask.backend import DaskBackend

        self.client: Any = Client(address, set_as_default=False, timeout=240)
        self._backend_of = DaskBackend
        self.backend: Any = None

    def ready(self, hosts: int) -> None:
        self.client.wait_for_workers(hosts, timeout=240)
        self.client.run(load_modules, MODULES)

    def own(self, workload: str, scale: float) -> Round:
        """Run the graph by Dask's own scheduling."""
        from dask import delayed

        def call(function: Callable[..., Any], *args: Any) -> Any:
            return delayed(function, pure=False)(*args)

        begin = time.perf_counter()
        future = self.client.compute(WORKLOADS[workload](call, scale))
        value = future.result()
        seconds = time.perf_counter() - begin
        future.release()
        return Round(seconds, value)

    def weft(self, workload: str, scale: float, **options: Any) -> Round:
        if self.backend is None:
            self.backend = self._backend_of(self.client, grace_seconds=20)
        return by_weft(self.backend, workload, scale, **options)

    def close(self) -> None:
        self.client.close()


class RaySide:
    """Ray in a lab, from a process on its head."""

    def __init__(self, address: str) -> None:
        self.ray = importlib.import_module("ray")
        ip = address.partition(":")[0]
        self.ray.init(
            address=address, _node_ip_address=ip, logging_level="ERROR", log_to_driver=False
        )
        self.backend: Any = None

    @property
    def hosts(self) -> list[str]:
        found = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sorted(n for node in found for n in node if len(n) == 1 and n.isalpha())

    def ready(self, hosts: int) -> None:
        deadline = time.monotonic() + 240
        while len(self.hosts) < hosts:
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {self.hosts} of {hosts} hosts are there")
            time.sleep(0.2)
        load = self.ray.remote(load_modules)
        tasks = [load.options(resources={name: 1}).remote(MODULES) for name in self.hosts]
        self.ray.get(tasks, timeout=240)

    def own(self, workload: str, scale: float) -> Round:
        """Run one remote task per call by Ray's own scheduling."""
        remote = functools.cache(self.ray.remote)

        def call(function: Callable[..., Any], *args: Any) -> Any:
            return remote(function).remote(*args)

        begin = time.perf_counter()
        value = self.ray.get(WORKLOADS[workload](call, scale))
        return Round(time.perf_counter() - begin, value)

    def weft(self, workload: str, scale: float, **options: Any) -> Round:
        from weft.runtime import RayBackend, RayDevice

        if self.backend is None:
            devices = [
                RayDevice(name, kind=name, cpus=0.0, resources={name: 0.5}) for name in self.hosts
            ]
            self.backend = RayBackend(devices)
        return by_weft(self.backend, workload, scale, **options)

    def close(self) -> None:
        if self.backend is not None:
            self.backend.close()
        self.ray.shutdown()


SIDES: dict[str, Callable[[str], Any]] = {"dask": DaskSide, "ray": RaySide}


def by_weft(backend: Any, workload: str, scale: float, **options: Any) -> Round:
    begin = time.perf_counter()
    trace = weft.run(WORKLOADS[workload](promised, scale), backend=backend, **options)
    return Round(time.perf_counter() - begin, trace.value, trace)


def load_modules(names: Sequence[str]) -> None:
    for name in names:
        importlib.import_module(name)


def run_way(
    side: Any, way: str, workload: str, scale: float, *, learned: Path, scratch: Path
) -> Round:
    """Run a workload one way; `learned` is the history of one run, of which each run has a copy."""
    if way == OWN:
        return side.own(workload, scale)
    if way == FIRST:
        path = scratch / "first.sqlite"
        path.unlink(missing_ok=True)
        return side.weft(workload, scale, history=path)
    path = scratch / "later.sqlite"
    shutil.copyfile(learned, path)
    return side.weft(workload, scale, history=path, policy=PLANNER if way == PLAN else way)
