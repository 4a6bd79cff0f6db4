"""What the server of a live page spends on a large run; writes docs/results/live_scale.json.

    python benchmarks/pages/live_scale.py [--tasks 20000 100000] [--devices 64] [--out FILE]

A layered workflow is carried out by its plan up to the half, without workers. Measured are the
opening (made once), one event per task, and the status that a page asks for every second, as the
processor time of one thread and the bytes of JSON. The browser is not measured.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.benchmarks.large import layered
from weft.experiments.harness import describe_machine, page_table, provenance
from weft.model import Problem, Workload
from weft.planners import plan
from weft.report.pages.live import draw_live
from weft.runtime.backends.protocol import Finished
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.web.live.board import LiveBoard

COLUMNS = {"tasks": 0, "what": None, "ms": 2, "bytes of JSON": 0}
ASKED = 20
"""Times that the status is read."""


def measure(tasks: int, devices: int) -> list[list[Any]]:
    """Return rows of tasks, what, milliseconds, and bytes of JSON."""
    problem = Problem.from_arrays(
        **layered(tasks, devices)  # type: ignore[arg-type]  # arrays by name
    )
    schedule = plan(problem, "heft").schedule
    life, board = LiveLifecycle(Workload.of(problem)), LiveBoard(draw_live)
    begin = time.thread_time()
    board.begin(life, "heft", planned=schedule)
    opened = time.thread_time() - begin
    life.arrive(0, 0.0)
    order = np.argsort(schedule.start, kind="stable")[: tasks // 2]
    spent = 0.0
    for i, device, start, finish in zip(
        order.tolist(),
        schedule.device[order].tolist(),
        schedule.start[order].tolist(),
        schedule.finish[order].tolist(),
        strict=True,
    ):
        life.commit([i], device, start)
        group, event = life.begin(device, start), Finished(i, device, start, finish)
        life.finish(device, finish)
        begin = time.thread_time()
        board.finished(life, group, event, {})
        spent += time.thread_time() - begin
    asked = []
    for _ in range(ASKED):
        begin = time.thread_time()
        status = board.status()
        asked.append(time.thread_time() - begin)
    return [
        [tasks, "opening of the page, once", 1e3 * opened, _bytes(board.opening)],
        [tasks, "event of a task", 1e3 * spent / len(order), _bytes(board.events[-1])],
        [tasks, "status, every second", 1e3 * float(np.median(asked)), _bytes(status)],
    ]


def _bytes(value: object) -> int:
    return len(json.dumps(value, default=str))


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, nargs="+", default=[20_000, 100_000])
    parser.add_argument("--devices", type=int, default=64)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    measure(1000, args.devices)  # compile, or read from the cache
    rows = [row for tasks in args.tasks for row in measure(tasks, args.devices)]
    for row in rows:
        print(*row)
    if args.out is not None:
        document = {
            "measured_with": "benchmarks/pages/live_scale.py --out docs/results/live_scale.json",
            "provenance": provenance(),
            "machine": describe_machine(),
            "tables": {"server": page_table(COLUMNS, rows)},
        }
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
