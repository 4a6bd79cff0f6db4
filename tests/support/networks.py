"""Networks with drawn weights, and tables of rollouts that one proposer begins and continues."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.model.columns import FloatArray
from weft.policies.conditional.rollout import RolloutBudget, RolloutTables, make_buffers
from weft.policies.two_stage.decision import FEATURES

WEIGHT_SETS = [
    {"ahead": 0.7, "trust": 1.0, "overdue": 0.3},
    {},
    {"work": 1.0, "rank": 0.2, "ahead": 1.0},
]
"""Weights of a portfolio of three plans."""


def drawn_arrays(
    seed: int, features: int, *, hidden: int, scale: float = 1.0, networks: int = 2
) -> dict[str, NDArray[np.float32]]:
    """Draw the arrays of networks with two hidden layers, as models store them."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "w1": (features, hidden),
        "b1": (hidden,),
        "w2": (hidden, hidden),
        "b2": (hidden,),
        "w3": (hidden,),
    }
    return {
        name: (scale * rng.standard_normal((networks, *shape))).astype(np.float32)
        for name, shape in shapes.items()
    }


def two_stage_arrays(
    seed: int = 0, hidden: int = 8, scale: float = 0.5, networks: int = 2, features: int = FEATURES
) -> dict[str, NDArray[np.float32]]:
    """Draw small networks that read the features of the two-stage DQN."""
    return drawn_arrays(seed, features, hidden=hidden, scale=scale, networks=networks)


def rollout_tables(
    sampler: Any, weights: FloatArray, player: Any, *, units: int, ahead: int
) -> RolloutTables:
    """Return the tables of two futures per decision, with `ahead` further jobs each."""
    budget = RolloutBudget(ahead, 2, 2, 1.0)
    return RolloutTables(sampler, weights, player, player, make_buffers(units), budget)
