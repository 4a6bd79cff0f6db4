"""Drawn workloads whose devices batch, with several jobs: where policies index out of bounds."""

from __future__ import annotations

import numpy as np

from weft.model import Cluster, Problem, Workflow, Workload

DISTURBED = {"noise": 0.4, "bias": 0.3, "slowdowns": 1.0, "failures": 1.0, "cancellations": 0.2}
"""Options of `simulate` for a scenario in which everything happens."""


def batching_workload(seed: int) -> Workload:
    """Draw one to seven jobs of up to three problems on up to four devices, most of which batch."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(1, 5))
    cluster = Cluster(
        speed=rng.uniform(0.5, 2.0, p),
        bandwidth=rng.uniform(1.0, 10.0),
        latency=rng.uniform(0.0, 0.3),
        batch=rng.integers(1, 5, p),
    )
    problems = [Problem.bind(_workflow(rng), cluster) for _ in range(int(rng.integers(1, 4)))]
    jobs = int(rng.integers(1, 8))
    arrival = np.sort(rng.uniform(0.0, 12.0, jobs))
    return Workload.of(problems, arrival=arrival, template=rng.integers(0, len(problems), jobs))


def _workflow(rng: np.random.Generator) -> Workflow:
    n, kinds = int(rng.integers(1, 14)), int(rng.integers(1, 4))
    pairs = [(u, v) for v in range(n) for u in range(v) if rng.random() < 0.25]
    return Workflow(
        work=rng.lognormal(0.0, 0.7, n),
        src=[u for u, _ in pairs],
        dst=[v for _, v in pairs],
        data=rng.uniform(0.0, 5.0, len(pairs)),
        kind=rng.integers(0, kinds, n),
        kinds=tuple(f"k{i}" for i in range(kinds)),
    )
