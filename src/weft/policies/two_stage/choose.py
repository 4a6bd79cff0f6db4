"""Q-networks choose a ready task, then a device, or neither (the document's two stages); compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.policies.replanning.portfolio import Plans
from weft.policies.two_stage.candidates import FEATURES, Turn, next_turn, take_turn
from weft.policies.two_stage.q_network import QNetwork, q_network, q_value
from weft.sim.kernel.commit import commit
from weft.sim.kernel.events import MOMENT
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.tables import Sim


def turn_networks(arrays: Mapping[str, NDArray[Any]]) -> QNetwork:
    """Two networks, for tasks and for devices."""
    return q_network(arrays, networks=2, features=FEATURES)


@njit_noalloc
def planned_choice(turn: Turn) -> int:
    """The candidate the plan would take: of several tasks the most urgent, by number among equals; none: to wait, or to hold."""
    best, urgent = turn.state[2] - 1, -np.inf
    for c in range(turn.state[2]):
        if (
            turn.feature[c, 0] == 1.0
            and turn.offer[c] >= 0
            and _before(turn.feature[c, 3], turn.offer[c], urgent, turn.offer[best])
        ):
            best, urgent = c, turn.feature[c, 3]
    return int(best)


@njit_inline
def _before(value: float, offer: int, highest: float, holder: int) -> bool:
    return value > highest or (value == highest and offer < holder)


@njit_noalloc
def greedy_choice(network: QNetwork, turn: Turn) -> int:
    """The candidate with the highest value; among equals the planned one."""
    planned = planned_choice(turn)
    best, highest = planned, q_value(network, turn.state[0], turn.feature[planned])
    for c in range(turn.state[2]):
        if c != planned:
            value = q_value(network, turn.state[0], turn.feature[c])
            if value > highest or (
                value == highest and best != planned and turn.offer[c] < turn.offer[best]
            ):
                best, highest = c, value
    return best


@njit_noalloc
def live_by_values(sim: Sim, plans: Plans, turn: Turn, network: QNetwork) -> int:
    """Live a simulation to its end, turn by turn; returns ENDED or STUCK."""
    while True:
        answer = next_turn(sim, plans, turn)
        if answer != MOMENT:
            return answer
        task, device = take_turn(turn, greedy_choice(network, turn))
        if device >= 0:
            commit(sim, task, device)
