"""The overhead per empty call of executors: weft, ProcessPoolExecutor, joblib's loky and Dask.

All of them have the same functions and two processes; rounds alternate, so that the load of the
machine meets all of them. The median of the rounds counts.

python benchmarks/runtime/executor_overhead.py --calls 5000 --rounds 5
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from statistics import median
from typing import Any

import joblib
from distributed import Client, LocalCluster

import weft


def nothing(*_: object) -> None:
    return None


def submitted(executor: Executor, calls: int) -> None:
    """One `submit` per call, then all results."""
    for future in [executor.submit(nothing, k) for k in range(calls)]:
        future.result()


def one_by_one(executor: Executor, calls: int) -> None:
    """Each call after the result of the one before: latency."""
    for k in range(calls // 10):
        executor.submit(nothing, k).result()


def mapped(executor: Executor, calls: int) -> None:
    """`map` in chunks of 50."""
    list(executor.map(nothing, range(calls), chunksize=50))


def in_joblib(backend: str, calls: int) -> None:
    """Run joblib's own loop, with its batches."""
    options = {"history": False} if backend == "weft" else {}
    with joblib.parallel_config(backend=backend, n_jobs=2, **options):
        joblib.Parallel()(joblib.delayed(nothing)(k) for k in range(calls))


def by_dask(client: Client, calls: int) -> None:
    """One future per call."""
    client.gather(client.map(nothing, range(calls), pure=False))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    weft.register_joblib()
    seconds: dict[str, list[float]] = {}
    driver: dict[str, list[float]] = {}

    def measure(contenders: dict[str, tuple[Callable[[Any, int], None], Any, float]]) -> None:
        for turn in range(args.rounds + 1):  # the first one warms up
            for name, (use, what, share) in contenders.items():
                begin, used = time.perf_counter(), time.process_time()
                use(what, args.calls)
                calls = share * args.calls
                if turn:
                    seconds.setdefault(name, []).append((time.perf_counter() - begin) / calls)
                    driver.setdefault(name, []).append((time.process_time() - used) / calls)

    with weft.Executor(2, history=False) as own, ProcessPoolExecutor(2) as peer:
        measure(
            {
                "weft.Executor, submit": (submitted, own, 1.0),
                "ProcessPoolExecutor, submit": (submitted, peer, 1.0),
                "weft.Executor, one by one": (one_by_one, own, 0.1),
                "ProcessPoolExecutor, one by one": (one_by_one, peer, 0.1),
                "weft.Executor, map in chunks of 50": (mapped, own, 1.0),
                "ProcessPoolExecutor, map in chunks of 50": (mapped, peer, 1.0),
                "joblib, weft": (in_joblib, "weft", 1.0),
                "joblib, loky": (in_joblib, "loky", 1.0),
            }
        )
    # Last: the scheduler is a thread of this process, which is busy after its calls have ended.
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    )
    with cluster, Client(cluster) as client:
        measure({"Dask, client.map": (by_dask, client, 1.0)})
    for name, values in seconds.items():
        print(
            f"{name:42} {1e6 * median(values):8.1f} us a call"
            f"  ({1e6 * min(values):.1f} to {1e6 * max(values):.1f}),"
            f" processor time of this process {1e6 * median(driver[name]):.1f} us"
        )
    print(json.dumps({name: median(values) for name, values in seconds.items()}))


if __name__ == "__main__":
    main()
