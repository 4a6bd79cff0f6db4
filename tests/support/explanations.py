"""Explanations against their slow twin: ``python -m tests.support.explanations 200``.

Every planner on so many drawn problems of each feature (none, capacities of nodes, set-up of kinds,
links that transfers share, variants of tasks), and every rule, with failures and branches, on as
many drawn workloads. The parts of the critical chain sum to the makespan to 1e-9. Names after the
number limit it to these planners and policies.
"""

from __future__ import annotations

import sys
import time
from functools import partial

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from tests.model.explain.test_explain import (
    FEATURES,
    POLICIES,
    assert_explained,
    assert_trace_explained,
    drawn_problems,
)
from tests.support.strategies import futures


def explained(cases: int, strategy: st.SearchStrategy, explain: object) -> int:
    """Explain drawn cases; return how many there were."""
    seen = [0]

    @settings(
        max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def once(case: object) -> None:
        seen[0] += bool(explain(case))

    once()
    return seen[0]


def plans(planner: str, cases: int) -> str:
    """Return how many plans of a planner were explained, by feature."""
    explain = partial(assert_explained, planner)
    drawn = {feature: drawn_problems(feature, max_tasks=7) for feature in ("plain", *FEATURES)}
    return ", ".join(f"{name} {explained(cases, of, explain)}" for name, of in drawn.items())


def traces(policy: str, cases: int) -> str:
    """Return how many traces of a policy were explained, by feature."""

    def explain(future: tuple[weft.Workload, weft.Scenario]) -> bool:
        workload, scenario = future
        eager = workload.cluster.network is None
        return assert_trace_explained(workload, policy, scenario, eager)

    drawn = {name: futures(**{name: True}) for name in ("shared", "setups", "network")}
    drawn |= {"plain": futures()}
    return ", ".join(f"{name} {explained(cases, of, explain)}" for name, of in drawn.items())


def main(cases: int, names: list[str]) -> None:
    """Print how many plans and traces were explained; no names: all."""
    for known, explain in ((weft.list_planners(), plans), (POLICIES, traces)):
        for name in known:
            if not names or name in names:
                sys.stdout.write(f"{name}: {explain(name, cases)}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    begin = time.process_time()
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200, sys.argv[2:])
    sys.stdout.write(f"{time.process_time() - begin:.0f} s of processor time\n")
