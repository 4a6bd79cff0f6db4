"""One large plan in its own process, so that the peak memory is that of the plan.

Run it with ``python -m weft.experiments.benchmarks.large TASKS DEVICES [checked]``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np

from weft.experiments.harness import peak_memory
from weft.model import Problem
from weft.model.check import check
from weft.planners import plan
from weft.planners.lists.common_link import LARGE, MANY
from weft.rng import generator


def layered(
    n: int, p: int, *, seed: int = 0, degree: int = 3, dense: bool = False
) -> dict[str, Any]:
    """Return arguments of `Problem.from_arrays` for a layered graph.

    There is one source and one sink. Layers have sqrt(n) tasks with up to `degree` parents each.
    With `dense`, costs are an (n, p) matrix instead of work and speed.

    Examples
    --------
    >>> Problem.from_arrays(**layered(100, 4)).n
    100
    """
    rng = generator(seed, "layered", n, p)
    width = max(1, int(n**0.5))
    inner = np.arange(1, n - 1)
    above = (inner - 1) // width - 1
    parents = np.where(
        above[:, None] < 0,
        0,
        1 + above[:, None] * width + rng.integers(0, width, (len(inner), degree)),
    )
    has_child = np.zeros(n, bool)
    has_child[parents.ravel()] = True
    childless = inner[~has_child[inner]]
    source = np.append(parents.ravel(), childless)
    target = np.append(np.repeat(inner, degree), np.full(len(childless), n - 1))
    key = np.sort(source * n + target)
    edges = np.stack(np.divmod(key[np.append(True, np.diff(key) > 0)], n), axis=1)
    arrays: dict[str, Any] = {
        "edges": edges,
        "data": rng.uniform(1.0, 10.0, len(edges)),
        "bandwidth": 2.0,
    }
    work, speed = rng.lognormal(1.0, 0.5, n), rng.uniform(1.0, 4.0, p)
    return arrays | (
        {"durations": work[:, None] / speed} if dense else {"work": work, "speed": speed}
    )


def measure(n: int, p: int, *, checked: bool = False) -> dict[str, float]:
    """Plan with HEFT; return build and plan seconds, and peak memory.

    With `checked`, the oracle then checks the plan: its seconds, and the number of violations.
    """
    # Compile, or read from the cache, before the measurement; large plans on many devices have
    # kernels of their own.
    for tasks, devices in ((50, 2), (LARGE, MANY)):
        plan(Problem.from_arrays(**layered(tasks, devices)), "heft")
    before = peak_memory()
    arrays = layered(n, p)
    begin = time.process_time()
    problem = Problem.from_arrays(**arrays)
    built = time.process_time()
    schedule = plan(problem, "heft").schedule
    done = time.process_time()
    figures: dict[str, float] = {
        "tasks": n,
        "devices": p,
        "edges": problem.m,
        "build_seconds": built - begin,
        "plan_seconds": done - built,
        "makespan": schedule.makespan,
        "peak_bytes": peak_memory(),
        "peak_bytes_before": before,
    }
    if checked:
        figures["violations"] = len(check(problem, schedule))
        figures["check_seconds"] = time.process_time() - done
        figures["peak_bytes_with_check"] = peak_memory()
    return figures


if __name__ == "__main__":
    tasks, devices = (int(word) for word in sys.argv[1:3])
    print(json.dumps(measure(tasks, devices, checked=sys.argv[3:] == ["checked"])))
