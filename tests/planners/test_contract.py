"""Contract of planners: every registered planner on every kind of difficult problem."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import Unsupported
from weft.model import Problem, WorkflowBuilder
from weft.model.check import check
from weft.model.cluster import Cluster
from weft.planners import PLANNERS, SUPPORTED, plan
from weft.planners.planner import QUICK

SECONDS = 0.05
"""A time limit for the planners that take one."""

NAMES = PLANNERS.names()


def disconnected() -> Problem:
    """Two chains and a task on its own."""
    durations = [[2.0, 3.0], [1.0, 1.0], [4.0, 2.0], [2.0, 2.0], [5.0, 5.0]]
    return Problem.from_arrays(durations, [[0, 1], [2, 3]], [4.0, 1.0], bandwidth=2.0, latency=0.5)


def zero_work() -> Problem:
    """Entry and exit of no work, an instantaneous chain numbered backwards, and free data."""
    durations = [[0.0, 0.0], [3.0, 1.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]
    return Problem.from_arrays(
        durations,
        [[0, 1], [0, 2], [1, 3], [2, 3], [5, 4], [3, 5]],
        [0.0, 1.0, 0.0, 2.0, 0.0, 0.0],
        bandwidth=1.0,
    )


def memory_bound() -> Problem:
    """Half the tasks fit the slow device only; their parents and children fit both."""
    n = 12
    edges = [[t, t + 2] for t in range(n - 2)]
    memory = [8.0 if t % 4 < 2 else 1.0 for t in range(n)]
    return Problem.from_arrays(
        work=np.arange(1.0, n + 1),
        speed=[4.0, 1.0, 2.0],
        edges=edges,
        data=1.0,
        memory=memory,
        device_memory=[2.0, 8.0, 4.0],
        bandwidth=1.0,
    )


def any_numbering() -> Problem:
    """A random graph whose task numbers are no topological order."""
    rng = np.random.default_rng(7)
    pairs = np.array([(u, v) for v in range(1, 25) for u in set(rng.integers(0, v, 2).tolist())])
    return Problem.from_arrays(
        rng.uniform(1, 9, (25, 3)),
        rng.permutation(25)[pairs],
        rng.uniform(0, 20, len(pairs)),
        latency=0.1,
        bandwidth=1.0,
    )


def equal_devices() -> Problem:
    """Nothing but ties."""
    return Problem.from_arrays(
        np.ones((9, 3)),
        [[0, t] for t in range(1, 8)] + [[t, 8] for t in range(1, 8)],
        1.0,
        bandwidth=1.0,
    )


def many_tasks() -> Problem:
    """2,000 tasks in product form."""
    rng = np.random.default_rng(3)
    target = np.repeat(np.arange(1, 2000), 3)
    pairs = np.unique(
        np.stack([np.maximum(0, target - rng.integers(1, 60, len(target))), target], axis=1), axis=0
    )
    return Problem.from_arrays(
        work=rng.lognormal(size=2000),
        speed=rng.uniform(0.5, 2.0, 8),
        edges=pairs,
        data=rng.uniform(0, 3, len(pairs)),
        bandwidth=rng.uniform(1, 3, (8, 8)),
    )


PROBLEMS = {
    "empty": lambda: Problem.from_arrays(work=[], speed=[1.0, 2.0]),
    "single": lambda: Problem.from_arrays([[3.0, 2.0]]),
    "disconnected": disconnected,
    "zero work": zero_work,
    "one device": lambda: Problem.from_arrays(
        [[1.0], [2.0], [3.0]], [[2, 0], [0, 1]], 5.0, bandwidth=1.0
    ),
    "memory-bound": memory_bound,
    "any numbering": any_numbering,
    "equal devices": equal_devices,
    "many tasks": many_tasks,
}


@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("name", NAMES)
def test_valid(name, kind):
    problem = PROBLEMS[kind]()
    made = plan(problem, name, seconds=SECONDS)
    assert check(problem, made.schedule) == []
    assert made.planner == name
    assert len(made.schedule) - made.schedule.copies == problem.n


@pytest.mark.parametrize("name", NAMES)
def test_simple_answers(name):
    assert plan(PROBLEMS["empty"](), name, seconds=SECONDS).makespan == 0.0
    assert (
        plan(PROBLEMS["one device"](), name, seconds=SECONDS).makespan == 6.0
    )  # a chain: 3 + 1 + 2


@pytest.mark.parametrize("name", NAMES)
def test_bound_below_makespan(name):
    made = plan(any_numbering(), name, seconds=SECONDS)
    assert 0 < made.bound <= made.makespan * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_plan(name):
    problem = disconnected()
    # A limit on the clock ends a search at another point each time; a limit on its moves does not.
    planner = PLANNERS.create(name)
    budget = {option: 50 for option in ("iterations", "generations") if hasattr(planner, option)}
    seconds = None if budget or "seconds" not in planner.supports else SECONDS
    one, two = (plan(problem, name, seconds=seconds, seed=4, **budget).schedule for _ in range(2))
    assert one.makespan == two.makespan
    if budget or "seconds" not in planner.supports:
        assert all(np.array_equal(one.to_arrays()[c], two.to_arrays()[c]) for c in one.to_arrays())


@pytest.mark.parametrize("name", NAMES)
def test_says_what_it_supports(name):
    supports = PLANNERS.create(name).supports
    assert QUICK <= supports <= set(SUPPORTED)
    if "copies" not in supports:
        assert all(
            plan(make(), name, seconds=SECONDS).schedule.copies == 0
            for make in (any_numbering, many_tasks)
        )


@pytest.mark.parametrize("name", NAMES)
def test_choices_are_refused(name):
    b = WorkflowBuilder("cascade")
    small, large = b.task("small", work=1.0), b.task("large", work=9.0)
    b.choice(small, {"unsure": 0.3, "sure": 0.7})
    b.edge(small, large, when="unsure")
    problem = Problem.bind(b.build(), Cluster(speed=[1.0, 2.0]))
    with pytest.raises(Unsupported, match=f"planner '{name}' does not plan workflow 'cascade'"):
        plan(problem, name, seconds=SECONDS)
