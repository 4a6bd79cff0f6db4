"""The devices of the local backend: processes of this machine and their limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import inf
from typing import Any, TypeVar

from weft.errors import InvalidInput, Unsupported
from weft.generators.machines.clusters import MOST_DEVICES
from weft.model import Cluster
from weft.runtime.costs.profiler import cores_here, discover, relative_speeds
from weft.typed import typed_dataclass

D = TypeVar("D")

GIVEN = ("nodes", "capacity", "cores", "memory", "throughput", "power", "idle_power", "price")
"""Properties of machines that a backend does not measure but takes from a given cluster."""


@typed_dataclass(frozen=True)
class LocalDevice:
    """A process of this machine as a device.

    Attributes
    ----------
    kind : devices of one kind share their measurements
    cores : processor cores the process is pinned to; empty: any
    memory : bytes the process may use; a task that needs more gets a MemoryError
    speed : relative speed, used until tasks are measured
    environment : variables of the process, e.g. CUDA_VISIBLE_DEVICES; numerical libraries use one
        thread by default
    """

    name: str
    kind: str = "cpu"
    cores: tuple[int, ...] = ()
    memory: int | None = None
    speed: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)


LocalDevices = int | Cluster | Sequence[LocalDevice] | None
"""The forms in which users give the devices of this machine."""


def local_devices(devices: LocalDevices) -> list[LocalDevice]:
    """Return the given devices; by default one per processor core and one per GPU."""
    if isinstance(devices, Cluster):
        return _processes_of(devices)
    cores = cores_here()
    if devices is None:
        return [*local_devices(len(cores)), *_gpus()]
    if isinstance(devices, int):
        count = device_count(devices)
        return [LocalDevice(f"cpu{i}", cores=(cores[i % len(cores)],)) for i in range(count)]
    return device_list(devices, LocalDevice)


def device_count(devices: int) -> int:
    """Return a number of devices; refuse True and numbers out of range."""
    if not 1 <= devices <= MOST_DEVICES or devices is True:
        number = devices if abs(devices) < 2**63 else "a huge number of"
        raise InvalidInput(
            f"{number} devices; at least one is needed, and a number may ask for at most "
            f"{MOST_DEVICES} of these processes; give a list of devices for more"
        )
    return devices


def device_list(devices: Any, *kinds: type[D]) -> list[D]:
    """Return given devices; refuse anything but a list of them."""
    if (
        not isinstance(devices, Sequence)
        or isinstance(devices, str)
        or not all(isinstance(device, kinds) for device in devices)
    ):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise InvalidInput(f"devices is {devices!r}; give a whole number, or a list of {names}")
    if not devices:
        raise InvalidInput("no devices are given; at least one is needed")
    return list(devices)


def _processes_of(cluster: Cluster) -> list[LocalDevice]:
    """Return a process per device of a cluster."""
    if (cluster.batch > 1).any():
        d = int(cluster.batch.argmax())
        raise Unsupported(
            f"device '{cluster.names[d]}' runs batches of {cluster.batch[d]}; processes of this "
            "machine run one task at a time: leave out batch"
        )
    rows = zip(cluster.names, cluster.kinds, cluster.speed.tolist(), strict=True)
    return [LocalDevice(name, kind=kind, speed=speed) for name, kind, speed in rows]


def with_nodes_of(cluster: Cluster, given: object) -> Cluster:
    """Return the cluster of a backend, with nodes and costs of a given one, if any."""
    if not isinstance(given, Cluster):
        return cluster
    return replace(cluster, **{name: getattr(given, name) for name in GIVEN})


def device_cluster(devices: Sequence[Any], name: str = "local", **columns: Any) -> Cluster:
    """Return the cluster of devices; transfers cost nothing until they are measured."""
    limits = [getattr(device, "memory", None) for device in devices]
    memory: Any = [inf if limit is None else limit for limit in limits]  # a list becomes a column
    return Cluster(
        name=name,
        speed=[d.speed for d in devices],  # type: ignore[arg-type]  # a list becomes a column
        names=tuple(d.name for d in devices),
        kinds=tuple(d.kind for d in devices),
        memory=memory,
        **columns,
    )


def _gpus() -> list[LocalDevice]:
    """Return one device per GPU, which sees that GPU only, with its profiled speed."""
    gpus = [device for device in discover(thorough=False) if device.kind != "cpu"]
    speeds = relative_speeds() if gpus else {}
    return [
        LocalDevice(
            g.name,
            kind=g.kind,
            speed=speeds.get(g.name, 10.0),
            environment={"CUDA_VISIBLE_DEVICES": str(g.index)},
        )
        for g in gpus
    ]
