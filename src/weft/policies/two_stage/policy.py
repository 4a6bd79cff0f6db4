"""The two-stage DQN policy: Q-networks choose a ready task, then a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.model import Workload
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import PlanOptions, Portfolio, replan
from weft.policies.two_stage.candidates import (
    Candidates,
    apply,
    begin_moment,
    enumerate_candidates,
    make_candidates,
)
from weft.policies.two_stage.choose import greedy_choice, run_by_values, stage_networks
from weft.sim.kernel.tables import COMMITTED, Sim
from weft.sim.view import Decision, View


class TwoStageDqn(ReplanningPolicy):
    """Take the candidate with the highest value at every decision.

    Among equals the planned one.

    Parameters
    ----------
    arrays : of the networks for tasks and for devices, see `weft.policies.two_stage.candidates`
    weights, options : of the plan, see `ReplanningPolicy`; plans never exit early, because
        candidates are described by whole plans
    """

    def __init__(
        self,
        name: str,
        arrays: Mapping[str, NDArray[Any]],
        weights: Mapping[str, float] | Sequence[Mapping[str, float]],
        options: PlanOptions | None = None,
    ) -> None:
        super().__init__(name, weights, replace(options or PlanOptions(), early_exit=False))
        self.network = stage_networks(arrays)

    def live_by(self, sim: Sim, portfolio: Portfolio) -> int:
        """Make all decisions of a simulation in compiled code."""
        return run_by_values(sim, portfolio, make_candidates(sim), self.network)

    def begin(self, workload: Workload, *, seed: int = 0) -> None:
        """Start a run without a plan."""
        super().begin(workload, seed=seed)
        self._candidates: Candidates | None = None

    def _choose(self, sim: Sim, portfolio: Portfolio, view: View) -> list[Decision]:
        """Make all decisions of a moment."""
        if self._candidates is None:
            self._candidates = make_candidates(sim)
        candidates = self._candidates
        replan(sim, portfolio)
        candidates.ready[: len(view.ready)] = view.ready
        candidates.idle[:] = view.idle
        idle = int(np.count_nonzero(view.idle))
        begin_moment(sim, portfolio, candidates, len(view.ready), idle)
        found = []
        while enumerate_candidates(sim, portfolio, candidates):
            task, device = apply(candidates, greedy_choice(self.network, candidates))
            if device >= 0:
                found.append(Decision(task, device))
                sim.inst["status"][task] = COMMITTED
        return found
