"""Demonstrations of search for the two-stage DQN: choices, copies, the large-margin loss."""

# ruff: noqa: E402  # imports that need torch
import numpy as np
import pytest

import weft
from tests.support.by_view import assert_same_by_view
from tests.support.networks import WEIGHT_SETS, two_stage_arrays
from weft.generators import draw_instance
from weft.generators.families.distribution import DEVELOPMENT, LEFT_OUT
from weft.policies import simulate
from weft.policies.graph.deft import commit_choice
from weft.policies.replanning.portfolio import PlanOptions, make_portfolio
from weft.policies.replanning.weights import weights_of
from weft.policies.search.planning import SearchOptions, make_search, search_from
from weft.policies.search.policy import SearchPolicy
from weft.policies.two_stage.candidates import apply, next_decision
from weft.policies.two_stage.choose import demonstrated_choice, stage_networks
from weft.policies.two_stage.decision import OF_DEVICE, OF_TASK, make_candidates
from weft.policies.two_stage.dqn import TwoStageDqn
from weft.sim.kernel.events import ENDED, MOMENT
from weft.sim.kernel.tables import make_sim

torch = pytest.importorskip("torch")

from weft.learn.dqn import DqnSettings, QValues
from weft.learn.replay_memory import ReplayMemory, make_episode
from weft.learn.workflow.two_stage import draw_families, family_settings

PLANS = PlanOptions(early_exit=False)


def follow_demonstrations(case, options, *, copies):
    """Simulate by the demonstrated choices of a search at every moment."""
    sim = make_sim(case.workload, case.scenario, None, eager=True, copies=copies)
    portfolio = make_portfolio(case.workload, sim, [weights_of({})], PLANS)
    search = make_search(case.workload, sim, 10_000, options, seed=0)
    candidates, last = make_candidates(sim), None
    while (answer := next_decision(sim, portfolio, candidates)) == MOMENT:
        moment = (sim.world[0]["now"], sim.world[0]["executions"])
        if moment != last:
            last = moment
            search_from(sim, portfolio, search, int(portfolio.state["followed"][0]))
        task, device = apply(candidates, demonstrated_choice(candidates, search.first))
        if device >= 0:
            commit_choice(sim, task, device)
    assert answer == ENDED
    return sim.job["finish"][:-1]


@pytest.mark.parametrize("copies", [False, True])
def test_demonstrations_are_the_decisions_of_the_search(copies):
    options = SearchOptions(work=300.0, first_work=2_000.0, copies=copies)
    for seed in range(3):
        case = draw_instance("static", seed=seed, tasks=25, ccr=3.0)
        policy = SearchPolicy("x", {}, PLANS, options)
        expected = simulate(case.workload, policy, scenario=case.scenario).job_finish
        found = follow_demonstrations(case, options, copies=copies)
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_features_of_the_graph():
    """Task 0 has two children: one waits for it alone, the other for task 1 too."""
    problem = weft.Problem.from_arrays(
        [[2.0, 4.0], [2.0, 4.0], [1.0, 1.0], [1.0, 1.0]],
        [[0, 2], [0, 3], [1, 3]],
        [0.0, 3.0, 3.0],
        bandwidth=1.0,
    )
    workload = weft.Workload.of(problem)
    sim = make_sim(workload, weft.Scenario.of(workload), None, eager=True)
    portfolio = make_portfolio(workload, sim, [weights_of({})], PLANS)
    candidates = make_candidates(sim)
    assert next_decision(sim, portfolio, candidates) == MOMENT
    row = candidates.feature[candidates.item.tolist().index(0)]
    assert row[OF_TASK.opens] == pytest.approx(1 / 8)
    assert row[OF_TASK.joins] == 0.0
    assert row[OF_TASK.transfer] == pytest.approx(3.0 / 3.0)  # 3 s, a mean duration of 3 s
    assert row[OF_TASK.depth] == 0.0
    apply(candidates, candidates.item.tolist().index(0))
    assert next_decision(sim, portfolio, candidates) == MOMENT
    assert candidates.feature[:2, OF_DEVICE.speed].tolist() == [1.0, 0.5]
    assert candidates.feature[:2, OF_DEVICE.near].tolist() == [0.0, 0.0]


def test_a_margin_keeps_the_plan():
    case = draw_instance("noisy", seed=2, tasks=30)
    plain = simulate(
        case.workload,
        TwoStageDqn("x", stage_networks(two_stage_arrays()), WEIGHT_SETS),
        scenario=case.scenario,
    )
    zero = two_stage_arrays() | {"w3": np.zeros((2, 8), np.float32)}
    planned = simulate(
        case.workload, TwoStageDqn("x", stage_networks(zero), WEIGHT_SETS), scenario=case.scenario
    )
    held = TwoStageDqn("x", stage_networks(two_stage_arrays()), WEIGHT_SETS, margin=1e9)
    kept = simulate(case.workload, held, scenario=case.scenario)
    assert plain.makespan != planned.makespan == kept.makespan


def test_copies_are_made_and_views_agree():
    made = 0
    for seed in range(3):
        case = draw_instance("static", seed=seed, tasks=(20, 30), ccr=5.0)
        policy = TwoStageDqn(
            "x", stage_networks(two_stage_arrays(seed)), WEIGHT_SETS[0], copies=True
        )
        made += int(simulate(case.workload, policy, scenario=case.scenario).copy.sum())
        assert_same_by_view(case.workload, policy, case.scenario)
    assert made > 0


def test_the_demonstrated_candidate_gets_its_lead():
    """Two candidates; the second is demonstrated. After some steps it leads by the margin."""
    settings = DqnSettings(batch=16, memory=64, candidates=2, imitate=1.0, lead=0.3, steps=1)
    from weft.learn.dqn import _lead_loss

    memory, episode = ReplayMemory(settings, 3), make_episode(32, 2, 3, 0)
    episode.kept[:], episode.shown[:] = 2, 1
    episode.candidates[:, 0, 0] = episode.candidates[:, 1, 1] = 1.0
    memory.add(episode, np.zeros(32))
    torch.manual_seed(0)
    online = QValues(3, 8, dueling=False)
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-2)
    places = np.arange(16)
    first = float(_lead_loss(online, memory, places, 0.3).mean().detach())
    for _ in range(200):
        loss = _lead_loss(online, memory, places, 0.3).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert first == pytest.approx(0.3)  # equal values: the lead is missed in full
    assert float(loss.detach()) == pytest.approx(0.0, abs=1e-3)


def test_training_cases_leave_families_out():
    assert not set(DEVELOPMENT) & set(LEFT_OUT)
    jobs = [instance.workload.jobs for instance in draw_families(3, 4, 2)]
    assert jobs == [1, 1, 1, 1, 6, 6]
    settings = family_settings(seed=3)
    assert settings.copies
    assert settings.first_work > 0
