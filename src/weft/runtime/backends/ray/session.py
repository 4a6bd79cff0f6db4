"""A connection to Ray: existing, by address, or to a new Ray on this machine."""

from __future__ import annotations

import gc
import importlib
import math
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any

from weft.errors import InvalidInput, MissingExtra, Unsupported, WeftError
from weft.model import Cluster
from weft.runtime.backends.calls import OTHERS_START_LIMIT, START_LIMIT
from weft.runtime.backends.leftover_processes import VARIABLE, children, end_descendants, new_token
from weft.runtime.backends.local.device import LocalDevice, device_count, device_list, local_devices
from weft.runtime.backends.local.process import ONE_THREAD
from weft.runtime.backends.local.worker import environment
from weft.runtime.costs.profiler import cores_here
from weft.typed import typed_dataclass

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_register_timeout_seconds": "180",
    "RAY_gcs_server_port_wait_time_s": "120",
    "RAY_worker_maximum_startup_concurrency": "1000",
}
"""Settings of a Ray that weft starts: no usage reports, loopback only. On a busy machine a worker
may take longer to start than the usual minute; Ray would end it and start another, again and again.
So the limit is longer, but not by much, because a worker that dies at its start counts as starting
until the limit is over. Therefore weft itself looks for such workers (`RaySession.workers`), and
Ray may start others beside them."""

HEAD = ("gcs_server", "raylet")
"""Processes without which Ray does not work."""

START_TRIES = 3
"""Attempts to start an own Ray: one of its processes may die, or a busy machine exceed its limit of
30 seconds."""

AGENTS = ("ray::Dashboard", "ray::RuntimeEnv", "ray::SPILL", "ray::RESTORE")
"""First parts of the names of children of the raylet that run no tasks."""

STORE = 512 << 20
"""Object store of an own Ray in bytes; more spills to disk."""


class HeadGone(WeftError):
    """A process of Ray's head has died."""


@typed_dataclass(frozen=True)
class RayDevice:
    """An actor as a device.

    Attributes
    ----------
    kind : devices of one kind share their measurements
    cpus, gpus, resources : requested from Ray, which chooses the node
    cores : processor cores the process is pinned to; empty: any
    environment : variables of the process
    """

    name: str
    kind: str = "cpu"
    speed: float = 1.0
    cpus: float = 1.0
    gpus: float = 0.0
    resources: Mapping[str, float] = field(default_factory=dict)
    cores: tuple[int, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def amounts(self) -> dict[str, float]:
        """Return the requested amounts by Ray's names of resources."""
        return {
            name: amount
            for name, amount in {"CPU": self.cpus, "GPU": self.gpus, **self.resources}.items()
            if amount > 0
        }


RayDevices = int | Cluster | Sequence[RayDevice | LocalDevice] | None

RAY_NAMES = {"cores": "CPU", "gpu": "GPU", "gpus": "GPU"}
"""Capacity -> Ray's name; all others have the same name."""


def bundles_of(cluster: Cluster) -> list[dict[str, float]]:
    """Return what to reserve for each node: its capacities by Ray's names.

    Examples
    --------
    >>> bundles_of(Cluster.host(cores=4, licence=1))
    [{'CPU': 4.0, 'licence': 1.0}]
    """
    return [
        {
            RAY_NAMES.get(name, name): float(amounts[node])
            for name, amounts in cluster.capacity.items()
            if 0.0 < amounts[node] < math.inf
        }
        for node in range(len(cluster.node_names))
    ]


def import_ray() -> Any:
    """Import Ray, or say how to install it."""
    try:
        with environment(QUIET):  # the import reads one of them
            return importlib.import_module("ray")
    except ImportError:
        raise MissingExtra("ray", "ray") from None


class RaySession:
    """A connection to Ray, for the arguments of `RayBackend`; `own`: `close` ends it."""

    def __init__(
        self, devices: RayDevices, address: str | None, processors: int | None = None
    ) -> None:
        self.ray = import_ray()
        self.bundles = bundles_of(devices) if isinstance(devices, Cluster) else []
        """Node -> resources reserved for it; devices given one by one reserve their own."""
        self._group: Any = None
        self._token = new_token()
        self.own = not self.ray.is_initialized()
        self.started = False
        """Whether it started Ray, on this machine."""
        self._had_room = False
        address = address or os.environ.get("RAY_ADDRESS") or None
        if not self.own:
            self.specs = self._specs(devices)
        elif address is not None:
            self._init(
                f"Ray at '{address}' cannot be reached",
                lambda: self.ray.init(address=address, logging_level="ERROR"),
            )
            self.specs = self._specs(devices)
        else:
            self.specs = _specs_here(devices)
            self._processors = processors
            self.started = True
            self._start()
        try:
            self._check()
        except InvalidInput:
            self.close()
            raise

    def _start(self) -> None:
        self._init(
            "Ray did not start on this machine",
            lambda: _start(self.ray, self._asked, self._processors, self._token),
            tries=START_TRIES,
        )

    def restart(self) -> None:
        """Start Ray again after the death of its head."""
        self.close()
        self._start()

    @property
    def start_limit(self) -> float:
        """Seconds in which an actor must start: fewer if other programs share Ray."""
        self._had_room = self._had_room or self.started or self._has_room()
        return START_LIMIT if self._had_room else OTHERS_START_LIMIT

    def _has_room(self) -> bool:
        """Return whether the resources of all devices are free, in sum over all nodes."""
        free = self.ray.available_resources()
        return all(free.get(name, 0.0) >= amount for name, amount in self._asked.items())

    @property
    def _asked(self) -> dict[str, float]:
        """Resources that all devices ask for, in sum."""
        asked: Counter[str] = Counter()
        for _, amounts in self._requests:
            asked.update(amounts)
        return dict(asked)

    @property
    def _requests(self) -> list[tuple[str, dict[str, float]]]:
        """Resources that one node of Ray must have, and the node or device to use them."""
        if self.bundles:
            return [(f"node {k}", bundle) for k, bundle in enumerate(self.bundles)]
        return [(f"device '{spec.name}'", spec.amounts) for spec in self.specs]

    def place(self, node: int) -> dict[str, Any]:
        """Return the options of an actor on a node; first reserve capacities of all nodes.

        The actors themselves take nothing: weft starts tasks as the capacities allow.
        """
        if not any(self.bundles):
            return {}
        util = importlib.import_module("ray.util")
        if self._group is None:
            asked = [bundle or {"CPU": 0.001} for bundle in self.bundles]
            self._group = util.placement_group(asked, strategy="SPREAD")
            try:
                self.ray.get(self._group.ready(), timeout=self.start_limit)
            except self.ray.exceptions.GetTimeoutError:
                free = self.free()
                self.close()
                raise WeftError(
                    f"Ray did not reserve {'; '.join(map(_amounts, asked))} within "
                    f"{self.start_limit:g} s; free are {free}"
                ) from None
        strategies = importlib.import_module("ray.util.scheduling_strategies")
        return {
            "scheduling_strategy": strategies.PlacementGroupSchedulingStrategy(
                self._group, placement_group_bundle_index=node
            )
        }

    def _init(self, trouble: str, init: Callable[[], Any], *, tries: int = 1) -> None:
        for left in reversed(range(tries)):
            try:
                init()
            except Exception as error:
                self.close()
                if not left:
                    text = " ".join(str(error).split())[:300]
                    raise WeftError(f"{trouble}: {text}") from error
            else:
                return
            _drop_killed_processes()

    def close(self) -> None:
        """Disconnect; an own Ray ends, also processes of it that outlive its head."""
        if self._group is not None and not self.gone():
            with suppress(Exception):  # a Ray that is gone has no reservations
                importlib.import_module("ray.util").remove_placement_group(self._group)
        self._group = None
        if not self.own:
            return
        if self.gone():
            end_descendants(self._token)  # before disconnecting, which would wait for the head
        self.ray.shutdown()
        end_descendants(self._token)

    def gone(self) -> str:
        """Return which process of an own Ray has died; empty: none.

        Ray itself waits for a minute.
        """
        node = getattr(importlib.import_module("ray._private.worker"), "_global_node", None)
        if not self.own or node is None:
            return ""
        return ", ".join(name for name, _ in node.dead_processes() if name in HEAD)

    def workers(self) -> float:
        """Return the number of living workers of an own Ray; infinity for another."""
        node = getattr(importlib.import_module("ray._private.worker"), "_global_node", None)
        if not self.started or node is None or not sys.platform.startswith("linux"):
            return math.inf
        raylets = [info.process.pid for info in node.all_processes.get("raylet", ())]
        return sum(not name.startswith(AGENTS) for pid in raylets for name in children(pid))

    def has(self, amounts: Mapping[str, float]) -> bool:
        """Return whether a living node has the amounts, free or in use."""
        return any(
            all(node.get(name, 0.0) >= amount for name, amount in amounts.items())
            for node in self._nodes()
        )

    def _nodes(self) -> list[Mapping[str, float]]:
        """Return the resources of the living nodes."""
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def free(self) -> str:
        """Return the free resources, for messages."""
        return _amounts(self.ray.available_resources())

    def _specs(self, devices: RayDevices) -> list[RayDevice]:
        if devices is None:
            total = self.ray.cluster_resources()
            cpus = [RayDevice(f"cpu{i}") for i in range(int(total.get("CPU", 0)))]
            return [
                *cpus,
                *(
                    RayDevice(f"gpu{i}", "gpu", speed=10.0, cpus=0.0, gpus=1.0)
                    for i in range(int(total.get("GPU", 0)))
                ),
            ]
        if isinstance(devices, Cluster):
            return _of_cluster(devices)
        if isinstance(devices, int):
            return [RayDevice(f"cpu{i}") for i in range(device_count(devices))]
        return _converted(devices)

    def _check(self) -> None:
        """Refuse requests that no node can satisfy, as Ray would wait forever."""
        for who, amounts in self._requests:
            if not self.has(amounts):
                best = "; ".join(map(_amounts, self._nodes()))
                raise InvalidInput(
                    f"{who} asks for {_amounts(amounts)}, which no node of Ray has; "
                    f"there is: {best}"
                )
        total = self.ray.cluster_resources()
        for name, asked in self._asked.items():
            if asked > total.get(name, 0.0):
                who = f"{len(self._requests)} {'nodes' if self.bundles else 'devices'}"
                raise InvalidInput(
                    f"{who} ask for {asked:g} {name}, Ray has "
                    f"{total.get(name, 0.0):g}; ask for less"
                )


def _drop_killed_processes() -> None:
    """Clean up after a Ray that did not start, without warnings.

    Python warns of every process whose end was not waited for.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _start(ray: Any, total: dict[str, float], processors: int | None, token: str) -> None:
    """Start Ray on loopback (Ray replaces a `_node_ip_address` of 127.0.0.1)."""
    constants = importlib.import_module("ray._private.ray_constants")
    before = getattr(constants, "ENABLE_RAY_CLUSTER", None)
    cpus, memory = total.pop("CPU", 0.0), total.pop("memory", 0.0)
    total.pop("GPU", None)  # Ray finds the GPUs of this machine itself
    with environment({**QUIET, **ONE_THREAD, VARIABLE: token}):
        # Ray reads the variable at import, which may have been earlier.
        constants.ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined]  # Ray is not typed
        try:
            ray.init(
                address="local",
                num_cpus=processors or max(1, math.ceil(cpus)),
                resources=total or None,
                **({"_memory": memory} if memory else {}),
                include_dashboard=False,
                object_store_memory=STORE,
                logging_level="ERROR",
            )
        finally:
            constants.ENABLE_RAY_CLUSTER = before  # type: ignore[attr-defined]  # Ray is not typed


def _specs_here(devices: RayDevices) -> list[RayDevice]:
    cores = cores_here()
    if isinstance(devices, Cluster):
        return _of_cluster(devices)
    if devices is None or isinstance(devices, int):
        number = len(cores) if devices is None else device_count(devices)
        return [RayDevice(f"cpu{i}", cores=(cores[i % len(cores)],)) for i in range(number)]
    return _converted(devices)


def _converted(devices: Sequence[RayDevice | LocalDevice]) -> list[RayDevice]:
    given: list[RayDevice | LocalDevice] = device_list(devices, RayDevice, LocalDevice)
    return [device if isinstance(device, RayDevice) else _of_local(device) for device in given]


def _of_cluster(cluster: Cluster) -> list[RayDevice]:
    """Return an actor per device; nodes with capacities reserve those instead."""
    cpus = 0.0 if any(bundles_of(cluster)) else 1.0
    return [RayDevice(d.name, d.kind, d.speed, cpus) for d in local_devices(cluster)]


def _of_local(device: LocalDevice) -> RayDevice:
    if device.memory is not None:
        raise Unsupported(
            f"device '{device.name}' has a memory limit; the Ray backend has none: Ray watches "
            "the memory of its nodes itself"
        )
    return RayDevice(
        device.name, device.kind, device.speed, cores=device.cores, environment=device.environment
    )


def _amounts(resources: Mapping[str, float]) -> str:
    shown = {
        k: v
        for k, v in resources.items()
        if not k.startswith(("node:", "object_store_memory", "memory"))
    }
    return ", ".join(f"{amount:g} {name}" for name, amount in shown.items()) or "nothing"
