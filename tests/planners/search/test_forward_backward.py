"""Passes from both ends, and HEFT by ranks with other weights of transfers, on large graphs."""

from __future__ import annotations

import numpy as np
import pytest

from weft.experiments.benchmarks.large import layered
from weft.model import Problem
from weft.model.check import check
from weft.planners import plan
from weft.planners.lists.insertion import as_schedule
from weft.planners.search import forward_backward
from weft.planners.search.clock import Clock
from weft.planners.search.forward_backward import WEIGHTS, pass_until_end, weighted_heft


def drawn(n: int = 400, p: int = 8) -> Problem:
    return Problem.from_arrays(**layered(n, p))  # type: ignore[arg-type]  # arrays by name


def test_weight_one_is_heft_and_others_are_valid() -> None:
    problem = drawn()
    heft = plan(problem, "heft").schedule
    np.testing.assert_array_equal(weighted_heft(problem, 1.0).start, heft.start)
    for weight in WEIGHTS:
        assert check(problem, as_schedule(weighted_heft(problem, weight))) == []


def test_the_search_on_large_graphs_tries_all_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, tried = drawn(), []

    def recorded(problem: Problem, weight: float, link: None) -> object:
        tried.append(weight)
        return weighted_heft(problem, weight, link)

    monkeypatch.setattr(forward_backward, "weighted_heft", recorded)
    heft = plan(problem, "heft").schedule
    clock = Clock(1.0)
    left = {False: 1.0, True: 0.001}
    monkeypatch.setattr(clock, "left", lambda: left[len(tried) == len(WEIGHTS)])
    made = pass_until_end(problem, heft, clock, 0.01)
    assert tuple(tried) == WEIGHTS
    assert check(problem, made) == []
    shortest = min(float(weighted_heft(problem, w).finish.max()) for w in WEIGHTS)
    assert made.makespan == min(heft.makespan, shortest)
