"""Completion times of a cascade under open-loop Poisson load, beside other ways to run it.

    python benchmarks/cascade/load.py --loads 0.5 0.7 0.9 0.95 --seconds 60 --ray

All contenders get the same requests at the same times, one after the other: a policy that weft
tunes for the measured stream, FIFO with full batches in the same runtime, Ray Serve with
`@serve.batch` per stage, and a thread per unit without batches. The time of a request counts from
the moment at which it was due, so that a late sender hides nothing. A load of 1 is the throughput
of FIFO with full queues, measured first. `simulated` is the mean completion time of the same
requests in weft's simulator, with the batch curves that were measured in the very run.

`--example shapes` runs real networks; each unit of weft has a core of its own, and the others use
the same cores as they like. `--example emulated` has devices that only pass time. `--realtime`
(needs root) gives all processes of the benchmark priority over others, for machines that are busy.

The parts can run one after the other, so that only what is measured needs an idle machine:

    python benchmarks/cascade/load.py --loads --tune 0 --measured m.toml --json r.json
    python benchmarks/cascade/load.py --loads --stream m.toml --tuned tuned --json r.json
    python benchmarks/cascade/load.py --loads 0.9 --stream m.toml --tuned tuned --ray --json r.json

The first measures the stream and the capacity, the second tunes, the third compares at one load and
adds its rows to those of the file.
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
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from contenders import Example, RayPipeline, ThreadPipeline, example, model_of, one_by_one
from tables import put_load

import weft
from weft.formats.native.stream_toml import load_stream, read_stream_toml
from weft.model import Scenario, Workload
from weft.runtime.cascade.lines import probe
from weft.runtime.cascade.stage import UnitSetting

OPEN = 64
"""Requests that are open at once when the capacity is measured."""
THREADS, RAY, TUNED, FIFO = "thread pool", "ray serve", "weft tuned", "fifo"
WARM = 50
COUNTS = {"emulated": 3000, "shapes": 300}
"""Payloads; they are used again and again."""
FIGURES = ("mean", "p95", "p99", "throughput", "in_time")


def outcomes_of(what: Example) -> np.ndarray:
    """Return (payloads, 2) the branches of small and medium: 0 is unsure."""
    stages = what.stages()
    models = {
        stage: model_of(stages, stage, UnitSetting("gpu", 1))
        for stage in ("small", "medium", "large")
    }
    if what.module == "emulated_stages":
        return (np.array(what.payloads) >= stages.HALF).astype(int)
    found = np.zeros((len(what.payloads), 2), int)
    for k, payload in enumerate(what.payloads):
        path = list(one_by_one(stages, models, payload))
        found[k] = [len(path) <= 1, len(path) <= 2]
    return found


def throughput(cascade: weft.Cascade, payloads: list[Any], seconds: float) -> float:
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
    submit: Callable[[Any], Future[Any]], payloads: list[Any], due: np.ndarray, in_time: float
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
    last = float(np.nanmax(due + took))
    p50, p95, p99 = np.percentile(good, [50, 95, 99])
    return {
        "mean": float(good.mean()),
        "p50": float(p50),
        "p95": float(p95),
        "p99": float(p99),
        "throughput": len(good) / last,
        "in_time": float((good <= 1000.0 * in_time).sum() / len(due)),
        "failed": float(np.isnan(took).sum()),
    }


def alone(submit: Callable[[Any], Future[Any]], payload: Any, count: int = 200) -> float:
    """Return the median milliseconds that one request at a time takes beyond its devices."""
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        value = submit(payload).result()
        used = sum(value[2:]) if isinstance(value, list) else 0.0  # emulated devices say it
        took.append(time.perf_counter() - begin - used)
    return 1000.0 * float(np.median(took))


def simulated(cascade: weft.Cascade, policy: Any, due: np.ndarray, outcomes: np.ndarray) -> float:
    """Return the mean completion time (ms) of the same requests in the simulator."""
    stream = read_stream_toml(cascade.measured.to_toml(whole=True), name="measured")
    requests = {"arrival": due, "template": np.zeros(len(due), np.int64)}
    workload = Workload.of(stream.problem, **requests)
    # Batches are as large as in the cascade, though the measured curves may say otherwise.
    used = Workload.of(cascade.description.stream.problem, **requests)
    workload.__dict__["batch_limit"] = used.batch_limit
    taken = outcomes[np.arange(len(due)) % len(outcomes)].reshape(-1)
    trace = weft.simulate(workload, policy, scenario=Scenario.of(workload, outcome=taken))
    return 1000.0 * float(np.mean(trace.jct))


@contextmanager
def priority(wanted: bool) -> Iterator[None]:
    """Give all threads of this process and its descendants priority over other processes."""
    if not wanted:
        yield
        return
    schedule(os.SCHED_RR, 1)
    try:
        yield
    finally:
        schedule(os.SCHED_OTHER, 0)


def descendants() -> set[int]:
    """Return this process and its descendants."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            after_name = folder.joinpath("stat").read_text().rsplit(")")[-1]
            parents[int(folder.name)] = int(after_name.split()[1])
    mine, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in mine} - mine
        mine, grown = mine | more, bool(more)
    return mine


def favour() -> None:
    """Give the sessions of this process and its descendants the most weight (needs root).

    Linux shares the processor between sessions first, so that a nice level says nothing beyond its
    own session; servers that make sessions of their own would be left out.
    """
    for pid in descendants():
        with suppress(OSError):
            Path(f"/proc/{pid}/autogroup").write_text("-20")


def schedule(policy: int, level: int) -> None:
    """Set how this process and its descendants are scheduled."""
    for thread in (t for pid in descendants() for t in Path(f"/proc/{pid}/task").glob("*")):
        with suppress(ProcessLookupError):
            os.sched_setscheduler(int(thread.name), policy, os.sched_param(level))


def tune(stream: Path, gap: float, seconds: float, norm: float, path: Path) -> None:
    """Tune a policy for the measured stream with this gap between requests."""
    from weft.learn.conditional.fitting import fit_stream
    from weft.policies.conditional.trained_network import save_network

    measured = load_stream(stream)
    arrivals = replace(measured.arrivals, process="poisson", gap=gap)
    found = fit_stream(
        replace(measured, arrivals=arrivals), seconds=seconds, network=False, norm=norm
    )
    save_network(found.policy.learned, path)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--example", choices=["emulated", "shapes"], default="shapes")
    parser.add_argument("--loads", type=float, nargs="*", default=[0.5, 0.7, 0.9, 0.95])
    parser.add_argument("--seconds", type=float, default=60.0, help="per load and contender")
    parser.add_argument("--policies", nargs="*", default=[FIFO], help="of weft, beside the tuned")
    parser.add_argument("--tune", type=float, default=60.0, help="seconds of tuning; 0: none")
    parser.add_argument("--tuned", type=Path, help="the tuned policies; tuned first if missing")
    text = "tune for the mean (1), and so that slow requests count more (above 1)"
    parser.add_argument("--norms", type=float, nargs="*", default=[1.0, 3.0], help=text)
    parser.add_argument("--stream", type=Path, help="a measured stream; default: measure first")
    parser.add_argument("--measured", type=Path, help="keep the measured stream here")
    parser.add_argument("--ray", action="store_true", help="with Ray Serve")
    parser.add_argument("--realtime", action="store_true", help="priority over other processes")
    parser.add_argument("--favoured", action="store_true", help="most weight for all sessions")
    parser.add_argument("--json", type=Path, help="add to this file; its capacity is taken")
    parser.add_argument("--write", type=Path, help="set the tables of this file of docs/results")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of the load of a measured stream
    with tempfile.TemporaryDirectory() as folder:
        Comparison(args, Path(folder)).run()


class Comparison:
    """One run of the benchmark."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args, self.folder = args, folder
        self.what = example(args.example, COUNTS[args.example])
        self.stream = args.stream or args.measured or folder / "measured.toml"
        self.document: dict[str, Any] = {"example": args.example, "commands": [], "rows": []}
        if args.json is not None and args.json.exists():
            self.document = json.loads(args.json.read_text())
        self.policies = {name: name for name in args.policies}

    def run(self) -> None:
        """Measure the capacity, tune, then compare at each load."""
        capacity = self.document.get("capacity") or self.capacity()
        about = {"command": "python " + " ".join(sys.argv), "machine_load": os.getloadavg()[0]}
        print(f"{self.args.example}: capacity {capacity:.1f} requests/s; ", end="")
        print(f"cores: {os.cpu_count()}; load of the machine: {os.getloadavg()[0]:.1f}", flush=True)
        self.document["capacity"] = capacity
        self.document["commands"].append(about)
        if self.args.tune > 0:
            self.policies = {**self.tuned(1 / (0.9 * capacity)), **self.policies}
        if self.args.loads:
            if "outcomes" not in self.document:
                self.document["outcomes"] = outcomes_of(self.what).tolist()
            self.outcomes = np.array(self.document["outcomes"])
            for name in [*self.policies, THREADS, *([RAY] if self.args.ray else [])]:
                self.contender(name, capacity)
        self.save()

    def tuned(self, gap: float) -> dict[str, str]:
        """Tune for the mean and for each other norm, unless that was done; return the paths."""
        found = {}
        for norm in self.args.norms:
            path = Path(f"{self.args.tuned or self.folder / 'tuned'}-{norm:g}")
            if not path.with_suffix(".json").exists():
                tune(self.stream, gap, self.args.tune, norm, path)
            found[TUNED if norm == 1.0 else f"{TUNED}, norm {norm:g}"] = str(path)
        return found

    def save(self) -> None:
        if self.args.json is not None:
            self.args.json.write_text(json.dumps(self.document, indent=1) + "\n")
        if self.args.write is not None:
            put_load(self.args.write, self.document)

    def capacity(self) -> float:
        """Measure the batch curves, then the throughput of FIFO."""
        with weft.Cascade(self.what.file, policy=FIFO) as fifo, priority(self.args.realtime):
            if self.args.favoured:
                favour()
            if self.args.stream is None:
                probe(fifo, self.what.payloads, rounds=20)
                self.stream.write_text(fifo.measured.to_toml())
            return throughput(fifo, self.what.payloads, min(self.args.seconds, 10.0))

    def opened(self, name: str) -> Any:
        if name == THREADS:
            return ThreadPipeline(self.what)
        if name == RAY:
            return RayPipeline(self.what)
        if name == FIFO:  # with full batches: as the example has them, whether they pay or not
            return weft.Cascade(self.what.file, policy=FIFO)
        return weft.Cascade(self.what.file, policy=self.policies[name], stream=self.stream)

    def contender(self, name: str, capacity: float) -> None:
        """Drive one contender at all loads, and alone."""
        payloads, in_time = self.what.payloads, self.what.in_time
        served = self.opened(name)
        if self.args.favoured:
            favour()
        try:
            for load in self.args.loads:
                rng = np.random.default_rng(5)
                gaps = rng.exponential(
                    1 / (load * capacity), int(load * capacity * self.args.seconds)
                )
                due = np.cumsum(gaps)
                row: dict[str, Any] = {"load": load, "contender": name}
                row["seconds"] = self.args.seconds
                with priority(self.args.realtime):
                    drive(served.submit, payloads, due[:WARM], in_time)
                    if isinstance(served, weft.Cascade):
                        served.measure_again()
                    row |= drive(served.submit, payloads, due, in_time)
                if isinstance(served, weft.Cascade):
                    policy = weft.load_policy(self.policies[name])
                    row["simulated"] = simulated(served, policy, due, self.outcomes)
                self.show(row)
            sure = payloads[int(np.flatnonzero(self.outcomes[:, 0])[0])]
            with priority(self.args.realtime):
                took = alone(served.submit, sure)
            self.show({"load": 0.0, "contender": name, "alone": took})
        finally:
            served.close()

    def show(self, row: dict[str, Any]) -> None:
        """Print a row and add it to the file."""
        self.document["rows"].append(row)
        self.save()
        keys = [key for key in (*FIGURES, "simulated", "failed", "alone") if key in row]
        figures = "  ".join(f"{key} {row[key]:8.2f}" for key in keys)
        print(f"load {row['load']:4.2f}  {row['contender']:16s} {figures}", flush=True)


if __name__ == "__main__":
    main()
