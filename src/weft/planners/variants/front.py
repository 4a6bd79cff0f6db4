"""The front of plans by makespan, cost, energy and accuracy.

No plan is better in all of these at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf, isnan

from weft.errors import InvalidInput
from weft.model import Problem
from weft.planners.bounds import lower_bound
from weft.planners.planner import EXACT, Plan
from weft.planners.search.clock import Clock
from weft.planners.variants.selection import EFFORT, EvaluatedChoice, VariantChoices, least_of_all


@dataclass(frozen=True)
class FrontPlan:
    """A plan on the front, and its four figures."""

    plan: Plan = field(repr=False)
    makespan: float
    cost: float
    energy: float
    accuracy: float

    @property
    def variants(self) -> dict[str, str]:
        """Task -> name of its variant."""
        return {task: way.name for task, way in self.plan.variants.items()}

    def as_dict(self) -> dict[str, object]:
        """Return the figures as plain data."""
        accuracy = None if isnan(self.accuracy) else self.accuracy
        figures = {"makespan": self.makespan, "cost": self.cost, "energy": self.energy}
        return {**figures, "accuracy": accuracy, "variants": self.variants}


def pareto(
    problem: Problem,
    *,
    min_accuracy: float = -inf,
    budget: float = inf,
    seconds: float | None = None,
    seed: int = 0,
) -> list[FrontPlan]:
    """Return the front of plans of a problem with variants, the shortest first.

    No other plan found beats a plan of the front. A plan beats another if it is no worse in
    makespan, cost, energy and accuracy, and better in one. Plans are HEFT's; the search goes from
    the front to its neighbours (Pareto local search, Paquete, Chiarandini and Stuetzle 2004).

    Examples
    --------
    >>> from weft.model import Cluster, Variant, Workflow
    >>> ways = [Variant("small", accuracy=0.8), Variant("large", factor=3.0, accuracy=0.9)]
    >>> workflow = Workflow(work=[2.0], src=[], dst=[], data=[], variants={"t0": ways})
    >>> front = pareto(Problem.bind(workflow, Cluster(speed=[1.0])))
    >>> [(one.makespan, one.accuracy) for one in front]
    [(2.0, 0.8), (6.0, 0.9)]
    """
    if not problem.workflow.variants:
        raise InvalidInput(
            f"workflow '{problem.name}' has no variants; a front needs tasks with several ways"
        )
    choices, clock = VariantChoices(problem, min_accuracy, budget, seed), Clock(seconds)
    front: list[EvaluatedChoice] = []
    for pick in choices.starts():
        _enter(front, choices.allowed(pick))
    explored: set[tuple[int, ...]] = set()
    while choices.goes_on(clock, 2 * EFFORT):
        left = [x for x in front if x.pick not in explored]
        if not left:
            break
        explored.add(left[0].pick)
        for pick in choices.neighbours(left[0].pick):
            _enter(front, choices.allowed(pick))
            if not choices.goes_on(clock, 2 * EFFORT):
                break
    if not front:
        choices.search(clock)  # raises the error with the reason
    bound = lower_bound(least_of_all(problem, choices.ways))
    return [_front_plan(choices, x, bound) for x in sorted(front, key=_figures)]


def _figures(x: EvaluatedChoice) -> tuple[float, float, float, float]:
    return (x.makespan, x.cost, x.energy, 0.0 if isnan(x.accuracy) else -x.accuracy)


def _enter(front: list[EvaluatedChoice], new: EvaluatedChoice | None) -> None:
    """Add a choice unless one on the front is as good; drop those that it beats."""
    if new is None or any(_no_worse(_figures(x), _figures(new)) for x in front):
        return
    front[:] = [x for x in front if not _no_worse(_figures(new), _figures(x))] + [new]


def _no_worse(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b + EXACT * abs(b) for a, b in zip(one, other, strict=True))


def _front_plan(choices: VariantChoices, x: EvaluatedChoice, bound: float) -> FrontPlan:
    chosen = choices.chosen(x.pick)
    made = Plan(x.problem, x.schedule, "heft", 0.0, min(bound, x.makespan), variants=chosen)
    return FrontPlan(made, x.makespan, x.cost, x.energy, x.accuracy)
