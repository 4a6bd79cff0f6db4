"""Two nodes of Ray, and a task that runs until the input of the order behind it is on its node.

`python -m tests.support.ray_transfers` runs it with two orders per device, then with one. It writes
where the tasks ran, whether the input came meanwhile, and the result of its reader.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import weft
from tests.support import run_functions as f
from tests.support.waiting import WAIT_LIMIT
from weft.runtime import RayBackend, RayDevice
from weft.runtime.backends.ray.session import QUIET

NAMES = ("left", "right")

IN_VAIN = 2.0
"""Seconds for which a task waits for an input whose reader is not sent yet."""


class Fixed:
    """A policy: the result is made on one node, and read on the other behind another task."""

    name = "fixed"

    def begin(self, workload: Any, *, seed: int = 0) -> None:
        """Nothing to prepare."""

    def decide(self, view: Any) -> Any:
        """Send the reader when its input exists; the other task runs since the beginning."""
        place = {0: 0, 1: 1, 2: 1}
        instance = next((int(i) for i in view.ready if i != 2 or view.ran_on[1] < 0), None)
        return None if instance is None else weft.sim.view.Decision(instance, place[instance])


def appears(path: str, seconds: float) -> bool:
    """Run until a file exists; return whether it does."""
    limit = time.monotonic() + seconds
    while not Path(path).exists():
        if time.monotonic() > limit:
            return False
        time.sleep(0.01)
    return True


def report_arrival(backend: RayBackend, path: Path) -> None:
    """Make a file when the result of the first task is on both nodes."""
    locations = importlib.import_module("ray.experimental").get_object_locations
    while True:
        ref = backend._results.get(0)
        if ref is not None and len(locations([ref])[ref]["node_ids"]) == len(NAMES):
            path.touch()
            return
        time.sleep(0.02)


def transferred(backend: RayBackend, path: Path, window: int, patience: float) -> dict[str, Any]:
    """Run the three tasks; the second one waits for a file at most so many seconds."""
    b = weft.WorkflowBuilder("ahead")
    for name in ("big", "meanwhile", "reads"):
        b.task(name, work=1.0, kind=name)
    b.edge("big", "reads")
    functions = {
        "big": partial(np.ones, 500_000),
        "meanwhile": partial(appears, str(path), patience),
        "reads": f.total,
    }
    threading.Thread(target=report_arrival, args=(backend, path), daemon=True).start()
    options: dict[str, Any] = {"policy": Fixed(), "window": window, "history": False}
    trace = weft.run(b.build(), functions=functions, backend=backend, **options)
    return {
        "devices": trace.device[np.argsort(trace.task)].tolist(),
        "arrived": trace.results["meanwhile"],
        "total": trace.results["reads"],
    }


def main() -> None:
    """Start two nodes, run with both windows, and write the outcomes as JSON."""
    os.environ.update(QUIET, PYTHONPATH=os.pathsep.join(p for p in sys.path if p))
    ray: Any = importlib.import_module("ray")
    nodes: Any = importlib.import_module("ray.cluster_utils").Cluster()
    try:
        for k, name in enumerate(NAMES):
            options = {"include_dashboard": False} if k == 0 else {}
            nodes.add_node(num_cpus=1, resources={name: 1}, object_store_memory=80 << 20, **options)
        ray.init(address=nodes.address, logging_level="ERROR", log_to_driver=False)
        devices = [RayDevice(name, kind=name, cpus=0.0, resources={name: 1.0}) for name in NAMES]
        with tempfile.TemporaryDirectory() as folder, RayBackend(devices) as backend:
            found = {
                "two orders": transferred(backend, Path(folder, "two"), 2, WAIT_LIMIT),
                "one order": transferred(backend, Path(folder, "one"), 1, IN_VAIN),
            }
        sys.stdout.write(json.dumps(found) + "\n")
    finally:
        ray.shutdown()
        nodes.shutdown()


if __name__ == "__main__":
    main()
