"""The overhead per empty task: weft's backends, concurrent.futures, Dask and Ray.

All of them use the same functions and two processes.

Rows are printed as they are measured. Dask and Ray take milliseconds a task, so they get fewer
tasks.

python benchmarks/runtime/run_overhead.py --tasks 10000 --remote-tasks 2000
python benchmarks/runtime/run_overhead.py --only local
python benchmarks/runtime/run_overhead.py --only dask --out now.json
python benchmarks/runtime/run_overhead.py --table now.json --before earlier.json

The last one writes docs/results/driver.json: processor time on Dask, medians of the given files.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

import weft
from weft.experiments.harness import provenance
from weft.runtime import LocalBackend, RayBackend, RayDevice


class Measured(Protocol):
    """Measures some work; `there` gives the processor time of a scheduler process."""

    def __call__(
        self, what: str, shape: str, work: object, there: Callable[[], float] | None = None
    ) -> None: ...


def nothing(*_: object) -> None:
    return None


def independent(n: int, seconds: float = 1e-4) -> weft.Workflow:
    return weft.Workflow(name="independent", work=np.full(n, seconds), src=[], dst=[], data=[])


def chain(n: int) -> weft.Workflow:
    return weft.Workflow(
        name="chain",
        work=np.full(n, 1e-4),
        src=np.arange(n - 1),
        dst=np.arange(1, n),
        data=np.zeros(n - 1),
    )


def layered(n: int, seconds: float = 1e-4) -> weft.Workflow:
    width = 20
    t = np.arange(width, n)
    below = t - width - t % width + (t * 7) % width  # any task of the layer before
    src, dst = np.concatenate([t - width, below]), np.concatenate([t, t])
    pairs = np.unique(np.stack([src, dst], 1), axis=0)
    return weft.Workflow(
        name="layers of 20",
        work=np.full(n, seconds),
        src=pairs[:, 0],
        dst=pairs[:, 1],
        data=np.zeros(len(pairs)),
    )


def on_ray(n: int, measured: Measured) -> None:
    """weft on Ray, and Ray's own tasks on as many processors of the same Ray."""
    with RayBackend([RayDevice(name, cpus=0.0) for name in ("a", "b")], processors=2) as backend:
        options = {"functions": {"task": nothing}, "backend": backend, "history": False}
        weft.run(independent(100), **options)
        for shape in (independent, layered, chain):
            workflow = shape(n)
            measured("weft on Ray, heft", workflow.name, lambda w=workflow: weft.run(w, **options))
        ray = import_module("ray")
        task = ray.remote(nothing)
        ray.get([task.remote() for _ in range(100)])
        measured(
            "Ray's own tasks", "independent", lambda: ray.get([task.remote() for _ in range(n)])
        )
        for shape in (layered, chain):
            workflow = shape(n)
            measured(
                "Ray's own tasks", workflow.name, lambda w=workflow: ray.get(_as_tasks(task, w))
            )


def _as_tasks(task: Any, workflow: weft.Workflow) -> list[Any]:
    refs: list[Any] = []
    for t in range(workflow.n):
        before = workflow.src[workflow.pred_edge[workflow.pred_ptr[t] : workflow.pred_ptr[t + 1]]]
        refs.append(task.remote(*(refs[u] for u in before)))
    return refs


@contextmanager
def dask_cluster(workers: int) -> Iterator[Any]:
    """Start a scheduler and workers, a process each; give a client."""
    program = (sys.executable, "-m")
    quiet = {**os.environ, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "scheduler.json")
        scheduler = [
            *(*program, "distributed.cli.dask_scheduler", "--no-dashboard", "--no-show"),
            *("--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)),
        ]
        worker = [
            *(*program, "distributed.cli.dask_worker", "--no-dashboard", "--no-nanny"),
            *("--host", "127.0.0.1", "--nthreads", "1", "--scheduler-file", str(file)),
            *("--local-directory", folder),
        ]
        commands = [scheduler, *([*worker, "--name", str(k)] for k in range(workers))]
        processes = [subprocess.Popen(command, env=quiet) for command in commands]
        try:
            while not file.exists():
                time.sleep(0.1)
            with import_module("distributed").Client(scheduler_file=str(file)) as client:
                client.wait_for_workers(workers)
                yield client
        finally:
            for process in processes:
                process.kill()  # a worker without its scheduler may wait for minutes
            for process in processes:
                process.wait()


def on_dask(n: int, measured: Measured) -> None:
    """Measure weft on Dask by task and as one graph, and Dask itself by future and as a graph."""
    with dask_cluster(2) as client:
        backend = import_module("weft.runtime.backends.dask.backend").DaskBackend(client)
        options = {"functions": {"task": nothing}, "backend": backend, "history": False}
        there = partial(client.run_on_scheduler, time.process_time)
        ways = {
            "weft on Dask, rank-eft": {"policy": "rank-eft"},
            "weft on Dask, heft, task by task": {},
            "weft on Dask, heft, one graph": {"policy": "heft"},
        }
        for what, more in ways.items():
            backend.whole = "one graph" in what
            weft.run(independent(100), **options, **more)
            for shape in (independent, layered, chain):
                workflow = shape(n)
                measured(
                    what,
                    workflow.name,
                    lambda w=workflow, m=more: weft.run(w, **options, **m),
                    there,
                )
        client.gather(client.map(nothing, range(100), pure=False))
        measured(
            "Dask's own client.map",
            "independent",
            lambda: client.gather(client.map(nothing, range(n), pure=False)),
            there,
        )
        measured(
            "Dask's own client.submit",
            "chain",
            lambda: [client.submit(nothing, pure=False).result() for _ in range(n)],
            there,
        )
        for shape in (independent, layered, chain):
            workflow = shape(n)
            measured(
                "Dask's own graph",
                workflow.name,
                lambda w=workflow: client.get(*_as_graph(w)),
                there,
            )


def _as_graph(workflow: weft.Workflow) -> tuple[dict[str, Any], list[str]]:
    keys = [f"own-{time.monotonic_ns()}-{t}" for t in range(workflow.n)]
    ptr, edge = workflow.pred_ptr, workflow.pred_edge
    return {
        keys[t]: (nothing, *(keys[u] for u in workflow.src[edge[ptr[t] : ptr[t + 1]]]))
        for t in range(workflow.n)
    }, keys


def on_local(n: int, measured: Measured) -> None:
    """weft's own processes, and those of concurrent.futures."""
    with LocalBackend(2) as backend:
        options = {"functions": {"task": nothing}, "backend": backend, "history": False}
        weft.run(independent(100), **options)
        for shape in (independent, layered, chain):
            workflow = shape(n)
            measured("weft local, heft", workflow.name, lambda w=workflow: weft.run(w, **options))
        small = layered(n)
        measured(
            "weft local, rank-eft",
            small.name,
            lambda: weft.run(small, policy="rank-eft", **options),
        )
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(nothing, range(100)))
        measured(
            "ProcessPoolExecutor.submit",
            "independent",
            lambda: [f.result() for f in [pool.submit(nothing) for _ in range(n)]],
        )
        measured(
            "ProcessPoolExecutor.submit",
            "chain",
            lambda: [pool.submit(nothing).result() for _ in range(n)],
        )


ROWS = {
    "weft, policy (rank-eft)": "weft on Dask, rank-eft",
    "weft, plan, task by task": "weft on Dask, heft, task by task",
    "weft, plan, one graph": "weft on Dask, heft, one graph",
    "Dask's own graph": "Dask's own graph",
}
SHAPES = ("independent", "layers of 20", "chain")
RESULTS = Path(__file__).parents[2] / "docs" / "results" / "driver.json"

Costs = dict[tuple[str, str], tuple[float, float]]
"""What and graph -> milliseconds of the driver and of Dask's scheduler per task."""


def costs_of(paths: Sequence[Path]) -> Costs:
    """Return the medians of the files."""
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for path in paths:
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            if "scheduler_cpu_ms" in row:
                pair = row["driver_cpu_ms"], row["scheduler_cpu_ms"]
                found.setdefault((row["what"], row["graph"]), []).append(pair)
    return {key: (median(d for d, _ in v), median(s for _, s in v)) for key, v in found.items()}


def write_table(now: Costs, before: Costs, *, runs: int, load: str) -> None:
    """Write the page's table: driver + scheduler, and what a policy adds to Dask's own graph."""
    rows: list[list[Any]] = []
    for version, costs in (("before", before), ("", now)):
        for title, what in ROWS.items() if costs else ():
            if version and "policy" not in title:
                continue
            cells = [f"{d:.2f} + {s:.2f}" for d, s in (costs[what, shape] for shape in SHAPES)]
            rows.append([f"{title}, {version}" if version else title, *cells])
    for version, costs in (("before", before), ("", now)):
        if costs:
            policy, own = ROWS["weft, policy (rank-eft)"], ROWS["Dask's own graph"]
            added = [sum(costs[policy, s]) - sum(costs[own, s]) for s in SHAPES]
            title = f"a policy adds, {version}" if version else "a policy adds"
            rows.append([title, *(f"{ms:.2f}" for ms in added)])
    table = {"columns": ["ms of processor time per task", *SHAPES], "align": "lrrr", "rows": rows}
    made = {
        "measured_with": "python benchmarks/runtime/run_overhead.py --only dask, then --table",
        "provenance": f"500 empty tasks, medians of {runs} runs; {os.cpu_count()} cores, {load}",
        "tables": {"cpu": table},
    }
    RESULTS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=10_000, help="for local processes")
    parser.add_argument("--remote-tasks", type=int, default=2_000, help="for Dask and Ray")
    parser.add_argument("--only", choices=("local", "dask", "ray"), help="one of them")
    parser.add_argument("--out", type=Path, help="a file for the results, as JSON")
    parser.add_argument("--table", type=Path, nargs="+", help="outputs to make the table of")
    parser.add_argument("--before", type=Path, nargs="+", help="outputs of an earlier version")
    parser.add_argument("--load", default="little other work", help="other work, for the table")
    args = parser.parse_args()
    if args.table:
        before = costs_of(args.before or ())
        write_table(costs_of(args.table), before, runs=len(args.table), load=args.load)
        return
    found: list[dict[str, Any]] = []

    def measuring(n: int) -> Measured:
        def measured(
            what: str, shape: str, work: object, there: Callable[[], float] | None = None
        ) -> None:
            before = there() if there else 0.0
            wall, cpu = time.perf_counter(), time.process_time()
            work()  # type: ignore[operator]  # a function
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            row = {"what": what, "graph": shape, "tasks": n}
            row |= {"ms_per_task": 1e3 * wall / n, "driver_cpu_ms": 1e3 * cpu / n}
            if there:
                row["scheduler_cpu_ms"] = 1e3 * (there() - before) / n
            found.append(row)
            print(
                f"{what:<34}{shape:<14}{n:>8,}{1e3 * wall / n:>11.3f}{1e3 * cpu / n:>22.3f}"
                + (f"{row['scheduler_cpu_ms']:>14.3f}" if there else ""),
                flush=True,
            )

        return measured

    print("Empty tasks, 2 processes; with everything around them: life cycle, decisions, trace\n")
    print(
        f"{'what':<34}{'graph':<14}{'tasks':>8}{'ms per task':>11}{'ms of the driver CPU':>22}"
        f"{'of Dask':>14}",
        flush=True,
    )
    if args.only in (None, "local"):
        on_local(args.tasks, measuring(args.tasks))
    if args.only in (None, "dask") and find_spec("distributed") is not None:
        on_dask(args.remote_tasks, measuring(args.remote_tasks))
    if args.only in (None, "ray") and find_spec("ray") is not None:
        on_ray(args.remote_tasks, measuring(args.remote_tasks))
    if args.out is not None:
        only = f" --only {args.only}" if args.only else ""
        command = f"benchmarks/runtime/run_overhead.py --tasks {args.tasks}{only}"
        document = {
            "measured_with": f"{command} --remote-tasks {args.remote_tasks}",
            "provenance": provenance(),
            "rows": found,
        }
        args.out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
