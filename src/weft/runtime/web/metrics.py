"""Counters and gauges in the text format of Prometheus (version 0.0.4)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

HELP = {
    "weft_requests_total": "Requests by status.",
    "weft_submissions_total": "Accepted submissions by application.",
    "weft_refused_total": "Refused requests by reason.",
    "weft_runs_ended_total": "Ended runs by application and state.",
    "weft_tasks_total": "Ended attempts of tasks by application and outcome.",
    "weft_task_seconds_total": "Device time of finished tasks by application, in seconds.",
    "weft_runs": "Runs that wait or run, by application and state.",
    "weft_streams": "Open streams of events.",
    "process_resident_memory_bytes": "Memory of the server, in bytes.",
}
"""Metric -> what it counts; names that end in _total are counters."""

Labels = tuple[tuple[str, str], ...]


class ServerMetrics:
    r"""Counters by labels; safe for threads.

    Examples
    --------
    >>> metrics = ServerMetrics()
    >>> metrics.count("weft_refused_total", reason='a "rate"')
    >>> print(metrics.text(())) # doctest: +ELLIPSIS
    # HELP weft_refused_total Refused requests by reason.
    # TYPE weft_refused_total counter
    weft_refused_total{reason="a \"rate\""} 1
    <BLANKLINE>
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, float]] = {}

    def count(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""
        key = tuple(labels.items())
        with self._lock:
            values = self._values.setdefault(name, {})
            values[key] = values.get(key, 0.0) + amount

    def text(self, gauges: Iterable[tuple[str, Labels, float]]) -> str:
        """Return all counters, and gauges as (name, labels, value), as text."""
        with self._lock:
            found = {name: dict(values) for name, values in self._values.items()}
        for name, labels, value in gauges:
            found.setdefault(name, {})[labels] = value
        lines = []
        for name in sorted(found):
            kind = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{_labels(k)} {v:.17g}" for k, v in sorted(found[name].items())]
        return "\n".join([*lines, ""])


def resident_bytes() -> float:
    """Return the memory of this process; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return float(pages * os.sysconf("SC_PAGE_SIZE"))


def _labels(labels: Labels) -> str:
    inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels)
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
