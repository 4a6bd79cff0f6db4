"""Network that decides how far observed durations are trusted; compiled.

The expected duration of a task kind on a device kind is the estimate times a factor, which is drawn
from the observed ones towards 1 (`feedback.learn_durations`). How far depends on two things that
cannot be seen directly: if estimates are wrong by kind, one observation shows nearly all of the
error; if durations are noisy, even ten show little. The posterior mean of a random effect is `n m /
(n + noise / bias)`, with n observations of mean m and the variances of noise and bias (Robbins
1956). A network reads the spread within and between kinds so far and returns the logarithm of that
ratio, for a pair of kinds and for the mean of a device kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.model.columns import Float32Array
from weft.policies.q_network import QNetwork, q_network, q_value
from weft.policies.replanning.feedback import observed_spread
from weft.policies.replanning.state import PlanState
from weft.sim.kernel.jit import njit_noalloc
from weft.sim.kernel.tables import Sim

OUTPUTS = 2
"""Number of observations that the prior of a pair of kinds weighs, and that of a device kind."""
LARGEST = 5.0
"""Largest absolute logarithm of such a number."""


class ShrinkageFeatures(NamedTuple):
    """Places of the features."""

    observed: int  # logarithm of the number of observations
    repeated: int  # the same, without the first observation of each pair of kinds
    pairs: int  # pairs of kinds that were observed
    total: int  # root mean square of log(observed / estimated duration)
    within: int  # root mean square of the deviations from the means of pairs
    between: int  # root mean square of these means
    mean: int  # mean of all logarithms
    slowed: int  # share of the devices that are slower than usual, or down
    one: int


FEATURE = ShrinkageFeatures(*range(len(ShrinkageFeatures._fields)))
FEATURES = ShrinkageFeatures._fields


def shrinkage_network(arrays: Mapping[str, NDArray[Any]]) -> QNetwork:
    """Make the network of named arrays."""
    return q_network(arrays, networks=OUTPUTS, features=len(FEATURES))


def constant_arrays(priors: tuple[float, float], hidden: int = 1) -> dict[str, Float32Array]:
    """Return the arrays of a network with constant outputs.

    Examples
    --------
    >>> network = shrinkage_network(constant_arrays((3.0, 0.5)))
    >>> nothing = np.zeros(len(FEATURES), np.float32)
    >>> [round(prior_of(network, which, nothing), 5) for which in range(2)]
    [3.0, 0.5]
    """
    shapes = {"w1": (len(FEATURES), hidden), "b1": (hidden,), "w2": (hidden, hidden)}
    arrays = {key: np.zeros((OUTPUTS, *shape), np.float32) for key, shape in shapes.items()}
    last = np.zeros((OUTPUTS, hidden), np.float32)
    last[:, 0] = np.log(priors)
    return {**arrays, "b2": np.ones((OUTPUTS, hidden), np.float32), "w3": last}


@njit_noalloc
def describe_spread(sim: Sim, plan: PlanState, f: Float32Array) -> None:
    """Fill in the features."""
    slowed, p = 0.0, len(plan.device)
    for d in range(p):
        slowed += 1.0 if sim.device[d].slowdown != 1.0 else 0.0
    count, square, pairs, means, total = observed_spread(plan)
    again = count - pairs
    f[FEATURE.observed], f[FEATURE.repeated] = np.log(1.0 + count) / 5.0, np.log(1.0 + again) / 5.0
    f[FEATURE.pairs], f[FEATURE.total] = pairs / 20.0, np.sqrt(square / max(count, 1.0))
    f[FEATURE.within] = np.sqrt(max(square - means, 0.0) / max(again, 1.0))
    f[FEATURE.between] = np.sqrt(means / max(pairs, 1.0))
    f[FEATURE.mean], f[FEATURE.slowed] = total / max(count, 1.0), slowed / p
    f[FEATURE.one] = 1.0


@njit_noalloc
def prior_of(network: QNetwork, which: int, features: Float32Array) -> float:
    """Return the number of observations that a prior weighs."""
    value = q_value(network, which, features)
    return float(np.exp(min(max(value, -LARGEST), LARGEST)))
