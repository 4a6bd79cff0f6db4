"""Moves of the annealing: the critical path, and states that stay whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import problems
from weft.model import Problem
from weft.model.check import check
from weft.planners.bounds import device_tails
from weft.planners.objective import Objective
from weft.planners.search.annealing import make_path, trace_path
from weft.planners.search.clock import Clock
from weft.planners.search.decoder import decode, make_decoder
from weft.planners.search.team import Team
from weft.planners.search.warm_start import quick_start
from weft.sim.kernel.order_moves import ANY


def test_critical_path_by_hand() -> None:
    """Two chains on one device: 0 (2 s), 1 (3 s); then 2 after 1 (1 s).

    The last task waits for 1, and 1 for 0.
    """
    problem = Problem.from_arrays([[2.0], [3.0], [1.0]], [[1, 2]], [4.0], bandwidth=1.0)
    tail, decoder, path = device_tails(problem), make_decoder(3, 1), make_path(3)
    order = np.array([0, 1, 2])
    objective = Objective.of("makespan").compiled(problem)
    assert decode(problem.arrays, objective, order, np.full(3, ANY), tail, decoder) == 6.0
    trace_path(problem.arrays, decoder, path)
    assert path.size[0] == 3
    assert path.task.tolist() == [2, 1, 0]
    assert path.wait.tolist() == [1, 0, -1]


def test_critical_path_follows_data() -> None:
    """Task 1 runs on device 1 only, task 0 on device 0 only: task 1 waits for the data of 0.

    It starts after 2 s of task 0 and 3 s of transfer.
    """
    problem = Problem.from_arrays([[2.0, np.inf], [np.inf, 1.0]], [[0, 1]], [3.0], bandwidth=1.0)
    tail, decoder, path = device_tails(problem), make_decoder(2, 2), make_path(2)
    objective = Objective.of("makespan").compiled(problem)
    assert (
        decode(problem.arrays, objective, np.array([0, 1]), np.full(2, ANY), tail, decoder) == 6.0
    )
    trace_path(problem.arrays, decoder, path)
    assert path.task[: path.size[0]].tolist() == [1, 0]
    assert path.wait[: path.size[0]].tolist() == [0, -1]


@settings(max_examples=25)
@given(problems(min_tasks=2, max_tasks=12), st.integers(0, 10_000))
def test_moves_keep_the_state_whole(problem: Problem, seed: int) -> None:
    """After many moves the order respects the graph, and decoding it gives the stored value."""
    objective = Objective.of("makespan")
    start = quick_start(problem, objective, Clock(None))
    team = Team.of(problem, objective, start, device_tails(problem), chains=1, seed=seed)
    worker = team.workers[0]
    worker.set_temperature(2000)
    worker.anneal(300, 0.0, 0.0)
    chain = worker.chain
    assert chain.order[chain.place].tolist() == list(range(problem.n))
    assert (chain.place[problem.workflow.src] < chain.place[problem.workflow.dst]).all()
    fresh = make_decoder(problem.n, problem.p)
    value = decode(problem.arrays, worker.objective, chain.order, chain.choice, worker.tail, fresh)
    assert value == chain.value[0]["current"]
    assert check(problem, team.schedule()) == []
    assert team.schedule().makespan == worker.best
