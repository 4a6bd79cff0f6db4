"""What a planner is, what it gives, and the table of all of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, Protocol

from weft.errors import InvalidInput, Unsupported
from weft.model import Problem, Schedule
from weft.planners.bounds import lower_bound
from weft.registry import Registry

Status = Literal["optimal", "feasible", "infeasible", "unknown"]

EXACT = 1e-9
"""Relative distance below which a makespan counts as equal to its bound."""


FEATURES = {
    "limits": "tasks that only some devices can run (memory, cores, kind)",
    "links": "bandwidth and latency by pair of devices",
    "choices": "conditional branches",
    "copies": "may run a task on several devices, to save transfers",
    "seconds": "finds better plans in more time",
    "proof": "may prove its plan optimal",
    "objectives": "energy, cost, job completion and waiting beside the makespan",
}
"""What a planner may support, and what the word means."""

QUICK = frozenset({"limits", "links"})
"""What every planner of weft supports."""


@dataclass(frozen=True)
class Solution:
    """What a planner found: a schedule and, if it proved one, a bound on the makespan of any schedule without copies (0: none)."""

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

    @property
    def supports(self) -> frozenset[str]:
        """Words of `FEATURES`."""
        ...

    def solve(self, problem: Problem, *, seconds: float | None = None, seed: int = 0) -> Solution:
        """Plan the problem; raise `Unsupported` for a feature it does not handle."""
        ...


PLANNERS: Registry[Planner] = Registry("planner")


@dataclass(frozen=True, eq=False)
class Plan:
    """A schedule with its certificate: no valid schedule (without copies, unless this one has some) is shorter than `bound`.

    The bound is worked out when it is first asked for, so that a quick planner stays quick.
    """

    problem: Problem = field(repr=False)
    schedule: Schedule
    planner: str
    seconds: float
    proved: float = 0.0

    @cached_property
    def bound(self) -> float:
        """A proven lower bound on the makespan."""
        copies = self.schedule.copies > 0
        return max(lower_bound(self.problem, copies=copies), 0.0 if copies else self.proved)

    @property
    def makespan(self) -> float:
        """When the last task ends."""
        return self.schedule.makespan

    @property
    def gap(self) -> float:
        """How far above the bound the makespan can be at most, as a share: 0.05 is 5 %."""
        return self.makespan / self.bound - 1.0 if self.bound > 0 else 0.0

    @property
    def status(self) -> Status:
        """`optimal` when makespan and bound meet, else `feasible`."""
        return "optimal" if self.makespan <= self.bound * (1 + EXACT) else "feasible"


def plan(
    problem: Problem,
    planner: str | Planner = "heft",
    *,
    seconds: float | None = None,
    seed: int = 0,
    **options: object,
) -> Plan:
    """Plan a problem with a planner, by name or object; further options go to the planner of that name.

    Examples
    --------
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 4.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> plan(problem, "heft").makespan
    5.0
    """
    if seconds is not None and not seconds > 0:
        raise InvalidInput(f"seconds is {seconds}; it must be above zero")
    chosen = PLANNERS.create(planner, **options) if isinstance(planner, str) else planner
    begin = time.perf_counter()
    solution = chosen.solve(problem, seconds=seconds, seed=seed)
    took = time.perf_counter() - begin
    return Plan(problem, solution.schedule, chosen.name, took, solution.bound)


def refuse_choices(problem: Problem, planner: str) -> None:
    """Raise `Unsupported` for a workflow with choices: which tasks run is not known beforehand."""
    if problem.workflow.conditional:
        raise Unsupported(
            f"planner '{planner}' does not plan workflow '{problem.name}': it has choices; simulate a policy instead"
        )


def list_planners() -> list[str]:
    """List the names of all planners, sorted.

    Examples
    --------
    >>> "heft" in list_planners()
    True
    """
    return PLANNERS.names()
