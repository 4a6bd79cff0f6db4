"""Kernel and twin on drawn cases with every feature on: ``python -m tests.support.twins 3000``.

Capacities, networks, set-ups, batches that take longer when fuller, branches, deadlines, noise,
slowdowns, failures and cancellations, all in one workload; decided by rules, by a policy that
tosses coins, and by plans. Every trace passes the oracle.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.sim.test_twin import RandomPolicy, _any_plan, both
from tests.support.strategies import futures
from weft.model import Scenario, Schedule, Workload
from weft.model.check import check
from weft.sim.rule import PLACEMENTS, Rule

EVERYTHING = {"network": True, "shared": True, "setups": True, "batches": True, "choices": True}


def compare_once(workload: Workload, scenario: Scenario, way: str, seed: int) -> None:
    """Compare both simulators on a case; `way` is a placement of rules, "policy" or "plan"."""
    decider: object = RandomPolicy()
    if way == "plan":
        plans = [_any_plan(p, seed) for p in workload.problems]
        decider = [
            Schedule.of(**{k: x[~plan.copy] for k, x in plan.to_arrays().items()}) for plan in plans
        ]
    elif way != "policy":
        keys = np.random.default_rng(seed).integers(0, 3, workload.instances).astype(float)
        decider = Rule("rule", way, keys)
    trace = both(workload, decider, scenario)
    if trace is not None:
        assert trace.transfers is not None
        assert check(workload, trace) == []


def compare(cases: int) -> int:
    """Compare kernel and twin on many cases; return their number."""
    seen = [0]

    @settings(
        max_examples=cases, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(
        futures(max_devices=4, **EVERYTHING),
        st.sampled_from([*PLACEMENTS, "policy", "policy", "plan", "plan"]),
        st.integers(0, 2**32 - 1),
    )
    def agree(future: tuple[Workload, Scenario], way: str, seed: int) -> None:
        seen[0] += 1
        compare_once(*future, way, seed)

    agree()
    return seen[0]


if __name__ == "__main__":
    wanted, begin = int(sys.argv[1]) if len(sys.argv) > 1 else 1000, time.perf_counter()
    sys.stdout.write(f"{compare(wanted)} cases agree ({time.perf_counter() - begin:.0f} s)\n")
