"""The registry of Dask workers and their devices, one device per thread.

Devices are identified by worker names, since a restarted worker has another address.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from math import inf
from typing import Any, Literal

from distributed import Client

from weft.errors import InvalidInput, WeftError
from weft.model import Cluster
from weft.runtime.backends.calls import OTHERS_START_LIMIT, START_LIMIT
from weft.runtime.backends.dask import tasks
from weft.runtime.backends.dask.local_cluster import LocalDaskCluster
from weft.runtime.backends.dask.plugin import WorkerFacts, list_workers
from weft.runtime.backends.dask.sites import (
    DeviceThread,
    WorkerSite,
    capacities_of,
    kinds_of,
    site_of,
    threads_of,
)
from weft.runtime.backends.local.device import (
    LocalDevice,
    LocalDevices,
    local_devices,
    with_nodes_of,
)
from weft.runtime.backends.local.process import cause_of

Inbox = queue.SimpleQueue[dict[str, Any]]
"""Messages of the scheduler and of handshakes."""

TICK = 0.5
"""Seconds between two checks of the scheduler."""

SILENCE = 3.0
"""Seconds without a connection after which the scheduler counts as gone."""


class WorkerRegistry:
    """The workers as devices, for the arguments of `DaskBackend`."""

    def __init__(
        self,
        where: Client | str | LocalDevices,
        *,
        kinds: Mapping[str, str] | None,
        grace_seconds: float,
    ) -> None:
        self.own_client = not isinstance(where, Client)
        self.local: LocalDaskCluster | None = None
        """The cluster that weft started; None: an existing one."""
        self._grace_seconds = grace_seconds
        self._specs: dict[str, LocalDevice] = {}
        self._where = where
        self.client = self._connect(where)
        if self.client.asynchronous:
            raise InvalidInput(
                "the Dask client is asynchronous; weft.run needs one that is not: Client(...) "
                "outside of a coroutine"
            )
        self.sites = [site_of(facts, self._specs.get(facts["name"])) for facts in self._roll_call()]
        if not self.sites:
            raise InvalidInput(
                f"the Dask cluster at {self.client.scheduler.address} has no workers; start some "
                "first"
            )
        self.threads: list[DeviceThread] = []
        for site in self.sites:
            self.threads.extend(threads_of(site, len(self.threads)))
        self._given_kinds = {
            **{name: spec.kind for name, spec in self._specs.items()},
            **(kinds or {}),
        }
        self._kinds = kinds_of(self.sites, self._given_kinds)
        self.cluster = self._cluster()
        self.begin_run(queue.SimpleQueue(), list)

    def begin_run(self, inbox: Inbox, functions: Callable[[], list[bytes]]) -> None:
        """Prepare a run: the inbox for answers, and the functions that workers preload."""
        self.inbox = inbox
        self._functions = functions
        self._silent_since = inf
        self._lost_at = time.perf_counter()
        for thread in self.threads:
            thread.orders.clear()
            thread.early.clear()
            thread.last = -1

    def wait_for_workers(self) -> list[WorkerSite]:
        """Match and connect the workers, after waiting for own ones; return the new sites."""
        deadline = time.perf_counter() + START_LIMIT
        dead = [site.dead for site in self.sites]
        for site in self.sites:
            site.up = False
        while True:
            here = [
                facts
                for facts in self.client.run_on_scheduler(list_workers)
                if facts["id"] not in dead
            ]
            names = [site.name for site in self.sites]
            here.sort(
                key=lambda facts: facts["name"] not in names
            )  # workers with a known name first
            new = [
                facts
                for facts in here
                if self.match_worker(facts, [other["id"] for other in here]) is None
            ]
            missing = [
                site for site in self.sites if site.id in dead and site.name not in self._left_out
            ]
            if not missing or self.local is None:
                break
            self.local.check()
            if time.perf_counter() > deadline:
                raise WeftError(
                    f"the Dask worker '{missing[0].name}' did not start within {START_LIMIT:g} s"
                )
            time.sleep(0.05)
        handshakes = {self.handshake(site): site.id for site in self.sites if site.id not in dead}
        join_present(
            handshakes,
            lambda: [facts["id"] for facts in self.client.run_on_scheduler(list_workers)],
            OTHERS_START_LIMIT if self.local is None else START_LIMIT,
        )
        return [self.join(facts) for facts in new]

    def match_worker(self, facts: WorkerFacts, here: Container[str] = ()) -> WorkerSite | None:
        """Return the site of a worker by name, else of a lost worker; None: no such site.

        `here` holds the ids of all present workers.
        """
        gone = [
            site
            for site in self.sites
            if not site.up and site.id not in here and site.threads <= facts["threads"]
        ]
        own = [
            site
            for site in self.sites
            if site.id == facts["id"] or (site.name == facts["name"] and not site.up)
        ]
        near = [site for site in gone if site.host == facts["host"]]
        site = next(iter(own or near or gone), None)
        if site is not None and site.id != facts["id"]:
            site.address, site.id, site.host = facts["worker"], facts["id"], facts["host"]
        return site

    def join(self, facts: WorkerFacts) -> WorkerSite:
        """Register a new worker; its threads are devices behind the others."""
        site = site_of(facts)
        site.up = False  # until the handshake
        while any(site.name == other.name for other in self.sites):  # the name is taken
            site.name += "+"
        alike = [self._kinds[other.name] for other in self.sites if other.host == site.host]
        self._kinds[site.name] = self._given_kinds.get(site.name, alike[0] if alike else site.host)
        self.sites.append(site)
        self.threads.extend(threads_of(site, len(self.threads)))
        self.cluster = self._cluster()
        return site

    def known(self, facts: WorkerFacts) -> bool:
        """Return whether a worker has a site."""
        return any(site.id == facts["id"] for site in self.sites)

    def handshake(self, site: WorkerSite) -> threading.Thread:
        """Start a handshake in a thread, as new workers are slow; it ends in the inbox."""
        thread = threading.Thread(target=self._handshake, args=(site, site.id), daemon=True)
        thread.start()
        return thread

    def ready(self, message: Mapping[str, Any]) -> list[int]:
        """Note the answer of a handshake; return the devices that it makes usable."""
        site: WorkerSite = message["site"]
        if site.id != message["id"]:
            return []
        site.pid, site.offset, site.up = message["pid"], message["offset"], True
        site.seconds = message["seconds"]
        if self.local is not None:
            self.local.mark_up(site.name)
        return site.devices

    def kill(self, site: WorkerSite) -> None:
        """Kill a worker."""
        if self.local is None:
            self.ask(tasks.die, site=site)
        else:
            self.local.kill(site.name)

    def lose(self, site: WorkerSite) -> tuple[str, Literal["exited", "killed"]]:
        """Mark a worker as lost; return the cause and the fault."""
        site.up, site.dead = False, site.id
        self._lost_at = time.perf_counter()
        if self.local is not None:
            return cause_of(self.local.exit_code(site.name, site.pid))
        return f"Dask lost its worker '{site.name}'", "killed"

    def ask(self, function: Any, *args: Any, site: WorkerSite | None = None) -> None:
        """Call a function on workers without waiting."""
        addresses = [s.address for s in self.sites if s.up] if site is None else [site.address]
        with contextlib.suppress(OSError, ValueError, TimeoutError):
            self.client.run(function, *args, workers=addresses, wait=False, on_error="ignore")

    def check(self) -> None:
        """Raise an error if the scheduler or the own workers cannot continue."""
        if self.local is not None:
            self.local.check()
        now, status = time.perf_counter(), self.client.status
        self._silent_since = inf if status == "running" else min(self._silent_since, now)
        if status not in ("running", "connecting") or now - self._silent_since > SILENCE:
            raise WeftError("the Dask scheduler is gone, and with it the results of this run")

    @property
    def _left_out(self) -> set[str]:
        """Return the names of own workers that cannot be started."""
        return self.local.left_out if self.local is not None else set()

    @property
    def grace_seconds(self) -> float:
        """Return the seconds to wait for a lost worker."""
        return self._grace_seconds if self.local is None else START_LIMIT

    def may_recover(self) -> bool:
        """Return whether a lost worker may return."""
        return (
            not all(site.up or site.name in self._left_out for site in self.sites)
            and time.perf_counter() - self._lost_at < self.grace_seconds
        )

    def close(self) -> None:
        """End own workers."""
        if self.own_client:
            self.client.close()
        if self.local is not None:
            self.local.close()
            self.local = None

    # -- inside -------------------------------------------------------------

    def _connect(self, where: Any) -> Client:
        if isinstance(where, Client):
            return where
        if isinstance(where, str):
            return connected(where)
        self._specs = {spec.name: spec for spec in local_devices(where)}
        self.local = LocalDaskCluster(list(self._specs.values()))
        return Client(self.local.address, set_as_default=False)

    def _roll_call(self) -> list[WorkerFacts]:
        """Return the present workers; own ones when all are there, in their order."""
        deadline = time.perf_counter() + START_LIMIT
        while True:
            found: list[WorkerFacts] = self.client.run_on_scheduler(list_workers)
            if self.local is None or len(found) == len(self._specs) - len(self._left_out):
                order = list(self._specs)
                return (
                    found
                    if self.local is None
                    else sorted(found, key=lambda facts: order.index(facts["name"]))
                )
            if time.perf_counter() > deadline:
                self.close()
                raise WeftError(
                    f"only {len(found)} of {len(self._specs)} Dask workers started within "
                    f"{START_LIMIT:g} s"
                )
            self.local.check()
            time.sleep(0.05)

    def _cluster(self) -> Cluster:
        cluster = self._threads()
        if self.local is not None:
            return with_nodes_of(cluster, self._where)
        return replace(
            cluster,
            nodes=tuple(thread.site.name for thread in self.threads),
            capacity=capacities_of(self.sites),  # type: ignore[arg-type]  # amounts by node
        )

    def _threads(self) -> Cluster:
        memory: Any = [thread.site.memory for thread in self.threads]  # a list becomes a column
        return Cluster(
            name="dask",
            speed=[
                self._specs[thread.site.name].speed if thread.site.name in self._specs else 1.0
                for thread in self.threads
            ],  # type: ignore[arg-type]  # a list becomes a column
            names=tuple(thread.name for thread in self.threads),
            kinds=tuple(self._kinds[thread.site.name] for thread in self.threads),
            memory=memory,
        )

    def _handshake(self, site: WorkerSite, name: str) -> None:
        """Let a worker preload functions, and compare clocks."""
        functions = self._functions()
        inbox, address, run = self.inbox, [site.address], self.client.run
        try:
            (answer,) = run(tasks.handshake, functions, site.cores, workers=address).values()
            rounds = []
            for _ in range(3):
                sent = time.perf_counter()
                (shown,) = run(time.perf_counter, workers=address).values()
                came = time.perf_counter()
                rounds.append((came - sent, shown - (sent + came) / 2))
        except (OSError, ValueError, KeyError, TimeoutError):
            return  # the worker is lost again, which the scheduler reports
        spread, offset = min(rounds)
        # Processes of one machine share a clock; smaller differences are round-trip noise.
        clock = 0.0 if abs(offset) <= spread else offset
        inbox.put({"word": "ready", "site": site, "id": name, "offset": clock, **answer})


def connected(address: str) -> Client:
    """Return a client of the scheduler at an address."""
    try:
        return Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"no Dask scheduler answers at '{address}': {error}") from None


def join_present(
    handshakes: Mapping[threading.Thread, str], present: Callable[[], Container[str]], limit: float
) -> None:
    """Wait for handshakes with workers, by id, except workers that are gone meanwhile.

    Dask takes half a minute to see that nothing answers at the address of a dead worker.
    """
    deadline = time.perf_counter() + limit
    waiting = dict(handshakes)
    while waiting and time.perf_counter() < deadline:
        next(iter(waiting)).join(TICK)
        here = present() if any(thread.is_alive() for thread in waiting) else ()
        waiting = {t: name for t, name in waiting.items() if t.is_alive() and name in here}
