"""Tables of rollouts that one proposer begins and continues."""

from __future__ import annotations

from typing import Any

from weft.model.columns import FloatArray
from weft.policies.conditional.rollout import RolloutBudget, RolloutTables, make_buffers


def rollout_tables(
    sampler: Any, weights: FloatArray, player: Any, *, units: int, ahead: int
) -> RolloutTables:
    """Return the tables of two futures per decision, with `ahead` further jobs each."""
    budget = RolloutBudget(ahead, 2, 2, 1.0)
    return RolloutTables(sampler, weights, player, player, make_buffers(units), budget)
