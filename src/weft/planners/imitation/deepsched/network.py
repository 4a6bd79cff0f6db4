"""The network of `deepsched` as arrays, its compiled forward pass, and its file.

The *encoder* reads the features of a task once, before any task is placed, and gives its priority,
its start and finish relative to the horizon, and a context. The *scorer* reads a task on a device
while the plan grows: one hidden layer, shared by all devices, whose biases are the context. So the
network has no fixed number of tasks or devices.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.formats.model_file import Model, find_model, read_model, save_model
from weft.model.columns import FloatArray, Numbers
from weft.planners.imitation.deepsched.features import PAIR, PAIR_FEATURES, TASK_FEATURES
from weft.sim.kernel.jit import njit, njit_inline
from weft.sim.kernel.mlp import add_layer, layer, standardise

HEADS = 3
"""Outputs of the encoder before the context: priority, start, finish."""

KIND = "deepsched"


class DeepNetwork(NamedTuple):
    """Weights, all float32; those of the encoder are (inputs, outputs)."""

    mean: Numbers  # (features,)
    scale: Numbers  # (features,) a feature x enters as (x - mean) * scale
    first: Numbers  # (features, wide)
    first_bias: Numbers  # (wide,)
    second: Numbers  # (wide, wide)
    second_bias: Numbers  # (wide,)
    out: Numbers  # (wide, HEADS + hidden)
    skip: Numbers  # (features, HEADS + hidden) past the hidden layers
    out_bias: Numbers  # (HEADS + hidden,)
    pair: Numbers  # (hidden, len(PAIR_FEATURES))
    vote: Numbers  # (hidden,)
    direct: Numbers  # (len(PAIR_FEATURES),) past the hidden layer


def network_of(arrays: Mapping[str, Numbers]) -> DeepNetwork:
    """Check named arrays and build the network."""
    if sorted(arrays) != sorted(DeepNetwork._fields):
        raise InvalidInput(
            f"deepsched: arrays are {', '.join(sorted(arrays))}; "
            f"expected {', '.join(sorted(DeepNetwork._fields))}"
        )
    made = DeepNetwork(
        **{name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    )
    features, pairs = len(TASK_FEATURES), len(PAIR_FEATURES)
    wide, hidden = made.first_bias.size, made.vote.size
    outputs = HEADS + hidden
    shapes = {
        "mean": (features,),
        "scale": (features,),
        "first": (features, wide),
        "first_bias": (wide,),
        "second": (wide, wide),
        "second_bias": (wide,),
        "out": (wide, outputs),
        "skip": (features, outputs),
        "out_bias": (outputs,),
        "pair": (hidden, pairs),
        "vote": (hidden,),
        "direct": (pairs,),
    }
    for name, shape in shapes.items():
        array = getattr(made, name)
        if array.shape != shape:
            raise InvalidInput(
                f"deepsched: array '{name}' has shape {array.shape}; expected {shape}"
            )
        if not np.isfinite(array).all():
            raise InvalidInput(f"deepsched: array '{name}' holds values that are not finite")
    return made


def save_network(network: DeepNetwork, path: str | Path, record: Mapping[str, Any]) -> Path:
    """Write a network as a model; return the path of its card."""
    model = Model(
        name=Path(path).stem,
        kind=KIND,
        about="A network that imitates HEFT.",
        settings=_features(),
        arrays=network._asdict(),
        training=record,
    )
    return save_model(model, path)


def load_network(name_or_path: str | Path = "deepsched") -> DeepNetwork:
    """Read a network from its model files; nothing in them is run."""
    card = find_model(name_or_path)
    model = read_model(card, KIND)
    if dict(model.settings) != _features():
        raise InvalidInput(f"{card}: its features are not those of this version of weft")
    return network_of(model.arrays)


def _features() -> dict[str, list[str]]:
    return {"task_features": list(TASK_FEATURES), "pair_features": list(PAIR_FEATURES)}


@cache
def bundled_network() -> DeepNetwork:
    """Return the network that comes with weft."""
    return load_network()


@njit
def encode(net: DeepNetwork, rows: Numbers) -> Numbers:
    """Compute the encoder's outputs for the features of n tasks: (n, HEADS + hidden)."""
    n, features, wide = len(rows), net.first.shape[0], net.first.shape[1]
    result = np.empty((n, net.out.shape[1]), np.float32)
    x = np.empty(features, np.float32)
    one, two = np.empty(wide, np.float32), np.empty(wide, np.float32)
    for t in range(n):
        standardise(rows[t], net.mean, net.scale, x)
        layer(x, net.first, net.first_bias, one, False)
        layer(one, net.second, net.second_bias, two, True)
        layer(x, net.skip, net.out_bias, result[t], False)
        add_layer(two, net.out, result[t], True)
    return result


@njit_inline
def score_devices(net: DeepNetwork, context: Numbers, x: Numbers, score: Numbers) -> None:
    """Fill `score` with the score of a task on each device; x: `pair_features`."""
    p = x.shape[1]
    zero = np.float32(0.0)
    ready, start, free, seconds = x[PAIR.ready], x[PAIR.start], x[PAIR.free], x[PAIR.seconds]
    w = net.direct
    a, b, c, e = w[PAIR.ready], w[PAIR.start], w[PAIR.free], w[PAIR.seconds]
    for d in range(p):
        score[d] = a * ready[d] + b * start[d] + c * free[d] + e * seconds[d]
    for j in range(len(net.vote)):
        bias, vote, w = context[j], net.vote[j], net.pair[j]
        a, b, c, e = w[PAIR.ready], w[PAIR.start], w[PAIR.free], w[PAIR.seconds]
        for d in range(p):
            score[d] += vote * max(
                bias + a * ready[d] + b * start[d] + c * free[d] + e * seconds[d], zero
            )


@njit_inline
def best_device(score: Numbers, seconds: FloatArray) -> int:
    """Return the able device with the highest score; the lowest number among equals."""
    best = -1
    for d in range(len(score)):
        if seconds[d] < np.inf and (best < 0 or score[d] > score[best]):
            best = d
    return best
