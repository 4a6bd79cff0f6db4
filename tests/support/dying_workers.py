"""Worker processes that die as they start."""

from __future__ import annotations

import os
import signal


def broken(tmp_path):
    """Variables of a process that ends as soon as it starts."""
    (tmp_path / "sitecustomize.py").write_text("import os; os._exit(3)")
    return {"PYTHONPATH": str(tmp_path)}


def kill_at_start(backend, device, times):
    """Kill the processes of one device as they start, up to a number of times; list their ids."""
    killed, spawn = [], backend._spawn

    def doomed(number):
        spawn(number)
        if number == device and len(killed) < times:
            killed.append(backend._workers[number].process.pid)
            os.kill(killed[-1], signal.SIGKILL)

    backend._spawn = doomed
    return killed
