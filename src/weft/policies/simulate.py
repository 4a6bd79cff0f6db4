"""`weft.simulate`: a policy by name or object, or a plan, on a workload."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import TypeAlias

from weft.arguments import shown, valid_seed
from weft.errors import InvalidInput
from weft.model import Problem, Scenario, Schedule, Trace, Workload
from weft.model.schedule import Planned
from weft.policies.load import load_policy
from weft.policies.rules import RulePolicy
from weft.sim import simulate as simulator
from weft.sim.rule import Rule
from weft.sim.view import Policy
from weft.typed import typed

Decides: TypeAlias = str | PathLike[str] | Policy | Rule | Planned | Schedule | Sequence[Schedule]
"""Types that can decide in a simulation."""


@typed
def simulate(
    workload: Workload | Problem,
    policy: Decides = "fifo",
    *,
    scenario: Scenario | None = None,
    noise: float = 0.0,
    bias: float = 0.0,
    slowdowns: float = 0.0,
    failures: float = 0.0,
    cancellations: float = 0.0,
    eager: bool = True,
    seed: int = 0,
) -> Trace:
    """Simulate a workload, or one problem that arrives at 0.

    Parameters
    ----------
    policy : the name of a policy, the path of a trained one, a policy object, a rule, or a plan or
        schedule to replay (one schedule per problem of the workload)
    scenario : the future; by default it is drawn with `seed` from noise, bias, slowdowns, failures
        and cancellations (see `Scenario.draw`)
    eager : whether data moves as soon as it exists, instead of when its reader is committed

    Examples
    --------
    >>> problem = Problem.from_arrays([[3.0, 2.0], [1.0, 1.0], [1.0, 1.0]], [[0, 2]], [0.0])
    >>> trace = simulate(problem, "eft")
    >>> trace.makespan, float(trace.jct), round(trace.utilisation, 3)
    (3.0, 3.0, 0.667)
    """
    work = Workload.of(workload) if isinstance(workload, Problem) else workload
    if not isinstance(work, Workload):
        raise InvalidInput(f"workload is {shown(work)}; give a Problem or a Workload")
    seed = valid_seed(seed)
    drawn = {
        "noise": noise,
        "bias": bias,
        "slowdowns": slowdowns,
        "failures": failures,
        "cancellations": cancellations,
    }
    if scenario is not None and any(drawn.values()):
        raise InvalidInput("give either a scenario or the options to draw one, not both")
    if scenario is not None:
        if not isinstance(scenario, Scenario):
            raise InvalidInput(f"scenario is {shown(scenario)}; give a Scenario")
        scenario.refuse_other_workload(work)
    future = scenario or Scenario.draw(work, seed=seed, **drawn)
    decider = _decider(policy, work)
    return simulator.simulate(work, decider, scenario=future, eager=eager, seed=seed)


def _decider(policy: object, workload: Workload) -> Policy | Rule | Schedule | Sequence[Schedule]:
    """Return a rule, a schedule to replay, or a policy, for the simulator."""
    if isinstance(policy, Rule | Schedule):
        return policy
    if isinstance(policy, list | tuple) and all(isinstance(s, Schedule) for s in policy):
        return policy
    if isinstance(policy, Planned):
        return policy.schedule
    chosen = load_policy(policy)  # type: ignore[arg-type]  # anything else is refused there
    return chosen.rule(workload) if isinstance(chosen, RulePolicy) else chosen
