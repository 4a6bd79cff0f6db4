"""Control groups: processor quotas, memory limits, and all processes of a host.

Version 1 has a folder per controller, version 2 one for all. The groups of a lab lie below the one
of its owner (version 1) or below the root (version 2, where a group with processes cannot have
controlled children).
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")

PERIOD = 10_000
"""Microseconds of a quota: short, so that a slow host is slow evenly."""

HOSTS = 5
"""Processes of the owner's priority as which a whole lab counts beside other work."""


@dataclass(frozen=True)
class Controllers:
    """Folders below which groups are made; the same for both in version 2."""

    cpu: Path
    memory: Path
    version: int


def controllers(root: Path = ROOT, own: str | None = None) -> Controllers | None:
    """Find the controllers; None if one of them is missing."""
    text = Path("/proc/self/cgroup").read_text(encoding="utf-8") if own is None else own
    if (root / "cpu").is_dir() and (root / "memory").is_dir():
        paths = {}
        for line in text.splitlines():
            _, names, path = line.split(":", 2)
            paths |= dict.fromkeys(names.split(","), path.strip("/"))
        if "cpu" in paths and "memory" in paths:
            return Controllers(root / "cpu" / paths["cpu"], root / "memory" / paths["memory"], 1)
        return None
    listing = root / "cgroup.controllers"
    known = listing.read_text(encoding="utf-8").split() if listing.is_file() else []
    return Controllers(root, root, 2) if {"cpu", "memory"} <= set(known) else None


class ControlGroup:
    """The groups of one host of a lab, `lab`/`host` below each controller."""

    def __init__(self, where: Controllers, lab: str, host: str) -> None:
        self._where = where
        self.cpu, self.memory = where.cpu / lab / host, where.memory / lab / host

    def create(self) -> None:
        """Make the folders."""
        for folder in (self.cpu, self.memory):
            folder.mkdir(parents=True, exist_ok=True)
        if self._where.version == 2:
            for folder in (self.cpu.parent.parent, self.cpu.parent):
                (folder / "cgroup.subtree_control").write_text("+cpu +memory", encoding="utf-8")

        self._weigh(self.cpu.parent)

    def _weigh(self, top: Path) -> None:
        """Give the lab the weight of its hosts as processes of the owner's priority."""
        weight = HOSTS * 1.25 ** -os.getpriority(os.PRIO_PROCESS, 0)
        if self._where.version == 1:
            shares = min(262_144, max(2, round(1024 * weight)))
            (top / "cpu.shares").write_text(str(shares), encoding="utf-8")
        else:
            shares = min(10_000, max(1, round(100 * weight)))
            (top / "cpu.weight").write_text(str(shares), encoding="utf-8")

    def limit_memory(self, amount: float) -> None:
        """Set the bytes that the host may use."""
        name = "memory.limit_in_bytes" if self._where.version == 1 else "memory.max"
        (self.memory / name).write_text(str(int(amount)), encoding="utf-8")

    def limit_cores(self, cores: float | None) -> None:
        """Set the cores of this machine that the host may use; None: all."""
        quota = -1 if cores is None else max(1000, round(cores * PERIOD))
        if self._where.version == 1:
            (self.cpu / "cpu.cfs_period_us").write_text(str(PERIOD), encoding="utf-8")
            (self.cpu / "cpu.cfs_quota_us").write_text(str(quota), encoding="utf-8")
        else:
            text = f"{'max' if quota < 0 else quota} {PERIOD}"
            (self.cpu / "cpu.max").write_text(text, encoding="utf-8")

    def enter(self) -> None:
        """Move the calling process into the groups."""
        for folder in dict.fromkeys((self.cpu, self.memory)):
            (folder / "cgroup.procs").write_text(str(os.getpid()), encoding="utf-8")

    def pids(self) -> list[int]:
        """Return the processes of the host."""
        return sorted({pid for folder in (self.cpu, self.memory) for pid in _pids(folder)})

    def kill(self) -> None:
        """Kill all processes of the host."""
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def remove(lab: str, where: Controllers, *, limit: float = 20.0) -> None:
    """Kill all processes of a lab and remove its groups."""
    folders = list(dict.fromkeys((where.cpu / lab, where.memory / lab)))
    deadline = time.monotonic() + limit
    while any(folder.exists() for folder in folders) and time.monotonic() < deadline:
        for top in folders:
            for folder in (*top.glob("*/"), top) if top.exists() else ():
                for pid in _pids(folder):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                with contextlib.suppress(OSError):  # a process is still dying
                    folder.rmdir()
        time.sleep(0.02)


def _pids(folder: Path) -> list[int]:
    try:
        return [int(p) for p in (folder / "cgroup.procs").read_text(encoding="utf-8").split()]
    except OSError:
        return []
