"""Results of a search that has the future in advance.

It reads the true durations, and the arrivals of streams.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from weft.generators.families.distribution import FamilyCase
from weft.model import Problem, Scenario, Trace, Workload
from weft.model.columns import FloatArray
from weft.planners import plan
from weft.policies.replanning.portfolio import UNLIMITED
from weft.policies.replanning.state import make_plan
from weft.policies.replanning.weights import weights_of
from weft.policies.search.anneal import (
    PlanChain,
    anneal,
    begin_search,
    keep_best,
    make_search_chain,
)
from weft.policies.search.residual import Residual, fill, make_residual
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import JOB_HERE, make_sim

MOVES = 5_000
"""Moves of the search for a single workflow."""
STREAM_WORK = 30_000_000.0
"""Placements of the search for a stream."""


def known_problem(case: FamilyCase, job: int) -> Problem:
    """Return the problem of a job with its true durations as estimates."""
    workload, scenario = case.instance
    problem, first = workload.problem_of(job), int(workload.first_instance[job])
    kinds = np.array([workload.kinds.index(k) for k in problem.workflow.kinds], np.int64)
    seconds = problem.durations() * scenario.factor[first : first + problem.n, None]
    seconds = seconds * scenario.bias[kinds[problem.workflow.kind]]
    columns = {
        name: np.where(np.isfinite(seconds[:, d]), seconds[:, d], np.nan)
        for d, name in enumerate(problem.cluster.names)
    }
    return Problem.bind(dataclasses.replace(problem.workflow, durations=columns), problem.cluster)


def clairvoyant_makespan(case: FamilyCase, *, moves: int = MOVES) -> float:
    """Return the makespan of a search that has the true durations in advance."""
    return float(plan(known_problem(case, 0), "anytime", iterations=moves).makespan)


def clairvoyant_completion(
    case: FamilyCase, trace: Trace, *, work: float = STREAM_WORK, copies: bool = True
) -> float:
    """Return the mean completion time of a stream by a search that has its future.

    It starts from the order and devices of a trace, and has the durations and the arrivals. With
    `copies`, a task may run its last parent again right ahead of itself, as in the policy.
    """
    workload = case.instance.workload
    problems = [known_problem(case, job) for job in range(workload.jobs)]
    known = Workload.of(problems)  # all present: tasks wait for the arrival of their job instead
    sim = make_sim(known, Scenario.of(known), None, eager=True)
    sim.job["state"][:-1] = JOB_HERE
    n, p = len(sim.inst), known.cluster.p
    guess = make_plan(known, sim, weights_of({}), UNLIMITED, np.zeros(p, np.int64))
    guess.sequence[:n], guess.state["planned"] = guess.inst["order"][:n], n
    left = make_residual(known, sim, n, 1, 0)
    left.size["copies"] = copies
    fill(sim, guess, left, n, 1, 0.0, False, 0)
    arrival = workload.arrival[sim.inst["job"][left.instance[:n]]]
    left.arrival[0] = np.maximum(left.arrival[0], arrival[:, None])
    chain = make_search_chain(n, known.jobs, p, 1)
    own = ~trace.copy & (trace.status == 0)
    instance = known.first_instance[trace.job[own]] + trace.task[own]
    start, device = np.zeros(n), np.zeros(n, np.int64)
    start[instance], device[instance] = trace.start[own], trace.device[own]
    chain.order[:] = np.lexsort((np.arange(n), start[left.instance[:n]]))
    chain.choice[:] = device[left.instance[:n]]
    total = improve(left, sim.grid, chain, work)
    return float((total - workload.arrival.sum()) / workload.jobs)


@njit_noalloc
def improve(left: Residual, grid: FloatArray, chain: PlanChain, work: float) -> float:
    """Search from the plan in the chain; return the value of the best plan."""
    begin_search(left, grid, chain)
    chain.figures[0].best = np.inf
    keep_best(left, chain)
    anneal(left, grid, chain, work, 0.0)
    return float(chain.figures[0].best)
