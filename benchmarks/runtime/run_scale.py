"""What the driver of a run costs per task: processor time and memory, on local workers.

    python benchmarks/runtime/run_scale.py --tasks 100000 --devices 64 --seconds 0.01 \\
        --out docs/results/run_scale.json

Tasks sleep. Processor time is that of this process (with planning, the trace and the results), not
of the workers. Memory is the growth of the peak of resident memory. `--out` adds a row to a file.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from functools import partial
from pathlib import Path

from run_overhead import independent, layered, nothing

import weft
from weft.experiments.harness import describe_machine, provenance
from weft.runtime import LocalBackend


def sleep(*_: object, seconds: float) -> None:
    """Take as long as a task, but no processor."""
    time.sleep(seconds)


SHAPES = {"independent": independent, "layered": layered}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument(
        "--shape", choices=SHAPES, default="layered", help="layered: two edges a task"
    )
    parser.add_argument("--seconds", type=float, default=0.0, help="that a task sleeps")
    parser.add_argument("--policy", default="heft")
    parser.add_argument("--out", type=Path, help="JSON file with a table of such runs")
    args = parser.parse_args()
    task = partial(sleep, seconds=args.seconds) if args.seconds > 0 else nothing
    expected = args.seconds or 1e-4
    with LocalBackend(args.devices) as backend:
        options = {"functions": {"task": task}, "backend": backend, "history": False}
        weft.run(
            SHAPES[args.shape](100, expected), policy=args.policy, **options
        )  # compile and import
        workflow = SHAPES[args.shape](args.tasks, expected)
        before, begin = usage(), time.perf_counter()
        weft.run(workflow, policy=args.policy, **options)
        after, wall = usage(), time.perf_counter() - begin
    spent = [1e6 * (b - a) / args.tasks for a, b in zip(before, after, strict=True)]
    print(f"{args.tasks} tasks, {args.shape}, {args.devices} devices, {args.policy}: {wall:.1f} s")
    print(f"driver: {spent[0]:.0f} us user + {spent[1]:.0f} us system per task")
    print(f"memory: {spent[2] / 1000:.2f} kB per task")
    if args.out is not None:
        what = f"{args.tasks:,} tasks, {args.shape}, of {1e3 * args.seconds:g} ms"
        row = [what, args.devices, args.policy, wall, spent[0], spent[1], spent[2] / 1000]
        write(args.out, row)


def write(path: Path, row: list[object]) -> None:
    """Add a row to the table of a file, in place of an earlier one of the same run."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    rows = known["tables"]["driver"]["rows"] if known is not None else []
    run = ", ".join(map(str, row[:3]))
    by_run = {**({} if known is None else known.get("provenance", {})), run: provenance()}
    table = {
        "columns": ["run", "workers", "policy", "wall, s", "user, us", "system, us", "memory, kB"],
        "align": "lrlrrrr",
        "decimals": [None, 0, None, 1, 0, 0, 2],
        "rows": [other for other in rows if other[:3] != row[:3]] + [row],
    }
    document = {
        "measured_with": "benchmarks/runtime/run_scale.py --out docs/results/run_scale.json",
        "provenance": by_run,
        "machine": describe_machine(),
        "tables": {"driver": table},
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def usage() -> tuple[float, float, float]:
    """Return seconds in user and system mode, and the peak of memory in megabytes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime, used.ru_maxrss / 1024 * 1.048576


if __name__ == "__main__":
    main()
