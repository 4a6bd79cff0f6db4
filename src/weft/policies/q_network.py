"""The two Q-networks of the DQN scheduler, compiled: one scores the tasks of a turn, one the devices; candidates share the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.policies.dispatch import FEATURES, Turn, next_turn, take_turn
from weft.policies.plans import Plans
from weft.sim.commitment import commit
from weft.sim.jit import inline, lean
from weft.sim.kernel import MOMENT
from weft.sim.tables import Sim

Numbers = NDArray[np.float32]


class QNetwork(NamedTuple):
    """Fully connected, two hidden layers of ReLU; the first axis is the kind of turn."""

    w1: Numbers  # (2, FEATURES, h)
    b1: Numbers  # (2, h)
    w2: Numbers  # (2, h, h)
    b2: Numbers  # (2, h)
    w3: Numbers  # (2, h)
    space: Numbers  # (2, h) to work in


def q_network(arrays: Mapping[str, NDArray[Any]]) -> QNetwork:
    """Make a network of named arrays; refuse those that do not fit together."""
    names = ("w1", "b1", "w2", "b2", "w3")
    if sorted(arrays) != sorted(names):
        raise InvalidInput(f"a Q-network needs the arrays {', '.join(names)}; got {', '.join(sorted(arrays))}")
    h = arrays["b1"].shape[-1]
    shapes = {"w1": (2, FEATURES, h), "b1": (2, h), "w2": (2, h, h), "b2": (2, h), "w3": (2, h)}
    for name, shape in shapes.items():
        if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
            raise InvalidInput(f"array '{name}' of the Q-network must be {shape} finite numbers; got shape {arrays[name].shape}")
    parts = {name: np.ascontiguousarray(arrays[name], np.float32) for name in names}
    return QNetwork(**parts, space=np.zeros((2, h), np.float32))


@lean
def q_value(network: QNetwork, kind: int, feature: Numbers) -> float:
    """The value of one candidate."""
    h = network.b1.shape[1]
    first, second = network.space[0], network.space[1]
    for k in range(h):
        first[k] = network.b1[kind, k]
    for f in range(FEATURES):
        x = feature[f]
        if x != 0.0:
            for k in range(h):
                first[k] += x * network.w1[kind, f, k]
    for k in range(h):
        second[k] = network.b2[kind, k]
    for j in range(h):
        x = first[j]
        if x > 0.0:
            for k in range(h):
                second[k] += x * network.w2[kind, j, k]
    total = np.float32(0.0)
    for k in range(h):
        if second[k] > 0.0:
            total += second[k] * network.w3[kind, k]
    return float(total)


@lean
def planned_choice(turn: Turn) -> int:
    """The candidate the plan would take: of several tasks the most urgent, by number among equals; none: to wait, or to hold."""
    best, urgent = turn.state[2] - 1, -np.inf
    for c in range(turn.state[2]):
        if turn.feature[c, 0] == 1.0 and turn.offer[c] >= 0 and _before(turn.feature[c, 3], turn.offer[c], urgent, turn.offer[best]):
            best, urgent = c, turn.feature[c, 3]
    return int(best)


@inline
def _before(value: float, offer: int, highest: float, holder: int) -> bool:
    return value > highest or (value == highest and offer < holder)


@lean
def greedy_choice(network: QNetwork, turn: Turn, caution: float) -> int:
    """The candidate with the highest value; the planned one unless it is better by more than `caution`."""
    planned = planned_choice(turn)
    best, highest = planned, q_value(network, turn.state[0], turn.feature[planned]) + caution
    for c in range(turn.state[2]):
        if c != planned:
            value = q_value(network, turn.state[0], turn.feature[c])
            if value > highest or (value == highest and best != planned and turn.offer[c] < turn.offer[best]):
                best, highest = c, value
    return best


@lean
def live_by_values(sim: Sim, plans: Plans, turn: Turn, network: QNetwork, caution: float) -> int:
    """Live a simulation to its end, turn by turn; returns ENDED or STUCK."""
    while True:
        answer = next_turn(sim, plans, turn)
        if answer != MOMENT:
            return answer
        task, device = take_turn(turn, greedy_choice(network, turn, caution))
        if device >= 0:
            commit(sim, task, device)
