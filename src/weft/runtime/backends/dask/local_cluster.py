"""A Dask cluster that weft starts on this machine; it replaces dead workers.

Dask's nannies do not replace a worker that dies while its nanny waits for its start.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import warnings
from collections.abc import Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

import dask
from distributed import Scheduler, SpecCluster

from weft.errors import WeftError
from weft.runtime.backends.calls import MAX_KILLED_STARTS, MAX_STARTS
from weft.runtime.backends.dask.process import SILENT, serve
from weft.runtime.backends.leftover_processes import VARIABLE, end_descendants, new_token
from weft.runtime.backends.local.device import LocalDevice
from weft.runtime.backends.local.process import ONE_THREAD, cause_of
from weft.runtime.backends.local.worker import environment


class LocalDaskCluster:
    """A scheduler in this process and workers of one thread each, on loopback."""

    def __init__(self, specs: Sequence[LocalDevice]) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._scratch = tempfile.TemporaryDirectory(prefix="weft-dask-")
        self._processes: dict[str, BaseProcess] = {}
        self._codes: dict[int, int | None] = {}
        """Process id -> exit code of replaced processes."""
        self._starts = dict.fromkeys(self._specs, 0)
        self.left_out: set[str] = set()
        """Names of workers that died at every start."""
        self._token = new_token()
        self._trouble = ""
        self._warnings: list[str] = []
        self._lock = threading.Lock()
        self._over = threading.Event()
        options = {
            "host": "127.0.0.1",
            "port": 0,
            "dashboard": False,
            "dashboard_address": "127.0.0.1:0",
        }
        with dask.config.set(
            {
                "distributed.scheduler.work-stealing": False,
                "distributed.scheduler.allowed-failures": 1000,
            }
        ):
            # The run reports lost workers; the log would repeat it.
            self._cluster = SpecCluster(
                workers={}, scheduler={"cls": Scheduler, "options": options}, silence_logs=SILENT
            )
        self.address: str = self._cluster.scheduler_address
        for name in self._specs:
            self._start(name)
        self._watch = threading.Thread(target=self._replace_the_dead, daemon=True)
        self._watch.start()

    def check(self) -> None:
        """Raise an error if a worker cannot be started."""
        while self._warnings:  # in the user's thread, which may turn warnings into errors
            warnings.warn(self._warnings.pop(), stacklevel=2)
        if self._trouble:
            raise WeftError(self._trouble)

    def mark_up(self, name: str) -> None:
        """Record that a worker is up."""
        self._starts[name] = 0

    def exit_code(self, name: str, pid: int) -> int | None:
        """Return the exit code of a worker process."""
        with self._lock:
            process = self._processes[name]
            if process.pid != pid:
                return self._codes.get(pid)
            process.join(5.0)
            return process.exitcode

    def kill(self, name: str) -> None:
        """Kill a worker; another replaces it."""
        with self._lock:
            self._processes[name].kill()

    def close(self) -> None:
        """End all processes."""
        self._over.set()
        self._watch.join()
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.join(10.0)
        end_descendants(self._token)
        self._cluster.close()
        self._scratch.cleanup()

    def _replace_the_dead(self) -> None:
        while not self._over.is_set() and not self._trouble:
            wait(
                [
                    self._processes[name].sentinel
                    for name in self._specs
                    if name not in self.left_out
                ],
                timeout=0.2,
            )
            with self._lock:
                for name, process in list(self._processes.items()):
                    dead = name not in self.left_out and not process.is_alive()
                    if dead and not self._over.is_set():
                        self._replace(name, process)

    def _replace(self, name: str, process: BaseProcess) -> None:
        self._starts[name] += 1
        text, fault = cause_of(process.exitcode)
        if self._starts[name] > (MAX_STARTS if fault == "exited" else MAX_KILLED_STARTS):
            about = f"the Dask worker '{name}' dies before it can work, again and again: {text}"
            self.left_out.add(name)
            if len(self.left_out) == len(self._specs):
                self._trouble = f"no device is left: {about}"
            else:
                self._warnings.append(f"{about}; the run goes on without")
            return
        self._codes[process.pid or 0] = process.exitcode
        self._start(name)

    def _start(self, name: str) -> None:
        spec = self._specs[name]
        context = multiprocessing.get_context("spawn")
        args = (name, self.address, self._scratch.name, spec.memory or 0)
        process = context.Process(target=serve, args=args, name=f"weft-dask-{name}", daemon=True)
        resource_tracker.ensure_running()  # before the variable of the workers is set
        with environment({**ONE_THREAD, **spec.environment, VARIABLE: f"{self._token}.{name}"}):
            process.start()
        self._processes[name] = process
