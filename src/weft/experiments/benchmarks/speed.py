"""Planning, simulation and start-up times, with a peer in the same run.

All values are processor time of one thread, so other load does not count.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from weft.experiments.benchmarks import peer
from weft.experiments.benchmarks.large import layered
from weft.experiments.harness import describe_machine
from weft.model import Problem, Scenario, Workload
from weft.planners import plan


@dataclass(frozen=True)
class BenchMeasure:
    """One line of the table: measurement, result, goal and peer."""

    what: str
    result: str
    goal: str = ""
    peer: str = ""
    figures: dict[str, Any] = field(default_factory=dict)


def measures(*, quick: bool = False) -> Iterator[BenchMeasure]:
    """Yield the measurements; `quick` leaves out those that take minutes."""
    yield import_time()
    yield help_time()
    yield first_plan()
    yield against_peer(n=300 if quick else 1000)
    yield small_problem()
    yield large_problem(84_654, 188, "0.5 s, 1 GB")
    if not quick:
        yield large_problem(1_000_000, 64, "finishes")
    yield growth(100_000 if quick else 1_000_000)
    yield rules(jobs=200 if quick else 2000)


def count(*, quick: bool = False) -> int:
    """Return the number of measurements."""
    return 8 if quick else 9


def document(lines: list[BenchMeasure]) -> dict[str, object]:
    """Return the measurements and the machine for JSON."""
    return {"machine": describe_machine(), "measures": [asdict(line) for line in lines]}


def table(lines: list[BenchMeasure]) -> str:
    """Return the measurements as aligned text."""
    rows = [
        ("measure", "result", "goal", "peer"),
        *((x.what, x.result, x.goal, x.peer) for x in lines),
    ]
    widths = [max(len(row[c]) for row in rows) for c in range(4)]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def against_peer(n: int = 1000, p: int = 8) -> BenchMeasure:
    """Measure HEFT of weft and of anrg-saga on the same problem in the same process.

    The peer's averages include a device's free transfers to itself; so do those of
    `heft-saga-mean`, so the makespans are comparable.
    """
    problem = Problem.from_arrays(**layered(n, p))
    ours = plan(problem, "heft-saga-mean").makespan
    spent = _median_call(lambda: plan(problem, "heft-saga-mean"), 101)
    figures: dict[str, object] = {"tasks": n, "devices": p, "seconds": spent, "makespan": ours}
    what, goal = f"HEFT {n} x {p}", "1,000 times the peer"
    if not peer.installed():
        return BenchMeasure(
            what, _ms(spent), goal, "not installed: pip install 'weft-scheduling[bench]'", figures
        )
    results = [peer.heft(problem) for _ in range(3)]
    theirs = statistics.median(r.seconds for r in results)
    figures |= {
        "peer_seconds": theirs,
        "peer_makespan": results[0].makespan,
        "ratio": theirs / spent,
    }
    makespans = f"makespan {results[0].makespan:.6g}, ours {ours:.6g}"
    beside = f"{theirs:.2f} s: {theirs / spent:,.0f} times as long ({makespans})"
    return BenchMeasure(what, _ms(spent), goal, beside, figures)


def small_problem(n: int = 10_000, p: int = 32) -> BenchMeasure:
    """Measure HEFT with `Problem.from_arrays`, for both forms of costs."""
    spent = {}
    for form in ("matrix", "product"):
        arrays = layered(n, p, dense=form == "matrix")
        spent[form] = _median_call(partial(_build_and_plan, arrays), 11)
    result = f"{_ms(spent['matrix'])} (work / speed: {_ms(spent['product'])})"
    return BenchMeasure(
        f"HEFT {n:,} x {p}, Problem.from_arrays included",
        result,
        "50 ms",
        figures={"seconds": spent},
    )


def _build_and_plan(arrays: dict[str, Any]) -> None:
    plan(Problem.from_arrays(**arrays), "heft")


def large_problem(n: int, p: int, goal: str) -> BenchMeasure:
    """Measure HEFT on a large problem in its own process."""
    done = _child(["-m", "weft.experiments.benchmarks.large", str(n), str(p)])
    figures = json.loads(done.stdout)
    times = f"{figures['plan_seconds']:.2f} s, building {figures['build_seconds']:.2f} s"
    result = f"{times}, peak {figures['peak_bytes'] / 1e6:,.0f} MB"
    return BenchMeasure(f"HEFT {n:,} x {p}", result, goal, figures=figures)


def growth(most: int, p: int = 8) -> BenchMeasure:
    """Measure seconds against the number of tasks, and fit the exponent."""
    sizes = [n for n in (100, 1000, 10_000, 100_000, 1_000_000) if n <= most]
    spent = []
    for n in sizes:
        problem = Problem.from_arrays(**layered(n, p))
        problem.arrays  # noqa: B018  # computed once per problem
        spent.append(_median_call(partial(plan, problem, "heft"), 11 if n < 100_000 else 3))
    # Below 1,000 tasks the fixed cost of a call flattens the curve.
    grown = [i for i, n in enumerate(sizes) if n >= 1000]
    exponent = float(
        np.polyfit(np.log([sizes[i] for i in grown]), np.log([spent[i] for i in grown]), 1)[0]
    )
    shown = ", ".join(f"{_count(n)} {_ms(s)}" for n, s in zip(sizes, spent, strict=True))
    return BenchMeasure(
        f"HEFT growth with n, {p} devices",
        f"n^{exponent:.2f}: {shown}",
        "near-linear",
        figures={"tasks": sizes, "seconds": spent, "exponent": exponent},
    )


def rules(jobs: int = 2000, tasks: int = 100, p: int = 16) -> BenchMeasure:
    """Measure decisions per second of rules in the kernel and in `simulate`."""
    from weft.policies import POLICIES, RulePolicy, simulate
    from weft.sim.kernel.rules import run_to_end
    from weft.sim.kernel.tables import make_sim

    problem = Problem.from_arrays(**layered(tasks, p))
    busy = float(problem.work.sum() * problem.mean_per_work[0]) / p
    workload = Workload.of(problem, arrival=np.arange(jobs) * busy * 1.25)
    kernel, whole = {}, {}
    for name in ("fifo", "rank-first", "eft"):
        policy = POLICIES.create(name)
        assert isinstance(policy, RulePolicy)
        simulate(problem, policy)
        sim = make_sim(workload, Scenario.of(workload), policy.rule(workload), eager=True)
        kernel[name] = workload.instances / _cpu_seconds(partial(run_to_end, sim))
        whole[name] = workload.instances / _cpu_seconds(partial(simulate, workload, policy))
    shown = ", ".join(
        f"{name} {kernel[name] / 1e6:.2f} M/s (whole simulation {whole[name] / 1e6:.2f})"
        for name in kernel
    )
    what = f"rules in the kernel, {jobs * tasks:,} decisions, {p} devices"
    return BenchMeasure(
        what, shown, "1 M/s", figures={"decisions_per_second": kernel, "whole_simulation": whole}
    )


def _cpu_seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def import_time() -> BenchMeasure:
    """Measure `import weft` without and with numpy, beyond an empty Python."""
    empty, bare, model = (
        _best_run(["-c", code]) for code in ("pass", "import weft", "import weft; weft.Problem")
    )
    figures: dict[str, object] = {
        "seconds": bare - empty,
        "with_numpy_seconds": model - empty,
        "python_seconds": empty,
    }
    return BenchMeasure(
        "import weft",
        f"{_ms(bare - empty)}, with numpy {_ms(model - empty)}",
        "0.2 s",
        figures=figures,
    )


def help_time() -> BenchMeasure:
    """Measure `weft --help`, the start of Python included."""
    spent = _best_run(["-m", "weft", "--help"])
    return BenchMeasure("weft --help", _ms(spent), "0.5 s", figures={"seconds": spent})


def first_plan() -> BenchMeasure:
    """Measure the first plan, which compiles, and later ones, which read the cache."""
    problem = "weft.Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=1.0)"
    code = f"import weft; weft.plan({problem}, 'heft')"
    with tempfile.TemporaryDirectory() as empty:
        cold = _timed_run(["-c", code], NUMBA_CACHE_DIR=empty)
        warm = min(_timed_run(["-c", code], NUMBA_CACHE_DIR=empty) for _ in range(3))
    figures: dict[str, object] = {"first_seconds": cold, "later_seconds": warm}
    return BenchMeasure(
        "first plan, kernels not compiled yet",
        f"{cold:.1f} s, later {warm:.2f} s",
        "20 s, later 1.5 s",
        figures=figures,
    )


def _median_call(call: Callable[[], object], times: int) -> float:
    call()  # compile, or read from the cache
    spent = []
    for _ in range(times):
        begin = time.process_time()
        call()
        spent.append(time.process_time() - begin)
    return statistics.median(spent)


def _child(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(  # noqa: S603  # the command is fixed
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )


def _timed_run(arguments: list[str], **environment: str) -> float:
    before = os.times()
    _child(arguments, **environment)
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def _best_run(arguments: list[str], times: int = 5) -> float:
    return min(_timed_run(arguments) for _ in range(times))


def _ms(value: float) -> str:
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def _count(n: int) -> str:
    return f"{n // 1_000_000}M" if n >= 1_000_000 else f"{n // 1000}k" if n >= 1000 else str(n)
