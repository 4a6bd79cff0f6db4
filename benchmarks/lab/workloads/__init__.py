"""Task graphs that people have, with data of real size; each is written once for all engines.

A workload is a function of `call`, which makes a task of a function and its arguments: a promise of
weft, a delayed call of Dask, a remote call of Ray, or the value itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.lab.workloads.cholesky import cholesky
from benchmarks.lab.workloads.frames import frames
from benchmarks.lab.workloads.genome import genome
from benchmarks.lab.workloads.grid import grid
from benchmarks.lab.workloads.pyramids import pyramids

Call = Callable[..., Any]

WORKLOADS: dict[str, Callable[[Call, float], Any]] = {
    "cholesky": cholesky,
    "genome": genome,
    "frames": frames,
    "pyramids": pyramids,
    "grid": grid,
}
"""Name -> graph by `call` and scale; 1: the size of the table, less: for tests."""


def at_once(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function now: the serial run that results are compared with."""
    return function(*args)


MODULES = ("numpy", "scipy.linalg", "pandas", "sklearn.ensemble", "benchmarks.lab.workloads")
"""Modules that workers load before anything is measured."""
