"""How often the end of a run lies within its forecast: ``python benchmarks/forecast_coverage.py``.

Simulated applications of 30 tasks, each with its own graph, errors of estimates, effects of runs,
and noise: normal or with heavy tails. None of these is known to the forecasts but by 25 runs of the
past; later runs are held back. With --out the shares are written as a file of docs/results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import weft
from weft.learn.durations.end_time import RunState, forecast_end
from weft.learn.durations.spread import Spread
from weft.model import Scenario, Workload
from weft.sim.simulate import simulate

PAST = 25
"""Runs of an application that the forecasts know."""

TASKS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--applications", type=int, default=144)
    parser.add_argument("--runs", type=int, default=22, help="held-back runs of each application")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file for the results")
    args = parser.parse_args()
    shares = coverage(args.applications, args.runs, seed=args.seed)
    print(json.dumps(shares.tolist()))
    if args.out is not None:
        text = json.dumps(as_results(shares, args.applications, args.runs, args.seed), indent=1)
        args.out.write_text(text + "\n", encoding="utf-8")


def coverage(applications: int, runs: int, *, seed: int) -> NDArray[np.float64]:
    """Return the shares of ends within 50 and 90 %, before a run and at six tenths of it."""
    rng = np.random.default_rng(seed)
    held = [row for _ in range(applications) for row in application(rng, runs)]
    return np.mean(held, axis=0)


def application(rng: np.random.Generator, runs: int) -> list[list[bool]]:
    """Draw an application and its runs; tell which held-back ends lie within which band."""
    problem = drawn_problem(rng)
    plan, tasks = weft.plan(problem), problem.workflow
    noise, run, heavy = rng.uniform(0.03, 0.6), rng.uniform(0, 0.3), rng.random() < 0.4
    bias = rng.normal(0, 0.3, 3)[tasks.kind]
    shape = (PAST + runs, TASKS)
    drawn = rng.standard_t(4, shape) / 1.4 if heavy else rng.standard_normal(shape)
    logs = bias + run * rng.standard_normal((len(drawn), 1)) + noise * drawn
    traces = [followed(problem, plan, np.exp(row)) for row in logs]
    scores = [
        weft.forecast(plan, past=traces[:i], samples=100).score(traces[i].makespan)
        for i in range(5, PAST)
    ]
    spread, held = Spread.of_traces(traces[:PAST]), []
    for trace in traces[PAST:]:
        end = trace.makespan
        states = (RunState.before(plan), RunState.during(plan, trace, 0.6 * end))
        found = [forecast_end(problem, s, spread, scores=scores, samples=100) for s in states]
        held.append([low <= end <= high for f in found for low, high in (f.half, f.most)])
    return held


def drawn_problem(rng: np.random.Generator) -> weft.Problem:
    edges = np.argwhere(np.triu(rng.random((TASKS, TASKS)) < 0.1, 1))
    tasks = weft.Workflow(
        work=rng.uniform(1, 10, TASKS),
        kinds=("a", "b", "c"),
        kind=rng.integers(0, 3, TASKS),
        src=edges[:, 0],
        dst=edges[:, 1],
        data=rng.uniform(0, 2, len(edges)),
    )
    return weft.Problem.bind(tasks, weft.Cluster(speed=[1.0, 2.0, 1.0], bandwidth=1.0))


def followed(problem: weft.Problem, plan: weft.Plan, factor: NDArray[np.float64]) -> weft.Trace:
    """Simulate a plan; each task takes `factor` times as long as planned."""
    workload = Workload.of(problem)
    return simulate(workload, plan.schedule, scenario=Scenario.of(workload, factor=factor))


def as_results(
    shares: NDArray[np.float64], applications: int, runs: int, seed: int
) -> dict[str, Any]:
    """Return the shares as a file of docs/results."""
    half, most, later_half, later_most = (f"{100 * share:.1f} %" for share in shares)
    return {
        "measured_with": "python benchmarks/forecast_coverage.py",
        "provenance": f"written by the command; {applications * runs:,} held-back runs of "
        f"{applications} simulated applications, seed {seed}",
        "tables": {
            "coverage": {
                "columns": ["forecast", "within the band of 50 %", "within the band of 90 %"],
                "align": "lrr",
                "rows": [
                    ["before the run", half, most],
                    ["at six tenths of the run", later_half, later_most],
                ],
            }
        },
    }


if __name__ == "__main__":
    main()
