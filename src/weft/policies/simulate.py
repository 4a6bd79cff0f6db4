"""`weft.simulate`: a policy by name or object, or a plan, on a workload."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import InvalidInput
from weft.model import Problem, Scenario, Schedule, Trace, Workload
from weft.policies.policy import POLICIES
from weft.policies.rules import RulePolicy
from weft.sim import simulate as simulator
from weft.sim.rule import Rule
from weft.sim.view import Policy


def simulate(
    workload: Workload | Problem,
    policy: str | Policy | Rule | Schedule | Sequence[Schedule] = "fifo",
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
    chosen = POLICIES.create(policy) if isinstance(policy, str) else policy
    decider = chosen.rule(work) if isinstance(chosen, RulePolicy) else chosen
    return simulator.simulate(work, decider, scenario=future, eager=eager, seed=seed)
