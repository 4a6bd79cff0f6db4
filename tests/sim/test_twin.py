"""The compiled kernel equals the slow reference, to the last bit, with every feature on."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.report_examples import layered
from tests.support.strategies import futures, workloads
from tests.support.twins import CopyingPolicy, RandomPolicy, any_plan, assert_same, both
from weft.model import Problem, Scenario, Schedule, Workload
from weft.model.check import check
from weft.sim.reference import simulate_reference
from weft.sim.rule import PLACEMENTS, Rule
from weft.sim.simulate import simulate


@settings(max_examples=700, deadline=None)
@given(st.data(), futures(), st.sampled_from(PLACEMENTS), st.booleans())
def test_rules_agree(data, future, placement, eager):
    workload, scenario = future
    keys = np.array(
        data.draw(
            st.lists(
                st.sampled_from([0.0, 1.0, 2.0]),
                min_size=workload.instances,
                max_size=workload.instances,
            )
        ),
        float,
    )
    trace = both(workload, Rule("rule", placement, keys), scenario, eager=eager)
    if trace is not None:
        assert check(workload, trace) == []


@settings(max_examples=700, deadline=None)
@given(futures(), st.booleans())
def test_policies_agree(future, eager):
    workload, scenario = future
    trace = both(workload, RandomPolicy(), scenario, eager=eager)
    if trace is not None:
        assert check(workload, trace) == []


@settings(max_examples=700, deadline=None)
@given(futures(), st.booleans())
def test_copies_agree(future, eager):
    workload, scenario = future
    slow, fast = CopyingPolicy(), CopyingPolicy()
    expected = simulate_reference(workload, slow, scenario=scenario, eager=eager)
    trace = simulate(workload, fast, scenario=scenario, eager=eager)
    assert_same(trace, expected)
    assert fast.shown == slow.shown
    assert check(workload, trace) == []


@settings(max_examples=700, deadline=None)
@given(st.data(), futures(), st.booleans())
def test_replay_agrees(data, future, eager):
    workload, scenario = future
    schedules = [
        any_plan(problem, data.draw(st.integers(0, 2**32 - 1))) for problem in workload.problems
    ]
    trace = both(workload, schedules, scenario, eager=eager)
    if trace is not None:
        assert check(workload, trace) == []


def test_a_task_that_only_its_copy_finished_is_done():
    # The original would take 9 s on device 0; its copy takes 1 s on device 1, and the job is over.
    workload = Workload.of(Problem.from_arrays([[9.0, 1.0]]))
    schedule = Schedule.of(
        task=[0, 0], device=[0, 1], start=[0, 0], finish=[9, 1], copy=[False, True]
    )
    trace = both(workload, [schedule], Scenario.of(workload), eager=True)
    assert (trace.device.tolist(), trace.finish.tolist(), trace.copy.tolist()) == (
        [1],
        [1.0],
        [False],
    )
    assert check(workload, trace) == []


@settings(max_examples=50, deadline=None)
@given(workloads())
def test_same_seed_same_bytes(workload):
    rule = Rule("fifo", "earliest", np.zeros(workload.instances))
    runs = [
        simulate(workload, rule, scenario=Scenario.draw(workload, seed=3, noise=0.3))
        for _ in range(2)
    ]
    assert_same(*runs)


def test_expected_ends_agree_where_groups_wait_for_room():
    """A group that waits for room starts later than expected; what policies see must tell."""
    for seed in range(3):
        rng, problem = np.random.default_rng(seed), layered(20, 4, seed=seed)
        workflow = replace(problem.workflow, cores=rng.integers(1, 4, problem.n))
        cluster = replace(problem.cluster, nodes=("n",) * 4, capacity={"cores": {"n": 4.0}})
        workload = Workload.of(
            Problem.bind(workflow, cluster),
            arrival=np.sort(rng.uniform(0, 20, 4)),
            template=np.zeros(4, np.int64),
        )
        factor = np.exp(0.3 * rng.standard_normal(workload.instances))
        rule = Rule("rule", "eft", rng.random(workload.instances))
        assert both(workload, rule, Scenario.of(workload, factor=factor)) is not None
