"""Local processes that the runs and executors of one program use in turn.

A closed backend is stored here, with its processes, for the next run with the same devices and the
same surroundings (environment, folder, import path); a run with others replaces it. The processes
end with this program. A forked child starts its own.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading

from weft.model import Cluster
from weft.runtime.backends.local.backend import LocalBackend
from weft.runtime.backends.local.device import LocalDevices
from weft.typed import typed

_lock = threading.Lock()
_idle: list[SharedBackend] = []
"""The stored backend; at most one."""


class SharedBackend(LocalBackend):
    """A local backend whose processes survive `close`; `shared_backend` returns one."""

    def __init__(self, devices: LocalDevices = None) -> None:
        super().__init__(devices)
        self.surroundings = (
            repr(self.specs),
            os.getcwd(),  # noqa: PTH109  # quicker than a Path
            tuple(sys.path),
            tuple(sys.argv),
            tuple(os.environ.items()),
        )
        self._borrowed = True

    def close(self) -> None:
        """End the run, and keep the processes for the next one."""
        if not self._borrowed:
            return
        self._borrowed = False
        try:
            self.finish()
        except BaseException:
            super().close()
            raise
        with _lock:
            before = _idle[:]
            _idle[:] = [self]
        for other in before:
            other.end()

    def end(self) -> None:
        """End the processes."""
        super().close()

    def borrow(self, cluster: Cluster) -> SharedBackend:
        """Return this backend for another run, on the same processes as this cluster."""
        self._borrowed, self._cluster = True, cluster
        return self


def shared_backend(devices: LocalDevices = None) -> SharedBackend:
    """Return a backend with these devices: the stored one, or else a new one."""
    wanted = SharedBackend(devices)
    with _lock:
        if _idle and _idle[0].surroundings == wanted.surroundings:
            return _idle.pop().borrow(wanted.devices())
    return wanted


@typed
def end_idle_processes() -> None:
    """End the processes that wait for the next run."""
    with _lock:
        before, _idle[:] = _idle[:], []
    for backend in before:
        backend.end()


def _forget_in_child() -> None:
    """Close a forked child's pipes to its parent's processes.

    An open pipe would keep them alive.
    """
    global _lock  # noqa: PLW0603  # another thread may have held it
    _lock = threading.Lock()
    for backend in _idle:
        backend.abandon()
    _idle.clear()


atexit.register(end_idle_processes)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
