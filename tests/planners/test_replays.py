"""Plans for set-ups and shared links: estimates, replay, and the search that compares by it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.strategies import problems
from weft.planners import PLANNERS
from weft.planners.contention import independent, slowness_seen
from weft.planners.lists.loading import insert_with_setups, loading_of
from weft.planners.lists.placements import no_pins
from weft.planners.replays import Estimate, Replays, moved_tasks, replayed
from weft.planners.setups import likely_shares, shares_seen, with_mean_setups


def kinds_in_turn(n: int, **device: object) -> weft.Problem:
    """Return independent tasks of two kinds in turn, on two equal devices."""
    workflow = weft.Workflow(
        work=[1.0] * n, src=[], dst=[], data=[], kinds=("a", "b"), kind=np.arange(n) % 2
    )
    devices = [weft.Device(f"d{i}", **device) for i in range(2)]
    return weft.Problem.bind(workflow, weft.Cluster.of(devices))


def test_list_planners_keep_kinds_on_their_devices():
    # Loading takes 5 s and the cache holds one kind: each device loads one, 5 + 4 tasks of 1 s.
    setup = {"a": weft.Setup(5.0, memory=1.0), "b": weft.Setup(5.0, memory=1.0)}
    problem = kinds_in_turn(8, setup=setup, cache=1.0)
    blind = PLANNERS.create("heft").solve(Estimate().apply(problem, setups=False)).schedule
    for name in ("heft", "mct", "greedy", "anytime"):
        plan = weft.plan(problem, name)
        assert plan.makespan == 9.0, name
        assert weft.check(problem, plan) == []
    assert replayed(problem, blind).makespan >= 9.0


def test_placement_counts_switches_and_goes_behind_its_own_kind():
    # Task 2 (kind a) is ready when the device has run 0 (a) and waits for 1 (b), whose input comes
    # at 10: the gap behind 0 needs no set-up; at the end it would load and switch.
    workflow = weft.Workflow(
        work=[1.0, 1.0, 1.0, 1.0],
        src=[3],
        dst=[1],
        data=[9.0],
        kinds=("a", "b", "c"),
        kind=[0, 1, 0, 2],
    )
    devices = [
        weft.Device("d0", setup={"*": 1.0}, switch=0.5),
        weft.Device("far", speed=1e-3, setup={"*": 0.0}),
    ]
    cluster = weft.Cluster.of(devices, weft.Links(bandwidth=1.0))
    problem = weft.Problem.bind(workflow, cluster)
    pin = no_pins(problem)
    pin[:3] = 0
    pin[3] = 1
    order = np.array([0, 3, 1, 2])
    rows = insert_with_setups(problem.arrays, loading_of(problem), order, pin, True)
    assert rows.start[2] == rows.finish[0] == 2.0  # 1 s of loading, 1 s of work
    end = insert_with_setups(problem.arrays, loading_of(problem), order, pin, False)
    assert end.start[2] == end.finish[1]
    assert end.finish[2] == end.start[2] + 0.5 + 1.0  # a is still loaded: a switch, no loading


def test_shares_of_set_ups_are_those_of_a_replay():
    # One load per device for four tasks of each kind: a share of 2 / 8.
    problem = kinds_in_turn(16, setup={"a": 2.0})
    turns = np.arange(16)
    plan = weft.Schedule.of(device=turns // 2 % 2, start=turns, finish=turns)
    made = replayed(problem, plan)
    assert shares_seen(problem, made).tolist() == [0.25, 0.0]
    assert likely_shares(problem).tolist() == [0.25, 0.25]
    longer = with_mean_setups(problem, np.array([0.25, 0.0]))
    assert longer.durations()[:2].tolist() == [[1.5, 1.5], [1.0, 1.0]]
    assert not longer.cluster.has_setup


def test_slowness_of_links_is_that_of_a_replay():
    # Two transfers share the port up of node a: each takes twice as long.
    star = weft.Topology.star("abc", up=10.0)
    cluster = weft.Cluster.of([weft.Device(n, node=n) for n in "abc"], network=star)
    fork = weft.Workflow(work=[1.0] * 3, src=[0, 0], dst=[1, 2], data=[10.0, 10.0])
    problem = weft.Problem.bind(fork, cluster)
    plan = weft.Schedule.of(device=[0, 1, 2], start=[0, 2, 2], finish=[1, 3, 3])
    trace = weft.simulate(problem, plan)
    assert trace.transfers is not None
    slowness = slowness_seen(problem, trace.transfers)
    assert slowness[0, 1] == slowness[0, 2] == slowness[1, 2] == 2.0  # the mean, where none moved
    slower = independent(problem, slowness).cluster
    assert slower.network is None
    assert slower.bandwidth[0, 1] == 5.0


def test_a_plan_for_slow_links_stays_on_a_node_if_that_is_shorter():
    # Eight children of one task, 1 s each, on eight nodes. Alone, a transfer takes 2 s; several at
    # the port of the sender take that much each, while the sender runs all children in 8 s.
    names = [f"n{i}" for i in range(8)]
    star = weft.Topology.star(names, up=1.0)
    cluster = weft.Cluster.of([weft.Device(n, node=n) for n in names], network=star)
    fan = weft.Workflow(work=[1.0] * 9, src=[0] * 8, dst=range(1, 9), data=[2.0] * 8)
    problem = weft.Problem.bind(fan, cluster)
    blind = PLANNERS.create("heft").solve(independent(problem)).schedule
    plan = weft.plan(problem, "heft")
    assert weft.check(problem, plan) == []
    assert plan.makespan <= 9.0 < replayed(problem, blind).makespan


def test_a_price_of_transfers_keeps_a_chain_with_its_data():
    # A chain of three tasks of 1 s with 1 s of transfers between nodes, and one task beside it. The
    # chain may go to either node at no cost in time; a step on the other node costs transfers.
    star = weft.Topology.star("ab", up=10.0)
    cluster = weft.Cluster.of([weft.Device(n, node=n) for n in "ab"], network=star)
    work = weft.Workflow(work=[1.0, 1.0, 1.0, 5.0], src=[0, 1], dst=[1, 2], data=[10.0, 10.0])
    problem = weft.Problem.bind(work, cluster)
    apart = weft.Schedule.of(device=[0, 1, 0, 0], start=[0, 2, 4, 5], finish=[1, 3, 5, 10])
    replays = Replays(problem)
    assert replays.moving(np.array([0, 1, 0, 0])) == 2.0
    made = moved_tasks(problem, apart, seconds=None, moving=0.3)
    device = np.zeros(4, np.int64)
    device[made.task] = made.device
    assert made.makespan == 5.0
    assert replays.moving(device) == 0.0


@settings(max_examples=40, deadline=None)
@given(
    problems(setups=True, max_tasks=6),
    st.sampled_from(["heft", "cpop", "mct", "peft", "dls", "heft-deft", "round-robin"]),
)
def test_plans_with_set_ups_are_valid_and_not_worse_than_blind_ones(problem, name):
    plan = weft.plan(problem, name)
    assert weft.check(problem, plan) == []
    planner = PLANNERS.create(name)
    blind = planner.solve(Estimate().apply(problem, setups=False)).schedule
    assert plan.makespan <= replayed(problem, blind).makespan * (1 + 1e-12)
    assert plan.bound <= plan.makespan * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(problems(setups=True, shared=True, network=True, max_tasks=6), st.integers(0, 3))
def test_moving_tasks_is_valid_and_never_worse_with_everything_on(problem, seed):
    first = weft.plan(problem, "heft")
    better = moved_tasks(problem, first.schedule, seconds=0.01, seed=seed)
    assert better.makespan <= first.makespan
    assert weft.check(problem, better) == []
    if problem.n:
        same = Replays(problem)
        device, key = np.zeros(problem.n, np.int64), np.zeros(problem.n)
        device[better.task] = better.device
        # Of tasks that start together on a device, those that take no time come first.
        rows = np.lexsort((same.place[better.task], better.finish, better.start))
        key[better.task[rows]] = np.arange(problem.n)
        assert [same.makespan(device, key) for _ in range(2)] == [better.makespan] * 2


def test_shares_that_rounding_left_make_no_tiny_durations():
    """Times around 1e-100 s leave shares of 1e-116; a product of both is no duration."""
    setup = {"a": weft.Setup(1e-100), "b": weft.Setup(1e-100)}
    workflow = weft.Workflow(work=[0.0, 1e-100], src=[], dst=[], data=[], kinds=("a",))
    cluster = weft.Cluster.of([weft.Device("d0", setup=setup), weft.Device("d1")])
    problem = weft.Problem.bind(workflow, cluster)
    seconds = with_mean_setups(problem, np.array([1e-116])).durations()
    assert seconds.tolist() == [[0.0, 0.0], [1e-100, 1e-100]]
