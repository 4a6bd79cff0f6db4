"""The compiled decoder: the same as a plain one, from the beginning and from anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.strategies import problems
from weft.model import Problem, Schedule
from weft.model.check import check
from weft.planners.bounds import device_tails
from weft.planners.objective import Objective
from weft.planners.search.annealing import make_chain
from weft.planners.search.decoder import decode, decode_from, make_decoder
from weft.sim.kernel.order_moves import ANY, another_device, another_place, shift


def plain_decode(
    problem: Problem, order: list[int], choice: list[int]
) -> tuple[list[int], list[float], list[float]]:
    """Insertion-based earliest finish time, said as slowly as possible."""
    w = problem.workflow
    device, start, finish = [0] * problem.n, [0.0] * problem.n, [0.0] * problem.n
    busy: list[list[tuple[float, float]]] = [[] for _ in range(problem.p)]
    for t in order:
        best = (np.inf, -1, 0.0)
        for d in range(problem.p) if choice[t] == ANY else [choice[t]]:
            seconds = problem.duration(t, d)
            if seconds == np.inf:
                continue
            ready = 0.0
            for e in np.flatnonzero(w.dst == t).tolist():
                u = int(w.src[e])
                ready = max(ready, finish[u] + problem.transfer(e, device[u], d))
            begin = ready
            for i, (_, end) in enumerate([(0.0, 0.0), *busy[d]]):
                begin = max(ready, end)
                if i == len(busy[d]) or begin + seconds <= busy[d][i][0]:
                    break
            if begin + seconds < best[0]:
                best = (begin + seconds, d, begin)
        finish[t], device[t], start[t] = best
        busy[device[t]].append((start[t], finish[t]))
        busy[device[t]].sort()
    return device, start, finish


def able_devices(problem: Problem, t: int) -> list[int]:
    return [d for d in range(problem.p) if problem.duration(t, d) < np.inf]


@given(problems(min_tasks=1), st.data())
def test_equals_the_plain_decoder(problem, draw):
    order = problem.workflow.order.copy()
    choice = np.array(
        [draw.draw(st.sampled_from([ANY, *able_devices(problem, t)])) for t in range(problem.n)]
    )
    w = make_decoder(problem.n, problem.p)
    compiled = Objective.of("makespan").compiled(problem)
    value = decode(problem.arrays, compiled, order, choice, np.zeros((problem.n, 1)), w)
    device, start, finish = plain_decode(problem, order.tolist(), choice.tolist())
    assert value == max(finish)
    assert (w.device.tolist(), w.start.tolist(), w.finish.tolist()) == (device, start, finish)
    assert check(problem, Schedule.of(device=w.device, start=w.start, finish=w.finish)) == []


@pytest.mark.parametrize("objective", ["makespan", "waiting"])
@given(problems(min_tasks=2), st.integers(1, 2**40))
@settings(max_examples=40)
def test_a_changed_order_decodes_as_if_from_the_beginning(objective, problem, seed):
    a, n = problem.arrays, problem.n
    compiled, tail = Objective.of(objective).compiled(problem), device_tails(problem)
    w, fresh, c = make_decoder(n, problem.p), make_decoder(n, problem.p), make_chain(n, seed)
    order, choice = problem.workflow.order.copy(), np.full(n, ANY)
    place = np.argsort(order)
    value = decode(a, compiled, order, choice, tail, w)
    rng = np.random.default_rng(seed)
    for _ in range(30):
        t = int(rng.integers(n))
        here = there = int(place[t])
        old = choice[t]
        if rng.random() < 0.5:
            new = another_device(a, w.device, problem.p, t, c.random, 0.4)
            if new != ANY and problem.duration(t, new) == np.inf:
                continue
            choice[t] = new
        else:
            there = another_place(a, order, place, t, c.random)
            shift(order, place, here, there)
        limit = value * rng.choice([0.9, 1.0, 1.2])
        found = decode_from(
            a, compiled, order, choice, tail, limit, w, min(here, there), max(here, there), value
        )
        expected = decode(a, compiled, order, choice, tail, fresh)
        if found < np.inf:
            assert found == expected
            value = found
        else:
            assert expected >= limit * (1 - 1e-12)  # tails add in another order than schedules
            choice[t] = old
            shift(order, place, there, here)
            decode(a, compiled, order, choice, tail, fresh)
        assert np.array_equal(w.start, fresh.start)
        assert np.array_equal(w.device, fresh.device)


def test_orders_stay_valid():
    problem = Problem.from_arrays(np.ones((4, 2)), [[0, 1], [1, 2], [0, 3]])
    c = make_chain(4, 7)
    order, place = np.array([0, 1, 2, 3]), np.array([0, 1, 2, 3])
    assert (
        another_place(problem.arrays, order, place, 1, c.random) == 1
    )  # between 0 and 2: nowhere else to go
    assert {another_place(problem.arrays, order, place, 3, c.random) for _ in range(50)} == {
        1,
        2,
        3,
    }
