"""Networks: routes, refusals, files, and an oracle that rejects mutated transfers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from tests.support.report_examples import layered
from tests.support.strategies import problems
from weft.errors import InvalidInput, Unsupported, WeftError
from weft.formats import load_trace
from weft.formats.native.cluster_toml import read_cluster_toml, write_cluster_toml
from weft.formats.native.weft_schema import decode, encode
from weft.formats.parsing.record import Record
from weft.model import Cluster, Device, Links, Port, Problem, Topology, Trunk, Workflow, Workload
from weft.model.check import check
from weft.planners.planner import plan
from weft.planners.replays import moved_tasks, replayed
from weft.planners.whatif.changes import AddDevice, Bandwidth, RemoveDevice
from weft.sim.simulate import simulate

PLAN = weft.Schedule.of(device=[0, 1, 2], start=[0, 1, 1], finish=[1, 2, 2])


def cluster(network: Topology) -> Cluster:
    return Cluster.of([Device(n, node=n) for n in network.ports], network=network)


def fork(network: Topology, data: tuple[float, float] = (10.0, 10.0)) -> Problem:
    """One task, then two, each on a node of its own: both transfers leave the same port."""
    w = Workflow(work=[1.0, 1.0, 1.0], src=[0, 0], dst=[1, 2], data=data)
    return Problem.bind(w, cluster(network))


STAR = Topology.star("abc", up=10.0)


@pytest.mark.parametrize(
    ("network", "data", "starts"),
    [
        (STAR, (10.0, 10.0), [0.0, 3.0, 3.0]),  # 5 bytes per second each: 2 s
        (STAR, (10.0, 30.0), [0.0, 3.0, 5.0]),  # 2 s at 5, then 20 bytes at 10
        (Topology.star("abc", 10.0, latency=0.25), (10.0, 10.0), [0.0, 3.5, 3.5]),  # two ports
        (Topology.star("abc", 10.0, sharing="one-port"), (10.0, 30.0), [0.0, 2.0, 5.0]),
        # The trunk to c carries 2.5, so b gets 7.5: 10 / 7.5 s; c is never faster than 2.5.
        (Topology.racks({"l": "ab", "r": "c"}, up=10.0, oversubscription=4), (10.0, 10.0),
         [0.0, 1.0 + 10.0 / 7.5, 5.0]),
        (Topology({"a": Port(np.inf, 10.0), "b": Port(10.0, 4.0), "c": Port(10.0, np.inf)}),
         (8.0, 7.0), [0.0, 3.0, 1.0]),  # only b has a limit, of 4
    ],
)  # fmt: skip
def test_known_answers(network, data, starts):
    problem = fork(network, data)
    trace = simulate(Workload.of(problem), PLAN)
    np.testing.assert_allclose(trace.start[np.argsort(trace.task)], starts, rtol=1e-15)
    assert check(problem, trace) == []
    assert trace.eager is False


def test_a_plan_has_the_times_of_shared_links():
    problem = fork(STAR)
    made = plan(problem, "heft")
    assert check(problem, made) == []
    early = weft.Schedule.of(device=[0, 1, 2], start=[0, 2, 2], finish=[1, 3, 3])  # links apart
    assert [v.rule for v in check(problem, early)] == ["transfer", "transfer"]
    late = weft.Schedule.of(device=[0, 1, 2], start=[0, 3, 4], finish=[1, 4, 5])
    assert check(problem, late) == []


@settings(max_examples=60, deadline=None)
@given(problems(network=True, shared=True), st.sampled_from(["heft", "cpop", "min-min"]))
def test_drawn_plans_are_valid_and_bounded(problem, planner):
    made = plan(problem, planner)
    assert check(problem, made) == []
    assert made.bound <= made.makespan * (1 + 1e-9)


def test_explanations_have_the_times_of_shared_links():
    problem = fork(STAR)
    trace = simulate(Workload.of(problem), PLAN)
    same = weft.Schedule.of(device=[0, 1, 2], start=[0, 3, 3], finish=[1, 4, 4])
    for found in (weft.explain(trace), weft.explain(same, problem)):
        assert (found.parts["computing"], found.parts["moving data"]) == (2.0, 2.0)


@pytest.mark.parametrize("sharing", ["fair", "one-port"])
def test_search_compares_plans_on_shared_links(sharing):
    problem = layered(30, 4, seed=3)
    names = [f"n{i}" for i in range(problem.p)]
    rate = float(problem.cluster.bandwidth[0, 1])
    c = replace(
        problem.cluster, nodes=tuple(names), network=Topology.star(names, rate, sharing=sharing)
    )
    problem = replace(problem, cluster=c)
    heft, best = plan(problem, "heft"), plan(problem, "anytime", iterations=20_000)
    assert check(problem, heft) == check(problem, best) == []
    assert best.bound <= best.makespan * (1 + 1e-9)
    assert best.makespan < heft.makespan


def test_moving_tasks_shortens_a_bad_plan():
    """All tasks in turn on all devices: keys of the order soon lie beyond the makespan."""
    problem = layered(24, 4, seed=1)
    network = Topology.star(problem.cluster.node_names, up=3e6)
    problem = replace(problem, cluster=replace(problem.cluster, network=network))
    turns = np.arange(problem.n)
    bad = replayed(problem, weft.Schedule.of(device=turns % 4, start=turns, finish=turns + 1))
    for seed in range(3):
        better = moved_tasks(problem, bad, seconds=None, seed=seed)
        assert check(problem, better) == []
        assert better.makespan < 0.9 * bad.makespan


def mutated(trace, **columns):
    return replace(trace, transfers=replace(trace.transfers, **columns))


def rules(problem, trace) -> set[str]:
    return {v.rule for v in check(problem, trace)}


def test_the_oracle_rejects_mutations_on_fair_links():
    problem = fork(STAR)
    trace = simulate(Workload.of(problem), PLAN)
    moved = trace.transfers
    assert rules(problem, trace) == set()
    # The transfers are quicker than the port allows: 20 bytes in 1 s over 10 bytes per second.
    quick = mutated(trace, end=moved.begin + 1.0)
    assert {"sharing", "link"} <= rules(problem, quick)
    # One after the other: no link is overloaded, but the sharing is not fair.
    unfair = mutated(trace, end=np.array([2.0, 3.0]))
    assert rules(problem, unfair) == {"sharing"}
    assert "transfer" in rules(problem, mutated(trace, begin=moved.begin - 0.5, end=moved.end))
    assert "transfer" in rules(problem, mutated(trace, source=moved.target))
    assert "transfer" in rules(problem, mutated(trace, edge=np.array([0, 7])))
    gone = {key: column[:1] for key, column in moved.to_arrays().items()}
    assert "transfer" in rules(problem, mutated(trace, **gone))
    assert rules(problem, replace(trace, transfers=None)) == {"transfer"}
    early = replace(trace, start=trace.start - [0.0, 0.5, 0.0], finish=trace.finish - [0, 0.5, 0])
    assert "transfer" in rules(problem, early)


def test_the_oracle_rejects_overlaps_on_one_port():
    problem = fork(Topology.star("abc", 10.0, sharing="one-port"))
    trace = simulate(Workload.of(problem), PLAN)
    assert rules(problem, trace) == set()
    both = mutated(trace, end=np.array([2.0, 2.0]))
    assert rules(problem, both) == {"sharing", "port"}
    swapped = mutated(trace, end=trace.transfers.end[::-1])  # the second goes first
    assert "sharing" in rules(problem, swapped)


RACKS = Topology(
    {"a": Port(1.5, 2.5, 0.125, "l"), "b": Port(3.0, switch="l"), "c": Port(1e9, switch="r")},
    [Trunk("l", "core", 4.0), Trunk("core", "r", 2.0, 0.5)],
    "one-port",
)


def test_files_keep_networks():
    one = Cluster.of(
        [Device(f"{n}{i}", node=n) for n in "abc" for i in range(2)],
        Links(node_bandwidth=7.0),
        network=RACKS,
    )
    for again in (read_cluster_toml(write_cluster_toml(one).decode(), name="x"),
                  decode(Record(encode(one)))):  # fmt: skip
        assert again.network == RACKS
        np.testing.assert_array_equal(again.bandwidth, one.bandwidth)
        np.testing.assert_array_equal(again.latency, one.latency)


def test_files_keep_transfers(tmp_path):
    trace = simulate(Workload.of(fork(STAR)), PLAN)
    for name in ("t.json", "t.npz"):
        weft.save(trace, tmp_path / name)
        again = load_trace(tmp_path / name)
        for key, column in trace.transfers.to_arrays().items():
            np.testing.assert_array_equal(getattr(again.transfers, key), column)
        assert check(again.workload, again) == []


TOML = """
[[devices]]
name = "d"
count = 2
node = "a"
[[devices]]
node = "b"
[network]
{sharing}
[[network.ports]]
nodes = ["a", "b"]
up = "1 GB/s"
switch = "l"
[[network.ports]]
nodes = [{third}]
up = {rate}
switch = "r"
[[network.trunks]]
between = ["l", "r"]
{trunk}
"""


def toml(third='"c"', rate="1", sharing="", trunk="oversubscription = 4", more=""):
    text = TOML.format(third=third, rate=rate, sharing=sharing, trunk=trunk)
    return read_cluster_toml(text + '[[devices]]\nnode = "c"\n' + more, name="x")


def test_oversubscription():
    network = toml().network
    assert network.trunks[0].bandwidth == 5e8
    assert repr(network) == "Topology(3 ports on 2 switches, 1 trunk, fair)"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"third": ""}, "no port for node 'c'"),
        ({"third": '"c", "d"'}, "unknown node 'd'"),
        ({"third": '"c", "a"'}, "node 'a' has a port already"),
        ({"rate": "0"}, "is 0; it must be above zero"),
        ({"rate": "nan"}, "rate"),
        ({"sharing": 'sharing = "fare"'}, "did you mean 'fair'"),
        ({"sharing": "shared = 1"}, "unknown key 'shared'"),
        ({"trunk": ""}, "bandwidth of a trunk or its oversubscription"),
        ({"trunk": "oversubscription = 0"}, "it must be above zero"),
        ({"trunk": "bandwidth = 1\nlatency = -1"}, "latency"),
        ({"more": "[links]\nbandwidth = 3"}, "follows from the network"),
    ],
)
def test_refusals_in_files(given, message):
    with pytest.raises(WeftError, match=message):
        toml(**given)


def test_refusals():
    with pytest.raises(InvalidInput, match="no trunks lead from node 'a'"):
        cluster(Topology({"a": Port(1.0, switch="s"), "b": Port(1.0, switch="t")}))
    with pytest.raises(InvalidInput, match="to itself"):
        Topology({}, [Trunk("s", "s", 1.0)])
    copied = weft.Schedule.of(
        task=[0, 0, 1, 2], device=[0, 1, 1, 0], start=[0, 0, 1, 1], finish=[1, 1, 2, 2],
        copy=[False, True, False, False],
    )  # fmt: skip
    problem = fork(STAR)
    with pytest.raises(Unsupported, match="copies"):
        simulate(Workload.of(problem), copied)
    assert {v.rule for v in check(problem, copied)} == {"copy"}


@pytest.mark.parametrize("name", [None, 3, [], ["x"], {"x": 1}])
def test_switches_have_texts_as_names(name):
    with pytest.raises(InvalidInput, match="the port of node 'a' names switch"):
        Topology({"a": Port(switch=name)})
    with pytest.raises(InvalidInput, match="a switch has a text as its name"):
        Topology({"a": Port()}, [Trunk("switch", name, 1.0)])


def test_changed_machines_keep_the_network():
    problem = fork(STAR)
    assert Bandwidth(2.0).apply(problem).cluster.network.ports["a"].up == 20.0
    fewer = RemoveDevice("c").apply(problem).cluster
    assert (fewer.node_names, list(fewer.network.ports)) == (("a", "b"), ["a", "b"])
    with pytest.raises(Unsupported, match="network"):
        Bandwidth(2.0, between=("a", "b")).apply(problem)


def test_changed_machines_keep_capacities_set_ups_and_curves():
    devices = [
        Device(f"d{i}", kind="K", node=f"n{i // 2}", batch=3 - i, batch_curve={"a": 0.5},
               setup={"a": 1.0 + i}, cache=4.0 + i, throughput={"a": 2.0})
        for i in range(3)
    ]  # fmt: skip
    machines = Cluster.of(devices, capacity={"cores": {"n0": 2.0, "n1": 3.0}})
    problem = Problem.bind(Workflow(work=[1.0], src=[], dst=[], data=[], kinds=("a",)), machines)
    left = RemoveDevice("d0").apply(problem).cluster
    assert left.cache.tolist() == [5.0, 6.0]
    assert left.capacity["cores"].tolist() == [2.0, 3.0]
    assert left.batch_curve["a"].shape == (2, 2)
    assert left.setup["a"][:, 0].tolist() == [2.0, 3.0]
    assert RemoveDevice("d2").apply(problem).cluster.capacity["cores"].tolist() == [2.0]
    assert AddDevice("K").apply(problem).cluster.cache.tolist() == [4.0, 5.0, 6.0, 6.0]
