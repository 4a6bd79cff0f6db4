"""Replanning policies: views and the compiled path agree; known rules are special weights."""

import numpy as np
import pytest

import weft
from tests.support.by_view import assert_same_by_view
from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.generators import CONDITIONS, draw_instance
from weft.policies import simulate
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import PlanOptions, make_portfolio, run_by_portfolio
from weft.policies.replanning.switch import transfer_feature
from weft.policies.replanning.weights import WEIGHTS, weights_of
from weft.sim.kernel.events import ENDED
from weft.sim.kernel.tables import make_sim

ODD = {
    "least": 0.3,
    "moving": 0.2,
    "work": 0.7,
    "path": 0.1,
    "age": 0.2,
    "slack": 0.05,
    "priority": 0.1,
    "rank": 0.4,
    "ahead": 0.8,
    "longer": 0.2,
    "together": 0.2,
    "gap": 0.2,
    "slowed": 0.3,
    "moved": 0.1,
    "energy": 0.2,
    "overdue": 0.3,
    "trust": 0.9,
    "price": 0.4,
}


def instance_of(condition, seed):
    if condition == "stream":
        return draw_instance(condition, seed=seed, jobs=6, tasks=(8, 20), load=0.9)
    return draw_instance(
        condition, seed=seed, tasks=(15, 40), jobs=1 + seed % 2, ccr=[0.1, 1.0, 5.0][seed % 3]
    )


@pytest.mark.parametrize(
    "weights",
    [{}, {"trust": 1.0}, {"work": 1.0, "rank": 1e-3}, ODD],
    ids=["heft", "observed", "srw", "odd"],
)
@pytest.mark.parametrize("condition", list(CONDITIONS))
def test_views_and_compiled_path_agree(condition, weights):
    for seed in range(4):
        case = instance_of(condition, seed)
        assert_same_by_view(case.workload, ReplanningPolicy("x", weights), case.scenario)


@pytest.mark.parametrize("condition", list(CONDITIONS))
def test_several_plans_by_view_and_compiled_agree(condition):
    for seed in range(2):
        case = instance_of(condition, seed)
        policy = ReplanningPolicy(
            "x", [ODD, {}, {"ahead": 1.0, "trust": 0.5}], PlanOptions(contenders=1 + seed)
        )
        assert_same_by_view(case.workload, policy, case.scenario)


@pytest.mark.parametrize("kind", ["heft", "plans", "affinity"])
def test_views_show_jobs_that_are_empty_cancelled_or_lost(kind):
    """Jobs without tasks, also the last one; cancelled jobs; lost tasks that wait elsewhere."""
    sets = {"heft": {}, "plans": [ODD, {}, {"ahead": 1.0}], "affinity": [ODD, {}]}[kind]
    for seed in range(60):
        rng = np.random.default_rng(seed)
        cluster = draw_instance("static", seed=seed).workload.cluster
        flows = [
            draw_instance(
                "static", seed=900 + 7 * seed + k, tasks=(3, 12), cluster=cluster
            ).workload.problems[0]
            for k in range(4)
        ]
        empty = weft.Problem.bind(weft.Workflow(work=[], src=[], dst=[], data=[]), cluster)
        workload = weft.Workload.of(
            [*flows, empty],
            template=rng.permutation([0, 1, 2, 3, 4, 4]),
            arrival=np.sort(rng.uniform(0, 6, 6)),
        )
        cancel = np.where(rng.random(6) < 0.3, workload.arrival + rng.uniform(0, 8, 6), np.inf)
        changes = [(float(t), int(rng.integers(cluster.p)), np.inf) for t in rng.uniform(0, 6, 3)]
        changes += [(t + 1.0, d, 1.0) for t, d, _ in changes]
        factor = np.exp(0.3 * rng.standard_normal(workload.instances))
        future = weft.Scenario.of(workload, cancel=cancel, changes=sorted(changes), factor=factor)
        options = PlanOptions(affinity=kind == "affinity")
        assert_same_by_view(workload, ReplanningPolicy("x", sets, options), future)


def test_the_best_of_plans_made_once_is_no_worse_than_any():
    """With exact costs a lone plan is carried out as it is: its first prediction is a bound."""
    for seed in range(5):
        case = draw_instance("static", seed=seed, tasks=50, ccr=2.0)
        sets = [{}, {"ahead": 1.0}, {"together": 0.5}]
        alone = [
            simulate(case.workload, ReplanningPolicy("one", given), scenario=case.scenario).makespan
            for given in sets
        ]
        assert simulate(
            case.workload, ReplanningPolicy("all", sets), scenario=case.scenario
        ).makespan <= min(alone) * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_without_changes_replanning_keeps_the_plan_of_heft(seed):
    case = draw_instance("static", seed=seed, tasks=60)
    planned = weft.plan(case.workload.problems[0], "heft").makespan
    assert simulate(
        case.workload, "heft-replanned", scenario=case.scenario
    ).makespan == pytest.approx(planned, rel=1e-12)


def test_looking_ahead_sees_the_slow_link():
    """A chain of two; the first takes 4 s on either device; the second 2 s on device 1, 9 s on
    device 0; moving takes 10 s.

    Earliest finish takes device 0 for the first (a tie), then min(4 + 9, 4 + 10 + 2) = 13. Looking
    ahead: 4 + min(9, 12) on device 0 against 4 + min(2, 19) on device 1, so device 1: 6.
    """
    problem = weft.Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0], bandwidth=1.0)
    assert simulate(problem, "heft-replanned").makespan == 13.0
    assert simulate(problem, ReplanningPolicy("ahead", {"ahead": 1.0})).makespan == 6.0


def test_shortest_remaining_work_goes_first():
    """One device, jobs of 5 s and 1 s at once. The short one ends at 1 s, the long one at 6 s; in
    order of arrival they end at 5 s and 6 s."""
    problems = [weft.Problem.from_arrays([[5.0]]), weft.Problem.from_arrays([[1.0]])]
    workload = weft.Workload.of(problems, arrival=[0.0, 0.0])
    assert simulate(workload, "srpt-replanned").job_finish.tolist() == [6.0, 1.0]
    assert simulate(workload, "heft-arrival").job_finish.tolist() == [5.0, 6.0]


def test_objectives_differ_where_jobs_compete():
    """Two devices; a chain of 2 + 2 s and two single tasks of 1 s.

    By completion the short ones go first, and end at 1 s; the chain ends at 5 s. By makespan the
    chain goes first, and ends at 4 s; the short ones share the other device.
    """
    chain = weft.Problem.from_arrays([[2.0, 2.0], [2.0, 2.0]], [[0, 1]], [0.0], bandwidth=1.0)
    short = weft.Problem.from_arrays([[1.0, 1.0]], bandwidth=1.0)
    workload = weft.Workload.of([chain, short, short])
    policy = ReplanningPolicy("x", {"work": 10.0, "rank": 0.1})
    assert simulate(workload, policy).job_finish.tolist() == [5.0, 1.0, 1.0]
    assert simulate(workload, policy.with_objective("makespan")).job_finish.tolist() == [
        4.0,
        1.0,
        2.0,
    ]
    with pytest.raises(UnknownName, match="unknown objective 'makspan'; did you mean 'makespan'"):
        policy.with_objective("makspan")


def test_observed_durations_are_used():
    """Tasks are said to take 1 s on either kind of device; on kind a they take 3 s. A chain of two
    comes when twenty have ended.

    By estimates the devices are alike and the lower number wins: 3 + 3 s. Having seen 3 s, device 1
    takes both: 1 + 1 s.
    """
    cluster = weft.Cluster(speed=[1.0, 1.0], bandwidth=1e9, kinds=("a", "b"))
    bag = weft.Problem.bind(weft.Workflow(work=np.ones(20), src=[], dst=[], data=[]), cluster)
    chain = weft.Problem.bind(weft.Workflow(work=[1.0, 1.0], src=[0], dst=[1], data=[0.0]), cluster)
    workload = weft.Workload.of([bag, chain], arrival=[0.0, 40.0])
    biased = weft.Scenario.of(workload, bias=[[3.0, 1.0]])
    assert simulate(workload, "heft-replanned", scenario=biased).job_finish[1] == 46.0
    assert simulate(workload, "heft-observed", scenario=biased).job_finish[1] == 42.0


def test_energy_weight_moves_work_to_the_frugal_device():
    cluster = weft.Cluster(speed=[1.0, 1.0], bandwidth=1e9, power=[300.0, 100.0])
    workload = weft.Workload.of(
        weft.Problem.bind(weft.Workflow(work=[1.0, 1.0], src=[0], dst=[1], data=[0.0]), cluster)
    )
    assert simulate(workload, ReplanningPolicy("plain", {})).device.tolist() == [0, 0]
    assert simulate(workload, ReplanningPolicy("frugal", {"energy": 0.5})).device.tolist() == [1, 1]


def test_weights_have_names():
    assert weights_of({}).sum() == 1.0
    with pytest.raises(UnknownName, match="unknown weight 'ahed'; did you mean 'ahead'"):
        weights_of({"ahed": 1.0})
    with pytest.raises(InvalidInput, match="weight 'gap' is nan"):
        weights_of({"gap": float("nan")})
    assert set(ODD) == set(WEIGHTS)


def test_choices_are_refused():
    b = weft.WorkflowBuilder()
    b.task("choose", work=1.0)
    b.choice("choose", {"left": 0.5, "right": 0.5})
    problem = weft.Problem.bind(b.build(), weft.Cluster(speed=[1.0], bandwidth=1.0))
    with pytest.raises(Unsupported, match="it has choices"):
        simulate(problem, "heft-observed")


@pytest.mark.parametrize("condition", ["static", "noisy", "failing", "changing", "stream"])
def test_an_early_exit_changes_nothing(condition):
    """Once every idle device has a task to start now, the rest of the plan does not change that."""
    for seed in range(4):
        case = draw_instance(
            condition, seed=seed, tasks=(15, 30), jobs=8, ccr=[0.1, 1.0, 5.0, 1.0][seed], load=0.9
        )
        for weights in (
            {},
            {"age": 1e6},
            {"ahead": 0.6, "trust": 1.0, "gap": 0.3, "together": 0.2},
            {"gap": -0.3},
        ):
            found = []
            for early_exit in (True, False):
                sim = make_sim(case.workload, case.scenario, None, eager=True)
                options = PlanOptions(early_exit=early_exit)
                given = [weights_of(weights)]
                portfolio = make_portfolio(case.workload, sim, given, options)
                assert run_by_portfolio(sim, portfolio) == ENDED
                found.append(sim.execution[["instance", "device", "start", "finish"]])
            np.testing.assert_array_equal(*found)


def test_transfers_next_to_nothing_are_the_least_feature():
    workload = weft.Workload.of(weft.Problem.from_arrays([[1e100], [1e100]], [[0, 1]], [0.0]))
    assert transfer_feature(workload, np.array([1e100])) == -1.0  # a warning would be an error
