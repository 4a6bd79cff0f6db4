"""Features of candidates from the graph and the places of results; compiled."""

from __future__ import annotations

import numpy as np

from weft.policies.graph.deft import useful_copy
from weft.policies.replanning.state import PlanState
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.queues import task_of
from weft.sim.kernel.tables import DONE, Sim

MOST_CHILDREN = 32
"""Most children that are looked at."""


@njit_noalloc
def describe_graph(sim: Sim, plan: PlanState, i: int) -> tuple[float, float, float]:
    """Describe a ready task by its children.

    Return the number of children that wait for this task alone, the largest share of ended parents
    of a child, and the seconds of the transfer to the child with the highest rank.
    """
    g, opens, joins, highest = task_of(sim, i), 0.0, 0.0, 0.0
    first, last = sim.task[g].succ, sim.task[g + 1].succ
    for e in range(first, last):
        highest = max(highest, plan.task[sim.edge[e].target].rank)
    for e in range(first, min(last, first + MOST_CHILDREN)):
        v, ended = sim.edge[e].target, 0
        parents = sim.task[v + 1].pred - sim.task[v].pred
        for k in range(sim.task[v].pred, sim.task[v + 1].pred):
            other = sim.edge[sim.edge[k].back].source + i - g
            ended += 1 if sim.inst[other].status == DONE else 0
        opens += 1.0 if ended == parents - 1 else 0.0
        joins = max(joins, ended / parents)
    behind = plan.task[g].rank - plan.task[g].mean - highest if last > first else 0.0
    return opens, joins, max(behind, 0.0)


@njit_noalloc
def describe_place(sim: Sim, i: int, d: int) -> tuple[float, float]:
    """Return the share of parents that ran on a device, and 1 if a copy helps."""
    g, near = task_of(sim, i), 0
    first, last = sim.task[g].pred, sim.task[g + 1].pred
    for k in range(first, last):
        parent = sim.edge[sim.edge[k].back].source + i - g
        near += 1 if sim.inst[parent].ran_on == d else 0
    copy = 1.0 if useful_copy(sim, i, d) >= 0 else 0.0
    return near / max(last - first, 1), copy


@njit_noalloc
def finish_elsewhere(sim: Sim, plan: PlanState, i: int) -> float:
    """Return a task's earliest finish on a busy device, after `compute_arrivals`."""
    g, soonest = task_of(sim, i), np.inf
    for d in range(len(sim.device)):
        if plan.device[d].busy >= 0 and plan.device[d].free < np.inf:
            rate = sim.device[d].slowdown * plan.pair[sim.task[g].kind, d].factor
            seconds = sim.task[g].work * sim.grid[sim.task[g].row, d] * rate
            soonest = min(soonest, max(plan.device[d].free, plan.arrival[d]) + seconds)
    return float(soonest)
