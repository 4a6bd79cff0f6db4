"""Named weights of list scheduling: rank of tasks, key of jobs, score of devices.

All terms are in seconds, so that weights mean the same whatever the unit of time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import NamedTuple

import numpy as np

from weft.arguments import shown
from weft.errors import InvalidInput, UnknownName
from weft.model.columns import FloatArray
from weft.registry import closest

WeightSets = Mapping[str, float] | Sequence[Mapping[str, float]]
"""Weights by name, of one plan or of each plan of a portfolio; the others are 0."""


class Weights(NamedTuple):
    """Places of the weights in their array."""

    # rank of a task
    least: int  # from the mean duration over the devices (0) to the least one (1)
    moving: int  # logarithm of a factor on transfers
    # key of a job, added to the ranks of its tasks; the highest goes first
    work: int  # minus remaining work / devices
    path: int  # minus the highest rank that is left
    age: int  # seconds since arrival
    slack: int  # minus the seconds its highest rank may be late without missing the deadline
    priority: int  # priority x highest rank
    rank: int  # weight of the rank itself against the terms of the key
    # score of a task on a device, added to its finish; the lowest wins
    ahead: int  # optimistic seconds to the end of the workflow (Arabnejad and Barbosa 2014, eq. 2)
    longer: int  # its duration there above the least one
    together: int  # transfers between there and the other parents of its children
    gap: int  # idle seconds it leaves before itself
    slowed: int  # its duration there, while the device is slower than usual
    moved: int  # its mean duration, if the last plan had it elsewhere
    energy: int  # its duration there x power / mean power
    # expectations
    overdue: int  # share of its duration that an overdue task is still expected to take
    trust: int  # exponent of observed / estimated durations, by task kind and device kind
    # streams
    price: int  # score: its duration there x price of the device / mean price, see `prices`


W = Weights(*range(len(Weights._fields)))
WEIGHTS = Weights._fields
"""Names of the weights, in the order of the array."""
_JOB_KEYS = (W.work, W.path, W.age, W.slack, W.priority)


def weights_of(given: Mapping[str, float]) -> FloatArray:
    """Return the array of named weights.

    The others are 0, except that of the rank, which is 1.

    Examples
    --------
    >>> weights_of({"ahead": 0.5}).nonzero()[0].tolist() == [W.rank, W.ahead]
    True
    """
    weights = np.zeros(len(WEIGHTS))
    weights[W.rank] = 1.0
    for name, value in given.items():
        if name not in WEIGHTS:
            raise UnknownName(f"unknown weight '{name}'{closest(name, WEIGHTS)}")
        if not _is_finite(value):
            raise InvalidInput(f"weight '{name}' is {shown(value)}; it must be a finite number")
        weights[WEIGHTS.index(name)] = value
    return weights


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def without_job_keys(weights: FloatArray) -> FloatArray:
    """Return weights that order tasks by rank alone."""
    changed = weights.copy()
    changed[list(_JOB_KEYS)] = 0.0
    changed[W.rank] = 1.0
    return changed
