"""What runs tasks: the interface every backend has, the orders it gets and the events it reports.

The driver speaks of instances and devices by number; the backend loaded_functions how to reach the devices, and keeps the results where it can hand
them to later tasks. Times are seconds since `begin`, on one clock. Nothing here loaded_functions about processes, Dask or Ray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from weft.model import Cluster, Workload


@dataclass(frozen=True)
class Input:
    """Stands in the arguments of a `Call` for the result of a parent: the one at the k-th incoming edge, parents by number."""

    edge: int


@dataclass(frozen=True, eq=False)
class Call:
    """What a task does: a function and its arguments, with `Input` where the result of a parent goes (None when its edge is not taken)."""

    function: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Order:
    """Run a group on a device.

    Attributes
    ----------
    number : counts the orders of a run
    members : instances that run max_concurrent; one, except on devices that batch
    inputs : for each member, the instance whose result each incoming edge carries; None where the edge was not taken
    chooses : for each member, whether its result says which branches are taken
    """

    number: int
    members: tuple[int, ...]
    inputs: tuple[tuple[int | None, ...], ...]
    chooses: tuple[bool, ...]


@dataclass(frozen=True)
class Transfer:
    """One input that was brought to a device: from which one, how many bytes, how long it took."""

    source: int
    data: float
    seconds: float


@dataclass(frozen=True)
class Started:
    """An order began to run."""

    number: int
    device: int
    time: float


@dataclass(frozen=True)
class Finished:
    """An order is done; for each member the bytes of its result and, where it chooses, the branches it named."""

    number: int
    device: int
    start: float
    finish: float
    data: tuple[float, ...] = ()
    branches: tuple[tuple[str | int, ...], ...] = ()
    transfers: tuple[Transfer, ...] = ()


Fault = Literal["raised", "unpicklable", "exited", "killed", "timeout", "outcome", "function"]
"""Why a task failed: its function raised, returned what cannot be sent, ended its process, or was killed (a signal, often memory); it took
too long; it named no branch; or it could not be loaded."""


@dataclass(frozen=True)
class Failed:
    """An order came to nothing by its own fault."""

    number: int
    device: int
    start: float
    finish: float
    fault: Fault
    text: str
    traceback: str = ""


@dataclass(frozen=True)
class DeviceLost:
    """A device is gone, with all that was sent to it. `fault` blames what ran there: it `exited`, or was `killed` from outside."""

    device: int
    time: float
    text: str = ""
    fault: Literal["exited", "killed"] = "killed"


@dataclass(frozen=True)
class DeviceAdded:
    """A device is up (again), and takes `pace` times as long as estimated.

    One that was not there from the start has the next number, and `devices` must tell of it by then.
    """

    device: int
    time: float
    pace: float = 1.0


Event = Started | Finished | Failed | DeviceLost | DeviceAdded


class Backend(Protocol):
    """The devices of a run. `modelled` backends live in the simulator's world: inputs take the estimated time to arrive."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    @property
    def modelled(self) -> bool:
        """Whether the driver makes a device wait for the estimated arrival of its inputs; real ones need no telling."""
        ...

    def devices(self) -> Cluster:
        """The devices, in the order of their numbers."""
        ...

    def begin(
        self, workload: Workload, calls: Sequence[Call] | None, *, since: float = 0.0
    ) -> None:
        """Get ready for a run; its clock starts at `since`. `calls` has one entry an instance."""
        ...

    def extend(self, workload: Workload, calls: Sequence[Call] | None) -> None:
        """More jobs come during a run: the same workload with others behind, and the calls of the new instances."""
        ...

    def clock(self) -> float:
        """Seconds since `begin`."""
        ...

    def submit(self, order: Order, device: int, priority: float) -> None:
        """Run an order on a device after what it was given before; a lower priority is more urgent, where the backend has a choice."""
        ...

    def cancel(self, number: int) -> None:
        """Call an order off. If it runs already, its device may be lost by that; an event tells."""
        ...

    def wait(self, until: float) -> list[Event]:
        """Return what happened, as soon as something has, or nothing at `until`. Nothing before `until`: nothing can ever happen."""
        ...

    def fetch(self, instance: int) -> Any:
        """The result of an instance that is done."""
        ...

    def forget(self, instance: int) -> None:
        """Drop a result nobody will ask for."""
        ...

    def store(self, instance: int, path: Path) -> None:
        """Write a result to a file."""
        ...

    def restore(self, instance: int, path: Path) -> None:
        """Take a result from a file, as if the instance had run."""
        ...

    def finish(self) -> None:
        """The run is over: call off what is left and drop all results. The backend can begin again."""
        ...

    def close(self) -> None:
        """End everything; nothing is left running."""
        ...
