"""Consequences of a scenario for every policy: what runs, and for how long."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.model.problem import Problem
from weft.model.scenario import Scenario
from weft.model.workflow import ALWAYS
from weft.model.workload import Workload


def active_instances(workload: Workload, scenario: Scenario) -> BoolArray:
    """Return (instances,) whether the taken branches lead to each instance.

    Examples
    --------
    >>> from weft.model.builder import WorkflowBuilder
    >>> from weft.model import Cluster
    >>> b = WorkflowBuilder()
    >>> small, large = b.task("small"), b.task("large")
    >>> b.choice(small, {"unsure": 0.2, "sure": 0.8})
    >>> b.edge(small, large, when="unsure")
    >>> w = Workload.of(Problem.bind(b.build(), Cluster(speed=[1.0])), arrival=[0.0, 1.0])
    >>> active_instances(w, Scenario.of(w, outcome=[0, 1])).tolist()
    [True, True, True, False]
    """
    active = np.ones(workload.instances, bool)
    for problem, first, jobs in templates(workload):
        w = problem.workflow
        if not w.conditional:
            continue
        runs = np.ones((len(jobs), w.n), bool)
        for task in w.order.tolist():
            edges = w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]
            if len(edges):
                taken = [
                    runs[:, w.src[e]]
                    & taken_edges(workload, scenario, problem, jobs, np.full(len(jobs), e))
                    for e in edges
                ]
                runs[:, task] = np.any(taken, axis=0)
        active[first[:, None] + np.arange(w.n)] = runs
    return active


def taken_edges(
    workload: Workload, scenario: Scenario, problem: Problem, job: IntArray, edge: IntArray
) -> BoolArray:
    """Return whether edges of these jobs are on taken branches, if their sources run."""
    choices = problem.workflow.choices
    choice = choices.edge_choice[edge]
    taken: BoolArray = choice == ALWAYS
    at = np.flatnonzero(~taken)
    taken[at] = (
        scenario.outcome[workload.first_choice[job[at]] + choice[at]]
        == choices.edge_branch[edge[at]]
    )
    return taken


def settled_times(workload: Workload, active: BoolArray, done: FloatArray) -> FloatArray:
    """Return (instances,) when each is done or skipped, which decides outgoing edges."""
    settled = np.where(active, done, 0.0)
    for problem, first, _ in templates(workload):
        w = problem.workflow
        if not w.conditional:
            continue
        when = settled[first[:, None] + np.arange(w.n)]
        skipped = ~active[first[:, None] + np.arange(w.n)]
        for task in w.order.tolist():
            parents = w.src[w.pred_edge[w.pred_ptr[task] : w.pred_ptr[task + 1]]]
            if len(parents):
                when[:, task] = np.where(
                    skipped[:, task], when[:, parents].max(axis=1), when[:, task]
                )
        settled[first[:, None] + np.arange(w.n)] = when
    return settled


def templates(workload: Workload) -> Iterator[tuple[Problem, IntArray, IntArray]]:
    """Return each problem with the first instance and the number of its jobs."""
    for t, problem in enumerate(workload.problems):
        jobs = np.flatnonzero(workload.template == t)
        yield problem, workload.first_instance[jobs], jobs


def slowdown_at(scenario: Scenario, device: IntArray, time: FloatArray) -> FloatArray:
    """Return the slowdown of devices at given times, with changes at these times."""
    slowdown = np.ones(len(device))
    for d in np.unique(scenario.change_device).tolist():
        times, slowdowns = changes_of(scenario, d)
        here = np.flatnonzero(device == d)
        slowdown[here] = np.concatenate(([1.0], slowdowns))[
            np.searchsorted(times, time[here], side="right")
        ]
    return slowdown


def run_ends(
    scenario: Scenario, device: IntArray, start: FloatArray, seconds: FloatArray
) -> tuple[FloatArray, BoolArray]:
    """Return when work that begins at `start` ends, and whether a failure cut it off.

    `seconds` is its true duration at slowdown 1; its rest stretches with every change of slowdown.
    """
    slowdown = slowdown_at(scenario, device, start)
    end = start + seconds * np.where(np.isfinite(slowdown), slowdown, 0.0)
    lost = np.zeros(len(device), bool)
    for d in np.unique(scenario.change_device).tolist():
        times, slowdowns = changes_of(scenario, d)
        for i in np.flatnonzero((device == d) & np.isfinite(slowdown)).tolist():
            old = float(slowdown[i])
            for k in range(int(np.searchsorted(times, start[i], side="right")), len(times)):
                if times[k] >= end[i]:
                    break
                if np.isinf(slowdowns[k]):
                    end[i], lost[i] = times[k], True
                    break
                end[i] = times[k] + (end[i] - times[k]) * (slowdowns[k] / old)
                old = float(slowdowns[k])
    return end, lost


def changes_of(scenario: Scenario, device: int) -> tuple[FloatArray, FloatArray]:
    """Return the times and slowdowns of a device's changes, in order."""
    here = scenario.change_device == device
    return scenario.change_time[here], scenario.change_slowdown[here]
