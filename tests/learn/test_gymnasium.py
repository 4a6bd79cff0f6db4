"""Gymnasium: environments found by the entry point, rendering, actions out of range."""

import numpy as np
import pytest

from tests.support.networks import two_stage_arrays
from tests.support.programs import run_python
from weft.errors import InvalidInput, UnknownName, Unsupported
from weft.formats.model_file import save_model
from weft.policies import simulate
from weft.policies.conditional.evaluate import evaluate_network
from weft.policies.load import load_policy
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import WINDOW, PlanOptions
from weft.policies.replanning.trained import TWO_STAGE, replanning_model

gymnasium = pytest.importorskip("gymnasium", reason="the environments need gymnasium")

LOOK = "import importlib.util; importlib.util.find_spec('gymnasium')"


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("gymnasium, weft", "weft/Workflow-v0"),
        ("weft, gymnasium", "weft/Workflow-v0"),
        (f"weft; {LOOK}; import gymnasium", "weft/Workflow-v0"),
        ("gymnasium", "weft.learn:weft/Workflow-v0"),
    ],
)
def test_environments_are_found(imports, name):
    code = f"import {imports}; print(gymnasium.make({name!r}).spec.id)"
    done = run_python("-c", code, check=False)
    assert done.stdout.strip() == "weft/Workflow-v0", done.stderr


def test_a_picture_in_text():
    import weft.learn  # noqa: F401  # registers the environments

    env = gymnasium.make("weft/Conditional-v0", jobs=5, render_mode="ansi")
    env.reset(seed=1)
    before = env.render()
    assert before.startswith("time ")
    assert "CPU" in before
    assert "A: 1 ready" in before
    env.step([0, 6, 6, 6])  # until the next decision
    assert "B: 1 ready" in env.render()
    workflow = gymnasium.make("weft/Workflow-v0", tasks=12, render_mode="ansi")
    workflow.reset(seed=1)
    assert " ready" in workflow.render()


def test_a_picture_in_pixels():
    import weft.learn  # noqa: F401  # registers the environments
    from weft.learn.rendering import CELL, CELLS

    env = gymnasium.make("weft/Conditional-v0", jobs=5, render_mode="rgb_array")
    env.reset(seed=1)
    before = env.render()
    rows = len(env.unwrapped.batch.kind_names) + 4
    assert (before.shape, before.dtype) == ((rows * CELL, CELLS * CELL, 3), np.uint8)
    cells = before[::CELL, ::CELL]
    assert (cells[:-4] != 255).any(axis=2).sum() == 1  # one task is ready
    assert (cells[-4:] == 200).all()  # all units are idle
    env.step([0, 6, 6, 6])
    assert (env.render() != before).any()
    workflow = gymnasium.make("weft/Workflow-v0", tasks=12, render_mode="rgb_array")
    workflow.reset(seed=1)
    assert workflow.render().ndim == 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "action",
    [[-1, 0, 0, 0], [7, 0, 0, 0], [0, 0], [1.5] * 4, [np.nan] * 4, np.nan, "x", None, [True] * 4],
)
def test_actions_out_of_range_are_refused(action):
    import weft.learn  # noqa: F401  # registers the environments

    env = gymnasium.make("weft/Conditional-v0", jobs=5).unwrapped
    env.reset(seed=1)
    with pytest.raises(InvalidInput, match="from 0 to 6"):
        env.step(action)


def test_an_unknown_render_mode_is_refused():
    from weft.learn.conditional.env import ConditionalEnv

    with pytest.raises(InvalidInput, match="it must be None, 'ansi' or 'rgb_array'"):
        ConditionalEnv(jobs=5, render_mode="human")


@pytest.mark.parametrize("jobs", [1.5, np.nan, True, "3", 0, 10**12])
def test_a_wrong_number_of_jobs_is_refused(jobs):
    from weft.learn.conditional.env import ConditionalEnv

    with pytest.raises(InvalidInput, match="jobs"):
        ConditionalEnv(jobs=jobs)


@pytest.mark.parametrize("size", [0, -1, 1.5, "x", 10**9])
def test_a_wrong_number_of_simulations_is_refused(size):
    from weft.learn.conditional.env import ConditionalVectorEnv

    with pytest.raises(InvalidInput, match=r"num_envs is|fewer simulations"):
        ConditionalVectorEnv(size)


def test_a_step_before_reset_and_options_of_reset_are_refused():
    from weft.learn.conditional.env import ConditionalEnv, ConditionalVectorEnv
    from weft.learn.workflow.env import WorkflowEnv

    small = ConditionalEnv(jobs=3), ConditionalVectorEnv(2, jobs=3), WorkflowEnv(tasks=12)
    for env, action in zip(small, ([0] * 4, [[0] * 4] * 2, 0), strict=True):
        with pytest.raises(InvalidInput, match=r"call reset\(\) before step\(\)"):
            env.step(action)
        with pytest.raises(InvalidInput, match=r"options of reset are {'nope': 3}"):
            env.reset(options={"nope": 3})
    with pytest.raises(InvalidInput, match="stream is 5"):
        ConditionalEnv(5)


def test_what_a_workflow_environment_cannot_draw_with_is_refused():
    from weft.learn.workflow.env import WorkflowEnv

    with pytest.raises(InvalidInput, match="draw is 5; it must be a function"):
        WorkflowEnv(draw=5)
    with pytest.raises(InvalidInput, match="draw returned None"):
        WorkflowEnv(draw=lambda _: None).reset()
    for wrong, meant in (("task", "tasks"), ("rewrad", "reward"), ("weight", "weights")):
        told = f"WorkflowEnv has no option '{wrong}'; did you mean '{meant}'"
        with pytest.raises(UnknownName, match=told):
            WorkflowEnv(**{wrong: 12})
    with pytest.raises(InvalidInput, match="condition is 5"):
        WorkflowEnv(5)
    with pytest.raises(InvalidInput, match="not both"):
        WorkflowEnv(draw=lambda _: None, tasks=12)


# -- policies in environments --------------------------------------------------------


def _first(**options):
    from weft.learn.workflow.env import WorkflowEnv

    return WorkflowEnv("noisy", tasks=20, **options).reset(seed=4)[0]["candidates"]


def test_a_workflow_environment_plans_as_a_policy_by_name_path_or_object(tmp_path):
    weights = {"least": 1.0, "ahead": 2.0}
    mine = ReplanningPolicy("mine", weights, PlanOptions(window=WINDOW))
    path = save_model(replanning_model("mine", "", [weights]), tmp_path / "mine")
    expected = _first(weights=weights)
    assert (expected != _first()).any()
    for policy in (mine, path, str(path.with_suffix(""))):
        np.testing.assert_array_equal(_first(policy=policy), expected)
    tuned = _first(policy="tuned-list")
    np.testing.assert_array_equal(tuned, _first(policy=load_policy("tuned-list")))
    assert (tuned != expected).any()
    for name in ("portfolio", "replan-switch", "search-replanning"):  # no incumbent, no search
        assert np.isfinite(_first(policy=name)).all()


def test_gymnasium_makes_environments_of_a_policy(tmp_path):
    import weft.learn  # noqa: F401  # registers the environments

    path = save_model(replanning_model("mine", "", [{"ahead": 0.5}]), tmp_path / "mine")
    for policy in ("tuned-list", path, load_policy("tuned-list")):
        options = {"condition": "noisy", "tasks": 20, "policy": policy}
        seen, _ = gymnasium.make("weft/Workflow-v0", **options).reset(seed=4)
        np.testing.assert_array_equal(seen["candidates"], _first(policy=policy))
        vector = gymnasium.make_vec("weft/Workflow-v0", num_envs=2, **options)
        seen, _ = vector.reset(seed=[4, 5])
        np.testing.assert_array_equal(seen["candidates"][0], _first(policy=policy))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"policy": "fifo"}, Unsupported, "policy 'fifo' has no weights to plan with; use 'tuned-"),
        ({"policy": "conditional-pi4"}, Unsupported, "'conditional-pi4' has no weights"),
        ({"policy": "tuned-lst"}, UnknownName, "did you mean 'tuned-list'"),
        ({"policy": 3}, InvalidInput, "policy is int; it must be a name, a path, or have begin"),
        ({"policy": "tuned-list", "weights": {"ahead": 1.0}}, InvalidInput, "not both"),
    ],
)
def test_a_policy_that_a_workflow_environment_cannot_plan_with_is_refused(options, error, message):
    from weft.learn.workflow.env import WorkflowEnv

    with pytest.raises(error, match=message):
        WorkflowEnv(**options)


@pytest.mark.parametrize("copies", [False, True])
def test_a_two_stage_policy_acts_in_a_workflow_environment_as_in_a_simulation(copies, tmp_path):
    from weft.learn.workflow.env import WorkflowEnv

    weights, arrays = [{"ahead": 0.5}], two_stage_arrays(seed=3)
    model = replanning_model(
        "mine", "", weights, kind=TWO_STAGE, arrays=arrays, margin=0.0, copies=copies
    )
    path = save_model(model, tmp_path / "mine")
    policy, env = load_policy(path), WorkflowEnv("changing", tasks=20, policy=path)
    for seed in range(3):
        seen, info = env.reset(seed=seed)
        ended = False
        while not ended:
            action = policy.act(seen, info["action_mask"])
            seen, _, ended, _, info = env.step(action)
        trace = simulate(env.case.workload, path, scenario=env.case.scenario)
        assert (info["makespan"], info["jct"]) == pytest.approx((trace.makespan, trace.jct))
    with pytest.raises(InvalidInput, match="give an observation of weft/Workflow-v0"):
        policy.act(seen, info["action_mask"])  # the episode has ended


@pytest.mark.parametrize("name", ["conditional-pi4", "conditional-best"])
def test_a_network_acts_in_a_conditional_environment_as_in_an_evaluation(name):
    from weft.learn.conditional.env import ConditionalEnv, ConditionalVectorEnv

    policy = load_policy(name)
    env = ConditionalEnv(jobs=60, options=policy.options)
    seen, info = env.reset(seed=1)
    draw, ended = int(env.batch.current_draw[0]), False
    while not ended:
        action = policy.act(seen, info["action_mask"], info["remaining"], info["capacity"])
        seen, _, ended, _, info = env.step(action)
    (expected,) = evaluate_network(policy.network, env.batch.stream, [draw], options=policy.options)
    assert info["jct"] == pytest.approx(expected)
    vector = ConditionalVectorEnv(2, jobs=60, options=policy.options)
    seen, info = vector.reset(seed=1)
    rows = zip(seen, info["action_mask"], info["remaining"], info["capacity"], strict=True)
    _, _, _, _, info = vector.step(np.stack([policy.act(*row) for row in rows]))
    assert (info["remaining"].shape, info["capacity"].shape) == ((2, 6), (2, 4))
