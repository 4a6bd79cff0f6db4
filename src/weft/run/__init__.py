"""Running for real: life cycle, driver, backends, history. Called, the package runs a workflow: ``weft.run(workflow, functions={...})``.

Its parts load when they are used: the process of every device imports this package too.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.registry import CallableModule

if TYPE_CHECKING:
    from weft.run.dask_backend import DaskBackend
    from weft.run.failure import Failure, PolicyReplaced, TaskFailed
    from weft.run.fake import FakeBackend
    from weft.run.functions import Application, task
    from weft.run.history import History
    from weft.run.launch import RunTrace
    from weft.run.local import LocalBackend, LocalDevice
    from weft.run.ray_backend import RayBackend
    from weft.run.ray_session import RayDevice
    from weft.run.terms import Terms
    from weft.run.worker import Chosen, current_device

__all__ = [
    "Application",
    "Chosen",
    "DaskBackend",
    "Failure",
    "FakeBackend",
    "History",
    "LocalBackend",
    "LocalDevice",
    "PolicyReplaced",
    "RayBackend",
    "RayDevice",
    "RunTrace",
    "TaskFailed",
    "Terms",
    "called",
    "current_device",
    "task",
]

_HOME = {
    "weft.run.dask_backend": ("DaskBackend",),
    "weft.run.terms": ("Terms",),
    "weft.run.failure": ("Failure", "PolicyReplaced", "TaskFailed"),
    "weft.run.fake": ("FakeBackend",),
    "weft.run.functions": ("Application", "task"),
    "weft.run.history": ("History",),
    "weft.run.launch": ("RunTrace",),
    "weft.run.local": ("LocalBackend", "LocalDevice"),
    "weft.run.ray_backend": ("RayBackend",),
    "weft.run.ray_session": ("RayDevice",),
    "weft.run.worker": ("Chosen", "current_device"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def called(*args: Any, **options: Any) -> Any:
    """Run a workflow: see `weft.run.launch.run`."""
    return import_module("weft.run.launch").run(*args, **options)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'weft.run' has no attribute '{name}'")
    return getattr(import_module(_MODULE_OF[name]), name)


sys.modules[__name__].__class__ = CallableModule
