"""Campaigns: many runs of one kind, each judged; a `Tally` per campaign."""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import weft
from tests.chaos.processes import MARK, MARK_OF_CHILD, Killer, left_over, memory
from tests.chaos.work import calls, graph
from tests.support.programs import read_journal
from weft.runtime.backends.local.pool import end_idle_processes
from weft.runtime.backends.local.worker import environment

ROOT = Path(__file__).parents[2]
LIMIT = 900.0
"""Seconds within which a run must end: on a busy machine, Ray alone takes minutes to start."""

ENDED_BY_RAY = "Worker will terminate"
"""What Ray writes when it ends a driver whose raylet dies while the driver connects."""

POLICIES = ("heft", "eft", "fifo", "heft-replanned")
Progress = Callable[[str], None]


@dataclass
class Tally:
    """The outcomes of a campaign; `wrong` says what must not happen."""

    runs: int = 0
    kills: int = 0
    right: int = 0
    clear_error: int = 0
    repeated: int = 0
    refused: int = 0
    processes_left: int = 0
    memory_left: int = 0
    traces_valid: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def numbers(self) -> dict[str, int]:
        """Return the columns of the table."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "wrong"}

    def add(self, other: Tally) -> None:
        """Add the outcomes of another campaign."""
        for name, value in other.numbers.items():
            setattr(self, name, getattr(self, name) + value)
        self.wrong += other.wrong

    def left(self, about: str, token: str, driver: int, *before: Any) -> None:
        """Count the processes and files that a run left behind."""
        processes, files = left_over(token, driver, *before)
        self.processes_left += processes
        self.memory_left += files
        if processes or files:
            self.wrong.append(f"{about}: {processes} processes and {files} files in memory left")


def kill_workers(name: str, runs: int, tasks: int, progress: Progress, first: int = 0) -> Tally:
    """Kill the workers of a backend at any moment, also while they start.

    In one of five runs on Ray, an agent of its head is killed first: Ray ends itself then.
    """
    tally = Tally()
    before = memory(os.getpid())
    resource_tracker.ensure_running()  # a process of this one, not of a run
    for seed in range(first, first + runs):
        about = f"{name} {seed + 1}/{first + runs}"
        token = secrets.token_hex(8)
        with (
            tempfile.TemporaryDirectory() as folder,
            warnings.catch_warnings(),
            environment({MARK: token}),
        ):
            warnings.simplefilter("ignore")  # devices that are left out
            begin = time.monotonic()
            every = random.Random(seed).choice([0.1, 0.3, 1.0])
            head = name == "ray" and seed % 5 == 4
            killer = Killer(name, every * (3 if name == "ray" else 1), seed, token, head=head)
            killer.start()
            try:
                outcome = _one_run(name, graph(tasks, seed, Path(folder)), seed, tally, about)
            finally:
                killer.over.set()
                killer.join()
                end_idle_processes()
            tally.runs += 1
            tally.kills += killer.kills
            tally.left(about, token, os.getpid(), before)
        took = time.monotonic() - begin
        kills = f"{killer.kills} kills{', one of the head' if head else ''}"
        progress(f"{about}: {outcome}, {kills}, {took:.1f} s")
    return tally


def kill_ray_workers(runs: int, tasks: int, progress: Progress, first: int = 0) -> Tally:
    """Kill the workers of runs on Ray, each with a driver of its own.

    Ray ends a driver whose raylet dies while it connects, by `_exit` and with a line on stderr: no
    code in that process can answer. It counts as a clear error if nothing is left.
    """
    tally = Tally()
    for seed in range(first, first + runs):
        about = f"ray {seed + 1}/{first + runs}"
        token = secrets.token_hex(8)
        begin = time.monotonic()
        child = subprocess.run(
            [sys.executable, "-c", RAY_RUN.format(root=str(ROOT), tasks=tasks, seed=seed)],
            env={**os.environ, MARK_OF_CHILD: token},
            capture_output=True,
            text=True,
            timeout=2 * LIMIT,
            check=False,
        )
        if child.returncode == 0:
            found = Tally(**json.loads(child.stdout.splitlines()[-1]))
            outcome = child.stdout.splitlines()[-2].partition(": ")[2]
        else:
            by_ray = ENDED_BY_RAY in child.stderr
            found = Tally(runs=1, clear_error=int(by_ray))
            processes = left_over(token, 0, mark=MARK_OF_CHILD)[0]
            found.processes_left = processes
            outcome = "ended by Ray" if by_ray else f"ENDED: {child.stderr[-300:]}"
            if processes or not by_ray:
                found.wrong.append(f"{about}: {outcome}, {processes} processes left")
        tally.add(found)
        progress(f"{about}: {outcome} ({time.monotonic() - begin:.1f} s in all)")
    return tally


RAY_RUN = """
import json, sys
from dataclasses import asdict
sys.path.insert(0, {root!r})
from tests.chaos.campaigns import kill_workers

tally = kill_workers("ray", 1, {tasks}, print, {seed})
print(json.dumps(asdict(tally)))
"""


def _one_run(name: str, work: tuple[list, list[int]], seed: int, tally: Tally, about: str) -> str:
    promises, values = work
    policy = POLICIES[seed % len(POLICIES)]
    try:
        trace = weft.run(
            promises, policy=policy, backend=name, devices=2, history=False, crashes=20
        )
    except weft.WeftError as error:
        tally.clear_error += 1
        found = getattr(error, "trace", None)
        tally.traces_valid += found is None or not weft.check(found.workload, found)
        return f"clear error ({str(error).splitlines()[0][:150]})"
    except Exception as error:  # noqa: BLE001  # it counts as a violation
        tally.wrong.append(f"{about}: {type(error).__name__}: {error}")
        return tally.wrong[-1]
    violations = weft.check(trace.workload, trace)
    tally.traces_valid += not violations
    tally.wrong += [f"{about}: {violation}" for violation in violations[:3]]
    if trace.value != values:
        tally.wrong.append(f"{about}: wrong values")
        return "WRONG VALUES"
    tally.right += 1
    return "right" if not violations else "right, INVALID TRACE"


DRIVER = """
import json, sys, warnings
sys.path.insert(0, {root!r})
from pathlib import Path
import weft
from tests.chaos.work import graph

warnings.simplefilter("ignore")
promises, _ = graph({tasks}, {seed}, Path({marks!r}))
options = dict(devices=2, history=False, run_id="chaos", folder={folder!r})
trace = weft.run(promises, policy={policy!r}, backend={backend!r}, **options)
wrong = [str(violation) for violation in weft.check(trace.workload, trace)]
print(json.dumps([trace.value, wrong]))
"""


def kill_drivers(
    runs: int, tasks: int, progress: Progress, backend: str = "local", first: int = 0
) -> Tally:
    """Kill the driver at any moment, resume the run, and look for tasks that ran again."""
    tally = Tally()
    for seed in range(first, first + runs):
        rng = random.Random(seed)
        about = f"driver {seed + 1}/{first + runs}"
        begin = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            outcome = _one_driver(Path(folder), tasks, seed, rng, tally, about, backend)
        tally.runs += 1
        tally.kills += 1
        progress(f"{about}: {outcome}, {time.monotonic() - begin:.1f} s")
    return tally


def _one_driver(
    folder: Path, tasks: int, seed: int, rng: random.Random, tally: Tally, about: str, backend: str
) -> str:
    marks = folder / "marks"
    marks.mkdir()
    token = secrets.token_hex(8)
    settings = {"tasks": tasks, "seed": seed, "marks": str(marks), "folder": str(folder)}
    policy = POLICIES[seed % len(POLICIES)]
    script = DRIVER.format(root=str(ROOT), policy=policy, backend=backend, **settings)
    command = [sys.executable, "-c", script]
    variables = {**os.environ, MARK: token}
    driver = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL)
    if rng.random() < 0.2:  # while it starts
        time.sleep(rng.uniform(0.0, 3.0))
    else:
        _wait_for_marks(driver, marks, rng.randrange(1, tasks))
    driver.kill()
    driver.wait()
    tally.left(about, token, driver.pid)
    before = calls(marks)
    lines = read_journal(folder / "chaos" / "journal.jsonl")
    finished = [line["instance"] for line in lines if line.get("event") == "finished"]
    again = subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    tally.left(about, token, 0)
    after = calls(marks)
    repeated = sum(after[i] > before[i] for i in finished)
    tally.repeated += repeated
    if repeated:
        tally.wrong.append(f"{about}: {repeated} finished tasks ran again")
    if again.returncode:
        tally.wrong.append(f"{about}: {again.stderr[-300:]}")
        return "FAILED"
    value, violations = json.loads(again.stdout.splitlines()[-1])
    tally.traces_valid += not violations
    tally.wrong += [f"{about}: {violation}" for violation in violations[:3]]
    right = value == graph(tasks, seed, marks)[1]
    tally.right += right
    if not right:
        tally.wrong.append(f"{about}: wrong values")
    return f"{'right' if right else 'WRONG'}, killed after {len(finished)} of {tasks} tasks"


def _wait_for_marks(driver: subprocess.Popen, marks: Path, goal: int) -> None:
    deadline = time.monotonic() + LIMIT
    while (
        len(list(marks.iterdir())) < goal and driver.poll() is None and time.monotonic() < deadline
    ):
        time.sleep(0.002)
