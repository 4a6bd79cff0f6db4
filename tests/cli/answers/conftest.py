"""Files that several verbs read."""

from __future__ import annotations

import pytest

import weft


@pytest.fixture
def files(tmp_path):
    """A problem of two tasks, a plan that moves data (6 s), one that does not (5 s), a trace."""
    problem = weft.Problem.from_arrays(
        [[2.0, 1.0], [3.0, 9.0]], [[0, 1]], [10.0], bandwidth=5.0, name="two"
    )
    made = {
        "problem": problem,
        "move": weft.Schedule.of(device=[1, 0], start=[0.0, 3.0], finish=[1.0, 6.0]),
        "stay": weft.Schedule.of(device=[0, 0], start=[0.0, 2.0], finish=[2.0, 5.0]),
        "trace": weft.simulate(problem, "fifo"),
    }
    for name, thing in made.items():
        weft.save(thing, tmp_path / f"{name}.json")
    return {name: tmp_path / f"{name}.json" for name in made}
