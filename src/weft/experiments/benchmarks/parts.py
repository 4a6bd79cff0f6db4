"""Large graphs in parts: the planner `partitioned` beside HEFT.

Each runs in a process of its own. ``python -m weft.experiments.benchmarks.parts`` prints the
document of docs/results/parts.json; with GRAPH TASKS DEVICES CCR PARTS PLANNER, the figures of one
plan.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from weft.experiments.benchmarks.large import layered
from weft.experiments.benchmarks.speed import BenchMeasure, document
from weft.experiments.harness import peak_memory, provenance
from weft.generators import generate
from weft.model import Cluster, Device, Links, Problem, Workflow
from weft.model.check import check
from weft.model.columns import FloatArray
from weft.planners import plan
from weft.planners.lists.common_link import LARGE, MANY
from weft.rng import generator

NODE = 8
"""Devices of a node; also the factor by which links inside a node are faster than others."""

TEMPLATE = "epigenomics"
"""The workflow that repeats."""

REPEATS, MANY_TASKS, CHECKED = 3, 2_000_000, 1_000_000
"""Plans of which the quickest counts, tasks from which there is one, and most tasks checked."""


class Case(NamedTuple):
    """A graph, its size and the number of parts; 0: as the planner chooses."""

    graph: str
    tasks: int
    devices: int
    ccr: float
    parts: int = 0


CASES = (
    *(
        Case("layered", n, p, c)
        for n in (100_000, 1_000_000)
        for p in (64, 1000)
        for c in (0.1, 1, 5)
    ),
    *(Case("copies", 1_000_000, p, c) for p in (64, 1000) for c in (1, 5)),
    *(Case("equal devices", 1_000_000, p, c) for p in (64, 1000) for c in (1, 5)),
    *(Case("nodes", 100_000, 64, c, 8) for c in (1, 5, 20)),
    Case("layered", 10_000_000, 1000, 2),
)

QUICK_CASES = (Case("layered", 10_000, 64, 1), Case("nodes", 10_000, 64, 5, 8))


def problem_of(case: Case) -> Problem:
    """Make the problem of a case; the CCR is exact for the mean device and link.

    - layered: that of `weft bench --large`
    - copies: one workflow again and again; equal devices: the same on devices of one speed
    - nodes: copies on nodes of eight equal devices, with links inside that are eight times as fast

    Examples
    --------
    >>> problem_of(Case("nodes", 200, 16, 5.0)).n  # two copies of 71 tasks
    142
    """
    n, p = case.tasks, case.devices
    speed = generator(0, "parts", p).uniform(1.0, 4.0, p)
    if case.graph == "equal devices":
        speed = np.ones(p)
    elif case.graph == "nodes":
        speed = np.repeat(speed[: -(-p // NODE)], NODE)[:p]
    if case.graph == "layered":
        arrays: Any = layered(n, p)
        work, edges, data = arrays["work"], arrays["edges"], arrays["data"]
        workflow = Workflow(work=work, src=edges[:, 0], dst=edges[:, 1], data=data)
    else:
        workflow = _copies(generate(TEMPLATE, seed=0), n)
    return Problem.bind(workflow, _cluster(workflow, speed, case))


def _copies(one: Workflow, tasks: int) -> Workflow:
    count = max(1, tasks // one.n)
    offset = one.n * np.arange(count)[:, None]
    return Workflow(
        work=np.tile(one.work, count),
        src=(one.src + offset).ravel(),
        dst=(one.dst + offset).ravel(),
        data=np.tile(one.data, count),
    )


def _cluster(workflow: Workflow, speed: FloatArray, case: Case) -> Cluster:
    seconds = float(workflow.work.mean() * (1.0 / speed).mean())
    rate = float(workflow.data.mean()) / (case.ccr * seconds)
    if case.graph != "nodes":
        links: Any = rate  # a scalar fills the matrix
        return Cluster(speed=speed, bandwidth=links)
    devices = [Device(f"d{i}", node=f"n{i // NODE}", speed=float(s)) for i, s in enumerate(speed)]
    return Cluster.of(devices, Links(bandwidth=rate, node_bandwidth=NODE * rate))


def measure(case: Case, planner: str) -> dict[str, Any]:
    """Plan a case; return wall-clock and processor seconds, peak memory, makespan."""
    options = {"parts": case.parts} if case.parts and planner == "partitioned" else {}
    for tasks, devices in ((300, 4), (LARGE, MANY)):  # compile, or read from the cache
        small = Problem.from_arrays(**layered(tasks, devices))
        plan(small, planner, **options)
    problem, times = problem_of(case), []
    for _ in range(1 if case.tasks > MANY_TASKS else REPEATS):
        wall, used = time.perf_counter(), time.process_time()
        made = plan(problem, planner, **options)
        times.append((time.perf_counter() - wall, time.process_time() - used))
    peak, w = peak_memory(), problem.workflow
    device = made.schedule.device
    node = problem.cluster.node[device]
    return {
        **case._asdict(),
        "planner": planner,
        "tasks": problem.n,
        "wall_seconds": min(wall for wall, _ in times),
        "processor_seconds": min(used for _, used in times),
        "peak_bytes": peak,
        "makespan": made.makespan,
        "moved": _share(w.data, device[w.src] != device[w.dst]),
        "moved_between_nodes": _share(w.data, node[w.src] != node[w.dst]),
        "violations": len(check(problem, made)) if problem.n <= CHECKED else None,
    }


def _share(data: FloatArray, chosen: Any) -> float:
    return float(data[chosen].sum() / data.sum())


def compared(cases: tuple[Case, ...] = CASES) -> BenchMeasure:
    """Plan all cases by `partitioned` and by HEFT, each in a process."""
    pairs = [(_child(case, "heft"), _child(case, "partitioned")) for case in cases]
    return measured(pairs)


def measured(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> BenchMeasure:
    """Summarise pairs of figures: of HEFT and of `partitioned`."""
    above = [100 * (parts["makespan"] / heft["makespan"] - 1) for heft, parts in pairs]
    ratio = [parts["processor_seconds"] / heft["processor_seconds"] for heft, parts in pairs]
    return BenchMeasure(
        f"partitioned, {len(pairs)} graphs: makespan, processor time",
        f"{min(above):+.2f} to {max(above):+.2f} %, {min(ratio):.2f} to {max(ratio):.2f} times "
        "HEFT",
        "",
        figures={"pairs": [list(pair) for pair in pairs]},
    )


def table(pairs: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Return the table of docs/results/scale.json: HEFT, then `partitioned`."""
    rows = [
        [
            f"{h['graph']}, {h['tasks']:,} x {h['devices']:,}",
            f"{h['ccr']:g}",
            *(f[key] for key in ("processor_seconds", "wall_seconds") for f in (h, q)),
            h["peak_bytes"] / 1e9,
            q["peak_bytes"] / 1e9,
            100 * (q["makespan"] / h["makespan"] - 1),
            100 * h["moved_between_nodes"],
            100 * q["moved_between_nodes"],
        ]
        for h, q in pairs
    ]
    return {
        "columns": [
            "graph",
            "CCR",
            *("HEFT, processor s", "in parts", "HEFT, wall s", "in parts"),
            *("HEFT, GB", "in parts", "makespan, %", "HEFT, % between nodes", "in parts"),
        ],
        "align": "ll" + "r" * 9,
        "decimals": [None, None, 2, 2, 2, 2, 2, 2, 2, 0, 0],
        "rows": rows,
    }


def _child(case: Case, planner: str) -> dict[str, Any]:
    words = [case.graph, str(case.tasks), str(case.devices), str(case.ccr), str(case.parts)]
    command = [sys.executable, "-m", "weft.experiments.benchmarks.parts", *words, planner]
    done = subprocess.run(  # noqa: S603  # this Python, this program
        command, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def results(line: BenchMeasure) -> dict[str, Any]:
    """Return the document of docs/results/parts.json."""
    return {
        "measured_with": "python -m weft.experiments.benchmarks.parts",
        "provenance": provenance(),
        **document([line]),
        "tables": {"compared": table(line.figures["pairs"])},
    }


if __name__ == "__main__":
    if sys.argv[1:]:
        graph, tasks, devices, ccr, parts, planner = sys.argv[1:]
        chosen = Case(graph, int(tasks), int(devices), float(ccr), int(parts))
        print(json.dumps(measure(chosen, planner)))
    else:
        print(json.dumps(results(compared()), indent=1))
