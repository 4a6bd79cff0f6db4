"""Shared links: known answers, and a kernel that equals its twin to the last bit."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.machines import simgrid_compare
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.by_view import assert_same_by_view
from tests.support.report_examples import layered
from tests.support.strategies import futures
from tests.support.twins import RandomPolicy, any_plan, both
from weft.model import Scenario, Schedule, Topology, Workload
from weft.model.check import check
from weft.planners.contention import independent
from weft.planners.planner import plan
from weft.policies.load import load_policy
from weft.sim.rule import PLACEMENTS, Rule


def without_copies(schedule: Schedule) -> Schedule:
    kept = {key: column[~schedule.copy] for key, column in schedule.to_arrays().items()}
    return Schedule.of(**kept)


def agree(workload, decider, scenario):
    trace = both(workload, decider, scenario)
    if trace is not None:
        assert trace.transfers is not None
        assert check(workload, trace) == []


@settings(max_examples=300, deadline=None)
@given(st.data(), futures(network=True, max_devices=4))
def test_replay_agrees(data, future):
    workload, scenario = future
    seeds = st.integers(0, 2**32 - 1)
    plans = [without_copies(any_plan(p, data.draw(seeds))) for p in workload.problems]
    agree(workload, plans, scenario)


@settings(max_examples=200, deadline=None)
@given(futures(network=True, max_devices=4))
def test_policies_agree(future):
    agree(future[0], RandomPolicy(), future[1])


@settings(max_examples=200, deadline=None)
@given(futures(network=True, max_devices=4), st.sampled_from(PLACEMENTS))
def test_rules_agree(future, placement):
    workload, scenario = future
    agree(workload, Rule("rule", placement, np.zeros(workload.instances)), scenario)


@pytest.mark.parametrize("sharing", ["fair", "one-port"])
@pytest.mark.parametrize("name", ["rank-eft", "heft", "heft-replanned", "srpt-affinity"])
def test_policies_that_plan_again_agree(name, sharing):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        problem = layered(20, 4, seed=seed)
        names = ("n0", "n1", "n2", "n0")
        network = Topology.racks({"l": ["n0", "n1"], "r": ["n2"]}, up=2e6, sharing=sharing)
        cluster = replace(problem.cluster, nodes=names, network=network)
        workload = Workload.of(
            replace(problem, cluster=cluster),
            arrival=np.sort(rng.uniform(0, 20, 4)),
            template=np.zeros(4, np.int64),
        )
        down = [(float(t), int(rng.integers(4)), np.inf) for t in rng.uniform(0, 30, 3)]
        scenario = Scenario.of(
            workload,
            changes=sorted(down + [(t + 2.0, d, 1.0) for t, d, _ in down]),
            factor=np.exp(0.3 * rng.standard_normal(workload.instances)),
        )
        assert_same_by_view(workload, load_policy(name), scenario)


def test_makespans_are_those_of_simgrid():
    """One case of the benchmark; all of them are in docs/results/network.md."""
    pytest.importorskip("simgrid", reason="SimGrid is not installed (PyPI: simgrid)")
    problem = simgrid_compare.problem_of(simgrid_compare.Case("two switches", 4, 1.0, 0))
    schedule = plan(independent(problem), "heft").schedule
    ours = simgrid_compare.by_weft(problem, schedule)
    theirs = simgrid_compare.by_simgrid(sys.executable, problem, schedule)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
