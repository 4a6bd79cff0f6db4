"""Shared links: known answers, and a kernel that equals its twin to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.test_twin import RandomPolicy, _any_plan, both
from tests.support.strategies import futures
from weft.model import Schedule
from weft.model.check import check
from weft.sim.rule import PLACEMENTS, Rule


def without_copies(schedule: Schedule) -> Schedule:
    kept = {key: column[~schedule.copy] for key, column in schedule.to_arrays().items()}
    return Schedule.of(**kept)


def agree(workload, decider, scenario):
    trace = both(workload, decider, scenario)
    if trace is not None:
        assert trace.transfers is not None
        assert check(workload, trace) == []


@settings(max_examples=700, deadline=None)
@given(st.data(), futures(network=True, max_devices=4))
def test_replay_agrees(data, future):
    workload, scenario = future
    seeds = st.integers(0, 2**32 - 1)
    plans = [without_copies(_any_plan(p, data.draw(seeds))) for p in workload.problems]
    agree(workload, plans, scenario)


@settings(max_examples=400, deadline=None)
@given(futures(network=True, max_devices=4))
def test_policies_agree(future):
    agree(future[0], RandomPolicy(), future[1])


@settings(max_examples=400, deadline=None)
@given(futures(network=True, max_devices=4), st.sampled_from(PLACEMENTS))
def test_rules_agree(future, placement):
    workload, scenario = future
    agree(workload, Rule("rule", placement, np.zeros(workload.instances)), scenario)
