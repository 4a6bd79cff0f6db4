"""The workers of a Dask cluster as devices: one for each of their threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from weft.runtime.backends.dask import plugin as remote
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.backends.protocol import Failed, Finished, Order


@dataclass(eq=False)
class WorkerSite:
    """A worker, whichever process and address it has now."""

    name: str
    host: str
    threads: int
    memory: float
    cores: tuple[int, ...] = ()
    address: str = ""
    id: str = ""
    pid: int = 0
    offset: float = 0.0
    """What its clock shows when ours shows zero."""
    up: bool = False
    dead: str = ""
    """The id of the worker that was lost here last."""
    devices: list[int] = field(default_factory=list)


@dataclass(eq=False)
class DeviceThread:
    """A device: the orders it has, as they shall run."""

    name: str
    site: WorkerSite
    orders: deque[Order] = field(default_factory=deque)
    last: int = -1
    """The order it was sent last; what comes next waits for it."""
    early: dict[int, Finished | Failed] = field(default_factory=dict)
    """Ends that were reported before those of orders ahead of them."""


def site_of(facts: remote.Facts, spec: LocalDevice | None = None) -> WorkerSite:
    """A worker as the scheduler knows it; `spec` is what it was started from."""
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
    )


def lines_of(site: WorkerSite, first: int) -> list[DeviceThread]:
    """A device for each thread of a worker, numbered from `first`."""
    names = [site.name] if site.threads == 1 else [f"{site.name}.{k}" for k in range(site.threads)]
    site.devices = list(range(first, first + len(names)))
    return [DeviceThread(name, site) for name in names]


def kinds_of(sites: Sequence[WorkerSite], said: Mapping[str, str]) -> dict[str, str]:
    """Name of a worker -> kind: as said, or the same for all on one host."""
    hosts = dict.fromkeys(site.host for site in sites)
    return {
        site.name: said.get(site.name, "cpu" if len(hosts) == 1 else site.host) for site in sites
    }
