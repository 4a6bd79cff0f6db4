"""What the driver of a run costs per task: processor time and memory, on local workers.

    python benchmarks/runtime/run_scale.py --tasks 100000 --devices 2 --policy heft

Tasks do nothing, so the driver is the bottleneck; processor time is that of this process (with
planning, the trace and the results), not of the workers, and does not depend on how long tasks
take. Memory is the growth of the peak of resident memory.
"""

from __future__ import annotations

import argparse
import resource
import time

from run_overhead import independent, layered, nothing

import weft
from weft.runtime import LocalBackend

SHAPES = {"independent": independent, "layered": layered}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument(
        "--shape", choices=SHAPES, default="layered", help="layered: two edges a task"
    )
    parser.add_argument("--policy", default="heft")
    args = parser.parse_args()
    with LocalBackend(args.devices) as backend:
        options = {"functions": {"task": nothing}, "backend": backend, "history": False}
        weft.run(SHAPES[args.shape](100), policy=args.policy, **options)  # compile and import
        workflow = SHAPES[args.shape](args.tasks)
        before, begin = usage(), time.perf_counter()
        weft.run(workflow, policy=args.policy, **options)
        after, wall = usage(), time.perf_counter() - begin
    spent = [1e6 * (b - a) / args.tasks for a, b in zip(before, after, strict=True)]
    print(f"{args.tasks} tasks, {args.shape}, {args.devices} devices, {args.policy}: {wall:.1f} s")
    print(f"driver: {spent[0]:.0f} us user + {spent[1]:.0f} us system per task")
    print(f"memory: {spent[2] / 1000:.2f} kB per task")


def usage() -> tuple[float, float, float]:
    """Return seconds in user and system mode, and the peak of memory in megabytes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime, used.ru_stime, used.ru_maxrss / 1024 * 1.048576


if __name__ == "__main__":
    main()
