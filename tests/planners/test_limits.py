"""The time limit of `anytime`, by counted work: a clock that advances with the steps of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from weft.model import Problem
from weft.model.check import check
from weft.planners import plan
from weft.planners.lists import dynamic, placements
from weft.planners.search import clock, effort, forward_backward, team


class StepClock:
    """A clock in steps; kernels are wrapped so that their work advances it."""

    def __init__(self, patch: pytest.MonkeyPatch, problem: Problem) -> None:
        self.steps = 0.0
        self.calls: dict[str, int] = {}
        patch.setattr(clock, "_timers", [lambda: self.steps])
        steps = float((problem.n + problem.m) * problem.p)
        one = steps + effort.CALL_STEPS  # HEFT, and a pass
        walked = float(problem.n**2)  # the longest walk of the decoder
        pairs = one + steps * problem.p
        for module, name, cost in (
            (placements, "insert", lambda *_: one),
            (forward_backward, "insert", lambda *_: one),
            (placements, "append_in_order", lambda *_: one),
            (placements, "insert_optimistically", lambda *_: one),
            (placements, "insert_looking_ahead", lambda *_: pairs),
            (dynamic, "take_steps", lambda *given: float(given[-1])),
            (effort, "lower_bound", lambda *_, **__: 2 * pairs),
            (effort, "device_tails", lambda *_: pairs),
            (team, "begin", lambda *_: steps / problem.p + walked),
            (team, "decode", lambda *_: steps / problem.p + walked),
            (team, "anneal", lambda *given: given[5] * steps),
        ):
            self._count(patch, module, name, cost)

    def _count(
        self, patch: pytest.MonkeyPatch, module: Any, name: str, cost: Callable[..., float]
    ) -> None:
        kernel = getattr(module, name)

        def counted(*given: Any, **options: Any) -> Any:
            self.steps += cost(*given, **options)
            self.calls[name] = self.calls.get(name, 0) + 1
            return kernel(*given, **options)

        patch.setattr(module, name, counted)


def chains(n: int, p: int) -> Problem:
    """Many chains of ten tasks."""
    rng = np.random.default_rng(n)
    edges = [[t, t + 1] for t in range(n - 1) if t % 10 < 9]
    return Problem.from_arrays(rng.uniform(1, 9, (n, p)), edges, 1.0, bandwidth=1.0)


@pytest.mark.parametrize(
    ("n", "p", "heft"), [(1500, 1, 60), (600, 4, 100), (300, 8, 100), (300, 8, 30), (60, 4, 200)]
)
def test_the_limit_holds_in_counted_steps(monkeypatch, n, p, heft):
    """The limit is given in times of HEFT. DLS alone takes n x n / 2 steps on one device."""
    problem = chains(n, p)
    plan(problem, "anytime", iterations=1)  # load the kernels
    counter = StepClock(monkeypatch, problem)
    limit = heft * ((problem.n + problem.m) * problem.p + effort.CALL_STEPS)
    found = plan(problem, "anytime", seconds=float(limit), threads=1)
    assert check(problem, found.schedule) == []
    assert counter.calls["insert"] > 1
    assert counter.steps <= 1.1 * limit


def test_dynamic_planners_stop_in_between():
    problem = chains(1500, 1)
    asked: list[int] = []

    def more() -> bool:
        asked.append(1)
        return len(asked) < 3

    assert dynamic.choose_in_turn(problem, "dls", more) is None
    assert len(asked) == 3
    assert dynamic.choose_in_turn(problem, "dls", lambda: True) is not None
