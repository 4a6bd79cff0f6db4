"""What a measurement ran on: the processor and the versions, never the host's name."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def describe() -> dict[str, object]:
    """Return processor, cores, memory and versions.

    Examples
    --------
    >>> sorted(describe())
    ['cores', 'memory_gb', 'processor', 'system', 'versions']
    """
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in ("weft", "numpy", "numba", "anrg-saga")},
        },
    }


def peak_memory() -> float:
    """Bytes of memory this process held at most.

    Linux keeps the peak of this program in VmHWM; `getrusage` also counts the parent it was forked from.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(
            line
            for line in status.read_text(encoding="utf-8").splitlines()
            if line.startswith("VmHWM")
        )
        return float(line.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) if sys.platform == "darwin" else float(peak) * 1024


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
