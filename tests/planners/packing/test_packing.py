"""Capacities that tasks on a node share: known answers, every planner, brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.bounds import drawn_workload
from tests.support.instances import schedule_of
from tests.support.slow_twins.brute_force import shortest_packed
from tests.support.strategies import problems
from weft.model.workflow import Workflow
from weft.planners.bounds import lower_bound
from weft.planners.packing import pack, pool_of_devices
from weft.planners.search.packed import improve


def _node(slots: int, capacity: dict[str, float], **tasks: object) -> weft.Problem:
    """Return independent tasks on one node with equal devices."""
    devices = [weft.Device(f"slot{i}", node="host") for i in range(slots)]
    limits = {name: {"host": amount} for name, amount in capacity.items()}
    workflow = Workflow(src=[], dst=[], data=[], **tasks)
    return weft.Problem.bind(workflow, weft.Cluster.of(devices, capacity=limits))


def test_tasks_share_the_cores_of_their_node():
    # 4 cores; three tasks of 2 cores and 1 s: two at once, then the third.
    problem = _node(4, {"cores": 4}, work=[1.0, 1.0, 1.0], cores=[2, 2, 2])
    plan = weft.plan(problem, "heft")
    assert plan.makespan == 2.0
    assert weft.check(problem, plan) == []
    assert weft.plan(_node(4, {}, work=[1.0] * 3), "heft").makespan == 1.0


def test_each_capacity_counts_on_its_own():
    # Licences allow one of the first two at a time; memory one of the last two.
    problem = _node(
        4,
        {"memory": 10.0, "licence": 1.0},
        work=[1.0, 1.0, 1.0, 1.0],
        memory=[0.0, 0.0, 6.0, 6.0],
        needs={"licence": [1.0, 1.0, 0.0, 0.0]},
    )
    assert weft.plan(problem, "heft").makespan == 2.0


def test_simulations_wait_for_room_and_fill_it():
    problem = _node(3, {"cores": 4}, work=[2.0, 1.0, 1.0, 1.0], cores=[3, 1, 2, 1])
    trace = weft.simulate(problem, "fifo")
    # 0 and 1 start at 0 (4 cores); 3 fits beside 0 at 1; 2 waits until 0 ends at 2.
    assert trace.makespan == 3.0
    assert weft.check(problem, trace) == []
    for policy in ("eft", "heft-replanned"):
        assert weft.check(problem, weft.simulate(problem, policy)) == []


def test_the_oracle_refuses_tasks_that_exceed_a_capacity():
    problem = _node(4, {"cores": 4}, work=[1.0, 1.0], cores=[3, 2])
    together = weft.Schedule.of(device=[0, 1], start=[0.0, 0.0], finish=[1.0, 1.0])
    apart = weft.Schedule.of(device=[0, 1], start=[0.0, 1.0], finish=[1.0, 2.0])
    assert {v.rule for v in weft.check(problem, together)} == {"capacity"}
    assert "use 5 cores of 4" in str(weft.check(problem, together)[0])
    assert weft.check(problem, apart) == []


def test_a_task_larger_than_every_node_is_refused():
    cluster = weft.Cluster.of([weft.Device("a")], capacity={"cores": {"node0": 8.0}})
    workflow = Workflow(work=[1.0, 1.0], src=[], dst=[], data=[], cores=[1, 9])
    with pytest.raises(weft.InvalidInput, match="task 't1' needs 9 cores: no node"):
        weft.Problem.bind(workflow, cluster)


def test_a_need_that_no_node_has_is_refused():
    with pytest.raises(weft.InvalidInput, match=r"needs 'licenses'.*did you mean 'licences'"):
        _node(1, {"licences": 1.0}, work=[1.0], needs={"licenses": [1.0]})


def test_a_capacity_of_an_unknown_node_is_refused():
    devices = [weft.Device("a", node="host")]
    with pytest.raises(weft.InvalidInput, match=r"unknown node 'hots'.*did you mean 'host'"):
        weft.Cluster.of(devices, capacity={"cores": {"hots": 4.0}})


def test_capacities_and_needs_survive_files(tmp_path):
    problem = _node(2, {"cores": 4, "licence": 1.5}, work=[1.0], needs={"licence": [0.5]})
    for name in ("p.json", "p.npz"):
        weft.save(problem, tmp_path / name)
        again = weft.load(tmp_path / name)
        assert np.array_equal(again.needs, problem.needs)
        assert np.array_equal(again.room, problem.room)
    weft.save(problem.cluster, tmp_path / "c.toml")
    cluster = weft.load_cluster(tmp_path / "c.toml")
    assert {k: v.tolist() for k, v in cluster.capacity.items()} == {
        "cores": [4.0],
        "licence": [1.5],
    }


@settings(max_examples=60, deadline=None)
@given(problems(shared=True, max_tasks=7), st.sampled_from(["heft", "peft", "tdca", "min-min"]))
def test_plans_of_every_planner_are_packed(problem, planner):
    plan = weft.plan(problem, planner)
    assert weft.check(problem, plan) == []
    assert plan.bound <= plan.makespan * (1 + 1e-9)
    assert weft.check(problem, weft.simulate(problem, plan)) == []


@settings(max_examples=25, deadline=None)
@given(problems(shared=True, max_tasks=7), st.integers(0, 3))
def test_improving_is_valid_and_never_worse(problem, seed):
    first = pack(problem, weft.plan(problem, "heft").schedule)
    better = improve(problem, first, seed=seed)
    assert better.makespan <= first.makespan
    assert weft.check(problem, better) == []


def _drawn_workflow(rng, data):
    """Five tasks in two pairs and one alone, with cores and gas."""
    return Workflow(
        work=rng.integers(1, 6, 5).astype(float),
        src=[0, 1],
        dst=[3, 4],
        data=data,
        cores=rng.integers(1, 4, 5),
        needs={"gas": rng.integers(0, 3, 5).astype(float)},
    )


@pytest.mark.parametrize("seed", range(6))
def test_exact_agrees_with_brute_force(seed):
    rng = np.random.default_rng(seed)
    speed = rng.integers(1, 3, 3).astype(float)
    devices = [weft.Device(f"d{i}", node=f"n{i // 2}", speed=speed[i], cores=4) for i in range(3)]
    limits = {"cores": {"n0": 4.0}, "gas": {"n1": 2.0}}
    links = weft.Links(bandwidth=2.0, node_bandwidth=8.0)
    cluster = weft.Cluster.of(devices, links, capacity=limits)
    problem = weft.Problem.bind(_drawn_workflow(rng, [2.0, 4.0]), cluster)
    plan = weft.plan(problem, "exact", threads=1)
    assert plan.status == "optimal"
    assert weft.check(problem, plan) == []
    assert plan.makespan == pytest.approx(shortest_packed(problem), rel=1e-9)


def test_equal_devices_of_a_node_are_one_pool():
    devices = [weft.Device(f"d{i}", node=f"n{i // 3}", speed=1.0 + (i == 2)) for i in range(6)]
    workflow = Workflow(work=[1.0], src=[], dst=[], data=[])
    links = weft.Links(bandwidth=1.0, node_bandwidth=4.0)
    problem = weft.Problem.bind(workflow, weft.Cluster.of(devices, links))
    assert pool_of_devices(problem).tolist() == [0, 0, 1, 2, 2, 2]


def test_tasks_that_share_a_device_in_the_end_do_not_wait_for_a_transfer():
    # A chain in turn on two equal devices, 10 s apart. Packing may put both tasks on one of them.
    devices = [weft.Device(f"slot{i}", node="host") for i in range(2)]
    cluster = weft.Cluster.of(
        devices, weft.Links(bandwidth=1.0), capacity={"licence": {"host": 1.0}}
    )
    chain = Workflow(work=[1.0, 1.0], src=[0], dst=[1], data=[10.0], needs={"licence": [1.0, 1.0]})
    plan = weft.plan(weft.Problem.bind(chain, cluster), "round-robin")
    assert plan.schedule.device.tolist() == [0, 0]
    assert plan.makespan == 2.0


@pytest.mark.parametrize("planner", ["heft", "olb", "round-robin"])
@pytest.mark.parametrize("seed", range(12))
def test_no_task_of_a_packed_plan_can_start_earlier_alone(seed, planner):
    problem = _drawn_with_links(seed)
    schedule = weft.plan(problem, planner).schedule
    assert weft.check(problem, schedule) == []
    columns = {"device": schedule.device}
    for t in range(problem.n):
        seconds = schedule.finish[t] - schedule.start[t]
        for at in sorted({0.0, *_arrivals(problem, schedule, t), *schedule.finish.tolist()}):
            if at < schedule.start[t] - 1e-6:
                start, finish = schedule.start.copy(), schedule.finish.copy()
                start[t], finish[t] = at, at + seconds
                earlier = weft.Schedule.of(**columns, start=start, finish=finish)
                assert weft.check(problem, earlier) != [], (t, at)


def _arrivals(problem, schedule, task):
    """Return when each input of a task arrives at its device."""
    w = problem.workflow
    return [
        schedule.finish[w.src[e]]
        + problem.cluster.transfer_time(
            int(schedule.device[w.src[e]]), int(schedule.device[task]), float(w.data[e])
        )
        for e in np.flatnonzero(w.dst == task)
    ]


def _drawn_with_links(seed: int) -> weft.Problem:
    """Return tasks on two nodes of equal devices with slow links and few cores."""
    rng = np.random.default_rng(seed)
    n, names = 8, ("a", "b")
    devices = [weft.Device(f"{node}{i}", node=node) for node in names for i in range(3)]
    links = weft.Links(bandwidth=1.0, latency=0.5)
    cluster = weft.Cluster.of(devices, links, capacity={"cores": dict.fromkeys(names, 3.0)})
    src, dst = np.nonzero(np.triu(rng.random((n, n)) < 0.3, 1))
    workflow = Workflow(
        work=rng.uniform(1.0, 9.0, n),
        src=src,
        dst=dst,
        data=rng.uniform(0.0, 8.0, len(src)),
        cores=rng.integers(1, 3, n),
    )
    return weft.Problem.bind(workflow, cluster)


def test_children_that_had_the_data_of_a_copy_go_after_their_parents():
    # The original of 0 starts at 5; its copy at 0 feeds 1, which starts at 1.
    devices = [weft.Device(f"d{i}", node="host") for i in range(2)]
    cluster = weft.Cluster.of(devices, capacity={"cores": {"host": 1}})
    problem = weft.Problem.bind(Workflow(work=[1.0, 2.0], src=[0], dst=[1], data=[0.0]), cluster)
    copied = schedule_of((0, 1, 5.0, 6.0), (0, 0, 0.0, 1.0), (1, 0, 1.0, 3.0))
    packed = pack(problem, copied)
    assert weft.check(problem, packed) == []
    assert packed.makespan == 3.0
    # One of the drawn problems on which the plans of tdca were wrong.
    for drawn in drawn_workload(14).problems:
        assert weft.check(drawn, weft.plan(drawn, "tdca")) == []


def test_the_bound_counts_capacities():
    # 6 tasks of 2 cores and 1 s on 4 cores: 12 core seconds / 4.
    problem = _node(6, {"cores": 4}, work=[1.0] * 6, cores=[2] * 6)
    assert lower_bound(problem) == pytest.approx(3.0, rel=1e-8)
    assert weft.plan(problem, "heft").status == "optimal"


def test_the_bound_knows_tasks_that_never_run_side_by_side():
    # Three tasks of 3 cores on 5 cores: 9 of 5 core seconds, but one at a time: 3 s.
    problem = _node(4, {"cores": 5}, work=[1.0] * 4, cores=[3, 3, 3, 1])
    assert lower_bound(problem) == pytest.approx(3.0, rel=1e-8)


def test_the_bound_counts_what_comes_before_and_after():
    # 2 s, then three tasks of 2 of 2 cores one after the other, then 3 s.
    cluster = weft.Cluster.host(cores=2)
    workflow = Workflow(
        work=[2.0, 1.0, 1.0, 1.0, 3.0],
        src=[0, 0, 0, 1, 2, 3],
        dst=[1, 2, 3, 4, 4, 4],
        data=np.zeros(6),
        cores=[1, 2, 2, 2, 1],
    )
    assert lower_bound(weft.Problem.bind(workflow, cluster)) == pytest.approx(8.0, rel=1e-8)


@pytest.mark.parametrize("seed", range(12))
def test_no_schedule_is_shorter_than_the_bound(seed):
    rng = np.random.default_rng(seed)
    devices = [weft.Device(f"d{i}", node=f"n{i // 2}", speed=1.0 + i % 2) for i in range(3)]
    limits = {"cores": {"n0": 5.0, "n1": 3.0}, "gas": {"n0": 2.0}}
    cluster = weft.Cluster.of(devices, capacity=limits)
    problem = weft.Problem.bind(_drawn_workflow(rng, [0.0, 0.0]), cluster)
    assert lower_bound(problem) <= shortest_packed(problem)


def test_anytime_finds_orders_that_packing_does_not():
    # 10 cores; pairs of 7 + 3 and 6 + 4 fill the node: 4 s, while 4 beside 3 leaves gaps.
    cores = [7, 6, 4, 3] * 2
    problem = _node(8, {"cores": 10}, work=[1.0] * 8, cores=cores)
    plan = weft.plan(problem, "anytime", iterations=2000)
    assert plan.makespan == 4.0
    assert plan.status == "optimal"


def test_objectives_count_on_nodes_with_capacities():
    # Two jobs of one task each fill the node one after the other; the second has the deadline.
    problem = _node(2, {"cores": 1}, work=[3.0, 2.0])
    options = {"jobs": (0, 1), "deadlines": (np.inf, 2.0)}
    for planner, effort in (("anytime", {"iterations": 500}), ("genetic", {"generations": 20})):
        plan = weft.plan(problem, planner, objective="late", **options, **effort)
        assert plan.schedule.finish.tolist() == [5.0, 2.0]
