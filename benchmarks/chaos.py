"""Workers and drivers killed at random: right results or a clear error, and nothing left.

python benchmarks/chaos.py --runs 50 --tasks 200 --drivers 5
python benchmarks/chaos.py --backend dask --runs 5
python benchmarks/chaos.py --backend ray --runs 5
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import weft
from weft.runtime import TaskFailed
from weft.runtime.api import BACKENDS
from weft.runtime.backends.payload import PREFIX
from weft.runtime.backends.protocol import Backend
from weft.runtime.journal import read_lines

LIMIT = 120.0
"""Seconds within which a run must end."""


@weft.task
def step(seconds: float, number: int, marks: str | None, *values: int) -> int:
    if marks is not None:
        Path(marks, f"{number}.{os.getpid()}.{time.monotonic_ns()}").touch()
    time.sleep(seconds)
    return (number + sum(values)) % 1_000_003


def graph(tasks: int, seed: int, marks: str | None = None) -> tuple[list, list[int]]:
    """A random DAG of so many tasks, as promises, and the value each must have."""
    rng = random.Random(seed)
    promises: list = []
    values: list[int] = []
    for k in range(tasks):
        parents = rng.sample(range(max(0, k - 20), k), min(k, rng.randrange(4)))
        promises.append(step(rng.random() * 0.006, k, marks, *(promises[p] for p in parents)))
        values.append((k + sum(values[p] for p in parents)) % 1_000_003)
    return promises, values


class Killer(threading.Thread):
    """Kills a random worker of a backend every so often."""

    def __init__(self, backend: Backend, every: float, seed: int) -> None:
        super().__init__(daemon=True)
        self.backend, self.every, self.rng = backend, every, random.Random(seed)
        self.kills = 0
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.wait(self.rng.expovariate(1 / self.every)):
            try:
                pids = worker_pids(self.backend)
                if pids:
                    os.kill(self.rng.choice(pids), signal.SIGKILL)
                    self.kills += 1
            except (ProcessLookupError, ValueError, TypeError):
                continue


def worker_pids(backend: Any) -> list[int]:
    if hasattr(backend, "pids"):
        return backend.pids()
    return [w.process.pid for w in backend._workers if w is not None and w.ready]  # noqa: SLF001


def processes_left() -> int:
    """Of this process, and of Ray where psutil is there to see them."""
    left = len(multiprocessing.active_children())
    with contextlib.suppress(ImportError):
        psutil = importlib.import_module("psutil")
        left += sum(
            any("ray" in Path(part).name for part in child.cmdline()[:2])
            for child in psutil.Process().children(recursive=True)
        )
    return left


def kill_workers(name: str, runs: int, tasks: int, every: float) -> dict[str, object]:
    outcome: Counter[str] = Counter()
    kills = lost = 0
    longest = 0.0
    for seed in range(runs):
        promises, values = graph(tasks, seed)
        policy = ("heft", "eft", "fifo", "heft-replanned")[seed % 4]
        begin = time.monotonic()
        with BACKENDS[name](2) as backend:
            killer = Killer(backend, every, seed)
            killer.start()
            try:
                trace = weft.run(promises, policy=policy, backend=backend, history=False, crashes=5)
                wrong = [] if list(trace.results.values()) == values else ["values"]
                wrong += [
                    violation.rule for violation in weft.check(trace.workload, trace, timing=False)
                ]
                outcome[f"WRONG: {', '.join(wrong)}" if wrong else "right result"] += 1
                lost += int((trace.status != 0).sum())
            except TaskFailed as error:
                outcome[
                    "clear error" if error.failure.fault == "killed" else f"OTHER ERROR: {error}"
                ] += 1
            finally:
                killer.over.set()
                killer.join()
            kills += killer.kills
        longest = max(longest, time.monotonic() - begin)
    return {
        "runs": runs,
        "tasks": tasks,
        **outcome,
        "workers killed": kills,
        "executions lost": lost,
        "longest run s": round(longest, 1),
    }


SCRIPT = """
import sys
sys.path[:0] = [{here!r}, {root!r}]
import weft
from chaos import graph

if __name__ == "__main__":
    options = dict(devices=2, history=False, run_id="chaos", folder={folder!r})
    trace = weft.run(graph({tasks}, {seed}, {marks!r})[0], **options)
    print(list(trace.results.values()))
"""


def kill_drivers(runs: int, tasks: int) -> dict[str, object]:
    """The driver itself is killed, three times a run, and started again."""
    rng = random.Random(1)
    outcome: Counter[str] = Counter()
    repeated = 0
    for seed in range(runs):
        with tempfile.TemporaryDirectory() as folder:
            marks = Path(folder, "marks")
            marks.mkdir()
            script = Path(folder, "driver.py")
            where = {"here": str(Path(__file__).parent), "root": str(Path(__file__).parents[1])}
            script.write_text(
                SCRIPT.format(tasks=tasks, seed=seed, marks=str(marks), folder=folder, **where)
            )
            finished: set[int] = set()
            calls: Counter[str] = Counter()
            for _ in range(3):
                driver = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.DEVNULL)
                seen, deadline = len(list(marks.iterdir())), time.monotonic() + LIMIT
                goal = seen + rng.randrange(5, tasks // 4)
                while (
                    len(list(marks.iterdir())) < goal
                    and driver.poll() is None
                    and time.monotonic() < deadline
                ):
                    time.sleep(0.005)
                driver.kill()
                driver.wait()
                time.sleep(0.3)  # its workers notice
                again = Counter(p.name.split(".")[0] for p in marks.iterdir())
                repeated += sum(again[str(i)] > calls[str(i)] for i in finished)
                calls = again
                lines = read_lines(Path(folder, "chaos", "journal.jsonl"))
                finished = {int(line["number"]) for line in _numbers(lines)}
            done = subprocess.run(
                [sys.executable, str(script)],
                capture_output=True,
                text=True,
                timeout=LIMIT,
                check=False,
            )
            right = done.returncode == 0 and json.loads(done.stdout) == graph(tasks, seed)[1]
            outcome["right result" if right else f"WRONG: {done.stderr[-200:]}"] += 1
            final = Counter(p.name.split(".")[0] for p in marks.iterdir())
            repeated += sum(final[str(i)] > calls[str(i)] for i in finished)
    return {"runs": runs, "tasks": tasks, **outcome, "finished tasks repeated": repeated}


def _numbers(lines: Iterable[Mapping[str, object]]) -> list[dict[str, object]]:
    """Promises are numbered in the order of need, which is the order of the tasks."""
    return [{"number": line["instance"]} for line in lines if line.get("event") == "finished"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", choices=sorted(BACKENDS), default="local")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument(
        "--every", type=float, default=0.4, help="seconds between kills, on average"
    )
    parser.add_argument("--drivers", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("error")
    print(
        json.dumps(
            {
                f"workers killed at random, {args.backend}": kill_workers(
                    args.backend, args.runs, args.tasks, args.every
                )
            },
            indent=2,
        ),
        flush=True,
    )
    if args.drivers and args.backend == "local":
        print(
            json.dumps(
                {"driver killed at random": kill_drivers(args.drivers, args.tasks)}, indent=2
            )
        )
    left = processes_left()
    memory = (
        list(Path("/dev/shm").glob(f"{PREFIX}{os.getpid()}-*")) if Path("/dev/shm").is_dir() else []
    )
    print(f"processes left: {left}, files in memory left: {len(memory)}")


if __name__ == "__main__":
    main()
