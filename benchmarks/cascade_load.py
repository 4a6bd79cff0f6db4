"""Completion times of a cascade under open-loop Poisson load, beside other ways to run it.

    python benchmarks/cascade_load.py --loads 0.5 0.8 0.9 --seconds 15

All contenders get the same images at the same times, one after the other: policies of weft and
FIFO with full batches in the same runtime (units of two threads and of one), and a pool of two
threads without batches. The time of a request counts from the moment at which it was due, so that
a late sender hides nothing. A load of 1 is the throughput of FIFO with full queues, measured first.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.runtime.cascade.lines import probe

EXAMPLE = Path(__file__).parents[1] / "examples" / "cascade"
OPEN = 32
"""Requests that are open at once when the capacity is measured."""
PLAIN = "thread pool"


def images(count: int) -> list[bytes]:
    """Return generated images."""
    sys.path.insert(0, str(EXAMPLE))
    from shapes import draw

    return [image.tobytes() for image in draw(count, seed=11)[0]]


class ThreadPipeline:
    """A pool of threads; each takes a request through all stages, without batches."""

    def __init__(self) -> None:
        import stages

        self.stages = stages
        self.models = {name: stages.load(name, 1) for name in ("small", "medium", "large")}
        self.pool = ThreadPoolExecutor(2)

    def submit(self, image: bytes) -> Future[Any]:
        """Queue a request."""
        return self.pool.submit(self.run, image)

    def run(self, image: bytes) -> Any:
        """Take a request through the stages."""
        for name in ("small", "medium", "large"):
            ((value, outcome),) = getattr(self.stages, name)(self.models[name], [image])
            if outcome != "unsure":
                break
        return value

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown()


def throughput(cascade: weft.Cascade, payloads: list[bytes], seconds: float) -> float:
    """Return the requests per second with always full queues."""
    room, done = threading.Semaphore(OPEN), [0]

    def ended(_: Future[Any]) -> None:
        done[0] += 1
        room.release()

    start, k = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        room.acquire()
        cascade.submit(payloads[k % len(payloads)]).add_done_callback(ended)
        k += 1
    return done[0] / (time.perf_counter() - start)


def drive(
    submit: Callable[[bytes], Future[Any]], payloads: list[bytes], due: np.ndarray
) -> dict[str, float]:
    """Send requests when they are due; return the completion times in ms and the failures."""
    took = np.full(len(due), np.nan)
    left = threading.Semaphore(0)
    start = time.perf_counter() + 0.05

    def send(k: int) -> None:
        def ended(future: Future[Any]) -> None:
            if future.exception() is None:
                took[k] = time.perf_counter() - start - due[k]
            left.release()

        try:
            submit(payloads[k % len(payloads)]).add_done_callback(ended)
        except weft.runtime.QueueFull:
            left.release()

    for k, at in enumerate(due):
        wait = start + at - time.perf_counter()
        if wait > 0:
            time.sleep(wait)
        send(k)
    for _ in due:
        left.acquire()
    good = 1000.0 * took[~np.isnan(took)]
    p50, p95, p99 = np.percentile(good, [50, 95, 99])
    return {
        "mean": good.mean(),
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "failed": float(np.isnan(took).sum()),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loads", type=float, nargs="+", default=[0.5, 0.8, 0.9])
    parser.add_argument("--seconds", type=float, default=15.0, help="per load and contender")
    parser.add_argument("--policies", nargs="+", default=["conditional-any", "fifo"])
    parser.add_argument("--stream", type=Path, help="a measured stream; default: measure first")
    parser.add_argument("--measured", type=Path, help="keep the measured stream here")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # of the load of a measured stream
    payloads = images(2000)
    cascade = EXAMPLE / "cascade.toml"
    rows = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stream = args.stream or args.measured or folder / "measured.toml"
        with weft.Cascade(cascade, policy="fifo", stream=args.stream) as fifo:
            if args.stream is None:
                probe(fifo, payloads)
                stream.write_text(fifo.measured.to_toml())
            capacity = throughput(fifo, payloads, min(args.seconds, 5.0))
        print(f"capacity: {capacity:.0f} requests/s; cores: {os.cpu_count()}", flush=True)
        for load in args.loads:
            gaps = np.random.default_rng(5).exponential(
                1 / (load * capacity), int(load * capacity * args.seconds)
            )
            for name in [*args.policies, PLAIN]:
                served: Any = (
                    ThreadPipeline()
                    if name == PLAIN
                    else weft.Cascade(cascade, policy=name, stream=stream)
                )
                drive(served.submit, payloads, np.cumsum(gaps[:200]))  # warm
                row = {"load": load, "contender": name} | drive(
                    served.submit, payloads, np.cumsum(gaps)
                )
                served.close()
                rows.append(row)
                figures = "  ".join(
                    f"{key} {row[key]:8.2f}" for key in ("mean", "p50", "p95", "p99")
                )
                print(
                    f"load {load:4.2f}  {name:16s} {figures} ms  failed {row['failed']:.0f}",
                    flush=True,
                )
    if args.json is not None:
        args.json.write_text(json.dumps({"capacity": capacity, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
