"""The shortest schedule of a tiny problem by trying everything, in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

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


def shortest_packed(problem: Problem) -> float:
    """Try every order of the tasks on every device: the serial scheme reaches an optimum."""
    best = np.inf
    n, order = problem.n, problem.workflow.order
    for permutation in permutations(order.tolist()):
        position = {t: i for i, t in enumerate(permutation)}
        edges = zip(problem.workflow.src.tolist(), problem.workflow.dst.tolist(), strict=True)
        if any(position[u] > position[v] for u, v in edges):
            continue
        for devices in product(range(problem.p), repeat=n):
            best = min(best, _serial(problem, permutation, devices))
    return best


def _serial(problem: Problem, order: tuple[int, ...], devices: tuple[int, ...]) -> float:
    """Time tasks in order, each as early as possible; times are tried one after another."""
    w, c, rows = problem.workflow, problem.cluster, {}
    for t in order:
        d = devices[t]
        seconds = problem.duration(t, d)
        if seconds == np.inf:
            return np.inf
        ready = 0.0
        for e in np.flatnonzero(w.dst == t).tolist():
            u = int(w.src[e])
            ready = max(ready, rows[u][2] + problem.transfer(e, rows[u][0], d))
        for start in sorted({ready, *(end for _, _, end in rows.values() if end > ready)}):
            trial = {**rows, t: (d, start, start + seconds)}
            if _feasible(problem, trial, c.node):
                rows = trial
                break
    return max((end for _, _, end in rows.values()), default=0.0)


def _feasible(problem: Problem, rows: dict, node: np.ndarray) -> bool:
    """Return whether rows keep to capacities, and devices run one task at a time."""
    for _, at, _ in rows.values():
        for n in range(len(problem.room)):
            running = [
                t for t, (d, begin, end) in rows.items() if begin <= at < end and node[d] == n
            ]
            if (problem.needs[running].sum(axis=0) > problem.room[n]).any():
                return False
        busy = [d for d, begin, end in rows.values() if begin <= at < end]
        if len(set(busy)) < len(busy):
            return False
    return True
