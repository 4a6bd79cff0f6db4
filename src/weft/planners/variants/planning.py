"""`plan_variants`: a planner's plan of a problem whose tasks have variants."""

from __future__ import annotations

from math import inf, isnan

from weft.arguments import as_float, shown
from weft.errors import InvalidInput
from weft.model import Problem
from weft.planners.bounds import lower_bound
from weft.planners.planner import Plan, Planner, solve
from weft.planners.search.clock import Clock
from weft.planners.search.exact import Exact
from weft.planners.variants.proof import prove_variants
from weft.planners.variants.selection import VariantChoices, least_of_all
from weft.sim.kernel.jit import planning_clock

SEARCH_SHARE = 0.4
"""Share of the time limit for the choice of variants."""

FINALISTS = 3
"""Choices that the planner itself plans; the shortest plan wins."""


def plan_variants(
    problem: Problem,
    planner: Planner,
    seconds: float | None,
    seed: int,
    min_accuracy: float | None,
    budget: float | None,
) -> Plan:
    """Choose a variant for each task and plan the problem with these."""
    begin, clock = planning_clock(), Clock(seconds)
    choices = VariantChoices(
        problem,
        _limit(min_accuracy, "min_accuracy", without=-inf),
        _limit(budget, "budget", without=inf),
        seed,
    )
    best = choices.search(Clock(None if seconds is None else SEARCH_SHARE * seconds))[:FINALISTS]
    winner, schedule = best[0], best[0].schedule
    for k, one in enumerate([] if isinstance(planner, Exact) else best):
        share = None if seconds is None else max(clock.left(), 0.01) / (len(best) - k + 1)
        found = solve(planner, one.problem, share, seed).schedule
        rent = one.cost + problem.cluster.rent(found.makespan - one.makespan)
        if found.makespan < schedule.makespan and rent <= choices.budget:
            winner, schedule = one, found
    bound = lower_bound(least_of_all(problem, choices.ways))
    pick, resolved = winner.pick, winner.problem
    if isinstance(planner, Exact):
        pick, resolved, schedule, bound = prove_variants(
            choices, winner, bound, clock, threads=planner.threads, seed=seed
        )
    took = planning_clock() - begin
    proved = min(bound, schedule.makespan)
    return Plan(resolved, schedule, planner.name, took, proved, variants=choices.chosen(pick))


def _limit(value: float | None, option: str, *, without: float) -> float:
    """Return a limit as a number, or `without` if there is none."""
    if value is None:
        return without
    if isnan(found := as_float(value)):
        raise InvalidInput(f"{option} is {shown(value)}; it must be a number")
    return found
