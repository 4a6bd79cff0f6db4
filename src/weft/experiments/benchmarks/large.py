"""One large plan in its own process, so that the peak memory is that of the plan.

Run it with ``python -m weft.experiments.benchmarks.large TASKS DEVICES``.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np

from weft.experiments.harness import peak_memory
from weft.model import Problem
from weft.planners import plan
from weft.rng import generator


def layered(
    n: int, p: int, *, seed: int = 0, degree: int = 3, dense: bool = False
) -> dict[str, object]:
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
    childless = np.setdiff1d(inner, parents)
    pairs = np.stack(
        [
            np.append(parents.ravel(), childless),
            np.append(np.repeat(inner, degree), np.full(len(childless), n - 1)),
        ],
        axis=1,
    )
    edges = np.unique(pairs, axis=0)
    arrays: dict[str, object] = {
        "edges": edges,
        "data": rng.uniform(1.0, 10.0, len(edges)),
        "bandwidth": 2.0,
    }
    work, speed = rng.lognormal(1.0, 0.5, n), rng.uniform(1.0, 4.0, p)
    return arrays | (
        {"durations": work[:, None] / speed} if dense else {"work": work, "speed": speed}
    )


def measure(n: int, p: int) -> dict[str, float]:
    """Plan with HEFT; return build and plan seconds, and peak memory."""
    # Compile, or read from the cache, before the measurement.
    plan(Problem.from_arrays(**layered(50, 2)), "heft")  # type: ignore[arg-type]
    before = peak_memory()
    arrays = layered(n, p)
    begin = time.process_time()
    problem = Problem.from_arrays(**arrays)  # type: ignore[arg-type]
    built = time.process_time()
    schedule = plan(problem, "heft").schedule
    done = time.process_time()
    return {
        "tasks": n,
        "devices": p,
        "edges": problem.m,
        "build_seconds": built - begin,
        "plan_seconds": done - built,
        "makespan": schedule.makespan,
        "peak_bytes": peak_memory(),
        "peak_bytes_before": before,
    }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
