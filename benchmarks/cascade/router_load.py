"""Ray Serve's own request router beside that of weft, on replicas of unlike speed.

    python benchmarks/cascade/router_load.py --load 0.8 --seconds 30

Two replicas, one four times as fast as the other, each one request at a time. Both routers get the
same requests at the same times, open loop: all of one size, and of unlike sizes (lognormal, mean
1), which the caller states and weft's router reads. `router_bound.py` says how far below the
shorter queue a router can be if all sizes are equal.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import ray
from load import priority
from ray import serve
from ray.serve.config import RequestRouterConfig
from tables import put_table

SECONDS = (0.04, 0.16)
"""Of a request, on each replica."""
ROUTERS = {
    "ray": "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter",
    "weft": "weft.runtime.routers.ray_serve:CompletionRouter",
}


def deployed(name: str) -> Any:
    """Return the handle of a deployment with a router."""
    claims = tempfile.mkdtemp()

    class Replica:
        def __init__(self) -> None:
            self.lock = asyncio.Lock()
            for number, seconds in enumerate(SECONDS):
                with suppress(FileExistsError):
                    os.close(os.open(Path(claims) / str(number), os.O_CREAT | os.O_EXCL))
                    self.seconds = seconds
                    break

        async def __call__(self, size: float) -> float:
            async with self.lock:
                await asyncio.sleep(size * self.seconds)
            return self.seconds

    options = {"size": "builtins:float"} if name == "weft" else {}
    config = RequestRouterConfig(request_router_class=ROUTERS[name], request_router_kwargs=options)
    made = serve.deployment(
        name=name,
        num_replicas=len(SECONDS),
        max_ongoing_requests=1000,
        ray_actor_options={"num_cpus": 0},
        request_router_config=config,
    )
    return serve.run(made(Replica).bind(), name=name, route_prefix=None)


async def drive(handle: Any, due: np.ndarray, size: np.ndarray) -> dict[str, float]:
    """Send requests when they are due; return the completion times in ms."""
    took, fast = np.zeros(len(due)), [0]
    start = time.perf_counter() + 0.1

    async def send(k: int) -> None:
        await asyncio.sleep(max(0.0, start + due[k] - time.perf_counter()))
        seconds = await handle.remote(float(size[k]))
        fast[0] += seconds == min(SECONDS)
        took[k] = 1000.0 * (time.perf_counter() - start - due[k])

    await asyncio.gather(*(send(k) for k in range(len(due))))
    p50, p95, p99 = np.percentile(took, [50, 95, 99]).tolist()
    share = fast[0] / len(due)
    return {"mean": float(took.mean()), "p50": p50, "p95": p95, "p99": p99, "fast": share}


def write(path: Path, rows: dict[str, dict[str, dict[str, float]]], conditions: str) -> None:
    """Set the table of routers."""
    columns = [("requests", None, ""), ("router", None, "")]
    columns += [(figure, 0, "") for figure in ("mean", "p50", "p95", "p99")]
    names = {"ray": "Ray's power of two", "weft": "weft's predicted completion"}
    found = [
        [kind, names[router], *(row[f] for f in ("mean", "p50", "p95", "p99")), 100 * row["fast"]]
        for kind, by_router in rows.items()
        for router, row in by_router.items()
    ]
    put_table(
        path,
        "router",
        [*columns, ("sent to the fast one", 0, " %")],
        found,
        commands=["python " + " ".join(sys.argv)],
        conditions=f"{conditions}; load of the machine {os.getloadavg()[0]:.1f}",
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--load", type=float, default=0.8)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--realtime", action="store_true", help="priority over other processes")
    parser.add_argument("--write", type=Path, help="set the table of this file of docs/results")
    args = parser.parse_args()
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    ray.init("local", num_cpus=8, **options)
    rate = args.load * sum(1 / seconds for seconds in SECONDS)
    due = np.cumsum(np.random.default_rng(3).exponential(1 / rate, int(rate * args.seconds)))
    unlike = np.random.default_rng(4).lognormal(-0.5, 1.0, len(due))
    sizes = {"equal": np.ones(len(due)), "unlike": unlike / unlike.mean()}
    rows: dict[str, dict[str, dict[str, float]]] = {kind: {} for kind in sizes}
    for name in ROUTERS:
        handle = deployed(name)
        for kind, size in sizes.items():
            with priority(args.realtime):
                asyncio.run(drive(handle, due[:50], size))
                row = rows[kind][name] = asyncio.run(drive(handle, due, size))
            print(kind, name, {key: round(value, 2) for key, value in row.items()}, flush=True)
        serve.delete(name)
    for kind, row in rows.items():
        print(f"{kind}: weft below ray: {1 - row['weft']['mean'] / row['ray']['mean']:.1%}")
    if args.write is not None:
        write(args.write, rows, f"load {args.load:g}, {args.seconds:g} s, {len(due)} requests")
    serve.shutdown()
    ray.shutdown()


if __name__ == "__main__":
    main()
