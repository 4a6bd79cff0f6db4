"""Gymnasium: environments found by the entry point, rendering, actions out of range."""

import numpy as np
import pytest

from tests.support.programs import run_python
from weft.errors import InvalidInput, UnknownName

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
    import weft.learn  # noqa: F401 (registers)

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
    import weft.learn  # noqa: F401 (registers)
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
    import weft.learn  # noqa: F401 (registers)

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
    with pytest.raises(UnknownName, match="unknown option 'task' of WorkflowEnv; did you mean"):
        WorkflowEnv(task=12)
    with pytest.raises(InvalidInput, match="condition is 5"):
        WorkflowEnv(5)
    with pytest.raises(InvalidInput, match="not both"):
        WorkflowEnv(draw=lambda _: None, tasks=12)
