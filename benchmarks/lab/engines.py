"""Dask and Ray inside a lab: a scheduler on the head, a worker per host."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable

from benchmarks.lab.lab import Lab
from benchmarks.lab.spec import HEAD

from weft.errors import WeftError

START_SECONDS = 300.0
DASK_PORT, RAY_PORT = 8786, 6379

BIND = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
"""Shell command that gives a host a session folder of its own: nodes that share one collide."""

STORE = 300_000_000
"""Bytes of the object store of a host of Ray."""

HEALTH_CHECK = {
    "RAY_health_check_initial_delay_ms": "5000",
    "RAY_health_check_period_ms": "2000",
    "RAY_health_check_timeout_ms": "4000",
    "RAY_health_check_failure_threshold": "5",
}
"""When Ray gives up a silent node: after 5 checks of 4 s, 2 s apart, 30 s in all, as Dask does. By
default these are 5 checks of 10 s, 3 s apart: 65 s. It holds for all ways to run a workload."""


def start_dask(lab: Lab) -> str:
    """Start a scheduler and the workers; return the address."""
    address = f"tcp://{lab.address(HEAD)}:{DASK_PORT}"
    quiet = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}
    lab.start(
        HEAD,
        [
            *(sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"),
            *("--host", lab.address(HEAD), "--port", str(DASK_PORT), "--no-show"),
        ],
        environment=quiet,
    )
    for host in lab.spec.hosts:
        lab.start(
            host.name,
            [
                *(sys.executable, "-m", "distributed.cli.dask_worker", address),
                *("--name", host.name, "--host", lab.address(host.name), "--no-nanny"),
                *("--nthreads", str(host.cores), "--no-dashboard"),
                *("--memory-limit", str(int(0.8 * host.memory))),
                *("--local-directory", str(lab.folder / host.name)),
            ],
            environment=quiet,
        )
    _ready(lab, "dask", address)
    return address


def start_ray(lab: Lab) -> str:
    """Start a head and a node per host; each node has a resource of the name of its host."""
    address, folder = f"{lab.address(HEAD)}:{RAY_PORT}", lab.folder / "ray"
    quiet = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DISABLE_MEMORY_MONITOR": "1",
        "RAY_enable_metrics_collection": "0",
        **HEALTH_CHECK,
    }
    ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats", "--block"]
    lab.start(
        HEAD,
        [
            *(*ray, "--head", "--num-cpus", "0", "--include-dashboard", "false"),
            *("--node-ip-address", lab.address(HEAD), "--port", str(RAY_PORT)),
            *("--object-store-memory", str(STORE), "--temp-dir", str(folder)),
        ],
        environment=quiet,
    )
    _wait_for(lambda: _listens(lab, lab.address(HEAD), RAY_PORT), "the head of Ray")
    for host in lab.spec.hosts:
        own = lab.folder / host.name / "ray"
        own.mkdir(parents=True)
        lab.start(
            host.name,
            [
                *("unshare", "--mount", "sh", "-c", BIND, "sh", str(own), str(folder)),
                *(*ray, "--address", address, "--node-ip-address", lab.address(host.name)),
                *("--num-cpus", str(host.cores), "--object-store-memory", str(STORE)),
                *("--resources", json.dumps({host.name: host.cores})),
            ],
            environment=quiet,
        )
    _ready(lab, "ray", address)
    return address


ENGINES: dict[str, Callable[[Lab], str]] = {"dask": start_dask, "ray": start_ray}
"""Name -> how it starts; returns the address of its scheduler."""


def _ready(lab: Lab, engine: str, address: str) -> None:
    """Wait until all workers are there and have loaded their modules."""
    made = lab.start(
        HEAD,
        [
            *(sys.executable, "-m", "benchmarks.lab.driver", "ready", engine, address),
            str(len(lab.spec.hosts)),
        ],
        output=subprocess.PIPE,
    )
    try:
        text, _ = made.communicate(timeout=START_SECONDS)
    except subprocess.TimeoutExpired:
        raise WeftError(f"{engine} did not start within {START_SECONDS:g} s") from None
    if made.returncode:
        raise WeftError(f"{engine} did not start: {' '.join(text.split())[-500:]}")


def _wait_for(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise WeftError(f"{what} did not start within {START_SECONDS:g} s")
        time.sleep(0.2)


def _listens(lab: Lab, address: str, port: int) -> bool:
    code = f"import socket; socket.create_connection(({address!r}, {port}), 1).close()"
    tried = lab.start(HEAD, [sys.executable, "-S", "-c", code])
    return tried.wait() == 0
