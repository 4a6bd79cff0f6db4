"""The two-stage DQN and the switch: candidates, memory, networks, and training."""

# ruff: noqa: E402  # imports that need torch
from functools import partial

import numpy as np
import pytest

import weft
from tests.support.by_view import assert_same_by_view
from tests.support.networks import WEIGHT_SETS, two_stage_arrays
from weft.errors import InvalidInput, UnknownName
from weft.formats.model_file import save_model
from weft.generators import Instance, draw_instance
from weft.policies import simulate
from weft.policies.q_network import q_value
from weft.policies.replanning.policy import ReplanningPolicy, SwitchPolicy
from weft.policies.replanning.portfolio import (
    PlanOptions,
    advance_to_decision,
    commit_planned,
    describe,
    make_portfolio,
    replan,
    run_by_portfolio,
)
from weft.policies.replanning.switch import FEATURES as SWITCH_FEATURES
from weft.policies.replanning.switch import switch_network
from weft.policies.replanning.trained import SWITCH, TWO_STAGE, replanning_model
from weft.policies.replanning.weights import weights_of
from weft.policies.two_stage.candidates import apply, next_decision
from weft.policies.two_stage.choose import planned_choice, stage_networks
from weft.policies.two_stage.decision import (
    DEVICE,
    FEATURES,
    REWARD,
    REWARDS,
    TASK,
    make_candidates,
)
from weft.policies.two_stage.dqn import TwoStageDqn
from weft.sim.kernel.commit import commit
from weft.sim.kernel.events import ENDED, MOMENT
from weft.sim.kernel.tables import make_sim

torch = pytest.importorskip("torch")

from weft.learn.cma import SeparableCma
from weft.learn.dqn import QValues
from weft.learn.replay_memory import SumTree
from weft.learn.value_networks import FitSettings
from weft.learn.workflow.fine_tuning import fine_tune, tuned_model
from weft.learn.workflow.portfolio import PortfolioSearch, search_portfolio
from weft.learn.workflow.switch import SwitchSettings, SwitchValues, train_switch
from weft.learn.workflow.tuned_list import TuningSettings, tune_weights
from weft.learn.workflow.two_stage import DOCUMENT, TwoStageSettings, train_two_stage


def switch_arrays(seed=0, hidden=8):
    return two_stage_arrays(seed, hidden, networks=1, features=len(SWITCH_FEATURES))


def start(problem_or_case, weights=None):
    case = problem_or_case if isinstance(problem_or_case, Instance) else None
    workload = case.workload if case else weft.Workload.of(problem_or_case)
    scenario = case.scenario if case else weft.Scenario.of(workload)
    given, options = [weights_of(weights or {})], PlanOptions(early_exit=False)
    sim = make_sim(workload, scenario, None, eager=True)
    return sim, make_portfolio(workload, sim, given, options), make_candidates(sim)


def due(candidates):
    """Stage and items of the decision that is due."""
    state = candidates.state[0]
    return state["stage"], candidates.item[: state["count"]].tolist()


# -- the decision process ------------------------------------------------------


def test_decisions_of_a_small_problem():
    """Two independent tasks of 2 and 1 s on two equal devices: which task, which device, and so on;
    to wait is a candidate once a task runs."""
    sim, portfolio, candidates = start(weft.Problem.from_arrays([[2.0, 2.0], [1.0, 1.0]]))
    assert next_decision(sim, portfolio, candidates) == MOMENT
    stage, items = due(candidates)
    assert (stage, sorted(items)) == (TASK, [0, 1])  # nothing runs: no waiting
    assert items[planned_choice(candidates)] == 0  # the longer one first
    assert apply(candidates, planned_choice(candidates)) == (-1, -1)
    assert next_decision(sim, portfolio, candidates) == MOMENT
    assert due(candidates) == (DEVICE, [0, 1])
    task, device = apply(candidates, planned_choice(candidates))
    assert (task, device) == (0, 0)
    commit(sim, task, device)
    assert next_decision(sim, portfolio, candidates) == MOMENT
    assert due(candidates) == (TASK, [1, -1])
    assert candidates.reward.tolist() == [0.0] * len(REWARDS)  # no time has passed
    apply(candidates, 1)  # wait: the next decision is when task 0 has ended, at 2 s
    assert next_decision(sim, portfolio, candidates) == MOMENT
    assert sim.world[0]["now"] == 2.0
    # The first plan predicted 2 s, now it is 3 s. The rank of the first task is 2 s: half a path.
    assert candidates.reward[REWARD.promise] == pytest.approx(-0.5)
    assert candidates.reward[REWARD.elapsed] == pytest.approx(-1.0)  # 2 s, one path
    assert candidates.reward[REWARD.idle] == pytest.approx(-0.5)  # half of the devices


@pytest.mark.parametrize("condition", ["static", "failing", "changing", "stream"])
def test_networks_with_equal_values_follow_the_plan(condition):
    """With equal values every decision is that of the plan, and plans are made again."""
    for seed in range(3):
        case = draw_instance(condition, seed=seed, tasks=30, jobs=4 if condition == "stream" else 1)
        plain = simulate(
            case.workload, ReplanningPolicy("plan", WEIGHT_SETS), scenario=case.scenario
        )
        stages, switch = (
            two_stage_arrays() | {"w3": np.zeros((2, 8))},
            switch_arrays() | {"w3": np.zeros((1, 8))},
        )
        for policy in (
            TwoStageDqn("dqn", stage_networks(stages), WEIGHT_SETS),
            SwitchPolicy("switch", switch, WEIGHT_SETS),
        ):
            trace = simulate(case.workload, policy, scenario=case.scenario)
            np.testing.assert_array_equal(trace.job_finish, plain.job_finish)


@pytest.mark.parametrize("condition", ["static", "noisy", "failing", "changing", "stream"])
@pytest.mark.parametrize("kind", ["switch", "two-stage"])
def test_views_and_compiled_path_agree(condition, kind):
    for seed in range(3):
        case = draw_instance(
            condition, seed=seed, tasks=(10, 25), jobs=4 if condition == "stream" else 1, load=0.9
        )
        options = PlanOptions(moves=(2, 500), window=15, affinity=seed > 0)
        policy = (
            TwoStageDqn("x", stage_networks(two_stage_arrays(seed)), WEIGHT_SETS[0])
            if kind == "two-stage"
            else SwitchPolicy("x", switch_arrays(seed), WEIGHT_SETS, options)
        )
        assert_same_by_view(case.workload, policy, case.scenario)


def keep_incumbent(case, sets, moves):
    """Simulate with an incumbent that is always kept; return the mean completion time."""
    sim = make_sim(case.workload, case.scenario, None, eager=True)
    given, options = [weights_of(each) for each in sets], PlanOptions(moves=moves)
    portfolio = make_portfolio(case.workload, sim, given, options)
    portfolio.state["keep"] = 1
    assert run_by_portfolio(sim, portfolio) == ENDED
    return float((sim.job["finish"][:-1] - sim.job["arrival"][:-1]).mean())


def test_an_incumbent_finds_the_better_device():
    """A chain of two takes 13 s by HEFT; both on device 1 take 6 s, but none goes there alone."""
    problem = weft.Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0], bandwidth=1.0)
    workload = weft.Workload.of(problem)
    case = Instance(workload, weft.Scenario.of(workload))
    assert keep_incumbent(case, [{}], (0, 1)) == 13.0  # one task may be timed: no move of two
    assert keep_incumbent(case, [{}], (0, 100)) == 6.0


def test_an_incumbent_keeps_its_prediction():
    """With exact costs the first plan, improved, is a bound: later ones predict less time."""
    better = []
    for seed in range(12):
        case = draw_instance("static", seed=seed, tasks=(20, 60), ccr=5.0)
        sim = make_sim(case.workload, case.scenario, None, eager=True)
        given = [weights_of(each) for each in WEIGHT_SETS]
        portfolio = make_portfolio(case.workload, sim, given, PlanOptions(moves=(4, 8000)))
        portfolio.state["keep"] = 1
        assert advance_to_decision(sim, portfolio) == MOMENT
        commit_planned(sim, portfolio, replan(sim, portfolio))
        predicted = portfolio.predicted["completion"][-1]
        assert run_by_portfolio(sim, portfolio) == ENDED
        assert sim.job["finish"][0] <= predicted * (1 + 1e-9)
        policy = ReplanningPolicy("replanned", WEIGHT_SETS)
        replanned = simulate(case.workload, policy, scenario=case.scenario).makespan
        better.append(np.log(sim.job["finish"][0] / replanned))
    assert np.mean(better) < -0.01


@pytest.mark.parametrize("condition", ["failing", "changing", "stream"])
def test_an_incumbent_survives_failures_and_arrivals(condition):
    """Lost tasks, devices that are down, new jobs, a small window: every task is done once."""
    options = PlanOptions(moves=(2, 1200), window=25, affinity=True)
    keeper = SwitchPolicy("keeper", switch_arrays(), WEIGHT_SETS, options, margin=-np.inf)
    for seed in range(6):
        jobs = 5 if condition == "stream" else 1
        ccr = [0.1, 1.0, 5.0][seed % 3]
        case = draw_instance(condition, seed=seed, tasks=(20, 50), jobs=jobs, load=0.95, ccr=ccr)
        trace = simulate(case.workload, keeper, scenario=case.scenario)
        assert weft.check(case.workload, trace) == []
        assert np.isfinite(trace.job_finish).all()


def test_features_of_the_switch():
    """One job of two tasks on two devices; an edge takes 10 s, a task 4.75 s on average; one task
    is ready."""
    workload = weft.Workload.of(
        weft.Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0], bandwidth=1.0)
    )
    sim = make_sim(workload, weft.Scenario.of(workload), None, eager=True)
    portfolio = make_portfolio(workload, sim, [weights_of({})], PlanOptions(moves=(1, 1)))
    portfolio.state["keep"] = 1
    assert advance_to_decision(sim, portfolio) == MOMENT
    describe(sim, portfolio)
    nothing = dict.fromkeys(("noise", "bias", "observed", "slowed", "down", "jobs", "coming"), 0.0)
    expected = nothing | {
        "left": np.log(2) / 3,
        "share": 1.0,
        "moving": np.log(10 / 4.75) / 3,
        "ready": 0.5 / 4,
        "devices": 0.2,
        "kept": 1.0,
    }
    for keep, row in enumerate(portfolio.features):
        found = dict(zip(SWITCH_FEATURES, row.tolist(), strict=True))
        assert found == pytest.approx(expected | {"keep": keep})


def test_noise_is_distinguished_from_bias():
    """Three tasks of one kind take 1, 2 and 4 times their estimate: log 2 on average."""
    cluster = weft.Cluster(speed=[1.0], bandwidth=1.0)
    chain = weft.Workflow(work=[1.0] * 4, src=[0, 1, 2], dst=[1, 2, 3], data=[0.0] * 3)
    workload = weft.Workload.of(weft.Problem.bind(chain, cluster))
    scenario = weft.Scenario.of(workload, factor=[1.0, 2.0, 4.0, 1.0])
    sim = make_sim(workload, scenario, None, eager=True)
    portfolio = make_portfolio(workload, sim, [weights_of({})], PlanOptions(moves=(1, 1)))
    for _ in range(3):
        assert advance_to_decision(sim, portfolio) == MOMENT
        commit(sim, int(sim.world["executions"][0]), 0)
    assert advance_to_decision(sim, portfolio) == MOMENT
    describe(sim, portfolio)
    found = dict(zip(SWITCH_FEATURES, portfolio.features[0].tolist(), strict=True))
    assert (found["noise"], found["bias"]) == pytest.approx((np.log(2) * np.sqrt(5 / 3), np.log(2)))
    assert found["observed"] == pytest.approx(np.log(4) / 5)


def test_rewards_add_up_to_the_change_of_the_first_prediction():
    case = draw_instance("noisy", seed=3, tasks=40)
    sim, portfolio, candidates = start(case)
    rng, total, first = np.random.default_rng(0), 0.0, None
    while next_decision(sim, portfolio, candidates) == MOMENT:
        total += candidates.reward[REWARD.promise]
        first = candidates.predicted[0] if first is None else first
        task, device = apply(candidates, int(rng.integers(candidates.state["count"][0])))
        if device >= 0:
            commit(sim, task, device)
    total += candidates.reward[REWARD.promise]
    stack = portfolio.stack
    path = stack.task["rank"][0, stack.inst["order"][0, 0]]
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
    values = QValues(FEATURES, 16, dueling=False)
    torch.manual_seed(0)
    for weight in values.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    network = stage_networks(values.arrays())
    feature = np.random.default_rng(0).standard_normal((20, FEATURES)).astype(np.float32)
    for kind in (TASK, DEVICE):
        torch_says = (
            values.advantage(torch.full((20,), kind), torch.from_numpy(feature)).detach().numpy()
        )
        np.testing.assert_allclose(
            [q_value(network, kind, f) for f in feature], torch_says, rtol=2e-4, atol=2e-4
        )
    plans = SwitchValues(len(SWITCH_FEATURES), 16)
    feature = (
        np.random.default_rng(1).standard_normal((20, len(SWITCH_FEATURES))).astype(np.float32)
    )
    torch_says = plans(torch.from_numpy(feature)).detach().numpy()
    np.testing.assert_allclose(
        [q_value(switch_network(plans.arrays()), 0, f) for f in feature],
        torch_says,
        rtol=2e-4,
        atol=2e-4,
    )


def test_networks_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match="needs the arrays"):
        stage_networks({"w1": np.zeros(3)})
    wrong = two_stage_arrays()
    wrong["w2"] = wrong["w2"][:, :4]
    with pytest.raises(InvalidInput, match="array 'w2'"):
        stage_networks(wrong)
    with pytest.raises(InvalidInput, match="array 'w1'"):
        SwitchPolicy("two", two_stage_arrays(networks=1), WEIGHT_SETS)


def test_policies_on_disk(tmp_path):
    known = {"window": 64, "contenders": 2, "training": {"seed": 1}}
    switch = replanning_model(
        "plans",
        "a test",
        WEIGHT_SETS,
        kind=SWITCH,
        affinity=True,
        margin=0.25,
        arrays=switch_arrays(),
        **known,
    )
    save_model(switch, tmp_path / "plans")
    two = replanning_model(
        "turns", "a test", WEIGHT_SETS, kind=TWO_STAGE, arrays=two_stage_arrays(), **known
    )
    save_model(two, tmp_path / "turns")
    found, turns = weft.load_policy(tmp_path / "plans"), weft.load_policy(tmp_path / "turns")
    assert (type(found), found.name, found.margin) == (SwitchPolicy, "plans", 0.25)
    assert (found.options.window, found.options.contenders) == (64, 2)
    assert (found.options.affinity, turns.options.affinity) == (True, False)
    np.testing.assert_array_equal(found.sets, [weights_of(each) for each in WEIGHT_SETS])
    np.testing.assert_array_equal(found.switch_network.w2, switch_arrays()["w2"])
    assert type(turns) is TwoStageDqn
    np.testing.assert_array_equal(turns.network.w2, two_stage_arrays()["w2"])
    (tmp_path / "turns.safetensors").unlink()
    with pytest.raises(InvalidInput, match="turns\\.safetensors"):
        weft.load_policy(tmp_path / "turns")
    plain = save_model(replanning_model("plain", "", [{"gap": 0.5}], window=9), tmp_path / "plain")
    assert type(weft.load_policy(plain)) is ReplanningPolicy
    for old, new, error, words in (
        ('"affinity": false', '"affinity": 2', InvalidInput, "affinity is 2; it must be true"),
        ('"gap"', '"gup"', UnknownName, "unknown weight 'gup'"),
        ('"gap": 0.5', '"gap": [1]', InvalidInput, "weight 'gap' is a list"),
        ('"kind": "replanning"', '"kind": "deepsched"', InvalidInput, "which is no policy"),
    ):
        (tmp_path / "bad.json").write_text(plain.read_text().replace(old, new))
        with pytest.raises(error, match=words):
            weft.load_policy(tmp_path / "bad")


# -- learning ------------------------------------------------------------------


def trap(seed, alone, streams):
    """A misled plan: by estimates the devices are equal, but device 0, which wins ties, takes five
    times as long."""
    found = []
    for k in range(alone + streams):
        rng = np.random.default_rng([seed, k])
        work = rng.uniform(0.5, 1.5, 4)
        cluster = weft.Cluster(speed=[1.0, 1.0], bandwidth=1e9, kinds=("a", "b"))
        problem = weft.Problem.bind(
            weft.Workflow(work=work, src=[0, 1, 2], dst=[1, 2, 3], data=np.zeros(3)), cluster
        )
        workload = weft.Workload.of(problem)
        found.append(Instance(workload, weft.Scenario.of(workload, changes=[(0.0, 0, 5.0)])))
    return found


HASTY = {"slowed": -0.9}
"""Weights that prefer a device that is slower than usual: chains stay on it, which takes five times
as long as on the other."""


def chain_and_another(scale=1.0):
    """A chain of two, and a third task. HEFT takes 16 s: it begins the chain on device 0, and has
    the third task there too. All on one device takes 19 or 26 s; the chain on device 1 and the
    third task on device 0 take 6 s."""
    durations = scale * np.array([[4.0, 4.0], [9.0, 2.0], [6.0, 20.0]])
    workload = weft.Workload.of(
        weft.Problem.from_arrays(durations, [[0, 1]], [10.0 * scale], bandwidth=1.0)
    )
    return Instance(workload, weft.Scenario.of(workload))


def draw_slow_start(spec):
    """HEFT takes 16 s, an improved incumbent 6 s: keeping always has the higher value."""
    return chain_and_another(np.random.default_rng(spec).uniform(0.5, 2.0))


def test_the_switch_learns_to_keep_the_incumbent():
    sets = [weights_of({})]
    settings = SwitchSettings(
        rounds=2,
        alone=8,
        streams=0,
        validation=4,
        fit=FitSettings(rate=1e-2, batch=16),
        processes=1,
        seed=1,
    )

    def draws_of(seed, alone, _):
        return [partial(draw_slow_start, (seed, k)) for k in range(alone)]

    first, second = (train_switch(sets, settings, draws_of=draws_of) for _ in range(2))
    assert first.score == pytest.approx(-np.log(2))  # 6 s for 16, cut off at two
    rows = [
        [{key: value for key, value in row.items() if key != "seconds"} for row in found.curve]
        for found in (first, second)
    ]
    assert rows[0] == rows[1]
    case = draw_slow_start(99)
    trace = simulate(
        case.workload,
        SwitchPolicy("switch", first.arrays, [{}], margin=first.margin),
        scenario=case.scenario,
    )
    assert trace.device[np.argsort(trace.task)].tolist() == [1, 1, 0]


def short(**options):
    """Settings of a training that episodes end, on single workflows."""
    return TwoStageSettings(seconds=np.inf, streams=0, memory=4000, **options)


def test_bootstrapped_targets_learn_it_too():
    settings = short(
        episodes=200,
        every=50,
        alone=6,
        seed=1,
        steps=4,
        rate=3e-3,
        target=50,
        follow=(0.3, 0.0),
        explore=(0.5, 0.1),
        updates=4,
    )
    assert train_two_stage([weights_of(HASTY)], settings, draw=trap).score < -0.3


def test_same_seed_same_curve():
    for dueling in (False, True):
        settings = short(
            episodes=12, every=4, alone=2, seed=4, dueling=dueling, reward=dict(DOCUMENT)
        )
        first, second = (train_two_stage([weights_of({})], settings) for _ in range(2))
        assert [row["score"] for row in first.curve] == [row["score"] for row in second.curve]
        for name, value in first.arrays.items():
            np.testing.assert_array_equal(value, second.arrays[name])


def test_unknown_rewards_are_refused():
    with pytest.raises(UnknownName, match="unknown reward 'elapse'; did you mean 'elapsed'"):
        TwoStageSettings(reward={"elapse": 1.0})


def test_tuning_is_reproducible_and_returns_its_best_score():
    search = TuningSettings(
        seconds=1e9, generations=6, population=6, alone=10, streams=0, every=3, validation=1, seed=1
    )
    found = tune_weights(search, start={"rank": 1.0})
    assert (
        found.score == min(row["score"] for row in found.curve)
        or found.score <= found.curve[0]["score"]
    )
    assert [row["score"] for row in found.curve] == [
        row["score"] for row in tune_weights(search, start={"rank": 1.0}).curve
    ]


def test_evolution_solves_an_ellipse():
    scale = np.array([1.0, 10.0, 100.0])
    search = SeparableCma(np.full(3, 2.0), np.ones(3), population=10, rng=np.random.default_rng(3))
    for _ in range(150):
        candidates = search.ask()
        search.tell(candidates, (scale * candidates**2).sum(axis=1))
    assert (scale * search.mean**2).sum() < 1e-6


@pytest.mark.parametrize("policy", ["tuned-list", "portfolio"])
def test_fine_tuning_never_makes_its_own_cases_worse(policy):
    cases = [
        draw_instance("static", seed=s, tasks=20, structure="cholesky", ccr=5.0) for s in range(6)
    ]
    tuned = fine_tune(policy, cases, seconds=3.0, seed=0)

    def mean_log(policy, cases):
        return np.mean(
            [np.log(simulate(c.workload, policy, scenario=c.scenario).makespan) for c in cases]
        )

    judges = cases[2::3]
    for each in (judges, [c for c in cases if c not in judges]):
        assert mean_log(tuned, each) <= mean_log(policy, each)
    with pytest.raises(InvalidInput, match="at least 3 cases; got 0"):
        fine_tune(policy, [])


def test_fine_tuning_takes_names_paths_and_objects(tmp_path):
    cases = [draw_instance("static", seed=s, tasks=8) for s in range(3)]
    path = save_model(replanning_model("mine", "", [{"ahead": 0.5}]), tmp_path / "mine")
    for policy in (path, str(path.with_suffix("")), weft.load_policy(path)):
        tuned = fine_tune(policy, cases, seconds=0.0)
        assert [s.tolist() for s in tuned.sets] == [weights_of({"ahead": 0.5}).tolist()]
    for policy in ("fifo", weft.load_policy("fifo"), "conditional-pi4"):
        with pytest.raises(weft.Unsupported, match="has no weights to tune; use 'tuned-list', 'p"):
            fine_tune(policy, cases)


def test_a_tuned_policy_keeps_its_objective(tmp_path):
    cases = [draw_instance("static", seed=s, tasks=8) for s in range(3)]
    tuned = fine_tune("portfolio-makespan", cases, seconds=0.0)
    path = save_model(tuned_model(tuned, "mine", {}), tmp_path / "mine")
    assert weft.load_policy(path).options.objective == "makespan"
    card = path.with_suffix(".json")
    card.write_text(card.read_text().replace('"makespan"', '"tardiness"'))
    with pytest.raises(UnknownName, match="unknown objective 'tardiness'"):
        weft.load_policy(path)


def test_a_portfolio_takes_the_set_that_helps():
    """It takes 16 s without the optimistic remainder, and 6 s with it."""
    case = chain_and_another()
    search = PortfolioSearch(size=2, pool=3, alone=2, streams=0, finals=1, finalists=2, leads=0)
    found = search_portfolio({}, search, draw=lambda *_: [case])
    assert found.score == pytest.approx(-np.log(2))  # 6 / 16 counts as a half
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
    assert (
        info["makespan"] >= weft.plan(case.workload.problems[0], "heft").bound / 100
    )  # of the simulated scenario
    assert np.isfinite(total)
    with pytest.raises(UnknownName, match="unknown reward"):
        gymnasium.make("weft/Workflow-v0", reward={"speed": 1.0})


@pytest.mark.parametrize("action", [-1, -(10**7), 64, 10**30, 0.5, "0"])
def test_environment_refuses_actions_outside_of_its_space(action):
    pytest.importorskip("gymnasium")
    from weft.learn.workflow.env import WorkflowEnv

    env = WorkflowEnv("static", tasks=6)
    with pytest.raises(InvalidInput, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(InvalidInput, match=f"action is {action}; it must be from 0 to 63"):
        env.step(action)
    env.step(63)  # beyond the candidates, but in the space: the last candidate


def test_environment_and_policy_see_the_same_bits():
    """The table of the environment holds the features that the compiled policy scores."""
    from weft.learn.workflow.env import WorkflowEnv

    case = draw_instance("noisy", seed=5, tasks=20)
    env = WorkflowEnv(draw=lambda _: case)
    seen, _ = env.reset(seed=0)
    sim, portfolio, candidates = start(case)
    assert next_decision(sim, portfolio, candidates) == MOMENT
    ended = False
    while not ended:
        count = candidates.state["count"][0]
        np.testing.assert_array_equal(seen["candidates"][:count], candidates.feature[:count])
        choice = planned_choice(candidates)
        task, device = apply(candidates, choice)
        if device >= 0:
            commit(sim, task, device)
        answer = next_decision(sim, portfolio, candidates)
        seen, _, ended, _, _ = env.step(choice)
        assert ended == (answer == ENDED)
