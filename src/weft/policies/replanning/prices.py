"""Prices of devices in streams: duals of the fluid capacity problem; compiled.

The highest rate of jobs that devices can keep up with is a linear program over the time that each
device gives to each class of tasks (see `model/machines/capacity.py`). Its dual values are prices
of device time: with prices y, a task costs `seconds on d x y[d]`, and at the optimum every class
runs where it costs the least. A device that other classes need is expensive, so that a task which
is nearly as quick elsewhere leaves it free (Al-Azzoni and Down 2008 use the primal values in the
same way).

The dual is solved by mirror ascent on the simplex over the work that has arrived so far: nothing
of the future enters.
"""

from __future__ import annotations

import numpy as np

from weft.policies.replanning.state import PlanState
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import JOB_AHEAD, JOB_HERE, Sim

ROUNDS = 120
"""Steps of the ascent; the prices are the mean over the second half."""
STEP = 0.5
"""First step of the logarithm of a price per unit of relative load; step k is this / sqrt(k)."""


@njit_noalloc
def update_prices(sim: Sim, plan: PlanState) -> bool:
    """Compute the prices again if jobs have arrived; their mean over the devices is 1.

    Return whether prices matter: a single job competes with no other one.
    """
    arrived, present = 0, 0
    for j in range(len(sim.job) - 1):
        arrived += 1 if sim.job[j].state != JOB_AHEAD else 0
        present += 1 if sim.job[j].state == JOB_HERE else 0
    if present < 2 or arrived == plan.state[0].priced:
        return present > 1
    plan.state[0].priced = arrived
    for row in range(len(plan.row_work)):
        plan.row_work[row] = 0.0
    for j in range(len(sim.job) - 1):
        if sim.job[j].state != JOB_AHEAD:
            for i in range(sim.job[j].first, sim.job[j + 1].first):
                g = i - sim.job[j].shift
                plan.row_work[sim.task[g].row] += sim.task[g].work
    _ascend(sim, plan)
    return True


@njit_noalloc
def _ascend(sim: Sim, plan: PlanState) -> None:
    p = len(sim.device)
    price, load = plan.penalty, plan.seconds  # storage
    for d in range(p):
        price[d], plan.price[d] = 1.0, 0.0
    for k in range(1, ROUNDS + 1):
        for d in range(p):
            load[d] = 0.0
        for row in range(len(plan.row_work)):
            if plan.row_work[row] > 0.0:
                _load_cheapest(sim, plan, row)
        total = 0.0
        for d in range(p):
            total += load[d]
        if total == 0.0:
            break
        highest = 0.0
        for d in range(p):
            price[d] *= np.exp(min(STEP / np.sqrt(k) * (load[d] * p / total), 20.0))
            highest = max(highest, price[d])
        total = 0.0
        for d in range(p):
            price[d] = max(price[d] / highest, 1e-9)
            total += price[d]
        for d in range(p):
            price[d] *= p / total
            if 2 * k > ROUNDS:
                plan.price[d] += price[d]
    total = 0.0
    for d in range(p):
        total += plan.price[d]
    for d in range(p):
        plan.price[d] = plan.price[d] * p / total if total > 0.0 else 1.0


@njit_noalloc
def _load_cheapest(sim: Sim, plan: PlanState, row: int) -> None:
    """Give the work of a class to the devices of the kind where it costs the least."""
    price, load = plan.penalty, plan.seconds
    best, least, same = -1, np.inf, 0
    for d in range(len(sim.device)):
        if sim.grid[row, d] * price[d] < least:
            best, least = d, sim.grid[row, d] * price[d]
    if best < 0:
        return
    for d in range(len(sim.device)):
        same += 1 if plan.device[d].kind == plan.device[best].kind else 0
    for d in range(len(sim.device)):
        if plan.device[d].kind == plan.device[best].kind and sim.grid[row, d] < np.inf:
            load[d] += plan.row_work[row] * sim.grid[row, d] / same
