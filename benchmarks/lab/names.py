"""Names of labs: they tell which process owns a lab, and whether it still lives."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

PREFIX = "weft-lab"
FORM = re.compile(rf"{PREFIX}-(\d+)-(\d+)-(\d+)")
_COUNT = itertools.count()


def own_name() -> str:
    """Return the name of a lab of this process."""
    return f"{PREFIX}-{os.getpid()}-{start_time(os.getpid())}-{next(_COUNT)}"


def start_time(pid: int) -> int:
    """Return when a process started, in clock ticks; 0: there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])


def orphaned(name: str) -> bool:
    """Return whether a name is that of a lab whose owner is gone."""
    match = FORM.match(name)
    return match is not None and start_time(int(match[1])) != int(match[2])


def lab_of(name: str) -> str:
    """Return the name of the lab to which a namespace, group or folder belongs; empty: none."""
    match = FORM.match(name)
    return match[0] if match is not None else ""
