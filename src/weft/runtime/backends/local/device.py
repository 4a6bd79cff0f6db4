"""The devices of the local backend: processes of this machine, and what each may use of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from weft.errors import InvalidInput
from weft.model import Cluster
from weft.runtime.costs.profiler import cores_here, discover, relative_speeds


@dataclass(frozen=True)
class LocalDevice:
    """A process of this machine as a device.

    Attributes
    ----------
    kind : devices of one kind share what was learned about them
    cores : the processor cores it stays on; empty: any
    memory : bytes its process may use; a task that wants more gets a MemoryError
    environment : variables of its process, e.g. CUDA_VISIBLE_DEVICES; by default numerical libraries use one thread for each core it has
    """

    name: str
    kind: str = "cpu"
    cores: tuple[int, ...] = ()
    memory: int | None = None
    speed: float = 1.0
    environment: Mapping[str, str] = field(default_factory=dict)


def local_devices(devices: int | Sequence[LocalDevice] | None) -> list[LocalDevice]:
    """So many, or these; by default one a processor core, and one a GPU."""
    cores = cores_here()
    if devices is None:
        return [*local_devices(len(cores)), *_gpus()]
    if isinstance(devices, int):
        if devices < 1:
            raise InvalidInput(f"{devices} devices; at least one is needed")
        return [LocalDevice(f"cpu{i}", cores=(cores[i % len(cores)],)) for i in range(devices)]
    if not devices:
        raise InvalidInput("no devices are given; at least one is needed")
    return list(devices)


def local_cluster(devices: Sequence[LocalDevice]) -> Cluster:
    """The devices as a cluster; moving data between them is taken to cost nothing until it was measured."""
    return Cluster(
        name="local",
        speed=[d.speed for d in devices],  # type: ignore[arg-type]  # a list becomes a column
        names=tuple(d.name for d in devices),
        kinds=tuple(d.kind for d in devices),
        memory=[inf if d.memory is None else d.memory for d in devices],  # type: ignore[arg-type]
    )


def _gpus() -> list[LocalDevice]:
    """A process for each GPU of this machine, which sees that one only; its speed is what was profiled, a prior."""
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
