"""`weft.explain`: known answers, parts that sum to the makespan, and a slow twin."""

from __future__ import annotations

import sys
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.explanations import (
    FEATURES,
    POLICIES,
    assert_as_slow,
    assert_explained,
    assert_sound,
    assert_trace_explained,
    drawn_problems,
)
from tests.support.slow_twins.explain import SlowExplanation
from tests.support.strategies import futures, problems
from weft.errors import InvalidInput, UnknownName
from weft.model import Problem, Scenario, Schedule, Trace, Workflow, WorkflowBuilder, Workload
from weft.model.explain import KINDS, PARTS, compare_explanations, explain
from weft.model.metrics import schedule_metrics


def two_tasks() -> Problem:
    """t0 (2 s or 1 s) sends 10 bytes to t1 (3 s or 9 s) at 5 bytes per second."""
    return Problem.from_arrays([[2.0, 1.0], [3.0, 9.0]], [[0, 1]], [10.0], bandwidth=5.0)


@contextmanager
def counted_lines():
    """Count the lines of Python that are run."""
    count, before = [0], sys.gettrace()

    def trace(_frame, event, _argument):
        count[0] += event == "line"
        return trace

    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


# -- known answers ------------------------------------------------------------


def test_a_transfer_on_the_chain():
    # t0 runs on d1 from 0 to 1; 10 bytes at 5 bytes/s take 2 s; t1 runs on d0 from 3 to 6.
    # 6 s = (1 + 3) s computing + 2 s moving data.
    found = explain(Schedule.of(device=[1, 0], start=[0, 3], finish=[1, 6]), two_tasks())
    assert found.makespan == 6.0
    assert found.parts == dict.fromkeys(PARTS, 0.0) | {"computing": 4.0, "moving data": 2.0}
    assert found.chain == (0, 1)
    assert [KINDS[k] for k in found.kind] == ["arrival", "input"]
    assert found.sentence == (
        "the plan takes 6 s: 4 s (67 %) computing and 2 s (33 %) moving data on a critical chain "
        "of 2 tasks; the longest transfer is 10 B from t0 to t1, 2 s."
    )
    assert [(g.device, g.start, g.finish, g.reason) for g in found.idle] == [
        ("d0", 0.0, 3.0, "before its first task"),
        ("d1", 1.0, 6.0, "no work"),
    ]


def test_slack_and_other_devices():
    # t0 and t1 (3 s, 1 s) are parents of t2 (1 s), all data free. t0 on d0: 0 to 3; t1 on d1:
    # 0 to 1; t2 on d0: 3 to 4. t1 may end as late as 3: slack 2. The others are critical.
    problem = Problem.from_arrays([[3.0, 4.0], [1.0, 1.0], [1.0, 2.0]], [[0, 2], [1, 2]], 0.0)
    plan = Schedule.of(device=[0, 1, 0], start=[0, 0, 3], finish=[3, 1, 4])
    found = explain(plan, problem)
    assert found.slack is not None
    assert found.slack.tolist() == [0.0, 2.0, 0.0]
    # t1 on d0 fits neither before t0 (0 to 3) nor before t2 (3 to 4): it would run from 4 to 5.
    assert found.alternatives(1) == {"d0": 5.0, "d1": 1.0}
    # t2 on d1 would start at 3 and take 2 s.
    assert found.alternatives(2) == {"d0": 4.0, "d1": 5.0}


def test_other_devices_are_found_without_a_walk_over_all_executions():
    """The statements that one task takes do not grow with the plan."""
    counts = []
    for tasks in (20, 200):
        found = weft.explain(weft.plan(Problem.from_arrays(np.ones((tasks, 3))), "heft"))
        found.alternatives(0)  # bookings are sorted once
        with counted_lines() as count:
            found.alternatives(tasks - 1)
        counts.append(count[0])
    assert counts[0] == counts[1] > 0


def test_a_device_that_cannot_run_it_never_ends():
    problem = Problem.from_arrays([[3.0, np.inf]])
    found = explain(Schedule.of(device=[0], start=[0], finish=[3]), problem)
    assert found.alternatives(0) == {"d0": 3.0, "d1": np.inf}


def test_a_plan_that_starts_late_waits_for_its_decision():
    # t0 could start at 0 and starts at 2: 2 s of waiting, 3 s of computing.
    problem = Problem.from_arrays([[3.0]])
    found = explain(Schedule.of(device=[0], start=[2], finish=[5]), problem)
    assert found.parts["waiting for a decision"] == 2.0
    assert KINDS[found.kind[0]] == "decision"
    assert "2 s later than its inputs" in found.task_sentence(0)


def test_a_lost_attempt_and_a_device_that_is_down():
    # One device: t0 starts at 0, is lost at 1, the device is up at 3, t0 runs again from 3 to 5.
    workload = Workload.of(Problem.from_arrays([[2.0]]))
    scenario = Scenario.of(workload, changes=[(1.0, 0, np.inf), (3.0, 0, 1.0)])
    trace = weft.simulate(workload, "fifo", scenario=scenario)
    found = explain(trace)
    assert found.makespan == 5.0
    assert found.parts["lost work"] == 1.0
    assert found.parts["computing"] == 2.0
    assert found.parts["waiting for a device"] + found.parts["waiting for a decision"] == 2.0
    replayed = explain(
        weft.simulate(workload, Schedule.of(device=[0], start=[0], finish=[2]), scenario=scenario)
    )
    assert replayed.parts["waiting for a device"] == 2.0
    assert replayed.task_sentence(1) == "t0 starts on d0 at 3 s: d0 is down for 2 s."


def test_the_arrival_of_a_later_job():
    # Jobs of 2 s arrive at 1 and at 10: 9 s waiting for arrival and 2 s computing.
    workload = Workload.of(Problem.from_arrays([[2.0]]), arrival=[1.0, 10.0])
    found = explain(weft.simulate(workload, "fifo"))
    assert found.makespan == 11.0
    assert found.parts["waiting for arrival"] == 9.0
    assert found.parts["computing"] == 2.0


def test_a_late_decision_of_a_real_run():
    # t0 from 0 to 1; t1 is decided at 1.5, starts at 1.75 and ends at 2: 0.75 s after t0.
    workload = Workload.of(Problem.from_arrays([[1.0], [0.25]], [[0, 1]], 0.0))
    column = np.zeros(2, np.int64)
    trace = Trace(
        workload=workload,
        scenario=Scenario.of(workload),
        job=column,
        task=np.arange(2),
        device=column,
        decided=np.array([0.0, 1.5]),
        start=np.array([0.0, 1.75]),
        finish=np.array([1.0, 2.0]),
        status=column,
        batch=np.arange(2),
        copy=np.zeros(2, bool),
        job_finish=np.array([2.0]),
    )
    assert weft.check(workload, trace) == []
    found = explain(trace)
    assert found.parts["waiting for a decision"] == 0.75
    assert found.parts["computing"] == 1.25
    assert "750 ms after its parent t0 on d0 ends" in found.task_sentence(1)


def test_a_branch_that_is_not_taken():
    # a (1 s) and c (5 s) precede d; a does not take its edge to d, but d waits for the decision.
    b = WorkflowBuilder()
    b.task("a", work=5.0)
    b.task("c", work=1.0)
    b.task("d", work=1.0)
    b.choice("a", {"yes": 0.5, "no": 0.5})
    b.edge("a", "d", when="yes")
    b.edge("c", "d")
    problem = Problem.bind(b.build(), weft.Cluster(speed=[1.0, 1.0]))
    workload = Workload.of(problem)
    trace = weft.simulate(workload, "fifo", scenario=Scenario.of(workload, outcome=[1]))
    found = explain(trace)
    (row,) = found.rows_of("d")
    assert KINDS[found.kind[row]] == "branch"
    assert "ends and decides a branch" in found.task_sentence(row)
    assert found.parts["computing"] == 6.0


def test_a_wait_for_the_cores_of_a_node():
    # Three cores: a (2 cores, 4 s) and b (1 core, 1 s) start at 0; c needs 2 cores and starts at 4.
    w = Workflow(
        work=[4.0, 1.0, 2.0], src=[], dst=[], data=[], cores=[2, 1, 2], names=("a", "b", "c")
    )
    problem = Problem.bind(w, weft.Cluster.host(cores=3, memory=9.0))
    plan = Schedule.of(device=[0, 1, 1], start=[0, 0, 4], finish=[4, 1, 6])
    assert weft.check(problem, plan) == []
    found = explain(plan, problem)
    assert [KINDS[k] for k in found.kind] == ["arrival", "arrival", "capacity"]
    assert found.task_sentence(2) == (
        "c starts on host/1 at 4 s: it waited for cores of host, until a on host/0 ends; "
        "host/1 is free from 1 s."
    )
    assert found.parts == dict.fromkeys(PARTS, 0.0) | {"computing": 6.0}
    assert found.slack.tolist() == [0.0, 3.0, 0.0]
    assert schedule_metrics(problem, plan).capacity_use == {"cores": 13 / 18, "memory": 0.0}


def test_two_plans_differ_by_one_transfer():
    # On one device: 2 + 3 = 5 s. t1 on d0 after t0 on d1 with the same work: 2 + 2 + 3 = 7 s.
    problem = Problem.from_arrays([[2.0, 2.0], [3.0, 3.0]], [[0, 1]], [10e9], bandwidth=5e9)
    stay = explain(Schedule.of(device=[0, 0], start=[0, 2], finish=[2, 5]), problem)
    move = explain(Schedule.of(device=[1, 0], start=[0, 4], finish=[2, 7]), problem)
    difference = compare_explanations(stay, move)
    assert difference.seconds == 2.0
    assert difference.parts["moving data"] == 2.0
    text = "2 s longer than the first, all of it one transfer: 10 GB from t0 to t1."
    assert str(difference) == f"the second takes {text}"
    assert compare_explanations(move, stay).seconds == -2.0
    # t1 takes 3.06 s on d0 now: of 2.06 s more, the transfer is 2 s, 3 % less.
    other = Problem.from_arrays([[2.0, 2.0], [3.06, 3.0]], [[0, 1]], [10e9], bandwidth=5e9)
    slower = explain(Schedule.of(device=[1, 0], start=[0, 4], finish=[2, 7.06]), other)
    assert "first, nearly all of it one transfer: 10 GB" in str(compare_explanations(stay, slower))
    assert "the first takes 2 s longer" in str(compare_explanations(move, stay))
    assert str(compare_explanations(stay, stay)) == "both take 5 s."


# -- drawn problems -----------------------------------------------------------


@pytest.mark.parametrize("planner", weft.list_planners())
@settings(max_examples=8, deadline=None)
@given(problem=drawn_problems(max_tasks=7))
def test_every_planner_is_explained(planner, problem):
    assert_explained(planner, problem)


@pytest.mark.parametrize("planner", ["heft", "peft", "anytime", "round-robin"])
@pytest.mark.parametrize("feature", FEATURES)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_plans_of_every_feature_are_explained(planner, feature, data):
    assert_explained(planner, data.draw(drawn_problems(feature, max_tasks=7)))


@settings(max_examples=8, deadline=None)
@given(problem=problems(min_tasks=1, max_tasks=7), data=st.data())
def test_slack_can_be_used_and_no_more(problem, data):
    """A task that ends later by its slack keeps the makespan when the others move along."""
    plan = weft.plan(problem, "heft")
    found, s = weft.explain(plan), plan.schedule
    assert found.slack is not None
    row = data.draw(st.integers(0, len(s) - 1))
    for factor, later in ((1.0, False), (1.01, True)):
        delay = found.slack[row] * factor + (0.01 * plan.makespan if later else 0.0)
        end = _pushed(problem, s, row, float(delay))
        if later:
            assert delay == 0 or end > plan.makespan
        else:
            assert end <= plan.makespan * (1 + 1e-9)


def _pushed(problem, s, row, delay):
    """Return the makespan when a row ends later by `delay` and all others keep their order."""
    start, finish = s.start.copy(), s.finish.copy()
    finish[row] += delay
    start[row] += delay
    place = {t: i for i, t in enumerate(problem.workflow.order.tolist())}
    order = sorted(range(len(s)), key=lambda r: (s.start[r], s.finish[r], place[s.task[r]]))
    of = {int(s.task[r]): r for r in range(len(s))}
    w = problem.workflow
    for _ in order:  # until nothing moves
        for r in order:
            begin = start[r]
            for e in range(w.m):
                if w.dst[e] == s.task[r]:
                    u = of[int(w.src[e])]
                    move = problem.transfer(e, int(s.device[u]), int(s.device[r]))
                    begin = max(begin, finish[u] + move)
            before = [q for q in order[: order.index(r)] if s.device[q] == s.device[r]]
            begin = max([begin, *(finish[q] for q in before)])
            finish[r] += begin - start[r]
            start[r] = begin
    return finish.max()


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=8, deadline=None)
@given(future=futures())
def test_every_trace_is_explained(policy, eager, future):
    assert_trace_explained(future[0], policy, future[1], eager)


@pytest.mark.parametrize("policy", ["eft", "batch-aware"])
@pytest.mark.parametrize("feature", ["shared", "setups", "network"])
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_traces_of_every_feature_are_explained(policy, feature, data):
    workload, scenario = data.draw(futures(**{feature: True}))
    assert_trace_explained(workload, policy, scenario, eager=feature != "network")


def test_a_real_run_is_explained():
    """Four tasks in processes: moving data and waiting are measured, all parts sum up."""
    w = Workflow(work=[1.0] * 4, src=[0, 0, 1, 2], dst=[1, 2, 3, 3], data=[0.0] * 4)
    trace = weft.run(w, functions={"task": _sum_of}, devices=2)
    found = weft.explain(trace)
    assert found.makespan == trace.makespan > 0
    assert_sound(found)
    assert_as_slow(found, SlowExplanation(trace))


def _sum_of(*inputs):
    return 1 + sum(inputs)


@settings(max_examples=8, deadline=None)
@given(future=futures(max_templates=1, choices=False))
def test_every_replay_is_explained(future):
    workload, scenario = future
    plan = weft.plan(workload.problems[0], "heft-deft")
    trace = weft.simulate(workload, plan, scenario=scenario)
    assert weft.check(workload, trace) == []
    found = weft.explain(trace)
    assert_sound(found)
    assert_as_slow(found, SlowExplanation(trace))


# -- errors -------------------------------------------------------------------


def test_bad_input_is_refused():
    plan = Schedule.of(device=[1, 0], start=[0, 3], finish=[1, 6])
    with pytest.raises(InvalidInput, match="add problem="):
        explain(plan)
    with pytest.raises(InvalidInput, match="cannot explain a str"):
        explain("plan.json")  # type: ignore[arg-type]  # a wrong value
    with pytest.raises(InvalidInput, match="row 1 of the schedule is of task 1"):
        explain(plan, Problem.from_arrays([[1.0, 1.0]]))
    with pytest.raises(UnknownName, match="unknown task 't9'"):
        explain(plan, two_tasks()).rows_of("t9")


def test_another_problem_beside_a_plan_or_a_trace_is_refused():
    problem, other = two_tasks(), two_tasks()
    plan = weft.plan(problem)
    for result, what in ((plan, "plan"), (weft.simulate(problem, plan), "trace")):
        assert explain(result, problem).makespan == plan.makespan
        with pytest.raises(weft.InvalidInput, match=f"the {what} has its own problem"):
            explain(result, other)
