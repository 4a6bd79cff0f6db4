"""The two-stage DQN policy: Q-networks choose a ready task, then a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from weft.errors import InvalidInput
from weft.model import Workload
from weft.model.columns import BoolArray
from weft.policies.graph.deft import useful_copy
from weft.policies.q_network import QNetwork
from weft.policies.replanning.policy import ReplanningPolicy
from weft.policies.replanning.portfolio import PlanOptions, Portfolio, replan
from weft.policies.replanning.weights import WeightSets
from weft.policies.two_stage.candidates import apply, begin_moment, enumerate_candidates
from weft.policies.two_stage.choose import greedy_choice, run_by_values
from weft.policies.two_stage.decision import FEATURES, Candidates, candidates_of, make_candidates
from weft.sim.kernel.tables import COMMITTED, Sim
from weft.sim.view import Decision, View
from weft.typed import typed_class


@typed_class
class TwoStageDqn(ReplanningPolicy):
    """Take the candidate with the highest value at every decision.

    Among equals the planned one.

    Parameters
    ----------
    networks : those for tasks and for devices, see `weft.policies.two_stage.choose.stage_networks`
    weights, options : of the plan, see `ReplanningPolicy`; plans never exit early, because
        candidates are described by whole plans
    margin : by how much the value of another candidate must exceed that of the planned one
    copies : whether a task starts with a copy of a parent ahead of it where that helps (DEFT)
    """

    def __init__(
        self,
        name: str,
        networks: QNetwork,
        weights: WeightSets,
        options: PlanOptions | None = None,
        *,
        margin: float = 0.0,
        copies: bool = False,
    ) -> None:
        super().__init__(name, weights, replace(options or PlanOptions(), early_exit=False))
        self.network, self.margin, self.copies = networks, margin, copies

    def live_by(self, sim: Sim, portfolio: Portfolio) -> int:
        """Make all decisions of a simulation in compiled code."""
        return run_by_values(sim, portfolio, make_candidates(sim), self.network, self.margin)

    def act(self, observation: Mapping[str, Any], mask: BoolArray) -> int:
        """Return the row that it takes in an observation of `weft/Workflow-v0`.

        Of rows with equal values it takes the planned one, else the first.
        """
        table, count = np.array(observation["candidates"], np.float32), np.count_nonzero(mask)
        if table.shape != (np.size(mask), FEATURES) or not np.all(mask[:count]) or not count:
            raise InvalidInput(
                f"candidates has shape {table.shape} and mask {np.shape(mask)}, {count} of it "
                "true; give an observation of weft/Workflow-v0 with its action_mask"
            )
        return greedy_choice(
            self.network, candidates_of(table[:count], int(observation["kind"])), self.margin
        )

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
            choice = greedy_choice(self.network, candidates, self.margin)
            task, device = apply(candidates, choice)
            if device >= 0:
                copy = int(useful_copy(sim, task, device)) if self.copies else -1
                found.append(Decision(task, device, copy))
                sim.inst["status"][task] = COMMITTED
        return found
