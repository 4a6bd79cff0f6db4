"""`attack`: small problems on which one contender is much worse than another.

The idea is that of PISA (Coleman and Krishnamachari, 2024, "Comparing task graph scheduling
algorithms: an adversarial approach"): anneal over problem instances, where the energy is the
ratio of two makespans. Costs stay within a factor of 100 of each other, so that no ratio is due to
tasks or links that are as good as absent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.arguments import shown, whole
from weft.errors import InvalidInput
from weft.model import Problem
from weft.model.columns import FloatArray
from weft.planners.planner import plan
from weft.policies import simulate
from weft.progress import Track
from weft.rng import generator
from weft.runtime.deciders.contender import load_contender
from weft.typed import typed

LEAST, MOST = 0.1, 10.0
"""Limits of work, bytes, speeds and bandwidths."""

HOT, COLD = 0.15, 0.005
"""First and last temperature, in units of the logarithm of the ratio."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A problem as the search changes it: three-digit numbers, edges as a matrix."""

    work: FloatArray
    speed: FloatArray
    data: FloatArray
    """(n, n) bytes from an earlier to a later task; 0: no edge."""
    bandwidth: FloatArray

    def problem(self, name: str) -> Problem:
        """Return the problem."""
        edges = np.argwhere(self.data > 0)
        return Problem.from_arrays(
            work=self.work,
            speed=self.speed,
            edges=edges,
            data=self.data[tuple(edges.T)],
            bandwidth=self.bandwidth,
            name=name,
        )


@dataclass(frozen=True)
class WorstCase:
    """The worst problem of one annealing run."""

    problem: Problem = field(repr=False)
    makespan: float
    against: float

    @property
    def ratio(self) -> float:
        """Makespan over that of the other contender."""
        return self.makespan / self.against


@dataclass(frozen=True)
class Attack:
    """The worst problems found, the worst first.

    `evaluations` counts the problems that were tried.
    """

    contender: str
    against: str
    cases: tuple[WorstCase, ...]
    evaluations: int

    @property
    def worst(self) -> WorstCase:
        """The problem with the highest ratio."""
        return self.cases[0]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per annealing run."""
        return [
            {
                "run": k + 1,
                "ratio": v.ratio,
                self.contender: v.makespan,
                f"{self.against} ": v.against,  # the space keeps two equal names apart
                "tasks": v.problem.n,
                "edges": v.problem.m,
                "devices": v.problem.p,
            }
            for k, v in enumerate(self.cases)
        ]


LARGEST = 1000
"""The most tasks and devices of a problem: attacks look for small ones."""


@typed
def attack(
    contender: Any,
    against: Any,
    *,
    tasks: int = 8,
    devices: int = 3,
    runs: int = 8,
    steps: int = 300,
    seconds: float | None = None,
    seed: int = 0,
    track: Track = iter,
) -> Attack:
    """Search problems on which `contender` takes much longer than `against`.

    Parameters
    ----------
    contender, against : names, paths or objects of planners or policies; a policy is simulated
        with exact durations
    tasks, devices : size of the problems
    runs, steps : annealing runs from different starts, and problems per run
    seconds : time limit of each plan, for planners that search
    track : goes through the steps, for example `tqdm.tqdm`

    Examples
    --------
    >>> found = attack("olb", "heft", tasks=4, devices=2, runs=1, steps=40)
    >>> found.worst.ratio > 2
    True
    """
    tasks = whole(tasks, "tasks", least=2, most=LARGEST)
    devices = whole(devices, "devices", most=LARGEST)
    runs, steps = whole(runs, "runs", most=10**9), whole(steps, "steps", most=10**9)
    sides = [load_contender(contender), load_contender(against)]
    for side in sides:
        if not hasattr(side, "name"):
            raise InvalidInput(f"{shown(side)} is neither a planner nor a policy")
    names = [side.name for side in sides]

    def judge(candidate: Candidate, name: str) -> WorstCase:
        problem = candidate.problem(name)
        times = [makespan(problem, side, seconds=seconds, seed=seed) for side in sides]
        return WorstCase(problem, *times)

    found: list[WorstCase] = []
    random = generator(seed, "attack")
    for step in track(range(runs * steps)):
        run, k = divmod(step, steps)
        name = f"{names[0]}-against-{names[1]}-{seed}-{run}"
        if k == 0:
            at = _start(random, tasks, devices)
            here = judge(at, name)
            found.append(here)
            continue
        temperature = HOT * (COLD / HOT) ** (k / steps)
        other = _changed(random, at)
        there = judge(other, name)
        gain = math.log(there.ratio / here.ratio)
        if gain >= 0 or random.random() < math.exp(gain / temperature):
            at, here = other, there
        if there.ratio > found[-1].ratio:
            found[-1] = there
    ordered = sorted(found, key=lambda v: -v.ratio)
    return Attack(names[0], names[1], tuple(ordered), runs * steps)


def makespan(
    problem: Problem, contender: Any, *, seconds: float | None = None, seed: int = 0
) -> float:
    """Return the makespan of a plan, or of a simulation with exact durations."""
    if hasattr(contender, "solve"):
        return plan(problem, contender, seconds=seconds, seed=seed).makespan
    return simulate(problem, contender, seed=seed).makespan


def _start(random: np.random.Generator, n: int, p: int) -> Candidate:
    linked = np.triu(random.random((n, n)) < 0.3, 1)
    wires = np.triu(_draw(random, (p, p)), 1)
    return Candidate(
        work=_draw(random, n),
        speed=_draw(random, p),
        data=np.where(linked, _draw(random, (n, n)), 0.0),
        bandwidth=wires + wires.T + np.diag(np.full(p, np.inf)),
    )


def _draw(random: np.random.Generator, shape: int | tuple[int, int]) -> FloatArray:
    return _rounded(np.exp(random.uniform(math.log(LEAST), math.log(MOST), shape)))


def _rounded(values: FloatArray) -> FloatArray:
    digits = np.array([float(f"{v:.3g}") for v in np.ravel(values)]).reshape(np.shape(values))
    return np.asarray(np.clip(digits, LEAST, MOST))


def _changed(random: np.random.Generator, old: Candidate) -> Candidate:
    """Change one number, add an edge or remove one."""
    made = {key: np.array(column) for key, column in vars(old).items()}
    n, p = len(old.work), len(old.speed)
    move = random.choice(["work", "speed", "data", "bandwidth", "edge"] if p > 1 else ["work"])
    if move in {"work", "speed"}:
        at = random.integers(len(made[move]))
        made[move][at] = _nudged(random, made[move][at])
    elif move == "bandwidth":
        a, b = random.choice(p, 2, replace=False)
        made[move][a, b] = made[move][b, a] = _nudged(random, made[move][a, b])
    elif move == "data" and (old.data > 0).any():
        a, b = random.choice(np.argwhere(old.data > 0))
        made["data"][a, b] = _nudged(random, made["data"][a, b])
    else:
        a, b = np.sort(random.choice(n, 2, replace=False))
        made["data"][a, b] = 0.0 if made["data"][a, b] > 0 else float(_draw(random, 1)[0])
    return Candidate(**made)


def _nudged(random: np.random.Generator, value: float) -> float:
    return float(_rounded(np.array([value * math.exp(random.normal(0.0, 0.7))]))[0])
