"""Rollouts: each plan's first tasks, simulated to the end in sampled futures.

The plans of `portfolio` are made at every event. Where they start different tasks now, each start
is tried in the same sampled futures, which a quick policy (HEFT with observed durations) follows to
the end, and the one with the earliest mean completion is taken. A future has the durations that are
expected by the observations so far, times a random factor of the observed spread; running tasks end
when they are expected to, and no further device changes its speed. So a rollout reads nothing that
a policy cannot read.
"""

from __future__ import annotations

import numpy as np

from weft.model import Workload
from weft.policies.policy import bundled_policy
from weft.policies.replanning.feedback import observed_spread
from weft.policies.replanning.placement import plan_window
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import (
    Portfolio,
    advance_to_decision,
    commit_planned,
    replan,
)
from weft.policies.replanning.state import plan_at
from weft.policies.search.planning import LEAST_SPREAD
from weft.policies.search.policy import HEFT
from weft.rng import generator
from weft.sim.kernel.commit import is_idle
from weft.sim.kernel.events import ENDED, MOMENT
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import COMMITTED, READY, WAITING, Sim, copy_sim

FUTURES = 4


class RolloutPolicy(ReplanningPolicy):
    """The plans of `portfolio`, chosen by rollouts where their first tasks differ."""

    def __init__(self, name: str, *, futures: int = FUTURES) -> None:
        portfolio = bundled_policy("portfolio")
        assert isinstance(portfolio, ReplanningPolicy)
        super().__init__(name, [{}], portfolio.options)
        self.sets, self.futures = portfolio.sets, futures
        self._base = ReplanningPolicy("base", HEFT)  # follows a start to the end

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Start a run; the seed is that of the futures."""
        super().begin(workload, seed=seed)
        self._base.begin(workload)
        self._random = generator(seed, "rollouts")

    def live_by(self, sim: Sim, portfolio: Portfolio) -> int:
        """Make all decisions of a simulation."""
        while (answer := advance_to_decision(sim, portfolio)) == MOMENT:
            commit_planned(sim, portfolio, self._choose_plan(sim, portfolio))
        return answer

    def _choose_plan(self, sim: Sim, portfolio: Portfolio) -> int:
        own = int(replan(sim, portfolio))
        spread = plan_all(sim, portfolio, own)
        starts = {_start(sim, portfolio, own): own}
        for m in range(len(portfolio.weights)):
            starts.setdefault(_start(sim, portfolio, m), m)
        if len(starts) == 1:
            return own
        futures = self.futures if spread > LEAST_SPREAD else 1
        total = dict.fromkeys(starts.values(), 0.0)
        for k in range(futures):
            future = sample_future(sim, portfolio, own, spread if k else 0.0, self._random)
            for m in total:
                total[m] += self._time_left(future, portfolio, m)
        best = min(total, key=lambda m: total[m])
        return best if total[best] < total[own] else own

    def _time_left(self, future: Sim, portfolio: Portfolio, m: int) -> float:
        """Start the first tasks of a plan, simulate on; return the completion of jobs."""
        sim = copy_sim(future)
        commit_planned(sim, portfolio, m)
        if self._base.live(sim) != ENDED:
            return float("inf")
        return float(sim.job["finish"][:-1].sum())


def _start(sim: Sim, portfolio: Portfolio, m: int) -> tuple[int, ...]:
    """Return the task that each device starts now by a plan, or -1."""
    status, found = sim.inst["status"], []
    for d, i in enumerate(portfolio.stack.device["first"][m].tolist()):
        found.append(i if i >= 0 and status[i] == READY and is_idle(sim, d) else -1)
    return tuple(found)


@njit_noalloc
def plan_all(sim: Sim, portfolio: Portfolio, own: int) -> float:
    """Make the plans of all weight sets but one; return the observed spread.

    It is the spread of the observed durations.
    """
    for m in range(len(portfolio.weights)):
        if m != own:
            window = portfolio.state[0].window
            plan_window(sim, plan_at(portfolio.stack, m), portfolio.weights[m], window, False)
    count, square, _, bias, _ = observed_spread(plan_at(portfolio.stack, own))
    return float(np.sqrt(max(square - bias, 0.0) / max(count, 1.0)))


def sample_future(
    sim: Sim, portfolio: Portfolio, m: int, spread: float, random: np.random.Generator
) -> Sim:
    """Copy a simulation with durations, ends and speeds as a plan expects them."""
    future, p, now = copy_sim(sim), len(sim.device), float(sim.world["now"][0])
    factor, free = portfolio.stack.pair["factor"][m], portfolio.stack.device["free"][m]
    grid = sim.grid.copy()
    grid[2 * p : 2 * p + len(factor)] = factor
    left = np.isin(future.inst["status"], (WAITING, READY, COMMITTED))
    future.inst["factor"][left] = np.exp(spread * random.standard_normal(int(left.sum())))
    busy = np.flatnonzero((sim.device["running"] >= 0) & np.isfinite(free))
    waits = np.maximum(free[busy] - now, 0.0)
    future.due[busy] = now + waits * np.exp(spread * random.standard_normal(len(busy)))
    future.world["next_change"] = len(sim.change)
    return future._replace(grid=grid)
