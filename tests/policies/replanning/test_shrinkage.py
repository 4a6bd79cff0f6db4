"""How far observed durations are trusted: features, priors, training."""

import numpy as np
import pytest

import weft
from tests.support.by_view import assert_same_by_view
from tests.support.networks import drawn_arrays
from weft.generators import draw_instance
from weft.generators.families.distribution import draw_case
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import (
    PlanOptions,
    advance_to_decision,
    make_portfolio,
    replan,
)
from weft.policies.replanning.shrinkage import FEATURES, constant_arrays, shrinkage_network
from weft.policies.replanning.weights import weights_of
from weft.sim.kernel.commit import commit
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.tables import make_sim


def random_arrays(seed):
    return drawn_arrays(seed, len(FEATURES), hidden=6)


def chain_after_three_tasks(**options):
    """Three tasks of one kind on one device take 1, 2 and 4 times their estimate."""
    cluster = weft.Cluster(speed=[1.0], bandwidth=1.0)
    chain = weft.Workflow(work=[1.0] * 4, src=[0, 1, 2], dst=[1, 2, 3], data=[0.0] * 3)
    workload = weft.Workload.of(weft.Problem.bind(chain, cluster))
    scenario = weft.Scenario.of(workload, factor=[1.0, 2.0, 4.0, 1.0])
    sim = make_sim(workload, scenario, None, eager=True)
    portfolio = make_portfolio(workload, sim, [weights_of({"trust": 1.0})], **options)
    for _ in range(3):
        assert advance_to_decision(sim, portfolio) == MOMENT
        commit(sim, int(sim.world["executions"][0]), 0)
    assert advance_to_decision(sim, portfolio) == MOMENT
    replan(sim, portfolio)
    return portfolio


def test_features_of_the_spread():
    """Logs of 0, 1 and 2 times log 2: the mean is log 2, the squares are 0, 1 and 4 times."""
    portfolio = chain_after_three_tasks(shrinkage=shrinkage_network(random_arrays(1)))
    one = np.log(2)
    expected = {
        "observed": np.log(4) / 5,
        "repeated": np.log(3) / 5,
        "pairs": 1 / 20,
        "total": one * np.sqrt(5 / 3),
        "within": one,
        "between": one * np.sqrt(3),
        "mean": one,
        "slowed": 0.0,
        "one": 1.0,
    }
    found = dict(zip(FEATURES, portfolio.spread.tolist(), strict=True))
    assert found == pytest.approx(expected, rel=1e-6)
    assert portfolio.stack.prior[0].tolist() != [(3.0, 3.0)]


def test_priors_draw_the_factor_towards_one():
    """The sum of logs is 3 log 2 of 3; a prior of 3 halves each of the two means.

    With priors (a, b), the mean of the device kind is s / (3 + b), and the factor's logarithm
    (s + a s / (3 + b)) / (3 + a).
    """
    s = 3 * np.log(2)
    for a, b in ((3.0, 3.0), (0.5, 10.0)):
        portfolio = chain_after_three_tasks(options=PlanOptions(prior=(a, b)))
        expected = (s + a * s / (3 + b)) / (3 + a)
        assert np.log(portfolio.stack.pair["factor"][0, 0, 0]) == pytest.approx(expected)


@pytest.mark.parametrize("condition", ["biased", "changing"])
def test_views_and_compiled_path_agree(condition):
    for seed in range(2):
        case = draw_instance(condition, seed=seed, tasks=(15, 25))
        policy = ReplanningPolicy("x", [{"trust": 1.0}, {"trust": 1.0, "ahead": 1.0}])
        policy.shrinkage_network = shrinkage_network(random_arrays(seed))
        assert_same_by_view(case.workload, policy, case.scenario)


def test_the_network_learns_which_conditions_to_trust():
    """Bias without noise should be trusted, noise without bias not: no constant does both."""
    pytest.importorskip("torch")
    from weft.learn.value_networks import FitSettings
    from weft.learn.workflow.shrinkage import ShrinkageSettings, train_shrinkage

    def draw(seed):
        condition = ("biased", "noisy .5")[seed % 2]
        return draw_case(condition, seed=seed, families=("layered",), clusters=("pairs",))

    fit = FitSettings(hidden=16, epochs=40, rate=1e-2, batch=32)
    settings = ShrinkageSettings(cases=40, validation=20, fit=fit)
    first, second = (train_shrinkage(settings, draw=draw) for _ in range(2))
    assert first.score < 0.9 * first.constant_score
    assert first.score < first.estimate_score
    assert first.score == second.score
    assert set(first.arrays) == set(constant_arrays((1.0, 1.0)))
    assert first.record()["samples"] > 40
