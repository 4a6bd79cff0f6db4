"""Networks as plain arrays with a compiled forward pass, without torch.

A network maps one observation to a preference (logit) per unit and action. `choose` takes the best
allowed action, unit by unit; tasks that one unit takes from a queue are not offered to later ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.model.columns import BoolArray, IntArray, Numbers
from weft.sim.kernel.jit import njit_inline, njit_noalloc
from weft.sim.kernel.mlp import layer, layer_of_columns, standardise

CLIP = np.float32(10.0)
"""Scaled inputs are clipped to this many standard deviations, in training and in use."""


class Network(NamedTuple):
    """A fully connected network with ReLU, as arrays for compiled code.

    Attributes
    ----------
    sizes : (layers + 1,) inputs, hidden sizes, outputs
    weight : all weights, layer by layer, (inputs, outputs) each: the inner loop runs over outputs
    bias : all biases, layer by layer
    mean, scale : (inputs,) an input x enters as (x - mean) * scale, clipped to `CLIP`
    units, actions : the outputs are (units, actions)
    """

    sizes: IntArray
    weight: Numbers
    bias: Numbers
    mean: Numbers
    scale: Numbers
    units: int
    actions: int


def network_of(arrays: Mapping[str, Numbers], *, units: int, actions: int) -> Network:
    """Build a network from named arrays.

    They are "input.mean", "input.scale", "0.weight" (outputs, inputs), "0.bias", "1.weight", ...

    Examples
    --------
    >>> arrays = {"input.mean": np.zeros(2), "input.scale": np.ones(2)}
    >>> arrays |= {"0.weight": np.array([[1.0, 0.0], [0.0, -1.0]]), "0.bias": np.ones(2)}
    >>> logits(network_of(arrays, units=1, actions=2), np.array([3.0, 5.0], np.float32)).tolist()
    [[4.0, -4.0]]
    """
    layers = sum(name.endswith(".weight") for name in arrays)
    expected = [
        "input.mean",
        "input.scale",
        *(f"{i}.{part}" for i in range(layers) for part in ("weight", "bias")),
    ]
    if layers == 0 or sorted(arrays) != sorted(expected):
        raise InvalidInput(
            f"network: arrays are {', '.join(sorted(arrays))}; "
            f"expected {', '.join(sorted(expected))}"
        )
    # float32: half the memory and twice the speed of float64
    single = {name: np.ascontiguousarray(array, dtype=np.float32) for name, array in arrays.items()}
    sizes = [single["input.mean"].size, *(single[f"{i}.bias"].size for i in range(layers))]
    _check_shapes(single, sizes, units * actions)
    rows = [single[f"{i}.weight"].T.ravel() for i in range(layers)]
    return Network(
        sizes=np.array(sizes, np.int64),
        weight=np.concatenate(rows),
        bias=np.concatenate([single[f"{i}.bias"] for i in range(layers)]),
        mean=single["input.mean"],
        scale=single["input.scale"],
        units=units,
        actions=actions,
    )


def arrays_of(network: Network) -> dict[str, Numbers]:
    """Return the named arrays of a network, as `network_of` takes them."""
    arrays: dict[str, Numbers] = {"input.mean": network.mean, "input.scale": network.scale}
    w = b = 0
    for i, (inputs, outputs) in enumerate(
        zip(network.sizes[:-1].tolist(), network.sizes[1:].tolist(), strict=True)
    ):
        arrays[f"{i}.weight"] = np.ascontiguousarray(
            network.weight[w : w + inputs * outputs].reshape(inputs, outputs).T
        )
        arrays[f"{i}.bias"] = network.bias[b : b + outputs].copy()
        w, b = w + inputs * outputs, b + outputs
    return arrays


def _check_shapes(arrays: Mapping[str, Numbers], sizes: list[int], outputs: int) -> None:
    if sizes[-1] != outputs:
        raise InvalidInput(
            f"network: the last layer has {sizes[-1]} outputs; units times actions is {outputs}"
        )
    shapes: dict[str, tuple[int, ...]] = {"input.mean": (sizes[0],), "input.scale": (sizes[0],)}
    for i in range(len(sizes) - 1):
        shapes |= {f"{i}.weight": (sizes[i + 1], sizes[i]), f"{i}.bias": (sizes[i + 1],)}
    for name, array in arrays.items():
        if array.shape != shapes[name]:
            raise InvalidInput(
                f"network: array '{name}' has shape {array.shape}; expected {shapes[name]}"
            )
        if not np.isfinite(array).all():
            raise InvalidInput(f"network: array '{name}' holds values that are not finite")


@njit_noalloc
def forward(network: Network, observation: Numbers, space: Numbers) -> int:
    """Compute the outputs in a row of `space`, (2, largest size); return the row."""
    sizes = network.sizes
    here, there = 0, 1
    standardise(observation, network.mean, network.scale, space[here, : sizes[0]])
    for i in range(sizes[0]):
        space[here, i] = min(max(space[here, i], -CLIP), CLIP)
    w = b = 0
    for k in range(len(sizes) - 1):
        inputs, outputs = sizes[k], sizes[k + 1]
        weight = network.weight[w : w + inputs * outputs].reshape((inputs, outputs))
        layer(space[here], weight, network.bias[b:], space[there, :outputs], k > 0)
        w, b = w + inputs * outputs, b + outputs
        here, there = there, here
    return here


@njit_noalloc
def forward_columns(network: Network, columns: int, space: Numbers) -> int:
    """Compute `forward` of the first columns of `space[0]`, in place.

    `space` is (2, largest size, columns).

    Return the part of `space` that holds the outputs.
    """
    sizes = network.sizes
    here, there = 0, 1
    for i in range(sizes[0]):
        row = space[here, i]
        for c in range(columns):
            row[c] = (row[c] - network.mean[i]) * network.scale[i]
            row[c] = min(max(row[c], -CLIP), CLIP)
    w = b = 0
    for k in range(len(sizes) - 1):
        inputs, outputs = sizes[k], sizes[k + 1]
        weight = network.weight[w : w + inputs * outputs].reshape((inputs, outputs))
        layer_of_columns(space[here], weight, network.bias[b:], space[there], k > 0, columns)
        w, b = w + inputs * outputs, b + outputs
        here, there = there, here
    return here


@njit_noalloc
def choose(
    network: Network,
    observation: Numbers,
    mask: BoolArray,
    remaining: IntArray,
    capacity: IntArray,
    space: Numbers,
    action: IntArray,
) -> None:
    """Write each unit's best allowed action, the lowest of equals; change `remaining`."""
    out = space[forward(network, observation, space)]
    choose_given(network, out, mask, remaining, capacity, action, -1, 0)


@njit_inline
def choose_given(
    network: Network,
    out: Numbers,
    mask: BoolArray,
    remaining: IntArray,
    capacity: IntArray,
    action: IntArray,
    unit: int,
    given: int,
) -> None:
    """Write actions by the outputs; unit `given` has a given action (-1: no unit has).

    Tasks that this unit takes are not offered to the others.
    """
    queues = len(remaining)
    if unit >= 0:
        action[unit] = given
        if given < queues:
            remaining[given] -= capacity[unit]
    for u in range(network.units):
        if u == unit:
            continue
        best = -1
        for a in range(network.actions):
            offered = mask[u, a] and (a >= queues or remaining[a] > 0)
            if offered and (
                best < 0 or out[u * network.actions + a] > out[u * network.actions + best]
            ):
                best = a
        # If nothing is left, the unit waits: the last action.
        action[u] = best if best >= 0 else network.actions - 1
        if 0 <= best < queues:
            remaining[best] -= capacity[u]


def working_space(network: Network) -> Numbers:
    """Allocate the scratch memory of `forward`."""
    return np.zeros((2, int(network.sizes.max())), np.float32)


def logits(network: Network, observation: Numbers) -> Numbers:
    """Return the preferences (units, actions) for one observation."""
    seen = np.ascontiguousarray(observation, dtype=np.float32)
    if seen.shape != (network.sizes[0],):
        raise InvalidInput(
            f"network: the observation has shape {seen.shape}; expected ({network.sizes[0]},)"
        )
    space = working_space(network)
    out: Numbers = space[forward(network, seen, space), : network.units * network.actions]
    return out.reshape(network.units, network.actions)
