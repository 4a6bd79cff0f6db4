"""A lab: hosts with namespaces and quotas, processes inside them, and their removal."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

from benchmarks.lab import control_groups, network
from benchmarks.lab.commands import missing
from benchmarks.lab.control_groups import ControlGroup, Controllers, controllers
from benchmarks.lab.names import PREFIX, lab_of, orphaned, own_name
from benchmarks.lab.spec import HEAD, LabSpec

from weft.errors import WeftError

TOP = Path(__file__).resolve().parents[2]
"""The checkout: processes of a lab import from it."""


class Lab:
    """A cluster that exists inside a ``with`` block, whatever ends it.

    A guard process removes the lab if its owner is killed; labs that are left all the same (both
    were killed) are removed before the next one starts.
    """

    def __init__(self, spec: LabSpec) -> None:
        self.spec = spec
        self.name = own_name()
        self._handlers: dict[int, Any] = {}
        self._token = secrets.token_hex(32)
        """Ray's processes of this lab recognise each other by it."""
        self._started: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        if reason := missing():
            raise WeftError(reason)
        remove_orphans()
        found = controllers()
        assert found is not None
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir="/tmp"))
        self._guard = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.lab.guard", self.name],
            cwd=TOP,
            env=self.environment(),
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        for number in (signal.SIGTERM, signal.SIGHUP):
            self._handlers[number] = signal.signal(number, _leave)
        try:
            self.groups = {h: ControlGroup(found, self.name, h) for h in (HEAD, *self.spec.names)}
            for group in self.groups.values():
                group.create()
            for host in self.spec.hosts:
                self.groups[host.name].limit_memory(host.memory)
            network.build(self.name, self.spec)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all processes of the lab and remove its groups, namespaces and files."""
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        self._handlers = {}
        remove_lab(self.name)
        for process in self._started:
            process.wait(60)
            if process.stdout is not None:
                process.stdout.close()
        if self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.close()
        self._guard.wait(60)

    # -- hosts --------------------------------------------------------------

    def address(self, host: str) -> str:
        """Return the address of a host."""
        return network.address(self.spec, host)

    def throttle(self) -> None:
        """Set the quotas; a lab starts without them, so that programs load quickly."""
        for host in self.spec.hosts:
            self.groups[host.name].limit_cores(host.quota * self.spec.core)

    def release(self) -> None:
        """Lift the quotas."""
        for host in self.spec.hosts:
            self.groups[host.name].limit_cores(None)

    def start(
        self,
        host: str,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        output: int | IO[Any] | None = subprocess.DEVNULL,
    ) -> subprocess.Popen[str]:
        """Start a program on a host."""
        (self.folder / host).mkdir(exist_ok=True)
        process = subprocess.Popen(
            ["nsenter", f"--net={network.NAMESPACES / f'{self.name}-{host}'}", *command],
            cwd=TOP,
            env=self.environment(TMPDIR=str(self.folder / host), **(environment or {})),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output is not None else None,
            start_new_session=True,
            text=True,
            preexec_fn=self.groups[host].enter,  # noqa: PLW1509  # writes a file, no locks
        )
        self._started.append(process)
        return process

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of programs: one thread each, modules of this checkout."""
        threads = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"),
            "1",
        )
        path = os.pathsep.join((str(TOP / "src"), str(TOP)))
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": self._token}
        return {**os.environ, **threads, **token, "PYTHONPATH": path, **more}

    def kill(self, host: str) -> None:
        """Kill all processes of a host, as if its power failed."""
        self.groups[host].kill()

    def cut(self, host: str) -> None:
        """Take the link of a host down."""
        network.cut(self.name, host)

    def mend(self, host: str) -> None:
        """Take the link of a host up again."""
        network.mend(self.name, host)


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


def remove_lab(name: str) -> None:
    """Remove everything that has the name of a lab."""
    if (found := controllers()) is not None:
        control_groups.remove(name, found)
    network.remove(name)
    for folder in Path("/tmp").glob(f"{name}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def remove_orphans() -> list[str]:
    """Remove the labs of processes that are gone; return their names."""
    found = controllers()
    gone = [name for name in labs(found) if orphaned(name)]
    for name in gone:
        remove_lab(name)
    return gone


def labs(found: Controllers | None) -> list[str]:
    """Return the names of all labs of which something is left."""
    seen = [p.name for p in Path("/tmp").glob(f"{PREFIX}-*")] + network.names()
    if found is not None:
        seen += [p.name for top in (found.cpu, found.memory) for p in top.glob(f"{PREFIX}-*")]
    return sorted({lab_of(name) for name in seen} - {""})
