"""Plans for set-ups and shared links: exact times by replay, and a search.

The search compares plans by these times. Planners plan for an estimate: independent links, and
set-ups as longer tasks unless they count them. Replay gives the times of the plan, and shows how
slow links were and how often tasks waited for their kind. Planning for that, and replaying again,
gives the next plan; the best one wins. Planners that search then move single tasks, and replay
decides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from weft.model import Choices, Problem, Scenario, Schedule, Transfers, Workload
from weft.model.columns import FloatArray, IntArray
from weft.planners.contention import independent, slowness_seen
from weft.planners.setups import likely_shares, shares_seen, with_mean_setups, without_setups
from weft.rng import generator
from weft.sim.kernel.jit import planning_clock
from weft.sim.kernel.rules import replay
from weft.sim.kernel.tables import CHANGING, make_sim
from weft.sim.simulate import simulate

ROUNDS = 2
"""Plans made for the estimate of a replay, after the first plan."""

PLANNING_SHARE = 0.25
"""Share of the time limit of a search for each of its two plans; the rest is for moving tasks."""

MOVES, HEAT = 2_000, 0.02
"""Moves of a search without a time limit; the largest relative worsening accepted at first."""

ELSEWHERE, BESIDE, TOGETHER = 0.4, 0.2, 0.2
"""Shares of moves that only change the device, that put a task behind one of its kind, and that
also move its descendants on the same device, so that a chain stays with its data."""


def replayed(problem: Problem, schedule: Schedule) -> Schedule:
    """Return a schedule with the times of its replay on the problem's machines.

    Devices and order stay. With choices, all branches are run.

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
    return _replay(problem, schedule)[0]


def _replay(problem: Problem, schedule: Schedule) -> tuple[Schedule, Transfers | None]:
    if problem.workflow.conditional:
        plain = replace(problem.workflow, choices=Choices.none(problem.m))
        problem = replace(problem, workflow=plain)
    workload = Workload.of(problem)
    trace = simulate(workload, schedule, scenario=Scenario.of(workload))
    made = Schedule.of(
        task=trace.task,
        device=trace.device,
        start=trace.start,
        finish=trace.finish,
        copy=trace.copy,
    )
    return made, trace.transfers


@dataclass(frozen=True)
class Estimate:
    """Assumptions of a plan: slowness of links, and how often kinds are loaded."""

    slowness: float | FloatArray = 1.0
    shares: FloatArray | None = None

    @classmethod
    def seen(cls, problem: Problem, schedule: Schedule, moved: Transfers | None) -> Estimate:
        """Return the estimate that a replay shows."""
        return cls(
            1.0 if moved is None else slowness_seen(problem, moved),
            shares_seen(problem, schedule) if problem.cluster.has_setup else None,
        )

    def apply(self, problem: Problem, *, setups: bool) -> Problem:
        """Return a problem without network.

        It has no set-ups either, unless a planner counts them.
        """
        if problem.cluster.network is not None:
            problem = independent(problem, self.slowness)
        if setups or not problem.cluster.has_setup:
            return problem
        if self.shares is None:
            return replace(problem, cluster=without_setups(problem.cluster))
        return with_mean_setups(problem, self.shares)


def best_by_replay(
    problem: Problem,
    solve: Callable[[Problem], Schedule],
    *,
    rounds: int,
    setups: bool,
    value: Callable[[Schedule], float],
) -> Schedule:
    """Return the best replayed plan.

    The first plan is for free set-ups and links, the next ones for what the replays show.

    `setups`: whether the planner counts set-ups.
    """
    found = [_replay(problem, solve(Estimate().apply(problem, setups=False)))]
    for k in range(rounds):
        estimate = Estimate.seen(problem, *found[-1])
        if k == 0 and problem.cluster.has_setup:  # a plan for free set-ups loads kinds too often
            estimate = replace(estimate, shares=likely_shares(problem))
        found.append(_replay(problem, solve(estimate.apply(problem, setups=setups))))
    return min((schedule for schedule, _ in found), key=value)


@dataclass
class Replays:
    """Replays of many plans without copies of one problem, with the memory of one."""

    problem: Problem

    def __post_init__(self) -> None:
        """Make the simulation and a copy of what it changes."""
        workload = Workload.of(self.problem)
        self.place = self.problem.workflow.place
        able = np.isfinite(self.problem.per_work[self.problem.row]).argmax(axis=1)
        any_plan = Schedule.of(device=able, start=self.place, finish=self.place)
        self._sim = make_sim(workload, Scenario.of(workload), [any_plan], eager=True)
        changing = [getattr(self._sim, name) for name in CHANGING]
        self._changed = [(table, table.copy()) for table in changing]

    def makespan(self, device: IntArray, key: FloatArray) -> float:
        """Return the makespan of tasks on devices, in the order of their keys."""
        for table, fresh in self._changed:
            table[...] = fresh
        order = np.lexsort((self.place, key))
        self._sim.entry["instance"], self._sim.entry["device"] = order, device[order]
        replay(self._sim)
        return float(self._sim.job["finish"][0])

    def moving(self, device: IntArray) -> float:
        """Return the seconds of all transfers, each on links of its own."""
        w, p = self.problem.workflow, self.problem.p
        moves, edge = np.unique(w.src * p + device[w.dst], return_index=True)
        per_byte = self.problem.cluster.per_byte[device[moves // p], moves % p]
        return float((w.data[edge] * per_byte).sum())


def moved_tasks(
    problem: Problem, first: Schedule, *, seconds: float | None, seed: int = 0, moving: float = 0.0
) -> Schedule:
    """Move tasks to other devices and places; never return a worse schedule.

    Annealing: somewhat longer schedules are accepted, less and less.

    Parameters
    ----------
    moving : cost of a second of transfers in seconds of the makespan: hosts that send and receive
        compute more slowly, which replay does not show
    """
    if problem.n < 2 or first.copies:
        return first
    begin, rng, replays = planning_clock(), generator(seed, "replays"), Replays(problem)
    device, key = np.zeros(problem.n, np.int64), np.zeros(problem.n)
    device[first.task], key[first.task] = first.device, first.start
    cost = first.makespan + moving * replays.moving(device) if moving else first.makespan
    best, least, here, improved = (device, key), cost, cost, False
    done = 0.0
    for count in range(MOVES if seconds is None else 2**62):
        spent = planning_clock() - begin
        done = count / MOVES if seconds is None else spent / max(seconds, 1e-9)
        if done >= 1.0:
            break
        tried, place = _move(problem, device, key, rng)
        made = moving * replays.moving(tried) if moving else 0.0
        bound = here * (1.0 + HEAT * (1.0 - done) * rng.random() ** 4)
        if made > bound:
            continue
        made += replays.makespan(tried, place)
        if made <= bound:
            device, key, here = tried, place, made
            if made < least:
                best, least, improved = (device, key), made, True
    if not improved:
        return first
    return replayed(problem, Schedule.of(device=best[0], start=best[1], finish=best[1]))


def _move(
    problem: Problem, device: IntArray, key: FloatArray, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Return devices and keys with another device or place for one task."""
    task, kind = int(rng.integers(problem.n)), rng.random()
    able = np.isfinite(problem.per_work[problem.row[task]])
    tried, place = device.copy(), key.copy()
    low, high = _window(problem, key, task)
    if kind < BESIDE:
        same = np.flatnonzero(problem.workflow.kind == problem.workflow.kind[task])
        other = int(same[rng.integers(len(same))])
        if able[device[other]]:
            tried[task] = device[other]
        place[task] = min(max(np.nextafter(key[other], np.inf), low), high)
        return tried, place
    devices = np.flatnonzero(able)
    target = devices[rng.integers(len(devices))]
    if BESIDE <= kind < BESIDE + TOGETHER:
        follow = _followers(problem, device, task)
        able_too = np.isfinite(problem.per_work[problem.row[follow], target])
        tried[follow[able_too]] = target
        return tried, place
    tried[task] = target
    if kind > BESIDE + TOGETHER + ELSEWHERE:
        place[task] = rng.uniform(low, high)
    return tried, place


def _followers(problem: Problem, device: IntArray, task: int) -> IntArray:
    """Return a task and its descendants by edges within its device."""
    w, found, front = problem.workflow, {task: None}, [task]
    while front:
        here = front.pop()
        for child in w.children(here).tolist():
            if child not in found and device[child] == device[task]:
                found[child] = None
                front.append(child)
    return np.array(list(found), np.int64)


def _window(problem: Problem, key: FloatArray, task: int) -> tuple[float, float]:
    """Return the keys between which a task stays in a topological order."""
    w = problem.workflow
    before, after = key[w.parents(task)], key[w.children(task)]
    return float(before.max(initial=0.0)), float(after.min(initial=key.max()))
