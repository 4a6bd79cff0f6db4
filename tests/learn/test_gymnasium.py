"""Gymnasium: environments found by the entry point, rendering, actions out of range."""

import numpy as np
import pytest

from tests.support.programs import run_python
from weft.errors import InvalidInput

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


@pytest.mark.parametrize("action", [[-1, 0, 0, 0], [7, 0, 0, 0], [0, 0]])
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
