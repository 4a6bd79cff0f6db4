"""Scale of planning: ten million tasks, answers to changes, search and parts.

``weft bench --large`` prints the table. Times are processor time of one thread, but for the time
limit of the search.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.experiments.benchmarks import parts
from weft.experiments.benchmarks.large import layered
from weft.experiments.benchmarks.speed import BenchMeasure, document
from weft.experiments.harness import provenance
from weft.generators import generate
from weft.model import Cluster, Device, Links, Problem
from weft.model.check import check
from weft.planners import plan
from weft.planners.bounds import lower_bound
from weft.planners.repair import prepare, replan

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
"""Tasks of the plans; `quick` leaves out the last two."""

DEVICES = 1000
REPLANNED = ((1_000_000, 64), (1_000_000, 1000))
"""Tasks and devices of the plans that change."""

SEARCHED, SEARCH_SECONDS, GRAPHS = ((100_000, 64), (100_000, 256)), 10.0, 3
"""Tasks and devices of the graphs that are searched, the time limit, and their number."""


def measures(*, quick: bool = False) -> Iterator[BenchMeasure]:
    """Yield the measurements; `quick` makes them a hundred times smaller."""
    yield planning(SIZES[:2] if quick else SIZES)
    for n, p in REPLANNED:
        yield replanning(n // (100 if quick else 1), p // (10 if quick else 1))
    for n, p in SEARCHED:
        part = 100 if quick else 1
        yield searching(n // part, p // (8 if quick else 1), 0.5 if quick else SEARCH_SECONDS)
    yield parts.compared(parts.QUICK_CASES if quick else parts.CASES)


def count() -> int:
    """Return the number of measurements."""
    return 2 + len(REPLANNED) + len(SEARCHED)


def planning(sizes: Sequence[int], p: int = DEVICES) -> BenchMeasure:
    """Plan with HEFT in a process for each size; fit the exponents of time and memory."""
    found = [_child(n, p) for n in sizes]
    tasks = np.log([f["tasks"] for f in found])
    exponents = {
        key: float(np.polyfit(tasks, np.log([f[value] - f.get(less, 0.0) for f in found]), 1)[0])
        for key, value, less in (
            ("seconds", "plan_seconds", ""),
            ("memory", "peak_bytes", "peak_bytes_before"),
        )
    }
    last = found[-1]
    result = (
        f"{last['plan_seconds']:.1f} s, building {last['build_seconds']:.1f} s, peak "
        f"{last['peak_bytes'] / 1e9:.2f} GB; n^{exponents['seconds']:.2f} in time, "
        f"n^{exponents['memory']:.2f} in memory; {last['violations']:.0f} violations"
    )
    return BenchMeasure(
        f"HEFT {int(last['tasks']):,} x {p:,}",
        result,
        "60 s, 8 GB",
        figures={"sizes": found, "exponents": exponents},
    )


def replanning(n: int, p: int) -> BenchMeasure:
    """Answer changes of a plan and compare them with planning again."""
    problem = Problem.from_arrays(**layered(n, p))
    made = plan(problem, "heft")
    begin = time.process_time()
    prepare(made)
    replan(made)  # compile, or read from the cache
    prepared = time.process_time() - begin
    answers = [_answer(made, name, change) for name, change in changes(problem).items()]
    slowest = max(a["seconds"] for a in answers)
    above = [100 * a["above"] for a in answers]
    result = (
        f"at most {1e3 * slowest:.0f} ms, {min(above):+.2f} to {max(above):+.2f} % of planning "
        f"again ({statistics.median(a['again_seconds'] for a in answers):.1f} s)"
    )
    return BenchMeasure(
        f"replan {n:,} x {p}: a device lost, a task 10 times longer",
        result,
        "50 ms, 2 %",
        figures={"tasks": n, "devices": p, "prepare_seconds": prepared, "answers": answers},
    )


def changes(problem: Problem) -> dict[str, dict[str, Any]]:
    """Return changes by name: three lost devices and four longer tasks.

    They were not chosen by their result.
    """
    by_speed = np.argsort(problem.per_work[0], kind="stable")
    devices = {"first": 0, "fastest": int(by_speed[0]), "slowest": int(by_speed[-1])}
    tasks = {
        "longest": int(np.argmax(problem.work)),
        **{f"at {share} %": problem.n * share // 100 for share in (25, 50, 75)},
    }
    lost = {f"{k} device lost": {"lost": problem.cluster.names[d]} for k, d in devices.items()}
    return lost | {f"task {k} ten times longer": {"longer": {t: 10.0}} for k, t in tasks.items()}


def _answer(made: Any, name: str, change: dict[str, Any]) -> dict[str, Any]:
    spent = []
    for _ in range(5):
        begin = time.process_time()
        answer = replan(made, **change)
        spent.append(time.process_time() - begin)
    begin = time.process_time()
    again = plan(answer.problem, "heft")
    took = time.process_time() - begin
    return {
        "change": name,
        "seconds": statistics.median(spent),
        "makespan": answer.makespan,
        "again": again.makespan,
        "again_seconds": took,
        "above": answer.makespan / again.makespan - 1.0,
        "violations": len(check(answer.problem, answer)),
    }


def searching(n: int, p: int, limit: float) -> BenchMeasure:
    """Improve plans of large graphs at CCR 1 by `anytime` within a time limit."""
    gains, used, bounds = [], [], []
    for seed in range(GRAPHS):
        workflow = generate("layered", tasks=n, ccr=1.0, seed=seed)
        speed = np.random.default_rng(seed).uniform(0.5, 2.0, p)
        devices = [Device(f"d{i}", speed=float(x)) for i, x in enumerate(speed)]
        problem = Problem.bind(workflow, Cluster.of(devices, Links(bandwidth=1e9)))
        first = plan(problem, "heft").makespan
        if seed == 0:
            plan(problem, "anytime", seconds=limit / 10)  # compile, or read from the cache
        made = plan(problem, "anytime", seconds=limit, seed=seed)
        assert check(problem, made) == []
        gains.append(1.0 - made.makespan / first)
        bounds.append(1.0 - lower_bound(problem) / first)
        used.append(made.seconds / limit)
    shown = ", ".join(f"{100 * gain:.2f}" for gain in gains)
    return BenchMeasure(
        f"anytime {n:,} x {p} at CCR 1, {limit:g} s: below HEFT",
        f"{shown} % (by the bound at most {100 * max(bounds):.1f} %); "
        f"{max(used):.2f} of the limit used",
        "3 %, 1.1",
        figures={"tasks": n, "devices": p, "gains": gains, "bounds": bounds, "used": used},
    )


def results(lines: list[BenchMeasure]) -> dict[str, object]:
    """Return the document of docs/results/scale.json: the figures and the tables."""
    sizes: Any = lines[0].figures["sizes"]
    rows = [
        [f"{f['tasks']:,}", f["plan_seconds"], f["peak_bytes"] / 1e9, f["violations"]]
        for f in sizes
    ]
    answers = [
        [
            f"{line.figures['tasks']:,} x {line.figures['devices']}",
            a["change"],
            1e3 * a["seconds"],
            100 * a["above"],
            a["again_seconds"],
        ]
        for line in lines
        if isinstance(line.figures.get("answers"), list)
        for a in line.figures["answers"]
    ]
    return {
        "measured_with": "weft bench --large --out docs/results/scale.json",
        "provenance": provenance(),
        **document(lines),
        "tables": {
            "summary": {
                "columns": ["measure", "result", "goal"],
                "align": "lll",
                "rows": [[line.what, line.result, line.goal] for line in lines],
            },
            "planning": {
                "columns": ["tasks", "HEFT, seconds", "peak, GB", "violations"],
                "align": "rrrr",
                "decimals": [None, 2, 2, 0],
                "rows": rows,
            },
            "replanning": {
                "columns": ["plan", "change", "ms", "% above planning again", "again, s"],
                "align": "llrrr",
                "decimals": [None, None, 1, 2, 2],
                "rows": answers,
            },
        },
    }


def _child(n: int, p: int) -> dict[str, float]:
    command = [sys.executable, "-m", "weft.experiments.benchmarks.large", str(n), str(p), "checked"]
    done = subprocess.run(  # noqa: S603  # this Python, this program
        command, capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found
