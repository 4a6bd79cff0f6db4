"""Plans for networks: exact times by replay, and a search that compares plans by them.

Planners estimate with independent links at the rates of the routes. Replay then gives the times of
a plan on shared links. A planner that searches also plans for slower links, as if that many
transfers shared each of them, and spends the rest of its time on moving single tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from weft.model import Problem, Scenario, Schedule, Workload
from weft.model.columns import FloatArray, IntArray
from weft.rng import generator
from weft.sim.kernel.rules import replay
from weft.sim.kernel.tables import make_sim
from weft.sim.simulate import simulate

SHARERS = (1.0, 2.0, 4.0)
"""Transfers that are taken to share each link, in the plans that a search compares."""

PLANNING_SHARE = 0.2
"""Share of the time limit for each of them; the rest is for moving tasks."""

PATIENCE = 200
"""Moves without a gain after which a search without a time limit stops."""


def independent(problem: Problem, sharers: float = 1.0) -> Problem:
    """Return the problem on independent links, each with a part of the rate of its route."""
    c = problem.cluster
    apart = c.node[:, None] != c.node[None, :]
    bandwidth = np.where(apart, c.bandwidth / sharers, c.bandwidth)
    return replace(problem, cluster=replace(c, network=None, bandwidth=bandwidth))


def replayed(problem: Problem, schedule: Schedule) -> Schedule:
    """Return a schedule with the times that replay gives it on the links of the problem.

    Examples
    --------
    >>> from weft.model import Cluster, Device, Topology, Workflow
    >>> star = Topology.star("abc", up=10.0)
    >>> cluster = Cluster.of([Device(n, node=n) for n in "abc"], network=star)
    >>> fork = Workflow(work=[1.0, 1.0, 1.0], src=[0, 0], dst=[1, 2], data=[10.0, 10.0])
    >>> plan = Schedule.of(device=[0, 1, 2], start=[0, 2, 2], finish=[1, 3, 3])
    >>> replayed(Problem.bind(fork, cluster), plan).finish.tolist()
    [1.0, 4.0, 4.0]
    """
    workload = Workload.of(problem)
    trace = simulate(workload, schedule, scenario=Scenario.of(workload))
    return Schedule.of(task=trace.task, device=trace.device, start=trace.start, finish=trace.finish)


def best_on_network(
    problem: Problem,
    solve: Callable[[Problem, float | None], Schedule],
    first: Schedule,
    *,
    seconds: float | None,
    seed: int,
) -> Schedule:
    """Return the best of a first plan and plans for slower links, improved by moving tasks."""
    begin = time.perf_counter()
    best = first
    for sharers in SHARERS[1:]:
        share = None if seconds is None else PLANNING_SHARE * seconds
        plan = replayed(problem, solve(independent(problem, sharers), share))
        best = min(best, plan, key=lambda s: s.makespan)
    spent = time.perf_counter() - begin + PLANNING_SHARE * (seconds or 0.0)
    return moved_tasks(
        problem, best, seconds=None if seconds is None else seconds - spent, seed=seed
    )


def moved_tasks(problem: Problem, best: Schedule, *, seconds: float | None, seed: int) -> Schedule:
    """Move one task at a time to another device or place in the order, while that helps."""
    begin, rng = time.perf_counter(), generator(seed, "contention")
    workload = Workload.of(problem)
    device, key, length = best.device.copy(), best.start.copy(), best.makespan
    idle = 0
    while problem.n > 1 and (
        idle < PATIENCE if seconds is None else time.perf_counter() - begin < seconds
    ):
        task = int(rng.integers(problem.n))
        able = np.flatnonzero(np.isfinite(problem.pace[problem.row[task]]))
        tried, place = device.copy(), key.copy()
        tried[task] = able[rng.integers(len(able))]
        if rng.random() < 0.5:
            place[task] = rng.uniform(*_window(problem, key, task))
        made = _makespan(workload, tried, place)
        idle = idle + 1 if made >= length else 0
        if made <= length:
            device, key, length = tried, place, made
    return min(best, replayed(problem, _ordered(device, key)), key=lambda s: s.makespan)


def _window(problem: Problem, key: FloatArray, task: int) -> tuple[float, float]:
    """Return the keys between which a task stays in a topological order."""
    w = problem.workflow
    before = key[w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]]]
    after = key[w.dst[w.succ_ptr[task] : w.succ_ptr[task + 1]]]
    return float(before.max(initial=0.0)), float(after.min(initial=key.max()))


def _makespan(workload: Workload, device: IntArray, key: FloatArray) -> float:
    sim = make_sim(workload, Scenario.of(workload), [_ordered(device, key)], eager=True)
    replay(sim)
    return float(sim.job["finish"][0])


def _ordered(device: IntArray, key: FloatArray) -> Schedule:
    return Schedule.of(device=device, start=key, finish=key)
