"""The network of `amortised`: corrections of ranks, and handicaps of devices.

The features of a task on a device go through one hidden layer with ReLU and a skip connection. The
first output, averaged over the devices, is added to the task's upward rank; the second to its
finish on the device when the decoder compares devices. Both are in units of a mean duration plus a
mean transfer. With all weights zero the decoder is HEFT.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from weft.errors import InvalidInput
from weft.formats.model_file import Model, Numbers, find_model, read_model, save_model
from weft.model import ProblemArrays
from weft.model.columns import BoolArray, FloatArray, IntArray
from weft.planners.imitation.amortised.features import NAMES, SIZE
from weft.planners.lists.ranks import order_of_free
from weft.planners.objective import Goal
from weft.planners.search.annealing import uniform
from weft.planners.search.decoder import ANY, Decoder, decode_from
from weft.sim.kernel.gaps import NONE
from weft.sim.kernel.jit import njit
from weft.sim.kernel.mlp import add_layer, layer, standardise

HIDDEN = 16
KIND = "amortised"


class AmortisedWeights(NamedTuple):
    """Arrays of the network; an input x enters as (x - mean) * scale."""

    mean: Numbers  # (SIZE,)
    scale: Numbers  # (SIZE,)
    hidden: Numbers  # (SIZE, HIDDEN)
    offset: Numbers  # (HIDDEN,)
    output: Numbers  # (2, HIDDEN)
    skip: Numbers  # (2, SIZE) past the hidden layer


SHAPES = {
    "mean": (SIZE,),
    "scale": (SIZE,),
    "hidden": (SIZE, HIDDEN),
    "offset": (HIDDEN,),
    "output": (2, HIDDEN),
    "skip": (2, SIZE),
}


class Observation(NamedTuple):
    """Inputs of the network and the decoder."""

    arrays: ProblemArrays
    goal: Goal
    features: Numbers
    able: BoolArray
    rank: FloatArray
    unit: float
    tail: FloatArray


def weights_of(arrays: Mapping[str, Numbers], *, source: str = "amortised") -> AmortisedWeights:
    """Check named arrays and build the network."""
    if sorted(arrays) != sorted(SHAPES):
        raise InvalidInput(
            f"{source}: arrays are {', '.join(sorted(arrays))}; "
            f"expected {', '.join(sorted(SHAPES))}"
        )
    for name, array in arrays.items():
        if array.shape != SHAPES[name] or not np.isfinite(array).all():
            raise InvalidInput(
                f"{source}: array '{name}' must be finite and of shape {SHAPES[name]}; "
                f"its shape is {array.shape}"
            )
    return AmortisedWeights(
        **{
            name: np.ascontiguousarray(arrays[name], np.float32)
            for name in AmortisedWeights._fields
        }
    )


def zero_weights() -> AmortisedWeights:
    """Return the network without effect: HEFT.

    Examples
    --------
    >>> features, able = np.ones((2, 3, SIZE), np.float32), np.ones((2, 3), bool)
    >>> correction, handicap = score_pairs(zero_weights(), features, able)
    >>> correction.tolist(), float(abs(handicap).max())
    ([0.0, 0.0], 0.0)
    """
    return weights_of({name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()})


@cache
def bundled_weights() -> AmortisedWeights:
    """Return the network that ships with weft."""
    return read_weights("amortised")


def read_weights(name_or_path: str | Path) -> AmortisedWeights:
    """Read a network from its model files; nothing in them is run."""
    card = find_model(name_or_path)
    model = read_model(card, KIND)
    if dict(model.settings) != {"features": list(NAMES)}:
        raise InvalidInput(f"{card}: its features are not those of this version of weft")
    return weights_of(model.arrays, source=str(card))


def save_weights(weights: AmortisedWeights, path: str | Path, record: Mapping[str, Any]) -> Path:
    """Write a network as a model; return the path of its card."""
    model = Model(
        name=Path(path).stem,
        kind=KIND,
        about="A network that corrects ranks and finish times, learned from the search planner.",
        settings={"features": list(NAMES)},
        arrays=weights._asdict(),
        training=record,
    )
    return save_model(model, path)


@njit
def score_pairs(
    w: AmortisedWeights, features: Numbers, able: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Compute (n,) corrections of ranks and (n, p) handicaps of devices, in units.

    `able` is (n, p): whether a device can run a task.
    """
    n, p, size = features.shape
    correction, handicap = np.zeros(n), np.zeros((n, p))
    x, unit = np.empty(size, np.float32), np.empty(len(w.offset), np.float32)
    out, skip, output = np.empty(2, np.float32), w.skip.T.copy(), w.output.T.copy()
    for t in range(n):
        count, total, least = 0, 0.0, np.inf
        for d in range(p):
            if not able[t, d]:
                continue
            standardise(features[t, d], w.mean, w.scale, x)
            layer(x, w.hidden, w.offset, unit, False)
            out[:] = 0.0
            add_layer(x, skip, out, False)
            add_layer(unit, output, out, True)
            count += 1
            total += float(out[0])
            handicap[t, d] = out[1]
            least = min(least, handicap[t, d])
        for d in range(p):
            handicap[t, d] = handicap[t, d] - least if able[t, d] else 0.0
        correction[t] = total / count
    return correction, handicap


@njit
def one_pass(w: AmortisedWeights, seen: Observation, decoder: Decoder) -> float:
    """Apply network and decoder; return the makespan of the schedule in the decoder."""
    correction, handicap = score_pairs(w, seen.features, seen.able)
    key, extra = seen.rank + correction * seen.unit, handicap * seen.unit
    return _decode(seen, key, extra, np.inf, decoder)


@njit
def sample_passes(
    w: AmortisedWeights,
    seen: Observation,
    samples: int,
    noise: float,
    random: np.ndarray,
    decoder: Decoder,
) -> float:
    """Do one pass and passes with normal noise on the outputs; return the best makespan."""
    correction, handicap = score_pairs(w, seen.features, seen.able)
    key, extra = seen.rank + correction * seen.unit, handicap * seen.unit
    best = _decode(seen, key, extra, np.inf, decoder)
    for _ in range(samples):
        key, extra = seen.rank + correction * seen.unit, handicap * seen.unit
        for t in range(len(key)):
            key[t] += noise * seen.unit * normal(random)
            for d in range(extra.shape[1]):
                extra[t, d] += noise * seen.unit * normal(random)
        # A pass above the limit leaves the decoder unchanged.
        best = min(best, _decode(seen, key, extra, best, decoder))
    return best


@njit
def _decode(
    seen: Observation, key: FloatArray, handicap: FloatArray, limit: float, decoder: Decoder
) -> float:
    a, goal, tail = seen.arrays, seen.goal, seen.tail
    order = free_order(a, key)
    anywhere = np.full(len(order), ANY)
    return decode_from(a, goal, order, anywhere, tail, limit, decoder, 0, NONE, np.inf, handicap)


@njit
def normal(random: np.ndarray) -> float:
    """Draw a standard normal number (Box and Muller 1958)."""
    return float(
        np.sqrt(-2.0 * np.log(1.0 - uniform(random))) * np.cos(2.0 * np.pi * uniform(random))
    )


@njit
def free_order(a: ProblemArrays, key: FloatArray) -> IntArray:
    """Order tasks by key, parents before children; the lowest number among equals."""
    order = np.argsort(-key, kind="mergesort")
    place = np.empty(len(order), np.int64)
    for i in range(len(order)):
        place[order[i]] = i
    return order_of_free(a, order, place)
