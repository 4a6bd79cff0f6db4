"""What a planner is, what it gives, and the table of all of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, Protocol

from weft.errors import Unsupported
from weft.model import Problem, Schedule
from weft.model.bounds import lower_bound
from weft.registry import Registry

Status = Literal["optimal", "feasible", "infeasible", "unknown"]

EXACT = 1e-9
"""Relative distance below which a makespan counts as equal to its bound."""


@dataclass(frozen=True)
class Solution:
    """What a planner found: a schedule and, if it proved one, a bound on any makespan (0: nothing proved)."""

    schedule: Schedule
    bound: float = 0.0


class Planner(Protocol):
    """Problem -> Solution. Planners are frozen dataclasses; their options are their fields.

    `seconds` is a time limit and `seed` a seed; the quick and deterministic planners have no use for them.
    """

    @property
    def name(self) -> str:
        """The name it is registered under, or a telling one."""
        ...

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem; raise `Unsupported` for a feature it does not handle."""
        ...


PLANNERS: Registry[Planner] = Registry("planner")


@dataclass(frozen=True)
class Plan:
    """A schedule with its certificate: no valid schedule without copies is shorter than `bound`."""

    schedule: Schedule
    planner: str
    bound: float
    status: Status
    seconds: float

    @property
    def makespan(self) -> float:
        """When the last task ends."""
        return self.schedule.makespan

    @property
    def gap(self) -> float:
        """How far above the bound the makespan can be at most, as a share: 0.05 is 5 %."""
        return self.makespan / self.bound - 1.0 if self.bound > 0 else 0.0


def plan(problem: Problem, planner: str | Planner = "heft", *, seconds: float | None = None, seed: int = 0) -> Plan:
    """Plan a problem with a planner, by name or object.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> plan(problem, "heft").makespan
    5.0
    """
    chosen = PLANNERS.create(planner) if isinstance(planner, str) else planner
    begin = time.perf_counter()
    solution = chosen.solve(problem, seconds=seconds, seed=seed)
    took = time.perf_counter() - begin
    bound = max(lower_bound(problem), solution.bound)
    tight = solution.schedule.makespan <= bound * (1 + EXACT)
    return Plan(solution.schedule, chosen.name, bound, "optimal" if tight else "feasible", took)


def refuse_choices(problem: Problem, planner: str) -> None:
    """Raise `Unsupported` for a workflow with choices: which tasks run is not known beforehand."""
    if problem.workflow.conditional:
        raise Unsupported(f"planner '{planner}' does not plan workflow '{problem.name}': it has choices; simulate a policy instead")
