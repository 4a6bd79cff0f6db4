"""Devices of batch systems, with the resources that a pilot requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from weft.errors import InvalidInput
from weft.runtime.backends.local.device import LocalDevice, device_count, device_list
from weft.typed import typed_dataclass


@typed_dataclass(frozen=True)
class PilotDevice:
    """A worker process of a batch system (HyperQueue, Slurm) as a device.

    Attributes
    ----------
    kind : devices of one kind share their measurements
    speed : relative speed, used until tasks are measured
    cpus, gpus : processor cores and GPUs it reserves
    memory : bytes it reserves, and may use: a task that needs more gets a MemoryError
    resources : further resources by name: those of HyperQueue's workers, or generic resources of
        Slurm
    node : host it runs on (Slurm); empty: any
    priority : if not all pilots fit, those with a higher priority start earlier (HyperQueue)
    environment : variables of the process; numerical libraries use `cpus` threads by default
    """

    name: str
    kind: str = "cpu"
    speed: float = 1.0
    cpus: int = 1
    gpus: int = 0
    memory: int | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    node: str = ""
    priority: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse amounts out of range."""
        if self.cpus < 1 or self.gpus < 0 or (self.memory is not None and self.memory < 1):
            raise InvalidInput(
                f"device '{self.name}' asks for {self.cpus} cpus, {self.gpus} gpus and memory "
                f"{self.memory}; they must be at least 1, 0 and 1"
            )

    def __str__(self) -> str:
        wanted = [f"{self.cpus} cpus"]
        wanted += [f"{self.gpus} gpus"] if self.gpus else []
        wanted += [f"{self.memory} bytes"] if self.memory is not None else []
        wanted += [f"{amount:g} {name}" for name, amount in self.resources.items()]
        return ", ".join(wanted) + (f" on {self.node}" if self.node else "")


PilotDevices = int | Sequence[PilotDevice | LocalDevice] | None
"""The devices that users give: a number of single cores, or one description each."""


def pilot_devices(devices: int | Sequence[PilotDevice | LocalDevice]) -> list[PilotDevice]:
    """Return given devices; a number stands for devices of one core each."""
    if isinstance(devices, int):
        return [PilotDevice(f"cpu{i}") for i in range(device_count(devices))]
    given: list[PilotDevice | LocalDevice] = device_list(devices, PilotDevice, LocalDevice)
    return [device if isinstance(device, PilotDevice) else _of_local(device) for device in given]


def _of_local(device: LocalDevice) -> PilotDevice:
    return PilotDevice(
        device.name,
        device.kind,
        device.speed,
        cpus=max(1, len(device.cores)),
        memory=device.memory,
        environment=device.environment,
    )
