"""Explanations against their slow twin: ``python -m tests.support.explanations 200``.

Every planner on so many drawn problems of each feature (none, capacities of nodes, set-up of kinds,
links that transfers share, variants of tasks), and every rule, with failures and branches, on as
many drawn workloads. The parts of the critical chain sum to the makespan to 1e-9. Names after the
number limit it to these planners and policies.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from tests.support.slow_twins.explain import SlowExplanation, slow_alternatives
from tests.support.strategies import futures, problems
from weft import Variant
from weft.errors import Unsupported
from weft.model import Problem
from weft.model.explain import KINDS, PARTS

POLICIES = ("fifo", "eft", "rank-first", "batch-aware", "heft-replanned", "fifo-deft-online")
FEATURES = ("shared", "setups", "network", "variants")
"""Capacities of nodes, set-up of kinds, links that transfers share, ways to run a task."""

WAYS = {"a": (Variant("whole"), Variant("half", factor=1.8, accuracy=0.9))}
"""Variants of the tasks of a kind."""


def drawn_problems(feature="plain", **limits):
    """Draw problems with a feature; "plain": with none."""
    if feature != "variants":
        return problems(**limits, **({feature: True} if feature in FEATURES else {}))
    return problems(**limits).map(
        lambda p: Problem.bind(replace(p.workflow, variants=_known(p.workflow)), p.cluster)
    )


def _known(workflow):
    return {kind: ways for kind, ways in WAYS.items() if kind in workflow.kinds}


def assert_sound(found):
    """Assert that segments partition the makespan, and devices are idle or busy.

    Causes come in time, and every sentence ends.
    """
    pieces, t = found.segments, found.table
    if not len(t):
        assert pieces == ()
        return
    assert pieces[0].start == t.origin or found.makespan == 0
    assert pieces[-1].finish == t.end
    for a, b in pairwise(pieces):
        assert a.finish == pytest.approx(b.start, rel=1e-9, abs=1e-12)
        assert a.seconds >= 0
    assert list(found.parts) == list(PARTS)
    assert sum(found.parts.values()) == pytest.approx(found.makespan, rel=1e-9)
    assert (found.causes.time <= t.groups.start).all()
    idle = sum(gap.finish - gap.start for gap in found.idle)
    busy = float((t.groups.end - t.groups.start).sum())
    whole = t.workload.cluster.p * found.makespan
    assert idle + busy == pytest.approx(whole, rel=1e-9, abs=1e-9)
    for row in range(len(t)):
        assert found.task_sentence(row).endswith(".")
    assert found.sentence.endswith(".")


def assert_as_slow(found, slow):
    """Assert that causes, parts and alternatives are those of the slow twin."""
    for run in slow.runs:
        event, g = slow.binding(run), found.table.group[run.number]
        assert found.causes.time[g] == event.time
        assert KINDS[found.causes.kind[g]] == event.kind
        assert found.causes.source[g] == (event.source.number if event.source else -1)
        assert found.alternatives(run.number) == slow_alternatives(found, run.number)
    if slow.runs:
        parts = slow.parts()
        waiting = sum(s for part, s in found.parts.items() if part.startswith("waiting"))
        for part in ("computing", "moving data", "lost work"):
            assert found.parts[part] == pytest.approx(parts[part], rel=1e-9, abs=1e-8)
        assert waiting == pytest.approx(parts["waiting"], rel=1e-9, abs=1e-8)


def assert_explained(planner, problem):
    """Assert that plan and slow twin agree; return whether there was a plan."""
    limit = {"seconds": 0.02} if planner in {"anytime", "exact", "genetic"} else {}
    try:
        plan = weft.plan(problem, planner, **limit)
    except Unsupported:
        return False
    assert weft.check(problem, plan) == []
    found = weft.explain(plan)
    assert found.makespan == plan.makespan
    assert_sound(found)
    assert_as_slow(found, SlowExplanation(plan.schedule, plan.problem))
    assert found.slack is not None
    assert ((found.slack >= 0) & (found.slack <= plan.makespan)).all()
    return True


def assert_trace_explained(workload, policy, scenario, eager):
    """Assert that trace and slow twin agree; return whether there was a trace."""
    try:
        trace = weft.simulate(workload, policy, scenario=scenario, eager=eager)
    except Unsupported:
        return False
    assert weft.check(workload, trace) == []
    found = weft.explain(trace)
    assert found.name == trace.policy
    assert found.makespan == trace.makespan
    assert_sound(found)
    assert_as_slow(found, SlowExplanation(trace))
    return True


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
