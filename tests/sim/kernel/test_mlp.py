"""The compiled layers against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from weft.sim.kernel.mlp import add_layer, layer, standardise


@pytest.mark.parametrize("relu", [False, True])
def test_a_layer_is_a_matrix_product(relu):
    rng = np.random.default_rng(0)
    x, weight, bias = rng.normal(size=5), rng.normal(size=(5, 3)), rng.normal(size=3)
    x[2] = 0.0
    out = np.full(3, np.nan)
    layer(x, weight, bias, out, relu)
    kept = np.maximum(x, 0.0) if relu else x
    assert out == pytest.approx(bias + kept @ weight)
    add_layer(x, weight, out, relu)
    assert out == pytest.approx(bias + 2 * kept @ weight)


def test_inputs_are_standardised():
    out = np.zeros(2)
    standardise(np.array([3.0, 5.0]), np.array([1.0, 5.0]), np.array([0.5, 9.0]), out)
    assert out.tolist() == [1.0, 0.0]
