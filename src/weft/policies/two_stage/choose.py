"""Choice of a candidate: by the plan, or by the Q-networks; compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.model.columns import IntArray
from weft.policies.graph.deft import commit_choice
from weft.policies.q_network import QNetwork, q_network, q_value
from weft.policies.replanning.portfolio import Portfolio
from weft.policies.two_stage.candidates import apply, next_decision
from weft.policies.two_stage.decision import DEVICE, FEATURES, OF_TASK, Candidates
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.tables import Sim


def stage_networks(arrays: Mapping[str, NDArray[Any]]) -> QNetwork:
    """Make the two networks, for tasks and for devices."""
    return q_network(arrays, networks=2, features=FEATURES)


@njit_noalloc
def planned_choice(candidates: Candidates) -> int:
    """Return the candidate of the plan: its most urgent task; without one, the last."""
    count, item = candidates.state[0].count, candidates.item
    best, highest = count - 1, -np.inf
    for c in range(count):
        # At most one device is planned, so the urgency of tasks decides in both stages.
        urgency = candidates.feature[c, OF_TASK.urgency]
        planned = candidates.feature[c, OF_TASK.planned] == 1.0 and item[c] >= 0
        if planned and _before(urgency, item[c], highest, item[best]):
            best, highest = c, urgency
    return int(best)


@njit_inline
def _before(value: float, item: int, highest: float, holder: int) -> bool:
    return value > highest or (value == highest and item < holder)


@njit_noalloc
def demonstrated_choice(candidates: Candidates, first: IntArray) -> int:
    """Return the candidate of a plan that starts task `first[d]` (-1: none) on d.

    Of several tasks the most urgent goes first. Without one the last candidate: wait, or hold.
    """
    count, item, state = candidates.state[0].count, candidates.item, candidates.state[0]
    best, highest = count - 1, -np.inf
    for c in range(count):
        if item[c] < 0:
            continue
        if state.stage == DEVICE:
            if first[item[c]] == state.task:
                return c
            continue
        planned = False
        for d in range(len(first)):
            planned = planned or (first[d] == item[c] and candidates.idle[d] == 1)
        urgency = candidates.feature[c, OF_TASK.urgency]
        if planned and _before(urgency, item[c], highest, item[best]):
            best, highest = c, urgency
    return int(best)


@njit_noalloc
def greedy_choice(network: QNetwork, candidates: Candidates, margin: float) -> int:
    """Return the planned candidate, or the best one if better by over `margin`."""
    planned, state = planned_choice(candidates), candidates.state[0]
    highest = q_value(network, state.stage, candidates.feature[planned]) + margin
    best = planned
    for c in range(state.count):
        if c != planned:
            value = q_value(network, state.stage, candidates.feature[c])
            earlier = best != planned and candidates.item[c] < candidates.item[best]
            if value > highest or (value == highest and earlier):
                best, highest = c, value
    return best


@njit_noalloc
def run_by_values(
    sim: Sim, portfolio: Portfolio, candidates: Candidates, network: QNetwork, margin: float
) -> int:
    """Simulate to the end by the highest values; return ENDED or STUCK."""
    while True:
        answer = next_decision(sim, portfolio, candidates)
        if answer != MOMENT:
            return answer
        task, device = apply(candidates, greedy_choice(network, candidates, margin))
        if device >= 0:
            commit_choice(sim, task, device)
