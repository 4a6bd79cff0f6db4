"""Every policy: valid, deterministic, the same in kernel, reference and Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.by_view import Hidden
from tests.support.instances import DISTURBED, batching_workload, topcuoglu
from tests.support.strategies import futures, problems
from tests.support.twins import assert_same
from weft.errors import InvalidInput, Stuck, UnknownName, Unsupported
from weft.formats.model_file import bundled_models, find_model, read_model
from weft.model import Problem, Scenario, WorkflowBuilder, Workload
from weft.model.check import check
from weft.model.cluster import Cluster
from weft.planners import plan
from weft.policies import POLICIES, RulePolicy, simulate
from weft.policies.load import list_policies, load_policy
from weft.policies.policy import _BUILDERS
from weft.runtime.deciders.contender import load_contender
from weft.sim import simulate as simulator
from weft.sim.reference import simulate_reference
from weft.sim.view import Decision

RULES = [name for name in POLICIES.names() if isinstance(POLICIES.create(name), RulePolicy)]


SMALL = {
    "empty": Problem.from_arrays(np.zeros((0, 2))),
    "single": Problem.from_arrays([[2.0, 1.0]]),
    "disconnected": Problem.from_arrays(np.ones((6, 3))),
    "zero work": Problem.from_arrays(np.zeros((3, 2)), [[0, 1], [1, 2]], [0.0, 0.0], bandwidth=1.0),
    "backwards": Problem.from_arrays(np.zeros((3, 2)), [[2, 1], [1, 0]], [0.0, 0.0], bandwidth=1.0),
    "one device": Problem.from_arrays([[1.0], [2.0], [3.0]], [[0, 2]], [5.0], bandwidth=1.0),
    "memory": Problem.from_arrays(
        np.ones((4, 2)), [[0, 1]], [1.0], memory=[1, 5, 1, 5], device_memory=[2, 8], bandwidth=1.0
    ),
    "topcuoglu": topcuoglu(),
}


@pytest.mark.parametrize("name", list_policies())
@pytest.mark.parametrize("case", SMALL)
def test_contract(name, case):
    workload = Workload.of(SMALL[case], arrival=[0.0, 3.0, 3.0])
    if not name.supports(workload):
        with pytest.raises(Unsupported):
            simulate(workload, name)
        return
    for options in (
        {},
        {"noise": 0.3, "bias": 0.3, "slowdowns": 1.0, "failures": 1.0, "cancellations": 0.4},
    ):
        first, again = (simulate(workload, name, seed=5, **options) for _ in range(2))
        assert check(workload, first) == []
        assert_same(first, again)
        assert first.policy == name
        assert (np.isfinite(first.job_finish) | np.isfinite(first.scenario.cancel)).all()


@pytest.mark.parametrize("name", list_policies())
def test_devices_that_batch(name):
    for seed in range(4):
        workload = batching_workload(seed)
        if name.supports(workload):
            for options in ({}, DISTURBED):
                assert check(workload, simulate(workload, name, seed=seed, **options)) == []


@pytest.mark.parametrize("name", ["heft", "heft-replanned", "replan-switch", "dqn"])
def test_devices_that_batch_by_view(name):
    for seed in range(4):
        workload = batching_workload(seed)
        trace = simulate(workload, Hidden(load_policy(name)), seed=seed, **DISTURBED)
        assert check(workload, trace) == []


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=25, deadline=None)
@given(
    future=futures(batches=False)
)  # a rule fills its batches by key, a policy in Python by number
def test_a_rule_decides_the_same_in_kernel_and_python(name, future):
    workload, scenario = future
    policy = POLICIES.create(name)
    try:
        slow = simulate_reference(workload, policy, scenario=scenario)
    except Stuck:
        return
    assert_same(simulator.simulate(workload, policy.rule(workload), scenario=scenario), slow)
    assert_same(simulator.simulate(workload, policy, scenario=scenario), slow)


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(["heft", "heft-replanned"]))
def test_heft_online_equals_the_planner_when_nothing_goes_wrong(problem, name):
    expected = plan(problem, "heft").schedule
    trace = simulate(problem, "heft")
    if (
        problem.work > 0
    ).all():  # tasks of no length fit anywhere, and ties may be broken otherwise
        np.testing.assert_array_equal(trace.device[np.lexsort((trace.task,))], expected.device)
        assert trace.makespan == pytest.approx(expected.makespan, rel=1e-12)
    assert check(Workload.of(problem), simulate(problem, name)) == []


def test_known_answers():
    # HEFT of Topcuoglu's graph is 80, planned, replayed and decided online.
    assert simulate(topcuoglu(), "heft").makespan == 80
    assert simulate(topcuoglu(), plan(topcuoglu(), "heft").schedule).makespan == 80
    assert simulate(topcuoglu(), "heft-replanned").makespan <= 80
    # Two jobs of 2 s and 1 s on one device: fifo 2, 3 (mean 2.5); shortest first 1, 3 (mean 2).
    two = Workload.of([Problem.from_arrays([[2.0]]), Problem.from_arrays([[1.0]])])
    assert float(simulate(two, "fifo").jct) == 2.5
    assert float(simulate(two, "shortest").jct) == 2.0


def test_replanning_leaves_a_failed_device():
    # Two devices, four tasks of 10 s; device 0 fails at 1 s and recovers at 100 s. The static plan
    # waits; a new plan uses device 1.
    problem = Problem.from_arrays(np.full((4, 2), 10.0))
    scenario = Scenario.of(Workload.of(problem), changes=[(1.0, 0, np.inf), (100.0, 0, 1.0)])
    assert simulate(problem, "heft", scenario=scenario).makespan == 120  # 100 + 2 x 10
    assert (
        simulate(problem, "heft-replanned", scenario=scenario).makespan == 40
    )  # all four on device 1


def test_conditional_workflows_are_refused_by_those_that_plan():
    b = WorkflowBuilder()
    b.task("a", work=1.0)
    b.task("b", work=1.0)
    b.choice("a", {"yes": 0.5, "no": 0.5})
    b.edge("a", "b", when="yes")
    problem = Problem.bind(b.build(), Cluster(speed=[1.0]))
    for name in list_policies():
        if name.family in {"replanning", "graph", "two-stage"}:
            with pytest.raises(Unsupported, match="choices"):
                simulate(problem, name)
        elif name.supports(problem):
            assert check(Workload.of(problem), simulate(problem, name, seed=1)) == []


def test_the_table_describes_every_policy():
    entries = list_policies()
    assert all(entry.summary and entry.family for entry in entries)
    assert len({entry.summary for entry in entries}) == len(entries)
    models = {name for name in bundled_models() if read_model(find_model(name)).kind in _BUILDERS}
    assert models <= set(entries)


def test_a_former_name_is_explained():
    with pytest.raises(UnknownName, match="'rule' is now called 'tuned-list'"):
        load_policy("rule")


class Stubborn:
    def __init__(self, decision):
        self.name, self.decision = "stubborn", decision

    def begin(self, workload, *, seed=0):
        pass

    def decide(self, view):
        return self.decision


def test_bad_decisions_name_policy_task_and_device():
    problem = Problem.from_arrays([[1.0, np.inf], [1.0, 1.0]], [[0, 1]], [0.0], bandwidth=1.0)
    for decision, words in (
        (Decision(0, 1), "'stubborn' sent task 't0' of job 0 to device 'd1', which cannot run it"),
        (Decision(1, 0), "task 't1' of job 0 to device 'd0', but the task is not ready"),
        (Decision(7, 0), "chose instance 7, but there are 2"),
        (Decision(0, 9), "chose device 9, but there are 2"),
    ):
        with pytest.raises(InvalidInput, match=words):
            simulate(problem, Stubborn(decision))
    with pytest.raises(Stuck, match="'stubborn' waits"):
        simulate(problem, Stubborn(None))
    with pytest.raises(UnknownName, match="did you mean 'fifo'"):
        simulate(problem, "fifi")
    with pytest.raises(InvalidInput, match="either a scenario"):
        simulate(problem, "fifo", scenario=Scenario.of(Workload.of(problem)), noise=0.1)


def test_a_class_is_no_policy():
    class Idle:
        name = "idle"

        def begin(self, workload, *, seed=0):
            """Nothing to prepare."""

        def decide(self, view):
            return None

    for load in (load_policy, load_contender):
        with pytest.raises(InvalidInput, match=r"class.*give an object of it"):
            load(Idle)
        assert load(idle := Idle()) is idle
