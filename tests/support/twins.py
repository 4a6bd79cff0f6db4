"""Kernel and twin on drawn cases with every feature on: ``python -m tests.support.twins 3000``.

Capacities, networks, set-ups, batches that take longer when fuller, branches, deadlines, noise,
slowdowns, failures and cancellations, all in one workload; decided by rules, by a policy that
tosses coins, and by plans. Every trace passes the oracle.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.strategies import futures
from weft.errors import Stuck
from weft.model import Problem, Scenario, Schedule, Trace, Workload
from weft.model.check import check
from weft.sim.reference import simulate_reference
from weft.sim.rule import PLACEMENTS, Rule
from weft.sim.simulate import simulate
from weft.sim.view import Decision

EVERYTHING = {"network": True, "shared": True, "setups": True, "batches": True, "choices": True}


def assert_same(fast: Trace, slow: Trace) -> None:
    """Assert that two traces are equal to the last bit."""
    for column in Trace.columns():
        np.testing.assert_array_equal(getattr(fast, column), getattr(slow, column), err_msg=column)
    np.testing.assert_array_equal(fast.job_finish, slow.job_finish)
    assert (fast.eager, fast.transfers is None) == (slow.eager, slow.transfers is None)
    if fast.transfers is not None and slow.transfers is not None:
        moved = slow.transfers.to_arrays()
        for key, column in fast.transfers.to_arrays().items():
            np.testing.assert_array_equal(column, moved[key], err_msg=key)


def both(workload, decider, scenario, *, eager=True):
    """Simulate by kernel and twin, which agree; return the trace, or None if both are stuck."""
    try:
        slow = simulate_reference(workload, decider, scenario=scenario, eager=eager)
    except Stuck:
        with pytest.raises(Stuck):
            simulate(workload, decider, scenario=scenario, eager=eager)
        return None
    fast = simulate(workload, decider, scenario=scenario, eager=eager)
    assert_same(fast, slow)
    return fast


def runnable_pairs(view):
    """Return the ready instances with each device that can run them."""
    return [
        (i, d)
        for i in view.ready.tolist()
        for d in range(len(view.slowdown))
        if np.isfinite(view.duration(i, d))
    ]


class RandomPolicy:
    """A policy that tosses a coin and sometimes waits: it reaches states that no rule reaches."""

    name = "coin"

    def begin(self, workload, *, seed=0):
        self.rng = np.random.default_rng(seed)

    def decide(self, view):
        pairs = runnable_pairs(view)
        if not pairs:
            return None
        busy = bool((view.running >= 0).any())
        if busy and self.rng.random() < 0.3:
            return None
        instance, device = pairs[self.rng.integers(len(pairs))]
        self.seen = (view.free_at.copy(), view.idle.copy(), view.ready.copy())
        return Decision(instance, device)


class CopyingPolicy:
    """A policy by coin or earliest finish that copies parents if possible and logs the views."""

    name, copies = "copying coin", True

    def begin(self, workload, *, seed=0):
        self.rng, self.shown = np.random.default_rng(seed), []

    def decide(self, view):
        pairs = runnable_pairs(view)
        if not pairs or ((view.running >= 0).any() and self.rng.random() < 0.2):
            return None
        finish = [view.finish(i, d) for i, d in pairs]
        self.shown.append(
            (view.now, view.free_at.tolist(), view.idle.tolist(), view.running.tolist(), finish)
        )
        at = (
            int(np.argmin(finish))
            if self.rng.random() < 0.5
            else int(self.rng.integers(len(pairs)))
        )
        instance, device = pairs[at]
        parents = [
            p for p in parents_of(view.workload, instance) if np.isfinite(view.finished_at[p])
        ]
        able = [p for p in parents if np.isfinite(view.duration(p, device))]
        if not able or self.rng.random() < 0.3:
            return Decision(instance, device)
        return Decision(instance, device, copy=able[self.rng.integers(len(able))])


def parents_of(workload, instance):
    """Return the instances of the parents of an instance."""
    job, task = workload.task_of(instance)
    w = workload.problem_of(job).workflow
    return (
        workload.first_instance[job] + w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]]
    ).tolist()


def any_plan(problem: Problem, seed: int) -> Schedule:
    """Draw devices in topological order, with copies: valid orders, arbitrary times."""
    rng = np.random.default_rng(seed)
    task, device, copy = [], [], []
    for t in problem.workflow.order.tolist():
        able = [d for d in range(problem.p) if np.isfinite(problem.duration(t, d))]
        rng.shuffle(able)
        for k, d in enumerate(able[: 1 + int(rng.integers(2))]):
            task.append(t)
            device.append(d)
            copy.append(k > 0)
    time = np.arange(len(task), dtype=float)
    return Schedule.of(task=task, device=device, start=time, finish=time + 0.5, copy=copy)


def compare_once(workload: Workload, scenario: Scenario, way: str, seed: int) -> None:
    """Compare both simulators on a case; `way` is a placement of rules, "policy" or "plan"."""
    decider: object = RandomPolicy()
    if way == "plan":
        plans = [any_plan(p, seed) for p in workload.problems]
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
