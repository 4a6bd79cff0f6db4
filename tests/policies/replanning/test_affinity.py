"""Job affinity: the groups that jobs get, their gain, and that every task still runs."""

import numpy as np
import pytest

import weft
from tests.support.by_view import assert_same_by_view
from weft.generators import draw_instance
from weft.model import Cluster, Problem, Scenario, Workflow, Workload
from weft.policies import simulate
from weft.policies.replanning.affinity import (
    DEMAND,
    NO_GROUP,
    assign_groups,
    divisions,
    weigh_groups,
)
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import MOVES, PlanOptions, make_portfolio, observe, replan
from weft.policies.replanning.state import DEVICE, JOB
from weft.policies.replanning.weights import weights_of
from weft.sim.kernel.events import advance
from weft.sim.kernel.tables import make_sim

TWO_NODES = Cluster(
    speed=[1.0, 1.0, 2.0, 2.0],
    nodes=("slow", "slow", "fast", "fast"),
    bandwidth=[[1e9 if a // 2 == b // 2 else 1.0 for b in range(4)] for a in range(4)],
)
"""Two nodes of two devices; within a node data costs nothing, between them a second per byte."""


def fork(width=4, data=4.0, work=4.0):
    """One task, `width` children, and one that needs them all."""
    middle = range(1, width + 1)
    src, dst = [0] * width + list(middle), [*middle, *[width + 1] * width]
    return Workflow(
        work=[1.0] + [work] * width + [1.0], src=src, dst=dst, data=[data] * (2 * width)
    )


def planned(workload, **options):
    """A simulation at its first moment, and its portfolio."""
    sim = make_sim(workload, Scenario.of(workload), None, eager=True)
    options = PlanOptions(affinity=True, **options)
    portfolio = make_portfolio(workload, sim, [weights_of({})], options)
    advance(sim)
    observe(sim, portfolio)
    return sim, portfolio


@pytest.mark.parametrize(
    ("nodes", "count"),
    [(("a", "a", "a"), 1), (("a", "b", "b"), 2), (("a", "b", "c"), 1), (("a",), 0)],
    ids=["one node", "two nodes", "a node for each device", "one device"],
)
def test_divisions(nodes, count):
    found = divisions(Cluster(speed=[1.0] * len(nodes), nodes=nodes))
    assert len(found) == count
    for group in found:
        assert sorted(set(group.tolist())) == list(range(group.max() + 1))
    if found:
        assert found[-1].tolist() == list(range(len(nodes)))  # every device for itself comes last


def test_what_a_job_takes_of_a_node():
    workload = Workload.of(Problem.bind(fork(), TWO_NODES))
    demand = demand_of(workload, [0, 0, 1, 1])
    # 1 + 4 * 4 + 1 = 18 units of work on two devices of speed 1, or 2; the longest path is 1 + 4 +
    # 1.
    assert demand[0, 0].tolist() == (9.0, 6.0)
    assert demand[0, 1].tolist() == (4.5, 3.0)


def demand_of(workload, group):
    sim = make_sim(workload, Scenario.of(workload), None, eager=True)
    demand = np.zeros((len(workload.problems), len(group)), DEMAND)
    starts = np.cumsum([0, *(p.n for p in workload.problems)])
    order = np.concatenate(
        [p.workflow.order + at for p, at in zip(workload.problems, starts, strict=False)]
    )
    weigh_groups(
        sim,
        order.astype(np.int64),
        starts,
        np.array(group),
        demand,
        np.zeros((starts[-1] + 3, len(group))),
    )
    return demand


def test_what_a_node_cannot_run_takes_nothing_of_it():
    """Device 0 cannot run the first of two tasks, device 2 nothing."""
    problem = Problem.from_arrays(
        [[np.inf, 3.0, np.inf], [2.0, 4.0, np.inf]], [[0, 1]], [0.0], bandwidth=1.0
    )
    demand = demand_of(Workload.of(problem), [0, 1, 2])[0]
    assert demand[0].tolist() == (2.0, 5.0)  # the path goes elsewhere and back
    assert demand[1].tolist() == (7.0, 7.0)
    assert demand[2]["critical_path"] == np.inf


def test_empty_workflows_take_nothing():
    empty = Problem.bind(Workflow(work=[], src=[], dst=[], data=[]), TWO_NODES)
    workload = Workload.of([empty, Problem.bind(fork(), TWO_NODES)])
    assert demand_of(workload, [0, 0, 1, 1])[0].tolist() == [(0.0, 0.0)] * 4


def groups_of(begun, free, jobs=3):
    """Groups of jobs of equal size on two devices, the second twice as fast."""
    workload = Workload.of(
        [
            Problem.bind(
                Workflow(work=[2.0, 2.0], src=[], dst=[], data=[]), Cluster(speed=[1.0, 2.0])
            )
        ]
        * jobs
    )
    sim = make_sim(workload, Scenario.of(workload), None, eager=True)
    sim.job["state"][:jobs] = 1
    demand, device, job = np.zeros((jobs, 2), DEMAND), np.zeros(2, DEVICE), np.zeros(jobs, JOB)
    demand[:, 0], demand[:, 1] = (4.0, 2.0), (2.0, 1.0)
    device["group"], device["free"], job["group"] = [0, 1], free, [0, NO_GROUP, NO_GROUP]
    sim.job["remaining"][:jobs] = [1 if b else 2 for b in begun]
    assign_groups(sim, device, demand, job)
    return job["group"].tolist()


def test_a_job_gets_the_group_where_it_should_finish_first():
    # 2 s on the fast device for the first; then 4 s on either, and the slow one comes first; the
    # third is done after 4 s on the fast one.
    assert groups_of([False] * 3, [0.0, 0.0]) == [1, 0, 1]


def test_a_job_that_has_begun_stays_where_it_is():
    assert groups_of([True, False, False], [0.0, 0.0])[0] == 0
    assert groups_of([True, False, False], [np.inf, 0.0]) == [1] * 3  # unless its devices are down
    assert groups_of([True, False, False], [np.inf, np.inf]) == [NO_GROUP] * 3
    # It began under another plan, so it has no group yet.
    assert groups_of([False, True, False], [0.0, 0.0])[1] == 1


def test_staying_on_a_node_is_seen_and_done():
    """Six tasks of 4 units, and one that needs them all. HEFT has four of them on the fast node and
    two on the slow one, done after 4 s; their data are there after 8 s. On the fast node alone the
    last task begins after 6 s."""
    join = Workflow(work=[4.0] * 6 + [1.0], src=range(6), dst=[6] * 6, data=[4.0] * 6)
    problem = Problem.bind(join, TWO_NODES)
    scattered, near = (
        simulate(problem, ReplanningPolicy("x", {}, PlanOptions(affinity=affinity))).makespan
        for affinity in (False, True)
    )
    assert (scattered, near) == pytest.approx((8.5, 6.5), abs=1e-6)
    assert (
        weft.plan(problem, "heft").makespan,
        weft.plan(problem, "heft-node").makespan,
    ) == pytest.approx((8.5, 6.5), abs=1e-6)


def test_each_job_has_its_own_group():
    """Two forks at once: by load 9 s on the slow node, or 4.5 s and then 9 s on the fast one; ties
    go to the first."""
    workload = Workload.of([Problem.bind(fork(), TWO_NODES)] * 2)
    sim, portfolio = planned(workload)
    replan(sim, portfolio)
    assert portfolio.stack.job["group"][1].tolist() == [1, 0]
    first = portfolio.stack.inst["device"][1].reshape(2, 6)
    assert set(first[0].tolist()) == {2, 3}
    assert set(first[1].tolist()) == {0, 1}


def test_a_task_that_its_group_cannot_run_goes_elsewhere():
    """The last task needs memory that only the slow node has; the others stay on the fast node."""
    flow = fork()
    flow = Workflow(
        work=flow.work, src=flow.src, dst=flow.dst, data=flow.data, memory=[0.0] * 5 + [8.0]
    )
    cluster = Cluster(
        speed=TWO_NODES.speed,
        nodes=TWO_NODES.nodes,
        bandwidth=TWO_NODES.bandwidth,
        memory=[9.0, 9.0, 1.0, 1.0],
    )
    problem = Problem.bind(flow, cluster)
    sim, portfolio = planned(Workload.of(problem))
    replan(sim, portfolio)
    assert portfolio.stack.job["group"][1].tolist() == [1]
    assert {d // 2 for d in portfolio.stack.inst["device"][1].tolist()[:5]} == {1}
    assert portfolio.stack.inst["device"][1][5] < 2
    for name in ("heft-affinity", "portfolio", "replan-switch"):
        assert weft.check(problem, simulate(problem, name)) == []
    assert weft.check(problem, weft.plan(problem, "heft-node").schedule) == []
    assert (
        simulate(problem, "heft-affinity").makespan <= simulate(problem, "heft-replanned").makespan
    )


def test_a_job_without_a_fitting_group_does_not_affect_the_others():
    """No node can run all of the first job; the second one gets the fast node all the same."""
    split = Workflow(work=[1.0, 1.0], src=[0], dst=[1], data=[0.0], memory=[0.0, 8.0])
    cluster = Cluster(
        speed=TWO_NODES.speed,
        nodes=TWO_NODES.nodes,
        bandwidth=TWO_NODES.bandwidth,
        memory=[9.0, 9.0, 1.0, 1.0],
    )
    workload = Workload.of([Problem.bind(split, cluster), Problem.bind(fork(), cluster)])
    sim, portfolio = planned(workload)
    replan(sim, portfolio)
    assert portfolio.stack.job["group"][1, 1] == 1


def test_moves_of_a_new_incumbent_are_limited_whatever_the_number_of_jobs():
    """A move of 500 jobs of three tasks times 1500 tasks and looks at 499 more jobs: the limit of
    100,000 allows 50 moves. Each move draws three to five random numbers."""
    cluster = Cluster(speed=[1.0, 2.0, 3.0, 4.0], bandwidth=1.0)
    chain = Problem.bind(Workflow(work=[1.0] * 3, src=[0, 1], dst=[1, 2], data=[1.0] * 2), cluster)
    sim, portfolio = planned(Workload.of([chain] * 500), moves=MOVES)
    portfolio.state["keep"] = 1
    before = int(portfolio.stack.state["random"][-1, 0])
    replan(sim, portfolio)
    state, draws = before, 0
    while state != portfolio.stack.state["random"][-1, 0]:
        state, draws = (state * 1103515245 + 12345) % 2147483648, draws + 1
    assert 3 * 50 <= draws <= 5 * 50


@pytest.mark.parametrize("condition", ["static", "failing", "changing", "stream"])
def test_views_and_compiled_path_agree(condition):
    for seed in range(4):
        jobs = 6 if condition == "stream" else 1 + seed % 2
        case = draw_instance(
            condition, seed=seed, tasks=(8, 25), jobs=jobs, load=0.9, ccr=[1.0, 5.0][seed % 2]
        )
        sets = [{"ahead": 0.8, "trust": 0.5}, {}]
        policy = ReplanningPolicy("x", sets, PlanOptions(affinity=True))
        assert_same_by_view(case.workload, policy, case.scenario)


def test_affinity_pays_where_transfers_are_expensive():
    """Clusters of several nodes at CCR 5: a fifth shorter on average; at CCR 0.1 about the same."""
    change = {}
    for ccr in (0.1, 5.0):
        cases = [
            draw_instance("changing", seed=60_000 + seed, tasks=(20, 60), ccr=ccr)
            for seed in range(25)
        ]
        spans = [
            [
                simulate(c.workload, name, scenario=c.scenario).makespan
                for name in ("heft-replanned", "heft-affinity")
            ]
            for c in cases
        ]
        change[ccr] = float(np.exp(np.diff(np.log(spans)).mean()))
    assert change[5.0] < 0.85
    assert change[0.1] == pytest.approx(1.0, abs=0.03)


def test_heft_on_a_node_is_never_worse_than_heft():
    for seed in range(30):
        problem = draw_instance(
            "static", seed=61_000 + seed, tasks=(20, 60), ccr=[0.1, 1.0, 5.0][seed % 3]
        ).workload.problems[0]
        made = weft.plan(problem, "heft-node")
        assert weft.check(problem, made.schedule) == []
        assert made.makespan <= weft.plan(problem, "heft").makespan * (1 + 1e-12)
