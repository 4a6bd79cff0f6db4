"""The DQN scheduler: its decision process, its memory, its networks, and what it learns."""

import numpy as np
import pytest

import weft
from weft.errors import InvalidInput, UnknownName
from weft.generate import Case, draw_case
from weft.policies import simulate
from weft.policies.dispatch import DEVICE, FEATURES, REWARDS, TASK, make_turn, next_turn, take_turn
from weft.policies.dqn_policy import Dqn
from weft.policies.foresight_policy import Foresight, weights_of
from weft.policies.plans import FAR, make_plans
from weft.policies.q_network import planned_choice, q_network, q_value
from weft.policies.workflow_files import Card, load_workflow_policy, save_policy
from weft.sim.commitment import commit
from weft.sim.kernel import ENDED, MOMENT
from weft.sim.reference import simulate_reference
from weft.sim.tables import make_sim

torch = pytest.importorskip("torch")

from weft.learn.dqn import DOCUMENT, DqnSettings, Values, load_arrays, train_dqn  # noqa: E402
from weft.learn.dqn_rollouts import RolloutSettings, train_by_rollouts  # noqa: E402
from weft.learn.evolution import Evolution  # noqa: E402
from weft.learn.fine_tuning import fine_tune  # noqa: E402
from weft.learn.portfolio_search import PortfolioSearch, search_portfolio  # noqa: E402
from weft.learn.rule_search import RuleSearch, search_rule  # noqa: E402
from weft.learn.sum_tree import SumTree  # noqa: E402


def arrays(seed=0, hidden=8, scale=0.5):
    rng = np.random.default_rng(seed)
    shapes = {"w1": (2, FEATURES, hidden), "b1": (2, hidden), "w2": (2, hidden, hidden), "b2": (2, hidden), "w3": (2, hidden)}
    return {name: (scale * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


class Hidden:
    def __init__(self, policy):
        self.name, self.begin, self.decide = policy.name, policy.begin, policy.decide


def start(problem_or_case, weights=None):
    case = problem_or_case if isinstance(problem_or_case, Case) else None
    workload = case.workload if case else weft.Workload.of(problem_or_case)
    scenario = case.scenario if case else weft.Scenario.of(workload)
    w = weights_of(weights or {})
    sim = make_sim(workload, scenario, None, eager=True)
    return sim, make_plans(workload, sim, [w], most=FAR), make_turn(sim)


# -- the decision process ------------------------------------------------------


def test_turns_of_a_small_problem():
    """Two independent tasks of 2 and 1 s on two equal devices: which task, which device, and so on; waiting is on offer once one runs."""
    sim, plans, turn = start(weft.Problem.from_arrays([[2.0, 2.0], [1.0, 1.0]]))
    assert next_turn(sim, plans, turn) == MOMENT
    assert (turn.state[0], sorted(turn.offer[: turn.state[2]].tolist())) == (TASK, [0, 1])  # nothing runs: no waiting
    assert turn.offer[planned_choice(turn)] == 0  # the longer one first
    assert take_turn(turn, planned_choice(turn)) == (-1, -1)
    assert next_turn(sim, plans, turn) == MOMENT
    assert (turn.state[0], turn.offer[: turn.state[2]].tolist()) == (DEVICE, [0, 1])
    task, device = take_turn(turn, planned_choice(turn))
    assert (task, device) == (0, 0)
    commit(sim, task, device)
    assert next_turn(sim, plans, turn) == MOMENT
    assert (turn.state[0], turn.offer[: turn.state[2]].tolist()) == (TASK, [1, -1])
    assert turn.reward.tolist() == [0.0] * len(REWARDS)  # no time has passed
    take_turn(turn, 1)  # wait: asked again when task 0 has ended, at 2 s
    assert next_turn(sim, plans, turn) == MOMENT
    assert sim.world[0]["now"] == 2.0
    # The first plan promised 2 s; now it is 3. The rank of the first task is 2 s: the promise has slipped by half a path.
    assert turn.reward[0] == pytest.approx(-0.5)
    assert turn.reward[1] == pytest.approx(-1.0)  # 2 s, one path
    assert turn.reward[2] == pytest.approx(-0.5)  # half of the devices idle


@pytest.mark.parametrize("condition", ["static", "failing", "changing", "stream"])
def test_infinite_caution_follows_the_plan(condition):
    for seed in range(3):
        case = draw_case(condition, seed=seed, tasks=30, jobs=4 if condition == "stream" else 1)
        plain = simulate(case.workload, Foresight("plan", {"ahead": 0.7, "trust": 1.0}), scenario=case.scenario)
        careful = Dqn("careful", arrays(), {"ahead": 0.7, "trust": 1.0}, caution=np.inf)
        trace = simulate(case.workload, careful, scenario=case.scenario)
        np.testing.assert_array_equal(trace.job_finish, plain.job_finish)


@pytest.mark.parametrize("condition", ["static", "noisy", "failing", "changing", "stream"])
def test_views_and_compiled_path_agree(condition):
    for seed in range(3):
        case = draw_case(condition, seed=seed, tasks=(10, 25), jobs=4 if condition == "stream" else 1, load=0.9)
        policy = Dqn("x", arrays(seed), {"ahead": 0.7, "trust": 1.0, "overdue": 0.3})
        compiled = simulate(case.workload, policy, scenario=case.scenario)
        assert weft.check(case.workload, compiled) == []
        for run in (simulate, simulate_reference):
            other = run(case.workload, Hidden(policy), scenario=case.scenario)
            for column in ("task", "device", "decided", "start", "finish", "status"):
                np.testing.assert_array_equal(getattr(compiled, column), getattr(other, column))


def test_rewards_add_up_to_the_slip_of_the_first_promise():
    case = draw_case("noisy", seed=3, tasks=40)
    sim, plans, turn = start(case)
    rng, total, first = np.random.default_rng(0), 0.0, None
    while next_turn(sim, plans, turn) == MOMENT:
        total += turn.reward[0]
        first = turn.promise[0, 0] if first is None else first
        task, device = take_turn(turn, int(rng.integers(turn.state[2])))
        if device >= 0:
            commit(sim, task, device)
    total += turn.reward[0]
    path = plans.stack.rank[0, plans.stack.order[0, 0]]
    assert total == pytest.approx(-(sim.job["finish"][0] - first) / path)


# -- parts ---------------------------------------------------------------------


def test_sum_tree_draws_in_proportion():
    rng = np.random.default_rng(1)
    priority = rng.random(100) * (rng.random(100) < 0.7)
    tree = SumTree(100)
    tree.set(np.arange(100), priority)
    tree.set(np.array([5, 5]), np.array([9.0, priority[5]]))
    assert tree.total == pytest.approx(priority.sum())
    drawn = np.bincount(tree.draw((np.arange(200_000) + 0.5) / 200_000), minlength=100) / 200_000
    np.testing.assert_allclose(drawn, priority / priority.sum(), atol=2e-5)


def test_torch_and_compiled_networks_agree():
    values = Values(16, dueling=False)
    load_arrays(values, arrays(2, 16))
    network = q_network(values.arrays())
    feature = np.random.default_rng(0).standard_normal((20, FEATURES)).astype(np.float32)
    for kind in (TASK, DEVICE):
        torch_says = values.advantage(torch.full((20,), kind), torch.from_numpy(feature)).detach().numpy()
        np.testing.assert_allclose([q_value(network, kind, f) for f in feature], torch_says, rtol=2e-4, atol=2e-4)


def test_networks_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match="needs the arrays"):
        q_network({"w1": np.zeros(3)})
    wrong = arrays()
    wrong["w2"] = wrong["w2"][:, :4]
    with pytest.raises(InvalidInput, match="array 'w2'"):
        q_network(wrong)


def test_policies_on_disk(tmp_path):
    made = Dqn("mine", arrays(), [{"ahead": 0.5}, {}], caution=0.25, most=64)
    card = Card(name="mine", about="a test", weights=[{"ahead": 0.5}, {}], caution=0.25, most=64, challengers=2, training={"seed": 1})
    save_policy(tmp_path / "mine", card, arrays())
    found = weft.load_policy(tmp_path / "mine")
    assert (found.name, found.caution, found.most, found.challengers) == ("mine", 0.25, 64, 2)
    np.testing.assert_array_equal(found.sets, made.sets)
    np.testing.assert_array_equal(found.network.w2, made.network.w2)
    save_policy(tmp_path / "plain", Card(name="plain", about="", weights=[{"gap": 0.5}], most=9))
    assert type(weft.load_policy(tmp_path / "plain.json")) is Foresight
    (tmp_path / "bad.json").write_text((tmp_path / "plain.json").read_text().replace('"gap"', '"gup"'))
    with pytest.raises(UnknownName, match="unknown weight 'gup'"):
        load_workflow_policy(tmp_path / "bad")


# -- learning ------------------------------------------------------------------


def trap(seed, alone, streams):
    """A plan that errs: by estimates the devices are alike, but device 0, which wins ties, takes five times as long."""
    found = []
    for k in range(alone + streams):
        rng = np.random.default_rng([seed, k])
        work = rng.uniform(0.5, 1.5, 4)
        cluster = weft.Cluster(speed=[1.0, 1.0], bandwidth=1e9, kinds=("a", "b"))
        problem = weft.Problem.bind(weft.Workflow(work=work, src=[0, 1, 2], dst=[1, 2, 3], data=np.zeros(3)), cluster)
        workload = weft.Workload.of(problem)
        found.append(Case(workload, weft.Scenario.of(workload, changes=[(0.0, 0, 5.0)])))
    return found


HASTY = {"slowed": -0.9}
"""Weights that love a device that is slower than usual: chains stay on it, where moving would be five times as quick."""


def test_rollouts_learn_what_the_plan_does_not_know():
    weights = [weights_of(HASTY)]
    settings = RolloutSettings(seconds=6.0, every=10, alone=6, streams=0, stops=4, seed=1, rate=3e-3, updates=20)
    trained = train_by_rollouts(weights, settings, draw=trap, judge=trap)
    assert trained.score < -0.3  # five times as quick from the first task on would be -0.69, where cases are cut off
    again = train_by_rollouts(weights, RolloutSettings(seconds=1e-9, every=1, alone=3, streams=0, seed=1), draw=trap, judge=trap)
    twice = train_by_rollouts(weights, RolloutSettings(seconds=1e-9, every=1, alone=3, streams=0, seed=1), draw=trap, judge=trap)
    assert again.curve[0]["greedy"] == twice.curve[0]["greedy"]


def test_bootstrapped_targets_learn_it_too():
    settings = DqnSettings(
        seconds=np.inf, episodes=200, every=50, alone=6, streams=0, seed=1, steps=4, rate=3e-3, memory=4000, target=50, follow=(0.3, 0.0),
        explore=(0.5, 0.1), updates=4,
    )  # fmt: skip
    assert train_dqn([weights_of(HASTY)], settings, draw=trap).score < -0.3


def test_same_seed_same_curve():
    for dueling in (False, True):
        settings = DqnSettings(
            seconds=np.inf, episodes=12, every=4, alone=2, streams=0, memory=4000, seed=4, dueling=dueling, reward=dict(DOCUMENT)
        )
        first, second = (train_dqn([weights_of({})], settings) for _ in range(2))
        assert [row["greedy"] for row in first.curve] == [row["greedy"] for row in second.curve]
        for name, value in first.arrays.items():
            np.testing.assert_array_equal(value, second.arrays[name])


def test_unknown_rewards_are_refused():
    with pytest.raises(UnknownName, match="unknown reward 'elapse'; did you mean 'elapsed'"):
        DqnSettings(reward={"elapse": 1.0})


def test_rule_search_finds_what_looking_ahead_is_worth():
    search = RuleSearch(seconds=1e9, generations=6, population=6, alone=10, streams=0, every=3, validation=1, seed=1)
    found = search_rule(search, start={"rank": 1.0})
    assert found.score == min(row["score"] for row in found.curve) or found.score <= found.curve[0]["score"]
    assert [row["score"] for row in found.curve] == [row["score"] for row in search_rule(search, start={"rank": 1.0}).curve]


def test_evolution_solves_an_ellipse():
    scale = np.array([1.0, 10.0, 100.0])
    search = Evolution(np.full(3, 2.0), np.ones(3), population=10, rng=np.random.default_rng(3))
    for _ in range(150):
        candidates = search.ask()
        search.tell(candidates, (scale * candidates**2).sum(axis=1))
    assert (scale * search.mean**2).sum() < 1e-6


@pytest.mark.parametrize("policy", ["rule", "portfolio"])
def test_fine_tuning_never_makes_its_own_cases_worse(policy):
    cases = [draw_case("static", seed=s, tasks=20, structure="cholesky", ccr=5.0) for s in range(6)]
    tuned = fine_tune(policy, cases, seconds=3.0, seed=0)

    def mean_log(policy, cases):
        return np.mean([np.log(simulate(c.workload, policy, scenario=c.scenario).makespan) for c in cases])

    judges = cases[2::3]
    for each in (judges, [c for c in cases if c not in judges]):
        assert mean_log(tuned, each) <= mean_log(policy, each)
    with pytest.raises(InvalidInput, match="at least 3 cases; got 0"):
        fine_tune(policy, [])


def test_a_portfolio_takes_the_set_that_helps():
    """A chain of two that takes 13 s for who does not look ahead, and 6 s for who does (`test_foresight.py`)."""
    workload = weft.Workload.of(weft.Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0]))
    case = Case(workload, weft.Scenario.of(workload))
    search = PortfolioSearch(size=2, pool=3, alone=2, streams=0, finals=1, finalists=2)
    found = search_portfolio({}, search, draw=lambda *_: [case])
    assert found.score == pytest.approx(-np.log(2))  # 6 / 13 counts as a half
    assert found.sets[0]["ahead"] == 0.0 < found.sets[1]["ahead"]
    assert found.sets == search_portfolio({}, search, draw=lambda *_: [case]).sets


# -- the environment -----------------------------------------------------------


def test_environment_is_a_gymnasium_environment():
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    import weft.learn

    env = gymnasium.make("weft/Workflow-v0", condition="changing", tasks=12)
    check_env(env.unwrapped)
    seen, info = env.reset(seed=1)
    total, ended = 0.0, False
    while not ended:
        assert info["action_mask"].sum() >= 1
        assert (seen["candidates"][~info["action_mask"]] == 0).all()
        seen, reward, ended, _, info = env.step(int(np.flatnonzero(info["action_mask"])[0]))
        total += reward
    case = env.unwrapped.case
    assert info["makespan"] >= weft.plan(case.workload.problems[0], "heft").bound / 100  # a time of the world it was played in
    assert np.isfinite(total)
    with pytest.raises(UnknownName, match="unknown reward"):
        gymnasium.make("weft/Workflow-v0", reward={"speed": 1.0})


def test_environment_and_policy_see_the_same_bits():
    """The table of the environment holds the features the compiled policy scores, number by number."""
    from weft.learn.workflow_env import WorkflowEnv

    case = draw_case("noisy", seed=5, tasks=20)
    env = WorkflowEnv(draw=lambda _: case)
    seen, _ = env.reset(seed=0)
    sim, plans, turn = start(case)
    assert next_turn(sim, plans, turn) == MOMENT
    ended = False
    while not ended:
        np.testing.assert_array_equal(seen["candidates"][: turn.state[2]], turn.feature[: turn.state[2]])
        choice = planned_choice(turn)
        task, device = take_turn(turn, choice)
        if device >= 0:
            commit(sim, task, device)
        answer = next_turn(sim, plans, turn)
        seen, _, ended, _, _ = env.step(choice)
        assert ended == (answer == ENDED)
