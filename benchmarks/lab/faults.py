"""Hosts that are cut off or killed during a run: the right result, or a clear error in time."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Any

from benchmarks.lab.engines import ENGINES
from benchmarks.lab.lab import Lab
from benchmarks.lab.spec import HEAD, LabSpec

from weft.errors import WeftError

LIMIT = 60.0
"""Seconds after a fault in which a run must end."""

FAULTS = ("cut", "kill")


def run_fault(
    spec: LabSpec, engine: str, workload: str, fault: str, *, after: float, scale: float, host: str
) -> dict[str, Any]:
    """Run a workload by weft, break a host `after` seconds into it, and report the outcome."""
    with Lab(spec) as lab:
        address = ENGINES[engine](lab)
        lab.throttle()
        command = [sys.executable, "-m", "benchmarks.lab.driver", "one", engine, address, workload]
        driver = lab.start(
            HEAD, [*command, "--scale", str(scale), "--after", str(after)], output=subprocess.PIPE
        )
        assert driver.stdout is not None
        lines: list[str] = []
        broken = 0.0
        timer: threading.Timer | None = None
        for line in driver.stdout:
            lines.append(line)
            if line.startswith('{"ready"'):
                (lab.cut if fault == "cut" else lab.kill)(host)
                broken = time.monotonic()
                timer = threading.Timer(2 * LIMIT, driver.kill)
                timer.start()
        driver.wait()
        seconds = time.monotonic() - broken
        if timer is not None:
            timer.cancel()
        if not broken:
            raise WeftError(f"the driver failed: {' '.join(''.join(lines).split())[-800:]}")
        name = lab.name
    outcome, words = outcome_of(lines)
    return {
        "engine": engine,
        "workload": workload,
        "fault": fault,
        "outcome": outcome,
        "words": words,
        "seconds": round(seconds, 1),
        "in time": seconds <= LIMIT and outcome != "hangs",
        "left": left_of(name),
    }


def outcome_of(lines: list[str]) -> tuple[str, str]:
    """Return "right", "wrong", "error" or "hangs", and the words of an error."""
    for line in reversed(lines):
        if line.startswith('{"outcome"'):
            found = json.loads(line)
            return found["outcome"], found.get("words", "")
    return "hangs", " ".join(lines[-1].split())[-200:] if lines else ""


def left_of(name: str) -> list[str]:
    """Return what is left of a lab."""
    from benchmarks.lab.control_groups import controllers
    from benchmarks.lab.lab import labs

    return [found for found in labs(controllers()) if found == name]
