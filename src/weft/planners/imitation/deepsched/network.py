"""The network of `deepsched` as arrays, its compiled forward pass, and its file.

Two parts. The *encoder* reads the features of a task once, before anything is placed, and gives its priority, its start and finish
as shares of the horizon, and a context. The *scorer* reads a task on a device while the plan grows: one hidden layer, shared by all
devices, whose biases are the context. So neither the number of tasks nor that of devices is built in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.formats.safetensors_file import Numbers, read_arrays, write_arrays
from weft.model.columns import FloatArray
from weft.planners.imitation.deepsched.features import PAIR_FEATURES, TASK_FEATURES
from weft.sim.kernel.jit import njit, njit_inline
from weft.sim.kernel.mlp import add_layer, layer, standardise

HEADS = 3
"""Outputs of the encoder before the context: priority, start, finish."""

SHIPPED = Path(__file__).parents[3] / "policies" / "bundled" / "deepsched.safetensors"


class DeepNetwork(NamedTuple):
    """All float32. Weights of the encoder stand input by input, so that inner loops run over memory."""

    mean: Numbers  # (features,)
    scale: Numbers  # (features,) a feature x enters as (x - mean) * scale
    first: Numbers  # (features, wide)
    first_bias: Numbers  # (wide,)
    second: Numbers  # (wide, wide)
    second_bias: Numbers  # (wide,)
    out: Numbers  # (wide, HEADS + hidden)
    skip: Numbers  # (features, HEADS + hidden): from the features past the hidden layers
    out_bias: Numbers  # (HEADS + hidden,)
    pair: Numbers  # (hidden, len(PAIR_FEATURES))
    vote: Numbers  # (hidden,)
    direct: Numbers  # (len(PAIR_FEATURES),) from the features of a pair past the hidden layer


def network_of(arrays: Mapping[str, Numbers]) -> DeepNetwork:
    """Build the network from named arrays, or say what does not fit."""
    if sorted(arrays) != sorted(DeepNetwork._fields):
        raise InvalidInput(
            f"deepsched: arrays are {', '.join(sorted(arrays))}; expected {', '.join(sorted(DeepNetwork._fields))}"
        )
    made = DeepNetwork(
        **{name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    )
    features, wide, hidden, pairs = (
        len(TASK_FEATURES),
        made.first_bias.size,
        made.vote.size,
        len(PAIR_FEATURES),
    )
    outputs = HEADS + hidden
    shapes = (
        (features,),
        (features,),
        (features, wide),
        (wide,),
        (wide, wide),
        (wide,),
        (wide, outputs),
        (features, outputs),
        (outputs,),
    )
    for name, array, shape in zip(
        made._fields, made, (*shapes, (hidden, pairs), (hidden,), (pairs,)), strict=True
    ):
        if array.shape != shape:
            raise InvalidInput(
                f"deepsched: array '{name}' has shape {array.shape}; expected {shape}"
            )
        if not np.isfinite(array).all():
            raise InvalidInput(f"deepsched: array '{name}' holds values that are not finite")
    return made


def save_network(network: DeepNetwork, path: Path, record: Mapping[str, Any]) -> Path:
    """Write the numbers to `path` (.safetensors), and what they are and how they came about beside it (.json)."""
    write_arrays(path, network._asdict())
    card = {
        "format": "weft-deepsched",
        "version": 1,
        "task_features": list(TASK_FEATURES),
        "pair_features": list(PAIR_FEATURES),
        "training": dict(record),
    }
    path.with_suffix(".json").write_text(
        json.dumps(card, indent=1, allow_nan=False) + "\n", encoding="utf-8"
    )
    return path


def load_network(path: str | Path = SHIPPED) -> DeepNetwork:
    """Read a network; nothing in the file is run."""
    place = Path(path)
    if not place.is_file():
        raise InvalidInput(f"{place}: no such file; a network of deepsched is a .safetensors file")
    return network_of(read_arrays(place))


@cache
def shipped_network() -> DeepNetwork:
    """Return the network that comes with weft."""
    return load_network()


@njit
def encode(net: DeepNetwork, rows: Numbers) -> Numbers:
    """(n, HEADS + hidden) outputs of the encoder for the features of n tasks."""
    n, features, wide, outputs = len(rows), net.first.shape[0], net.first.shape[1], net.out.shape[1]
    result = np.empty((n, outputs), np.float32)
    x, one, two = (
        np.empty(features, np.float32),
        np.empty(wide, np.float32),
        np.empty(wide, np.float32),
    )
    for t in range(n):
        standardise(rows[t], net.mean, net.scale, x)
        layer(x, net.first, net.first_bias, one, False)
        layer(one, net.second, net.second_bias, two, True)
        layer(x, net.skip, net.out_bias, result[t], False)
        add_layer(two, net.out, result[t], True)
    return result


@njit_inline
def score_devices(net: DeepNetwork, context: Numbers, x: Numbers, score: Numbers) -> None:
    """Fill the score of a task with this context on every device; x is (features, p) as `pair_features` fills it."""
    p = x.shape[1]
    zero = np.float32(0.0)
    ready, start, free, seconds = x[0], x[1], x[2], x[3]
    a, b, c, e = net.direct[0], net.direct[1], net.direct[2], net.direct[3]
    for d in range(p):
        score[d] = a * ready[d] + b * start[d] + c * free[d] + e * seconds[d]
    for j in range(len(net.vote)):
        bias, vote = context[j], net.vote[j]
        a, b, c, e = net.pair[j, 0], net.pair[j, 1], net.pair[j, 2], net.pair[j, 3]
        for d in range(p):
            score[d] += vote * max(
                bias + a * ready[d] + b * start[d] + c * free[d] + e * seconds[d], zero
            )


@njit_inline
def best_device(score: Numbers, seconds: FloatArray) -> int:
    """The highest score among the devices that can run the task; the lower number among equals."""
    best = -1
    for d in range(len(score)):
        if seconds[d] < np.inf and (best < 0 or score[d] > score[best]):
            best = d
    return best
