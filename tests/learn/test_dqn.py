"""The DQN schedulers: choosing tasks and devices, choosing plans; memory, networks, and what is learned."""

import numpy as np
import pytest

import weft
from tests.support.by_view import assert_same_by_view
from weft.errors import InvalidInput, UnknownName
from weft.generators import Instance, draw_instance
from weft.policies import simulate
from weft.policies.replanning.policy import ReplanningPolicy, weights_of
from weft.policies.replanning.portfolio import (
    FAR,
    KEEPING,
    live_by_plans,
    live_to_choice,
    make_plans,
    plan_anew,
    start_planned,
)
from weft.policies.replanning.switch import TOLD, plan_judge
from weft.policies.replanning.trained import Card, load_workflow_policy, save_policy
from weft.policies.two_stage.candidates import (
    DEVICE,
    FEATURES,
    REWARDS,
    TASK,
    make_turn,
    next_turn,
    take_turn,
)
from weft.policies.two_stage.choose import planned_choice, turn_networks
from weft.policies.two_stage.policy import SwitchPolicy, TwoStageDqn
from weft.policies.two_stage.q_network import q_value
from weft.sim.kernel.commit import commit
from weft.sim.kernel.events import ENDED, MOMENT
from weft.sim.kernel.tables import make_sim

torch = pytest.importorskip("torch")

from weft.learn.cma import SeparableCma  # noqa: E402
from weft.learn.workflow.fine_tuning import fine_tune  # noqa: E402
from weft.learn.workflow.portfolio import PortfolioSearch, search_portfolio  # noqa: E402
from weft.learn.workflow.rule import RuleSearch, search_rule  # noqa: E402
from weft.learn.workflow.sum_tree import SumTree  # noqa: E402
from weft.learn.workflow.switch import SwitchSettings, SwitchValues, describe, train_plan_values  # noqa: E402
from weft.learn.workflow.two_stage import DOCUMENT, DqnSettings, Values, load_arrays, train_dqn  # noqa: E402


def arrays(seed=0, hidden=8, scale=0.5, networks=2, features=FEATURES):
    rng = np.random.default_rng(seed)
    shapes = {
        "w1": (features, hidden),
        "b1": (hidden,),
        "w2": (hidden, hidden),
        "b2": (hidden,),
        "w3": (hidden,),
    }
    return {
        name: (scale * rng.standard_normal((networks, *shape))).astype(np.float32)
        for name, shape in shapes.items()
    }


def plan_arrays(seed=0, hidden=8):
    return arrays(seed, hidden, networks=1, features=len(TOLD))


SETS = [{"ahead": 0.7, "trust": 1.0, "overdue": 0.3}, {}, {"work": 1.0, "rank": 0.2, "ahead": 1.0}]


def start(problem_or_case, weights=None):
    case = problem_or_case if isinstance(problem_or_case, Instance) else None
    workload = case.workload if case else weft.Workload.of(problem_or_case)
    scenario = case.scenario if case else weft.Scenario.of(workload)
    w = weights_of(weights or {})
    sim = make_sim(workload, scenario, None, eager=True)
    return sim, make_plans(workload, sim, [w], most=FAR, hurry=False), make_turn(sim)


# -- the decision process ------------------------------------------------------


def test_turns_of_a_small_problem():
    """Two independent tasks of 2 and 1 s on two equal devices: which task, which device, and so on; waiting is on offer once one runs."""
    sim, plans, turn = start(weft.Problem.from_arrays([[2.0, 2.0], [1.0, 1.0]]))
    assert next_turn(sim, plans, turn) == MOMENT
    assert (turn.state[0], sorted(turn.offer[: turn.state[2]].tolist())) == (
        TASK,
        [0, 1],
    )  # nothing runs: no waiting
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
def test_networks_without_opinion_follow_the_plan(condition):
    """All values alike: turn by turn the plan's choice is taken, and plans are made anew."""
    for seed in range(3):
        case = draw_instance(condition, seed=seed, tasks=30, jobs=4 if condition == "stream" else 1)
        plain = simulate(case.workload, ReplanningPolicy("plan", SETS), scenario=case.scenario)
        turns, plans = arrays() | {"w3": np.zeros((2, 8))}, plan_arrays() | {"w3": np.zeros((1, 8))}
        for policy in (TwoStageDqn("turns", turns, SETS), SwitchPolicy("plans", plans, SETS)):
            trace = simulate(case.workload, policy, scenario=case.scenario)
            np.testing.assert_array_equal(trace.job_finish, plain.job_finish)


@pytest.mark.parametrize("condition", ["static", "noisy", "failing", "changing", "stream"])
@pytest.mark.parametrize("kind", ["plans", "turns"])
def test_views_and_compiled_path_agree(condition, kind):
    for seed in range(3):
        case = draw_instance(
            condition, seed=seed, tasks=(10, 25), jobs=4 if condition == "stream" else 1, load=0.9
        )
        policy = (
            TwoStageDqn("x", arrays(seed), SETS[0])
            if kind == "turns"
            else SwitchPolicy("x", plan_arrays(seed), SETS, moves=(2, 500), most=15, homes=seed > 0)
        )
        assert_same_by_view(case.workload, policy, case.scenario)


def keeping(case, sets, moves, **kwargs):
    """Mean completion time of keeping a plan, and what is left of the run."""
    sim = make_sim(case.workload, case.scenario, None, eager=True)
    plans = make_plans(
        case.workload, sim, [weights_of(each) for each in sets], moves=moves, **kwargs
    )
    plans.contest[KEEPING] = 1
    assert live_by_plans(sim, plans) == ENDED
    return float((sim.job["finish"][:-1] - sim.job["arrival"][:-1]).mean()), sim


def test_a_kept_plan_finds_the_better_device():
    """A chain of two that takes 13 s for HEFT; both on device 1 take 6 s (`test_foresight.py`), but neither goes there alone."""
    workload = weft.Workload.of(
        weft.Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0])
    )
    case = Instance(workload, weft.Scenario.of(workload))
    assert keeping(case, [{}], (0, 1))[0] in {13.0, 6.0}
    assert keeping(case, [{}], (0, 100))[0] == 6.0


def test_a_kept_plan_keeps_its_promise():
    """With exact costs the first plan, bettered, is an upper bound: whatever replaces it later promised less time."""
    better = []
    for seed in range(12):
        case = draw_instance("static", seed=seed, tasks=(20, 60), ccr=5.0)
        sim = make_sim(case.workload, case.scenario, None, eager=True)
        plans = make_plans(case.workload, sim, [weights_of(each) for each in SETS], moves=(4, 8000))
        plans.contest[KEEPING] = 1
        assert live_to_choice(sim, plans) == MOMENT
        start_planned(sim, plans, plan_anew(sim, plans))
        promised = plans.promise[-1, 0]
        assert live_by_plans(sim, plans) == ENDED
        assert sim.job["finish"][0] <= promised * (1 + 1e-9)
        better.append(
            np.log(
                sim.job["finish"][0]
                / simulate(
                    case.workload, ReplanningPolicy("anew", SETS), scenario=case.scenario
                ).makespan
            )
        )
    assert np.mean(better) < -0.01


@pytest.mark.parametrize("condition", ["failing", "changing", "stream"])
def test_a_kept_plan_lives_through_whatever_comes(condition):
    """Tasks that are lost, devices that are down, jobs that come, more tasks than are planned: all is done once, and rightly."""

    class Keeper(SwitchPolicy):
        def plans(self, sim):
            plans = super().plans(sim)
            plans.known[0] = -np.inf
            return plans

    for seed in range(6):
        jobs = 5 if condition == "stream" else 1
        case = draw_instance(
            condition,
            seed=seed,
            tasks=(20, 50),
            jobs=jobs,
            load=0.95,
            ccr=[0.1, 1.0, 5.0][seed % 3],
        )
        trace = simulate(
            case.workload,
            Keeper("keeper", plan_arrays(), SETS, moves=(2, 1200), most=25, homes=True),
            scenario=case.scenario,
        )
        assert weft.check(case.workload, trace) == []
        assert np.isfinite(trace.job_finish).all()


def test_what_the_network_is_told():
    """One job of two tasks on two devices; an edge takes 10 s, a task 4.75 on average; one task is ready."""
    workload = weft.Workload.of(
        weft.Problem.from_arrays([[4.0, 4.0], [9.0, 2.0]], [[0, 1]], [10.0])
    )
    sim = make_sim(workload, weft.Scenario.of(workload), None, eager=True)
    plans = make_plans(workload, sim, [weights_of({})], moves=(1, 1))
    plans.contest[KEEPING] = 1
    assert live_to_choice(sim, plans) == MOMENT
    describe(sim, plans)
    nothing = dict.fromkeys(("noise", "bias", "observed", "slowed", "down", "jobs", "coming"), 0.0)
    world = nothing | {
        "left": np.log(2) / 3,
        "share": 1.0,
        "moving": np.log(10 / 4.75) / 3,
        "ready": 0.5 / 4,
        "devices": 0.2,
        "kept": 1.0,
    }
    for keep, row in enumerate(plans.told):
        assert dict(zip(TOLD, row.tolist(), strict=True)) == pytest.approx(world | {"keep": keep})


def test_noise_is_told_from_bias():
    """Three tasks of one kind on one device take 1, 2 and 4 times their estimate: log 2 on average."""
    cluster = weft.Cluster(speed=[1.0], bandwidth=1.0)
    workload = weft.Workload.of(
        weft.Problem.bind(
            weft.Workflow(work=[1.0] * 4, src=[0, 1, 2], dst=[1, 2, 3], data=[0.0] * 3), cluster
        )
    )
    sim = make_sim(
        workload, weft.Scenario.of(workload, factor=[1.0, 2.0, 4.0, 1.0]), None, eager=True
    )
    plans = make_plans(workload, sim, [weights_of({})], moves=(1, 1))
    for _ in range(3):
        assert live_to_choice(sim, plans) == MOMENT
        commit(sim, int(sim.world["executions"][0]), 0)
    assert live_to_choice(sim, plans) == MOMENT
    describe(sim, plans)
    said = dict(zip(TOLD, plans.told[0].tolist(), strict=True))
    assert (said["noise"], said["bias"]) == pytest.approx((np.log(2) * np.sqrt(5 / 3), np.log(2)))
    assert said["observed"] == pytest.approx(np.log(4) / 5)


def test_rewards_add_up_to_the_slip_of_the_first_promise():
    case = draw_instance("noisy", seed=3, tasks=40)
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
    network = turn_networks(values.arrays())
    feature = np.random.default_rng(0).standard_normal((20, FEATURES)).astype(np.float32)
    for kind in (TASK, DEVICE):
        torch_says = (
            values.advantage(torch.full((20,), kind), torch.from_numpy(feature)).detach().numpy()
        )
        np.testing.assert_allclose(
            [q_value(network, kind, f) for f in feature], torch_says, rtol=2e-4, atol=2e-4
        )
    plans = SwitchValues(len(TOLD), 16)
    feature = np.random.default_rng(1).standard_normal((20, len(TOLD))).astype(np.float32)
    torch_says = plans(torch.from_numpy(feature)).detach().numpy()
    np.testing.assert_allclose(
        [q_value(plan_judge(plans.arrays()), 0, f) for f in feature],
        torch_says,
        rtol=2e-4,
        atol=2e-4,
    )


def test_networks_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match="needs the arrays"):
        turn_networks({"w1": np.zeros(3)})
    wrong = arrays()
    wrong["w2"] = wrong["w2"][:, :4]
    with pytest.raises(InvalidInput, match="array 'w2'"):
        turn_networks(wrong)
    with pytest.raises(InvalidInput, match="array 'w1'"):
        SwitchPolicy("two", arrays(networks=1), SETS)


def test_policies_on_disk(tmp_path):
    known = {"about": "a test", "most": 64, "challengers": 2, "training": {"seed": 1}}
    save_policy(
        tmp_path / "plans",
        Card(name="plans", weights=SETS, homes=True, choice="plans", caution=0.25, **known),
        plan_arrays(),
    )
    save_policy(
        tmp_path / "turns", Card(name="turns", weights=SETS, choice="turns", **known), arrays()
    )
    found, turns = weft.load_policy(tmp_path / "plans"), weft.load_policy(tmp_path / "turns")
    assert (type(found), found.name, found.caution, found.most, found.challengers) == (
        SwitchPolicy,
        "plans",
        0.25,
        64,
        2,
    )
    assert (found.homes, turns.homes) == (True, False)
    np.testing.assert_array_equal(found.sets, [weights_of(each) for each in SETS])
    np.testing.assert_array_equal(found.judge.w2, plan_arrays()["w2"])
    assert type(turns) is TwoStageDqn
    np.testing.assert_array_equal(turns.network.w2, arrays()["w2"])
    (tmp_path / "plans.json").write_text(
        (tmp_path / "plans.json").read_text().replace('"choice": "plans"', '"choice": "plan"')
    )
    with pytest.raises(InvalidInput, match="choice is 'plan'; it must be 'plans' or 'turns'"):
        load_workflow_policy(tmp_path / "plans")
    (tmp_path / "turns.safetensors").unlink()
    with pytest.raises(InvalidInput, match="turns\\.safetensors"):
        load_workflow_policy(tmp_path / "turns")
    save_policy(tmp_path / "plain", Card(name="plain", about="", weights=[{"gap": 0.5}], most=9))
    assert type(weft.load_policy(tmp_path / "plain.json")) is ReplanningPolicy
    (tmp_path / "bad.json").write_text(
        (tmp_path / "plain.json").read_text().replace('"homes": false', '"homes": 2')
    )
    with pytest.raises(InvalidInput, match="homes is 2; it must be true or false"):
        load_workflow_policy(tmp_path / "bad")
    (tmp_path / "bad.json").write_text(
        (tmp_path / "plain.json").read_text().replace('"gap"', '"gup"')
    )
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
        problem = weft.Problem.bind(
            weft.Workflow(work=work, src=[0, 1, 2], dst=[1, 2, 3], data=np.zeros(3)), cluster
        )
        workload = weft.Workload.of(problem)
        found.append(Instance(workload, weft.Scenario.of(workload, changes=[(0.0, 0, 5.0)])))
    return found


HASTY = {"slowed": -0.9}
"""Weights that love a device that is slower than usual: chains stay on it, where moving would be five times as quick."""


def chain_and_another(scale=1.0):
    """A chain of two, and a task of its own. HEFT takes 16 s: it begins the chain on device 0, and has the other task there too. All on one
    device takes 19 or 26 s; the chain on device 1 and the other task on device 0 take 6."""
    durations = scale * np.array([[4.0, 4.0], [9.0, 2.0], [6.0, 20.0]])
    workload = weft.Workload.of(weft.Problem.from_arrays(durations, [[0, 1]], [10.0 * scale]))
    return Instance(workload, weft.Scenario.of(workload))


def draw_slow_start(ticket):
    """HEFT takes 16 s, a plan that is bettered 6: keeping is worth more, whatever else there is."""
    return chain_and_another(np.random.default_rng(ticket).uniform(0.5, 2.0))


def test_values_of_ways_to_plan_are_learned():
    sets = [weights_of({})]
    settings = SwitchSettings(
        rounds=2, alone=8, streams=0, judges=4, epochs=60, rate=1e-2, batch=16, processes=1, seed=1
    )
    draw = {
        "tickets": lambda seed, alone, _: [(seed, k) for k in range(alone)],
        "instance_of": draw_slow_start,
    }
    first, second = (train_plan_values(sets, settings, **draw) for _ in range(2))
    assert first.score == pytest.approx(-np.log(2))  # 6 s for 16, cut off at two
    rows = [
        [{key: value for key, value in row.items() if key != "seconds"} for row in found.curve]
        for found in (first, second)
    ]
    assert rows[0] == rows[1]
    case = draw_slow_start(99)
    trace = simulate(
        case.workload,
        SwitchPolicy("bettering", first.arrays, [{}], caution=first.caution),
        scenario=case.scenario,
    )
    assert trace.device[np.argsort(trace.task)].tolist() == [1, 1, 0]


def test_bootstrapped_targets_learn_it_too():
    settings = DqnSettings(
        seconds=np.inf, episodes=200, every=50, alone=6, streams=0, seed=1, steps=4, rate=3e-3, memory=4000, target=50, follow=(0.3, 0.0),
        explore=(0.5, 0.1), updates=4,
    )  # fmt: skip
    assert train_dqn([weights_of(HASTY)], settings, draw=trap).score < -0.3


def test_same_seed_same_curve():
    for dueling in (False, True):
        settings = DqnSettings(
            seconds=np.inf,
            episodes=12,
            every=4,
            alone=2,
            streams=0,
            memory=4000,
            seed=4,
            dueling=dueling,
            reward=dict(DOCUMENT),
        )
        first, second = (train_dqn([weights_of({})], settings) for _ in range(2))
        assert [row["score"] for row in first.curve] == [row["score"] for row in second.curve]
        for name, value in first.arrays.items():
            np.testing.assert_array_equal(value, second.arrays[name])


def test_unknown_rewards_are_refused():
    with pytest.raises(UnknownName, match="unknown reward 'elapse'; did you mean 'elapsed'"):
        DqnSettings(reward={"elapse": 1.0})


def test_rule_search_finds_what_looking_ahead_is_worth():
    search = RuleSearch(
        seconds=1e9, generations=6, population=6, alone=10, streams=0, every=3, validation=1, seed=1
    )
    found = search_rule(search, start={"rank": 1.0})
    assert (
        found.score == min(row["score"] for row in found.curve)
        or found.score <= found.curve[0]["score"]
    )
    assert [row["score"] for row in found.curve] == [
        row["score"] for row in search_rule(search, start={"rank": 1.0}).curve
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


def test_a_portfolio_takes_the_set_that_helps():
    """It takes 16 s for who does not look ahead, and 6 s for who does."""
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
    )  # a time of the world it was played in
    assert np.isfinite(total)
    with pytest.raises(UnknownName, match="unknown reward"):
        gymnasium.make("weft/Workflow-v0", reward={"speed": 1.0})


def test_environment_and_policy_see_the_same_bits():
    """The table of the environment holds the features the compiled policy scores, number by number."""
    from weft.learn.workflow.env import WorkflowEnv

    case = draw_instance("noisy", seed=5, tasks=20)
    env = WorkflowEnv(draw=lambda _: case)
    seen, _ = env.reset(seed=0)
    sim, plans, turn = start(case)
    assert next_turn(sim, plans, turn) == MOMENT
    ended = False
    while not ended:
        np.testing.assert_array_equal(
            seen["candidates"][: turn.state[2]], turn.feature[: turn.state[2]]
        )
        choice = planned_choice(turn)
        task, device = take_turn(turn, choice)
        if device >= 0:
            commit(sim, task, device)
        answer = next_turn(sim, plans, turn)
        seen, _, ended, _, _ = env.step(choice)
        assert ended == (answer == ENDED)
