"""The oracle refuses a mutation of each rule of machines: a table of rules, one break in each.

Every line has a valid result, a broken one and the exact rules that the oracle names. A machine
that lacks the rule accepts the broken result, so nothing else is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

import weft
from weft.model import Cluster, Device, Links, Port, Topology, Trunk, Variant, Workflow
from weft.model.check import check


@dataclass(frozen=True)
class Case:
    """A target with a valid and a broken result, and the target without the rule."""

    target: weft.Problem | weft.Workload
    valid: weft.Trace | weft.Schedule | weft.Plan
    broken: weft.Trace | weft.Schedule | weft.Plan
    rules: set[str]
    without: weft.Problem | weft.Workload | None = None


# -- capacity ----------------------------------------------------------------------------


def _host(capacity: dict[str, float], **tasks: object) -> weft.Problem:
    """Return independent tasks of one second on one node with three devices."""
    devices = [Device(f"slot{i}", node="host") for i in range(3)]
    workflow = Workflow(work=[1.0, 1.0], src=[], dst=[], data=[], **tasks)
    limits = {name: {"host": amount} for name, amount in capacity.items()}
    return weft.Problem.bind(workflow, Cluster.of(devices, capacity=limits))


def _together(problem: weft.Problem, free: weft.Problem) -> Case:
    apart = weft.Schedule.of(device=[0, 1], start=[0.0, 1.0], finish=[1.0, 2.0])
    side_by_side = weft.Schedule.of(device=[0, 1], start=[0.0, 0.0], finish=[1.0, 1.0])
    return Case(problem, apart, side_by_side, {"capacity"}, free)


def cores() -> Case:
    return _together(_host({"cores": 4}, cores=[3, 2]), _host({"cores": 5}, cores=[3, 2]))


def memory() -> Case:
    needs = {"memory": [6.0, 6.0]}
    return _together(_host({"memory": 10.0}, **needs), _host({"memory": 12.0}, **needs))


def any_name() -> Case:
    needs = {"needs": {"licence": [1.0, 1.0]}}
    return _together(_host({"licence": 1.0}, **needs), _host({"licence": 2.0}, **needs))


def capacity_of_a_trace() -> Case:
    narrow, wide = _host({"cores": 4}, cores=[3, 2]), _host({"cores": 5}, cores=[3, 2])
    target, free = weft.Workload.of(narrow), weft.Workload.of(wide)
    broken = replace(weft.simulate(free, "fifo"), workload=target)
    return Case(target, weft.simulate(target, "fifo"), broken, {"capacity"}, free)


def capacity_of_a_batch() -> Case:
    def machine(licences: float) -> weft.Workload:
        cluster = Cluster.of(
            [Device("gpu", node="host", batch=3)], capacity={"licence": {"host": licences}}
        )
        flow = Workflow(work=[1.0] * 3, src=[], dst=[], data=[], needs={"licence": [1.0] * 3})
        return weft.Workload.of(weft.Problem.bind(flow, cluster))

    target, free = machine(2.0), machine(3.0)
    broken = replace(weft.simulate(free, "fifo"), workload=target)
    return Case(target, weft.simulate(target, "fifo"), broken, {"capacity"}, free)


# -- batch curves --------------------------------------------------------------------------


def _batches(curve: dict[str, object]) -> weft.Workload:
    cluster = Cluster.of([Device("gpu", batch=4, batch_curve=curve)])
    flow = Workflow(work=[2.0] * 4, src=[], dst=[], data=[], kinds=("detect",))
    return weft.Workload.of(weft.Problem.bind(flow, cluster))


def _other_curve(real: object, believed: object, rules: set[str]) -> Case:
    target, free = _batches({"detect": real}), _batches({"detect": believed})
    broken = replace(weft.simulate(free, "fifo"), workload=target)
    return Case(target, weft.simulate(target, "fifo"), broken, rules, free)


def curve() -> Case:
    return _other_curve(0.25, 0.0, {"wrong duration"})


def curve_of_a_table() -> Case:
    return _other_curve([1.0, 1.2, 1.3, 1.4], [1.0, 1.2, 1.3, 1.5], {"wrong duration"})


def most_tasks_of_a_batch() -> Case:
    # Pairs have the least time per task, so four at once is more than pays.
    both = {"capacity", "wrong duration"}
    return _other_curve([1.0, 1.1, 1.8, 3.0], [1.0, 1.1, 1.5, 1.6], both)


# -- set-up --------------------------------------------------------------------------------


def _jobs(kinds: str, device: Device) -> weft.Workload:
    """Return one job per letter, a task of two seconds each, a tenth of a second apart."""
    cluster = Cluster.of([device])
    made = [
        weft.Problem.bind(
            Workflow(work=[2.0], src=[], dst=[], data=[], kinds=(k,), name=k), cluster
        )
        for k in dict.fromkeys(kinds)
    ]
    names = [p.name for p in made]
    template = [names.index(k) for k in kinds]
    return weft.Workload.of(made, template=template, arrival=np.arange(len(kinds)) * 0.1)


GPU = Device("gpu", setup={"*": weft.Setup(1.0, 2.0)}, cache=4.0, switch=0.25)


def _other_device(kinds: str, real: Device, believed: Device, **future: object) -> Case:
    target, free = _jobs(kinds, real), _jobs(kinds, believed)

    def run(jobs: weft.Workload) -> weft.Trace:
        return weft.simulate(jobs, "fifo", scenario=weft.Scenario.of(jobs, **future))

    broken = replace(run(free), workload=target)
    return Case(target, run(target), broken, {"wrong duration"}, free)


def cold_start() -> Case:
    return _other_device("aa", GPU, replace(GPU, setup={}))


def _last_row_longer(jobs: weft.Workload, trace: weft.Trace, seconds: float) -> Case:
    """Return a case whose broken trace has a longer last row."""
    last = int(np.argmax(trace.start))
    finish, ends = trace.finish.copy(), trace.job_finish.copy()
    finish[last] += seconds
    ends[trace.job[last]] += seconds
    return Case(jobs, trace, replace(trace, finish=finish, job_finish=ends), {"wrong duration"})


def warm_start() -> Case:
    jobs = _jobs("aa", GPU)  # the second finds its kind loaded, so it pays no set-up
    return _last_row_longer(jobs, weft.simulate(jobs, "fifo"), 1.0)


def switching() -> Case:
    return _other_device("ab", GPU, replace(GPU, switch=0.0))


def full_cache() -> Case:
    return _other_device("abca", GPU, replace(GPU, cache=np.inf))


def pinned_kind() -> Case:
    pinned = {"a": weft.Setup(1.0, 2.0, pinned=True), "*": weft.Setup(1.0, 2.0)}
    return _other_device("abcb", replace(GPU, setup=pinned), GPU)


def least_recently_used() -> Case:
    jobs = _jobs("abcb", GPU)  # c drops a, the oldest, so the last b is warm
    return _last_row_longer(jobs, weft.simulate(jobs, "fifo"), 1.0)


def failure_empties_the_cache() -> Case:
    jobs = _jobs("aa", GPU)
    down = weft.Scenario.of(jobs, changes=[(3.0, 0, np.inf), (4.0, 0, 1.0)])
    return _last_row_longer(jobs, weft.simulate(jobs, "fifo", scenario=down), -1.0)


def set_up_of_a_plan() -> Case:
    target, free = (_jobs("a", d).problems[0] for d in (GPU, replace(GPU, setup={})))
    real, believed = weft.plan(target, "heft").schedule, weft.plan(free, "heft").schedule
    return Case(target, real, believed, {"wrong duration"}, free)


# -- shared links --------------------------------------------------------------------------


PLAN = weft.Schedule.of(device=[0, 1, 2], start=[0, 1, 1], finish=[1, 2, 2])


def _fork(network: Topology | None) -> weft.Problem:
    """Return one task, then two, each on a node of its own; both transfers leave one port."""
    cluster = Cluster.of([Device(n, node=n) for n in "abc"], Links(10.0), network=network)
    flow = Workflow(work=[1.0, 1.0, 1.0], src=[0, 0], dst=[1, 2], data=[10.0, 10.0])
    return weft.Problem.bind(flow, cluster)


STAR = Topology.star("abc", up=10.0)


def _other_network(real: Topology, believed: Topology, rules: set[str]) -> Case:
    target, free = weft.Workload.of(_fork(real)), weft.Workload.of(_fork(believed))
    broken = replace(weft.simulate(free, PLAN), workload=target)
    return Case(target, weft.simulate(target, PLAN), broken, rules, free)


def rate_of_a_port() -> Case:
    return _other_network(STAR, Topology.star("abc", up=20.0), {"sharing", "link"})


def fair_shares() -> Case:
    one_after_the_other = Topology.star("abc", 10.0, sharing="one-port")
    return _other_network(STAR, one_after_the_other, {"sharing"})


def one_port() -> Case:
    real = Topology.star("abc", 10.0, sharing="one-port")
    return _other_network(real, STAR, {"sharing", "port"})


def trunk() -> Case:
    ports = {"a": Port(100.0, switch="l"), "b": Port(100.0, switch="r"), "c": Port(100, switch="r")}
    narrow, wide = (Topology(ports, [Trunk("l", "r", rate)]) for rate in (10.0, 20.0))
    return _other_network(narrow, wide, {"sharing", "link"})


def latency_of_a_port() -> Case:
    late = Topology.star("abc", 10.0, latency=0.25)
    return _other_network(late, STAR, {"sharing", "link"})


def links_of_a_plan() -> Case:
    """A plan for independent links: on shared ones its inputs are not there."""
    target, free = _fork(STAR), _fork(None)
    start = np.array([0.0, 2.0, 2.0])
    broken = weft.Schedule.of(device=[0, 1, 2], start=start, finish=start + 1.0)
    late = np.array([0.0, 3.0, 3.0])
    valid = weft.Schedule.of(device=[0, 1, 2], start=late, finish=late + 1.0)
    return Case(target, valid, broken, {"transfer"}, free)


def copies_on_a_network() -> Case:
    target, free = _fork(STAR), _fork(None)
    valid = weft.Schedule.of(device=[0, 0, 0], start=[0, 1, 2], finish=[1, 2, 3])
    broken = weft.Schedule.of(
        task=[0, 1, 2, 0],
        device=[0, 0, 1, 1],
        start=[0, 1, 1, 0],
        finish=[1, 2, 2, 1],
        copy=[False, False, False, True],
    )
    return Case(target, valid, broken, {"copy"}, free)


# -- variants ------------------------------------------------------------------------------


MOLDABLE = (Variant("narrow", cores=2), Variant("wide", cores=4, factor=0.6))


def _moldable() -> weft.Problem:
    cluster = Cluster.of([Device("d", node="host", cores=8)], capacity={"cores": {"host": 4}})
    flow = Workflow(work=[10.0], src=[], dst=[], data=[], variants={"t0": MOLDABLE})
    return weft.Problem.bind(flow, cluster)


def duration_of_a_variant() -> Case:
    problem = _moldable()
    plan = weft.plan(problem, "heft")
    return Case(problem, plan, replace(plan, variants={"t0": MOLDABLE[0]}), {"wrong duration"})


def unknown_variant() -> Case:
    problem = _moldable()
    plan = weft.plan(problem, "heft")
    strange = replace(plan, variants={"t0": Variant("wider", cores=4, factor=0.6)})
    return Case(problem, plan, strange, {"variant"})


def variant_left_out() -> Case:
    problem = _moldable()
    plan = weft.plan(problem, "heft")
    return Case(problem, plan, replace(plan, variants={}), {"variant"})


RULES: list[Callable[[], Case]] = [
    *(cores, memory, any_name, capacity_of_a_trace, capacity_of_a_batch),
    *(curve, curve_of_a_table, most_tasks_of_a_batch),
    *(cold_start, warm_start, switching, full_cache, pinned_kind, least_recently_used),
    *(failure_empties_the_cache, set_up_of_a_plan),
    *(rate_of_a_port, fair_shares, one_port, trunk, latency_of_a_port, links_of_a_plan),
    *(copies_on_a_network, duration_of_a_variant, unknown_variant, variant_left_out),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_oracle_refuses_a_break_of_each_rule(rule):
    case = rule()
    assert check(case.target, case.valid) == []
    assert {v.rule for v in check(case.target, case.broken)} == case.rules
    if case.without is not None:
        broken = case.broken
        if isinstance(broken, weft.Trace):
            broken = replace(broken, workload=case.without)
        assert check(case.without, broken) == []
