"""The compiled layers against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from weft.sim.kernel.mlp import add_layer, layer, layer_of_columns, standardise


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


@pytest.mark.parametrize("inputs", [4, 5])
@pytest.mark.parametrize("relu", [False, True])
def test_columns_get_the_bits_of_single_rows(inputs, relu):
    rng = np.random.default_rng(inputs)
    x, weight, bias = (
        rng.normal(size=size).astype(np.float32) for size in ((inputs, 9), (inputs, 3), 3)
    )
    x[1, ::2] = 0.0
    single, together = np.full(3, np.nan, np.float32), np.full((3, 9), np.nan, np.float32)
    rows = np.ascontiguousarray(x.T)
    layer_of_columns(x, weight, bias, together, relu, 7)
    for c in range(7):
        layer(rows[c], weight, bias, single, relu)
        np.testing.assert_array_equal(together[:, c], single)
    assert np.isnan(together[:, 7:]).all()
