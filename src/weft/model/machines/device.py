"""Devices and links, as users describe them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import FloatArray, IntArray
from weft.model.machines.setup import ANY_KIND, Setup
from weft.typed import description

Curve = float | Sequence[float]
"""Growth of the seconds of a batch: the ratios for 1, 2, ... tasks to one task; or one number, the
share of one task's seconds that each further task adds."""

MOST_CORES = 10_000
"""The most cores of one host, each of which is a device."""

LARGEST_CURVE = 10_000
"""Largest batch of a device with a batch curve."""


@description
@dataclass(frozen=True)
class Device:
    """One device, as users describe it; `Cluster.of` makes a cluster of several.

    Parameters
    ----------
    name, kind, node : its name, its kind, and the machine that it belongs to
    speed : work per second; at speed 1, the work of a task is its seconds
    throughput : task kind -> work per second on that kind, in place of `speed`; 0: cannot run
    memory, cores : bytes and processor cores that a task can have at most
    batch : the most tasks of one kind that run together
    batch_curve : task kind, or "*" for all others -> how the seconds of a batch grow
    setup : task kind, or "*" for all others -> seconds to load the kind, or a `Setup`
    cache : bytes for loaded kinds
    switch : seconds before a group of another kind than the one before it
    power, idle_power : watts, busy and idle
    price : money per hour of rent

    Examples
    --------
    >>> Device("server", kind="gpu", node="rack1", speed=9.7, memory=40e9).cores
    1
    """

    name: str
    kind: str = "device"
    node: str = "node0"
    speed: float = 1.0
    throughput: Mapping[str, float] = field(default_factory=dict)
    memory: float = np.inf
    cores: int = 1
    batch: int = 1
    batch_curve: Mapping[str, Curve] = field(default_factory=dict)
    setup: Mapping[str, Setup | float] = field(default_factory=dict)
    cache: float = np.inf
    switch: float = 0.0
    power: float = 0.0
    idle_power: float = 0.0
    price: float = 0.0


@description
@dataclass(frozen=True)
class Links:
    """Bandwidth (bytes per second) and latency (seconds) between and within nodes."""

    bandwidth: float = np.inf
    latency: float = 0.0
    node_bandwidth: float | None = None
    node_latency: float | None = None

    def __post_init__(self) -> None:
        """Refuse matrices: those are for the cluster itself."""
        for name, value in vars(self).items():
            if np.ndim(value):
                raise InvalidInput(
                    f"{name} of links has shape {np.shape(value)}; give one number here, or a "
                    "matrix to weft.Cluster"
                )

    def matrices(self, node: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the (p, p) bandwidth and latency of devices on the given nodes."""
        same = node[:, None] == node[None, :]
        far, wait = float(self.bandwidth), float(self.latency)
        within = far if self.node_bandwidth is None else float(self.node_bandwidth)
        nearby = wait if self.node_latency is None else float(self.node_latency)
        return np.where(same, within, far), np.where(same, nearby, wait)


def curves_of(devices: Sequence[Device]) -> dict[str, FloatArray]:
    """Gather the batch curves of devices; a device without one has a constant curve."""
    kinds = dict.fromkeys(k for d in devices for k in d.batch_curve)
    most = min(max((d.batch for d in devices), default=1), LARGEST_CURVE + 1)
    table = {k: np.full((len(devices), most), np.nan) for k in kinds}
    for row, device in enumerate(devices):
        for kind in kinds:
            curve = device.batch_curve.get(kind, device.batch_curve.get(ANY_KIND, 0.0))
            table[kind][row, : device.batch] = _curve_of(device, kind, curve)[:most]
    return table


def _curve_of(device: Device, kind: str, curve: Curve) -> FloatArray:
    if np.ndim(curve) == 0:
        sizes = np.arange(float(min(device.batch, LARGEST_CURVE + 1)))
        with np.errstate(over="ignore"):  # infinite numbers are refused with the other curves
            return np.asarray(1.0 + float(np.asarray(curve)) * sizes)
    values = np.asarray(curve, float)
    if values.shape != (device.batch,):
        raise InvalidInput(
            f"the batch curve of '{kind}' on device '{device.name}' has {values.size} numbers; "
            f"give one for each batch size from 1 to {device.batch}, or a single number"
        )
    return values
