"""Objectives by deadlines: known answers, refusals, and searches that meet deadlines."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.planners.objective import Objective, union, union_of_jobs


def jobs_of(*seconds: float) -> weft.Problem:
    """Return jobs of one task each on one device."""
    return weft.Problem.from_arrays([[s] for s in seconds])


SERIES = weft.Schedule.of(device=[0, 0, 0], start=[0.0, 1.0, 3.0], finish=[1.0, 3.0, 6.0])
OPTIONS = {"jobs": (0, 1, 2), "deadlines": (1.0, 2.0, 4.0)}


def test_tardiness_and_late_jobs_count_by_priority():
    # Ends 1, 3, 6; 0, 1 and 2 s late.
    problem = jobs_of(1.0, 2.0, 3.0)
    assert Objective.of("tardiness", **OPTIONS).value(problem, SERIES) == pytest.approx(1.0)
    assert Objective.of("late", **OPTIONS).value(problem, SERIES) == pytest.approx(2 / 3)
    weighed = {**OPTIONS, "priorities": (0.0, 0.0, 2.0)}  # shares 1/5, 1/5, 3/5
    assert Objective.of("tardiness", **weighed).value(problem, SERIES) == pytest.approx(7 / 5)
    assert Objective.of("late", **weighed).value(problem, SERIES) == pytest.approx(4 / 5)
    never = {**OPTIONS, "deadlines": (np.inf,) * 3}
    assert Objective.of("late", **never).value(problem, SERIES) == 0.0


def test_missing_deadlines_are_refused():
    problem = jobs_of(1.0, 2.0)
    with pytest.raises(weft.InvalidInput, match="need deadlines of 2 jobs; got 0"):
        weft.plan(problem, "anytime", objective="late", jobs=(0, 1), iterations=10)
    with pytest.raises(weft.InvalidInput, match="need priorities of 1 jobs; got 2"):
        Objective.of("late", deadlines=[1.0], priorities=[1.0, 2.0]).compiled(problem)
    with pytest.raises(weft.InvalidInput, match="it must be a number above -1"):
        Objective.of("late", deadlines=[1.0], priorities=[-1.0]).compiled(problem)


@pytest.mark.parametrize("objective", ["late", "tardiness"])
@pytest.mark.parametrize(
    ("planner", "effort"), [("anytime", {"iterations": 2000}), ("genetic", {"generations": 60})]
)
def test_searches_meet_deadlines_that_a_short_plan_misses(planner, effort, objective):
    # On one device every order is as long; only increasing deadlines meet all of them.
    problem = jobs_of(4.0, 3.0, 2.0, 1.0)
    options = {"jobs": (0, 1, 2, 3), "deadlines": (10.0, 6.0, 3.0, 1.0)}
    plan = weft.plan(problem, planner, objective=objective, **options, **effort)
    assert weft.check(problem, plan) == []
    assert Objective.of(objective, **options).value(problem, plan.schedule) == 0.0


def test_the_jobs_of_a_workload_become_one_problem():
    job = weft.Problem.from_arrays([[1.0], [2.0]], [[0, 1]], [0.0])
    workload = weft.Workload.of(job, arrival=[2.0, 2.0], deadline=[4.0, 12.0], priority=[0.0, 1.0])
    problem, options = union_of_jobs(workload)
    assert (problem.n, options["deadlines"]) == (4, (2.0, 10.0))
    plan = weft.plan(problem, "anytime", iterations=200, objective="late", **options)
    assert Objective.of("late", **options).value(problem, plan.schedule) == pytest.approx(1 / 3)
    later = weft.Workload.of(job, arrival=[0.0, 1.0])
    with pytest.raises(weft.InvalidInput, match="arrive at different times"):
        union_of_jobs(later)


def test_a_union_keeps_needs():
    cluster = weft.Cluster.host(cores=2, licence=1)
    flows = [
        weft.Workflow(work=[1.0], src=[], dst=[], data=[], needs=needs)
        for needs in ({"licence": [1.0]}, {})
    ]
    both, _ = union([weft.Problem.bind(w, cluster) for w in flows])
    assert both.workflow.needs["licence"].tolist() == [1.0, 0.0]
