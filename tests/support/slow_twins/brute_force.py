"""The shortest schedule of a tiny problem by trying everything, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from weft.model import Problem


def orders(problem: Problem) -> Iterator[list[int]]:
    """All orders in which parents come first."""
    w = problem.workflow
    parents = [set(w.src[w.dst == t].tolist()) for t in range(problem.n)]

    def extend(done: list[int]) -> Iterator[list[int]]:
        if len(done) == problem.n:
            yield list(done)
        for t in range(problem.n):
            if t not in done and parents[t] <= set(done):
                yield from extend([*done, t])

    yield from extend([])


def append(problem: Problem, order: list[int], device: tuple[int, ...]) -> float:
    """Makespan when tasks are put at the end of their devices in the given order."""
    w = problem.workflow
    free, finish = np.zeros(problem.p), np.zeros(problem.n)
    for t in order:
        d = device[t]
        start = free[d]
        for e in np.flatnonzero(w.dst == t).tolist():
            u = int(w.src[e])
            start = max(start, finish[u] + problem.transfer(e, device[u], d))
        free[d] = finish[t] = start + problem.duration(t, d)
    return float(finish.max(initial=0.0))


def shortest(problem: Problem) -> float:
    """Return the least makespan of all orders and devices, without needless idle time."""
    able = [
        [d for d in range(problem.p) if problem.duration(t, d) < np.inf] for t in range(problem.n)
    ]
    every = list(orders(problem))
    return min(append(problem, order, device) for order in every for device in product(*able))
