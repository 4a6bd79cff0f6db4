"""Sites and devices of Dask: a site is a worker, each of its threads is a device.

A site stays the same when the process or the address of its worker changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from weft.model import Workload
from weft.runtime.backends.dask.plugin import WorkerFacts
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.backends.protocol import Failed, Finished, Order


@dataclass(eq=False)
class WorkerSite:
    """A worker, whatever its present process and address."""

    name: str
    host: str
    threads: int
    memory: float
    cores: tuple[int, ...] = ()
    address: str = ""
    id: str = ""
    pid: int = 0
    offset: float = 0.0
    """Time on the clock of the worker when the clock of the driver shows zero."""
    seconds: float = 0.0
    """Seconds that the worker takes for a small piece of work; 0: not measured."""
    up: bool = False
    dead: str = ""
    """Id of the last worker that was lost here."""
    devices: list[int] = field(default_factory=list)
    resources: dict[str, float] = field(default_factory=dict)
    """Amounts of Dask's abstract resources that the worker has."""


@dataclass(eq=False)
class DeviceThread:
    """A device, with its orders in execution order."""

    name: str
    site: WorkerSite
    orders: deque[Order] = field(default_factory=deque)
    last: int = -1
    """The last order sent; the next one waits for it."""
    early: dict[int, Finished | Failed] = field(default_factory=dict)
    """Ends that were reported before the ends of earlier orders."""


def site_of(facts: WorkerFacts, spec: LocalDevice | None = None) -> WorkerSite:
    """Return the site of a worker that the scheduler reports; `spec` started it."""
    memory = float(facts["memory"] or inf)
    cores = spec.cores if spec is not None else ()
    return WorkerSite(
        facts["name"],
        facts["host"],
        facts["threads"],
        memory,
        cores,
        facts["worker"],
        facts["id"],
        up=True,
        resources=facts["resources"],
    )


def threads_of(site: WorkerSite, first: int) -> list[DeviceThread]:
    """Return a device per thread of a worker, numbered from `first`."""
    names = [site.name] if site.threads == 1 else [f"{site.name}.{k}" for k in range(site.threads)]
    site.devices = list(range(first, first + len(names)))
    return [DeviceThread(name, site) for name in names]


def kinds_of(sites: Sequence[WorkerSite], given: Mapping[str, str]) -> dict[str, str]:
    """Return the kind of each worker: as given, or the same for all of one host."""
    hosts = dict.fromkeys(site.host for site in sites)
    return {
        site.name: given.get(site.name, "cpu" if len(hosts) == 1 else site.host) for site in sites
    }


def capacities_of(sites: Sequence[WorkerSite]) -> dict[str, dict[str, float]]:
    """Return the capacities of the workers: threads, memory and resources.

    A worker has none of a resource that only others have.
    """
    names = dict.fromkeys(name for site in sites for name in site.resources)
    return {
        "cores": {site.name: float(site.threads) for site in sites},
        "memory": {site.name: site.memory for site in sites},
        **{name: {site.name: site.resources.get(name, 0.0) for site in sites} for name in names},
    }


def resources_of(workload: Workload, instance: int, site: WorkerSite) -> dict[str, float]:
    """Return the resources that a task takes of its worker, so that Dask counts them."""
    job, task = workload.task_of(instance)
    problem = workload.problem_of(job)
    needs = zip(problem.cluster.capacity, problem.needs[task].tolist(), strict=True)
    return {name: need for name, need in needs if need and name in site.resources}
