"""`weft.simulate`: a policy by name or object, or a plan, on a workload."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Protocol

from weft.errors import InvalidInput
from weft.model import Problem, Scenario, Schedule, Trace, Workload
from weft.policies.load import load_policy
from weft.policies.rules import RulePolicy
from weft.sim import simulate as simulator
from weft.sim.rule import Rule
from weft.sim.view import Policy


class HasSchedule(Protocol):
    """A plan: anything with a schedule to replay."""

    @property
    def schedule(self) -> Schedule:
        """The schedule."""
        ...


def simulate(
    workload: Workload | Problem,
    policy: str
    | PathLike[str]
    | Policy
    | Rule
    | HasSchedule
    | Schedule
    | Sequence[Schedule] = "fifo",
    *,
    scenario: Scenario | None = None,
    seed: int = 0,
    eager: bool = True,
    noise: float = 0.0,
    bias: float = 0.0,
    slowdowns: float = 0.0,
    failures: float = 0.0,
    cancellations: float = 0.0,
) -> Trace:
    """Simulate a workload (or one problem, arriving at 0) under a policy, a rule, or a plan to replay.

    Without a `scenario` one is drawn by the seed; see `Scenario.draw` for noise, bias, slowdowns, failures and cancellations.

    Examples
    --------
    >>> problem = Problem.from_arrays([[3.0, 2.0], [1.0, 1.0], [1.0, 1.0]], [[0, 2]], [0.0])
    >>> trace = simulate(problem, "eft")
    >>> trace.makespan, float(trace.jct), round(trace.utilisation, 3)
    (3.0, 3.0, 0.667)
    """
    work = Workload.of(workload) if isinstance(workload, Problem) else workload
    drawn = {
        "noise": noise,
        "bias": bias,
        "slowdowns": slowdowns,
        "failures": failures,
        "cancellations": cancellations,
    }
    if scenario is not None and any(drawn.values()):
        raise InvalidInput("give either a scenario or what to draw one from, not both")
    future = scenario or Scenario.draw(work, seed=seed, **drawn)
    decider = _decider(policy, work)
    return simulator.simulate(work, decider, scenario=future, eager=eager, seed=seed)


def _decider(policy: object, workload: Workload) -> Policy | Rule | Schedule | Sequence[Schedule]:
    """Return what the simulator takes: a rule, a schedule to replay, or a policy."""
    if isinstance(policy, Rule | Schedule | list | tuple):
        return policy
    schedule = getattr(policy, "schedule", None)
    if isinstance(schedule, Schedule):  # a Plan: planners and policies do not import each other
        return schedule
    chosen = load_policy(policy)  # type: ignore[arg-type]  # anything else is refused there
    return chosen.rule(workload) if isinstance(chosen, RulePolicy) else chosen
