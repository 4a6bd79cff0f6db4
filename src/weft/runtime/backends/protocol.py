"""The backend protocol: orders in, events out.

The driver names instances and devices by number; the backend reaches the devices and keeps results
where later tasks can read them. Times are seconds since `begin`, on one clock. This module does not
depend on processes, Dask or Ray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from weft.model import Cluster, Workload


@dataclass(frozen=True)
class Input:
    """Placeholder in a `Call` for the result at the k-th incoming edge.

    Edges are in the order of the parents' numbers.
    """

    edge: int


@dataclass(frozen=True, eq=False)
class Call:
    """The function of a task and its arguments, with an `Input` per parent's result.

    An `Input` is None if its edge was not taken.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Order:
    """Run a group on a device.

    No code changes orders, starts and ends, but they are not frozen, as making a frozen object
    takes three times as long.

    Attributes
    ----------
    number : counts the orders of a run
    members : instances that run as one batch; one, except on devices that batch
    inputs : per member, the source instance of each incoming edge; None: edge not taken
    chooses : per member, whether its result names the branches to take
    """

    number: int
    members: tuple[int, ...]
    inputs: tuple[tuple[int | None, ...], ...]
    chooses: tuple[bool, ...]


@dataclass(frozen=True)
class Transfer:
    """An input moved to a device: source device, bytes and seconds."""

    source: int
    data: float
    seconds: float


@dataclass(slots=True)
class Started:
    """The start of an order."""

    number: int
    device: int
    time: float


@dataclass(slots=True)
class Finished:
    """The end of an order: bytes of the result and branches, if any, of each member.

    `worker` names the process that ran it, if processes outlive a run.
    """

    number: int
    device: int
    start: float
    finish: float
    data: tuple[float, ...] = ()
    branches: tuple[tuple[str | int, ...], ...] = ()
    transfers: tuple[Transfer, ...] = ()
    worker: str = ""


Fault = Literal["raised", "unpicklable", "exited", "killed", "timeout", "outcome", "function"]
"""Why a task failed: its function raised, returned a value that cannot be pickled, ended its
process, or was killed (by a signal, often for memory); it ran too long, named no branch, or could
not be loaded.
"""


@dataclass(frozen=True)
class Failed:
    """The failure of an order by its own fault."""

    number: int
    device: int
    start: float
    finish: float
    fault: Fault
    text: str
    traceback: str = ""


@dataclass(frozen=True)
class DeviceLost:
    """The loss of a device with all its orders; `fault` says how its process ended."""

    device: int
    time: float
    text: str = ""
    fault: Literal["exited", "killed"] = "killed"


@dataclass(frozen=True)
class DeviceAdded:
    """A device that is up (again), with its slowdown.

    A new device has the next number, and `Backend.devices` must contain it by then.
    """

    device: int
    time: float
    slowdown: float = 1.0


Event = Started | Finished | Failed | DeviceLost | DeviceAdded


class Backend(Protocol):
    """The devices of a run."""

    @property
    def name(self) -> str:
        """Return the name that users give."""
        ...

    @property
    def modelled(self) -> bool:
        """Return whether starts wait for estimated transfers, as in the simulator."""
        ...

    def devices(self) -> Cluster:
        """Return the devices, in the order of their numbers."""
        ...

    def begin(
        self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0
    ) -> None:
        """Prepare a run whose clock starts at `since`; `calls` has one entry per instance."""
        ...

    def extend(self, workload: Workload, calls: Sequence[Call] | None, first: int) -> None:
        """Add a job with its calls: at the end of the workload, or for an ended one.

        `first` is its first instance.
        """
        ...

    def clock(self) -> float:
        """Return the seconds since `begin`."""
        ...

    def submit(self, order: Order, device: int, priority: float) -> None:
        """Queue an order on a device; lower priorities first, if the backend can choose."""
        ...

    def cancel(self, number: int) -> None:
        """Cancel an order; if it runs, its device may be lost, which is then an event."""
        ...

    def wait(self, until: float) -> list[Event]:
        """Return the next events; none at `until`, or earlier if no event can follow."""
        ...

    def fetch(self, instance: int) -> Any:
        """Return the result of a finished instance."""
        ...

    def release(self, instance: int) -> None:
        """Drop a result that is not needed any more."""
        ...

    def store(self, instance: int, path: Path) -> None:
        """Write a result to a file."""
        ...

    def restore(self, instance: int, path: Path) -> None:
        """Load a result from a file, as if the instance had run now."""
        ...

    def finish(self) -> None:
        """End the run: cancel orders and drop all results. The backend can begin again."""
        ...

    def close(self) -> None:
        """Release all resources."""
        ...
