"""Planners of the DeepSched comparison."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from weft.model import Problem, Schedule
from weft.planners import plan
from weft.planners.lists.placements import ListPlanner
from weft.planners.search.genetic import Genetic

Contender = Callable[[Problem], Schedule]


def heft(problem: Problem) -> Schedule:
    """Plan with HEFT, which the networks imitate."""
    return plan(problem, "heft").schedule


def deepsched(problem: Problem) -> Schedule:
    """Plan with weft's network."""
    return plan(problem, "deepsched").schedule


def no_gaps(problem: Problem) -> Schedule:
    """Plan with HEFT without insertion into gaps."""
    return plan(problem, ListPlanner(rank="upward", placement="mct")).schedule


def genetic(problem: Problem, *, objective: str, seconds: float) -> Schedule:
    """Plan with a GA from random individuals, as in the document."""
    return plan(problem, Genetic(objective=objective, seeded=False), seconds=seconds).schedule


def contenders(*, seconds: float) -> dict[str, Contender]:
    """Return contenders for any problem; `seconds` is the GA's time limit per problem."""
    return {
        "HEFT": heft,
        "deepsched": deepsched,
        "HEFT without gaps": no_gaps,
        "GA (waiting)": partial(genetic, objective="waiting", seconds=seconds),
        "GA (makespan)": partial(genetic, objective="makespan", seconds=seconds),
    }
