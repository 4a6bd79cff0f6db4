"""Forward pass of a multilayer perceptron, layer by layer, compiled.

Weights are stored input by input, (inputs, outputs), so that the inner loop runs along memory. Sums
add inputs in order, in the type of `out`, so that every network gives the same bits everywhere.
"""

from __future__ import annotations

from weft.model.columns import Numbers
from weft.sim.kernel.jit import njit_inline


@njit_inline
def layer(x: Numbers, weight: Numbers, bias: Numbers, out: Numbers, relu: bool) -> None:
    """Compute out = bias + f(x) weight, where f is ReLU or nothing."""
    for j in range(len(out)):
        out[j] = bias[j]
    add_layer(x, weight, out, relu)


@njit_inline
def add_layer(x: Numbers, weight: Numbers, out: Numbers, relu: bool) -> None:
    """Add f(x) weight to `out`, where f is ReLU or nothing."""
    for i in range(len(weight)):
        value = x[i]
        if value > 0 or (not relu and value != 0):  # skip inputs that add nothing
            row = weight[i]
            for j in range(len(out)):
                out[j] += value * row[j]


@njit_inline
def layer_of_columns(
    x: Numbers, weight: Numbers, bias: Numbers, out: Numbers, relu: bool, columns: int
) -> None:
    """Compute `layer` for the first columns of x into those of `out`.

    The shape of x is (inputs, columns). The results are the same bits, in less time for many
    columns, as inner loops run along them. With `relu`, x is changed.
    """
    inputs, outputs = weight.shape
    for i in range(inputs if relu else 0):
        row = x[i]
        for c in range(columns):
            if not row[c] > 0:
                row[c] = 0
    for j in range(outputs):
        total = out[j]
        total[:columns] = bias[j]
        for i in range(0, inputs - 1, 2):  # two at a time: half the loads and stores
            first, second, here, there = weight[i, j], weight[i + 1, j], x[i], x[i + 1]
            for c in range(columns):
                total[c] = (total[c] + here[c] * first) + there[c] * second
        if inputs % 2:
            first, here = weight[inputs - 1, j], x[inputs - 1]
            for c in range(columns):
                total[c] += here[c] * first


@njit_inline
def standardise(x: Numbers, mean: Numbers, scale: Numbers, out: Numbers) -> None:
    """Compute out = (x - mean) * scale."""
    for i in range(len(out)):
        out[i] = (x[i] - mean[i]) * scale[i]
