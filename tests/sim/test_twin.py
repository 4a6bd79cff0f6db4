"""The compiled kernel equals the slow reference, to the last bit, with every feature on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.report_examples import layered
from tests.support.strategies import futures, workloads
from weft.errors import Stuck
from weft.model import Problem, Scenario, Schedule, Trace, Workload
from weft.model.check import check
from weft.sim.reference import simulate_reference
from weft.sim.rule import PLACEMENTS, Rule
from weft.sim.simulate import simulate
from weft.sim.view import Decision


def assert_same(fast: Trace, slow: Trace) -> None:
    for column in Trace.columns():
        np.testing.assert_array_equal(getattr(fast, column), getattr(slow, column), err_msg=column)
    np.testing.assert_array_equal(fast.job_finish, slow.job_finish)
    assert (fast.eager, fast.transfers is None) == (slow.eager, slow.transfers is None)
    if fast.transfers is not None and slow.transfers is not None:
        moved = slow.transfers.to_arrays()
        for key, column in fast.transfers.to_arrays().items():
            np.testing.assert_array_equal(column, moved[key], err_msg=key)


def both(workload, decider, scenario, *, eager=True):
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
    return [
        (i, d)
        for i in view.ready.tolist()
        for d in range(len(view.pace))
        if np.isfinite(view.duration(i, d))
    ]


class RandomPolicy:
    """Decides by the toss of a coin, and sometimes waits: reaches states that no rule reaches."""

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


class CopyingPolicy:
    """Decide by a coin or by the earliest finish, copy parents if possible; log the views."""

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
    job, task = workload.task_of(instance)
    w = workload.problem_of(job).workflow
    return (
        workload.first_instance[job] + w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]]
    ).tolist()


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
        _any_plan(problem, data.draw(st.integers(0, 2**32 - 1))) for problem in workload.problems
    ]
    trace = both(workload, schedules, scenario, eager=eager)
    if trace is not None:
        assert check(workload, trace) == []


def _any_plan(problem, seed) -> Schedule:
    """Random devices in topological order, with copies: valid orders, arbitrary times."""
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
