"""Backends by name, and the backend that the options of a run ask for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.arguments import shown
from weft.errors import InvalidInput, UnknownName
from weft.registry import closest
from weft.runtime.backends.local.pool import shared_backend
from weft.runtime.backends.protocol import Backend
from weft.runtime.backends.ray.backend import RayBackend


def _dask(where: Any) -> Backend:
    """Devices that are threads of Dask workers."""
    from weft.runtime.backends.dask.backend import DaskBackend

    return DaskBackend(where)


def _hyperqueue(devices: Any, **options: Any) -> Backend:
    """Devices that are tasks of a HyperQueue server."""
    from weft.runtime.backends.hyperqueue.backend import HyperQueueBackend

    return HyperQueueBackend(devices, **options)


def _local(devices: Any) -> Backend:
    """Devices that are processes of this machine."""
    return shared_backend(devices)


def _slurm(devices: Any) -> Backend:
    """Devices that are job steps of a Slurm allocation."""
    from weft.runtime.backends.slurm.backend import SlurmBackend

    return SlurmBackend(devices)


BACKENDS: dict[str, Callable[..., Backend]] = {
    "local": _local,
    "dask": _dask,
    "hyperqueue": _hyperqueue,
    "ray": RayBackend,
    "slurm": _slurm,
}
"""Name of a backend -> its constructor, which takes the devices."""

ADDRESSED = ("hyperqueue", "ray")
"""Backends that take the address of a running cluster."""


def open_backend(backend: Any, devices: Any, address: str | Path | None) -> tuple[Backend, bool]:
    """Return the backend, and whether this run must close it."""
    if address is not None and backend not in ADDRESSED:
        raise InvalidInput(
            f"address is given for backend {backend!r}; only {' and '.join(ADDRESSED)} take one"
        )
    if not isinstance(backend, str):
        if devices is not None:
            raise InvalidInput("devices and a backend object are given; give one of the two")
        if type(backend).__module__.partition(".")[0] == "distributed":
            return _dask(backend), True  # a Dask client
        if not hasattr(backend, "devices"):
            raise InvalidInput(
                f"backend is {shown(backend)}; give one of {', '.join(BACKENDS)}, a "
                "distributed.Client or a backend object"
            )
        return backend, False
    if backend not in BACKENDS:
        raise UnknownName(f"unknown backend '{backend}'{closest(backend, BACKENDS)}")
    if isinstance(devices, str | Path):
        from weft.formats import load_cluster

        if not os.path.isfile(devices):  # noqa: PTH113  # is_file raises if a name is too long
            raise InvalidInput(
                f"devices is '{devices}', and there is no such file; give a number of devices, the "
                "devices, or the path of a cluster file"
            )
        devices = load_cluster(devices)
    options = {} if address is None else {"address": str(address)}
    return BACKENDS[backend](devices, **options), True
