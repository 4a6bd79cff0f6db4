"""A run on the fake backend is a simulation: the same events, to the last bit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import futures
from tests.support.twins import CopyingPolicy, RandomPolicy, any_plan, assert_same
from weft.errors import Stuck
from weft.policies import POLICIES
from weft.runtime.backends.fake import FakeBackend
from weft.runtime.deciders.plan import ReplayDecider
from weft.runtime.deciders.policy import PolicyDecider, adaptive, batch_keys
from weft.runtime.deciders.rules import RuleDecider
from weft.runtime.engine.driver import Driver
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.sim.reference import simulate_reference


def run_fake(workload, scenario, decider, *, eager=True, keys=None):
    life = LiveLifecycle(
        workload, modelled=True, eager=eager, planned=isinstance(decider, ReplayDecider), keys=keys
    )
    backend = FakeBackend(workload.cluster, scenario)
    backend.begin(workload, None)
    driver = Driver(life, backend, decider, cancels=scenario.cancel.tolist())
    driver.run()
    return driver.trace()


def assert_equal_events(workload, scenario, make_decider, simulated_by, *, eager=True, keys=None):
    try:
        simulated = simulate_reference(workload, simulated_by, scenario=scenario, eager=eager)
    except Stuck:
        with pytest.raises(Stuck):
            run_fake(workload, scenario, make_decider(), eager=eager, keys=keys)
        return
    assert_same(run_fake(workload, scenario, make_decider(), eager=eager, keys=keys), simulated)


@pytest.mark.parametrize("policy", [RandomPolicy, CopyingPolicy])
@settings(max_examples=150)
@given(futures(), st.booleans())
def test_a_policy_runs_as_it_is_simulated(policy, future, eager):
    workload, scenario = future
    assert_equal_events(workload, scenario, lambda: PolicyDecider(policy()), policy(), eager=eager)


RULES = st.sampled_from(["fifo", "shortest", "rank-first", "eft", "rank-eft", "depth-first", "mru"])


@pytest.mark.parametrize("decider", [PolicyDecider, adaptive])
@settings(max_examples=150)
@given(futures(), RULES, st.booleans())
def test_a_rule_runs_as_it_is_simulated_by_views_and_on_heaps(decider, future, name, eager):
    workload, scenario = future
    rule = POLICIES.create(name)
    assert type(adaptive(rule)) is RuleDecider
    keys = batch_keys(rule, workload)
    assert_equal_events(
        workload, scenario, lambda: decider(rule), rule.rule(workload), eager=eager, keys=keys
    )


@settings(max_examples=150)
@given(st.data(), futures(), st.booleans())
def test_a_schedule_runs_as_it_is_simulated(data, future, eager):
    workload, scenario = future
    schedules = [
        any_plan(problem, data.draw(st.integers(0, 2**32 - 1))) for problem in workload.problems
    ]
    assert_equal_events(
        workload, scenario, lambda: ReplayDecider(schedules), schedules, eager=eager
    )
