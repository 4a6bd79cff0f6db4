"""The graph of a run: tasks that note every call, and the values they must give."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import weft


@weft.task
def step(seconds: float, number: int, marks: str, *values: int) -> int:
    """Note the call; the first task leaves a process behind, in a session of its own."""
    Path(marks, f"{number}.{os.getpid()}.{time.monotonic_ns()}").touch()
    if number == 0:
        leaves_a_process()
    time.sleep(seconds)
    return (number + sum(values)) % 1_000_003


def leaves_a_process() -> int:
    """Start a process that outlives its task."""
    sleep = "import time; time.sleep(900)"
    subprocess.Popen([sys.executable, "-S", "-c", sleep], start_new_session=True)
    return 1


def raises(*_: int) -> int:
    """Fail."""
    raise ValueError("as it must")


def graph(tasks: int, seed: int, marks: Path) -> tuple[list[Any], list[int]]:
    """Return a random DAG as promises, and the value of each."""
    rng = random.Random(seed)
    promises: list[Any] = []
    values: list[int] = []
    for k in range(tasks):
        parents = rng.sample(range(max(0, k - 20), k), min(k, rng.randrange(4)))
        promises.append(step(rng.random() * 0.02, k, str(marks), *(promises[p] for p in parents)))
        values.append((k + sum(values[p] for p in parents)) % 1_000_003)
    return promises, values


def calls(marks: Path) -> Counter[int]:
    """Return how often each task was called."""
    return Counter(int(path.name.split(".")[0]) for path in marks.iterdir())


def pause(*counts: int) -> int:
    """Sleep 1 to 8 ms; return the number of tasks in the row so far."""
    time.sleep(random.uniform(0.001, 0.008))
    return sum(counts) + 1


@weft.task
def sums(seconds: float, *numbers: int) -> int:
    """Sleep, then add numbers."""
    time.sleep(seconds)
    return sum(numbers)
