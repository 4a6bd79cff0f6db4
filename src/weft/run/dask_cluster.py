"""The workers of a Dask cluster as devices, and what is sent to them."""

from __future__ import annotations

import contextlib
import pickle
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any

from distributed.protocol.pickle import dumps

from weft.errors import InvalidInput
from weft.run import dask_plugin as remote
from weft.run.backend import Call, Failed, Finished, Input, Order
from weft.run.calls import with_slots
from weft.run.functions import Body
from weft.run.local_device import LocalDevice

LARGE = 1 << 20
"""Bytes of arguments about which Dask may want to warn."""


@dataclass(eq=False)
class Site:
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
class Line:
    """A device: the orders it has, as they shall run."""

    name: str
    site: Site
    orders: deque[Order] = field(default_factory=deque)
    last: int = -1
    """The order it was sent last; what comes next waits for it."""
    early: dict[int, Finished | Failed] = field(default_factory=dict)
    """Ends that were reported before those of orders ahead of them."""


def site_of(facts: remote.Facts, spec: LocalDevice | None) -> Site:
    """A worker as the scheduler knows it; `spec` is what it was started from."""
    memory = float(facts["memory"] or inf)
    cores = spec.cores if spec is not None else ()
    return Site(facts["name"], facts["host"], facts["threads"], memory, cores, facts["worker"], facts["id"], up=True)


def device_names(site: Site) -> list[str]:
    """One a thread."""
    return [site.name] if site.threads == 1 else [f"{site.name}.{k}" for k in range(site.threads)]


def kinds_of(sites: Sequence[Site], said: Mapping[str, str]) -> dict[str, str]:
    """Name of a worker -> kind: as said, or the same for all on one host."""
    hosts = dict.fromkeys(site.host for site in sites)
    return {site.name: said.get(site.name, "cpu" if len(hosts) == 1 else site.host) for site in sites}


@lru_cache(maxsize=1000)
def _slots_only(args: tuple[Input, ...]) -> bytes:
    return pickle.dumps((with_slots(args), {}))


def pickled_function(function: Any) -> bytes:
    """What stands in the user's script goes by value: a worker elsewhere has another one."""
    if isinstance(function, Body) and function.task.function.__module__ == "__main__":
        function = function.task.function
    try:
        return bytes(dumps(function))
    except Exception as error:  # noqa: BLE001  # pickling runs code of the user
        name = getattr(function, "__qualname__", repr(function))
        raise InvalidInput(f"function '{name}' cannot be sent to Dask's workers: {error}") from None


@contextlib.contextmanager
def quietly(size: int) -> Iterator[None]:
    """Arguments are part of the task: then it can run again. Dask thinks that large ones are an oversight."""
    if size < LARGE:
        yield
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph", category=UserWarning)
        yield


def packed_arguments(call: Call) -> bytes:
    """Arguments with slots for the results of others, pickled."""
    if not call.kwargs and all(type(arg) is Input for arg in call.args):  # nothing but results: the same for many tasks
        return _slots_only(call.args)
    return bytes(dumps(with_slots((call.args, dict(call.kwargs)))))
