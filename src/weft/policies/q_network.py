"""Q-networks with two hidden layers of ReLU, shared by any number of candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import InvalidInput
from weft.model.columns import Float32Array
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.mlp import layer

ARRAYS = ("w1", "b1", "w2", "b2", "w3")
"""Names of the stored arrays."""

NetworkArrays = Mapping[str, Float32Array]
"""The stored arrays by name."""


class QNetwork(NamedTuple):
    """Several networks of one shape: the first axis is the network."""

    w1: Float32Array  # (networks, features, h)
    b1: Float32Array  # (networks, h)
    w2: Float32Array  # (networks, h, h)
    b2: Float32Array  # (networks, h)
    w3: Float32Array  # (networks, h)
    space: Float32Array  # (2, h) working memory


def q_network(arrays: Mapping[str, NDArray[Any]], *, networks: int, features: int) -> QNetwork:
    """Make networks of named arrays; refuse arrays that do not fit together."""
    if sorted(arrays) != sorted(ARRAYS):
        raise InvalidInput(
            f"a Q-network needs the arrays {', '.join(ARRAYS)}; got {', '.join(sorted(arrays))}"
        )
    h = arrays["b1"].shape[-1]
    shapes = {
        "w1": (networks, features, h),
        "b1": (networks, h),
        "w2": (networks, h, h),
        "b2": (networks, h),
        "w3": (networks, h),
    }
    for name, shape in shapes.items():
        if arrays[name].shape != shape or not np.isfinite(arrays[name]).all():
            raise InvalidInput(
                f"array '{name}' of the Q-network must be {shape} finite numbers; "
                f"got shape {arrays[name].shape}"
            )
    parts = {name: np.ascontiguousarray(arrays[name], np.float32) for name in ARRAYS}
    return QNetwork(**parts, space=np.zeros((2, h), np.float32))


def empty_network(networks: int) -> QNetwork:
    """Make networks without hidden units, which stand for "no network"."""
    n = networks
    shapes: tuple[tuple[int, ...], ...] = ((n, 0, 0), (n, 0), (n, 0, 0), (n, 0), (n, 0), (2, 0))
    return QNetwork(*(np.zeros(shape, np.float32) for shape in shapes))


@njit_noalloc
def q_value(network: QNetwork, which: int, feature: Float32Array) -> float:
    """Return the value of one candidate."""
    first, second = network.space[0], network.space[1]
    layer(feature, network.w1[which], network.b1[which], first, False)
    layer(first, network.w2[which], network.b2[which], second, True)
    total = np.float32(0.0)
    for k in range(len(second)):
        if second[k] > 0.0:
            total += second[k] * network.w3[which, k]
    return float(total)
