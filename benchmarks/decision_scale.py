"""Decisions at scale, of every policy for workflows; writes docs/results/decisions.json.

    python benchmarks/decision_scale.py [--jobs 100] [--devices 128] [--tasks 10000] [POLICY ...]

First, a session with 2,000 ready tasks of 100 jobs on 128 devices: one task at a time ends, and
`decide` answers. Then the simulation of one workflow of 10,000 tasks on 32 devices. All times are
processor time of one thread, after a small run that loads the kernels. Each row is written when it
is measured; with names of policies, in place of their earlier rows.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.errors import Unsupported
from weft.experiments.harness import describe_machine, page_table
from weft.generators import generate_problem, random_cluster

FILE = Path(__file__).parent.parent / "docs" / "results" / "decisions.json"
WIDTH, STEPS = 23, 40
"""Ready tasks per job, and timed decisions."""
LIMIT = 2e-3
"""Seconds of one decision."""


def wide_problem(cluster: weft.Cluster) -> weft.Problem:
    """Return a workflow of two wide layers and a last task."""
    rng, layer = np.random.default_rng(0), np.arange(WIDTH)
    src = np.concatenate([layer, layer, WIDTH + layer])
    dst = np.concatenate([WIDTH + layer, WIDTH + np.roll(layer, 1), np.full(WIDTH, 2 * WIDTH)])
    work, data = rng.uniform(1, 10, 2 * WIDTH + 1), rng.uniform(0.5, 2, len(src))
    return weft.Problem.bind(weft.Workflow(work=work, src=src, dst=dst, data=data), cluster)


def decisions(policy: str, jobs: int, devices: int) -> list[float]:
    """Return the seconds of `decide` after each of some ends, while most tasks wait."""
    cluster = random_cluster(devices=devices, seed=1)
    session = weft.Session(cluster, policy, workflows=[wide_problem(cluster)])
    for _ in range(jobs):
        session.arrived(at=0.0)
    running, spent = list(session.decide(at=0.0)), []
    for _ in range(STEPS):
        session.finished(running.pop(0), 0, at=session.now + 0.01)
        begin = time.thread_time()
        running += session.decide(at=session.now)
        spent.append(time.thread_time() - begin)
    return spent


def simulated(policy: str, tasks: int, devices: int = 32) -> tuple[float, float]:
    """Return the seconds of a simulation, and the makespan."""
    cluster = random_cluster(devices=devices, seed=1)
    problem = generate_problem("layered", cluster, seed=1, tasks=tasks, ccr=1.0)
    begin = time.thread_time()
    trace = weft.simulate(problem, policy)
    return time.thread_time() - begin, float(trace.makespan)


def workflow_policies() -> list[str]:
    """Return the policies that schedule workflows; others are for conditional streams."""
    names = []
    for name in weft.list_policies():
        try:
            simulated(name, 40, 4)
            decisions(name, 2, 60)
            names.append(name)
        except Unsupported:
            continue
    return names


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--devices", type=int, default=128)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("policies", nargs="*")
    args = parser.parse_args()
    for name in args.policies or workflow_policies():
        decisions(name, 2, args.devices)
        spent = decisions(name, args.jobs, args.devices)
        simulated(name, 40, 4)
        seconds, makespan = simulated(name, args.tasks)
        median = float(np.median(spent))
        verdict = "yes" if median <= LIMIT else "no"
        row = [f"`{name}`", 1e3 * median, 1e3 * max(spent), verdict, seconds, makespan]
        print(*row, flush=True)
        write(row, args.tasks)


def write(row: list[Any], tasks: int) -> None:
    """Add a row to the table, in place of an earlier one of the same policy."""
    columns = {"policy": None, "median (ms)": 2, "most (ms)": 2, "at most 2 ms": None}
    more = {f"{tasks:,} tasks (s)": 2, "makespan (s)": 3}
    known = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else None
    rows = known["tables"]["scale"]["rows"] if known is not None else []
    rows = sorted([other for other in rows if other[0] != row[0]] + [row], key=lambda r: str(r[0]))
    document = {
        "measured_with": "python benchmarks/decision_scale.py",
        "provenance": "written by that script",
        "machine": describe_machine(),
        "tables": {"scale": page_table(columns | more, rows)},
    }
    FILE.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
