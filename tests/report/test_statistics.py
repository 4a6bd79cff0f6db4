"""Known answers, by hand."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.report.statistics import (
    bootstrap_mean,
    geometric_mean_ratio,
    holm,
    paired_t_test,
    standings,
)


def test_paired_t_test_by_hand():
    # Differences 1, 2, 3: mean 2, standard deviation 1, t = 2 / (1 / sqrt 3) = 2 sqrt 3.
    # With 2 degrees of freedom P(|T| > t) = 1 - t / sqrt(2 + t^2) = 1 - 2 sqrt 3 / sqrt 14.
    result = paired_t_test([3, 5, 7], [2, 3, 4])
    assert (result.difference, result.pairs, result.effect) == (2.0, 3, 2.0)
    assert result.t == pytest.approx(2 * math.sqrt(3))
    assert result.p_value == pytest.approx(1 - 2 * math.sqrt(3) / math.sqrt(14))
    assert paired_t_test([2, 3, 4], [3, 5, 7]).t == -result.t


def test_without_spread_the_answer_is_certain():
    same = paired_t_test([1, 2], [1, 2])
    assert (same.difference, same.t, same.p_value, same.effect) == (0.0, 0.0, 1.0, 0.0)
    less = paired_t_test([1, 2], [2, 3])
    assert (less.t, less.p_value) == (-math.inf, 0.0)


def test_holm_by_hand():
    # Sorted: 0.005 x 4 = 0.02; 0.01 x 3 = 0.03; 0.03 x 2 = 0.06; 0.04 x 1 = 0.04, lifted to 0.06.
    assert holm({"d": 0.04, "a": 0.005, "c": 0.03, "b": 0.01}) == pytest.approx(
        {"d": 0.06, "a": 0.02, "c": 0.06, "b": 0.03}
    )
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}


def test_geometric_mean_ratio_by_hand():
    # Ratios 2 and 8: sqrt 16 = 4. Resamples of two pairs give 2, 4 or 8, each end with probability
    # 1/4.
    interval = geometric_mean_ratio([2, 8], [1, 1], draws=2000)
    assert interval.estimate == pytest.approx(4)
    assert (interval.low, interval.high) == pytest.approx((2, 8))


def test_bootstrap_of_coin_flips():
    # A resampled mean of 100 values with 50 ones is Binomial(100, 1/2) / 100: its 2.5 % and 97.5 %
    # quantiles are 0.40 and 0.60.
    interval = bootstrap_mean([0.0, 1.0] * 50)
    assert (interval.estimate, interval.low, interval.high) == (0.5, 0.4, 0.6)
    assert str(interval) == "0.5 [0.4, 0.6]"


def test_the_seed_decides():
    values = np.arange(30.0) ** 2
    assert bootstrap_mean(values, seed=1) == bootstrap_mean(values, seed=1)
    assert bootstrap_mean(values, seed=1) != bootstrap_mean(values, seed=2)


columns = st.lists(st.floats(0.1, 100), min_size=2, max_size=12)


@given(columns, st.floats(0.5, 4))
def test_scaling_scales(values, factor):
    one, two = (
        bootstrap_mean(values, draws=200),
        bootstrap_mean([factor * v for v in values], draws=200),
    )
    assert (two.estimate, two.low, two.high) == pytest.approx(
        (factor * one.estimate, factor * one.low, factor * one.high)
    )
    assert one.low <= one.high
    assert geometric_mean_ratio(
        [factor * v for v in values], values, draws=50
    ).estimate == pytest.approx(factor)


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8))
def test_holm_lies_between_the_raw_and_bonferroni(p_values):
    adjusted = holm(p_values)
    assert list(adjusted) == list(p_values)
    for name, p in p_values.items():
        assert p <= adjusted[name] <= 1
        assert adjusted[name] <= max([1.0, *p_values.values()])
    ranked = sorted(p_values, key=lambda name: p_values[name])
    assert all(adjusted[a] <= adjusted[b] for a, b in pairwise(ranked))


def test_refusals():
    with pytest.raises(InvalidInput, match=r"got 2 and 3 values"):
        paired_t_test([1, 2], [1, 2, 3])
    with pytest.raises(InvalidInput, match=r"needs 2 pairs or more; got 1"):
        paired_t_test([1], [1])
    with pytest.raises(InvalidInput, match=r"value 1 is not finite"):
        bootstrap_mean([1.0, math.nan])
    with pytest.raises(InvalidInput, match=r"no values"):
        bootstrap_mean([])
    with pytest.raises(InvalidInput, match=r"the smallest is 0"):
        geometric_mean_ratio([0.0, 1.0], [1.0, 1.0])
    with pytest.raises(InvalidInput, match=r"the p-value of 'a' is 1.5"):
        holm({"a": 1.5})
    with pytest.raises(InvalidInput, match=r"confidence is 95"):
        bootstrap_mean([1.0], confidence=95)


def test_contenders_that_cannot_be_told_apart_are_both_among_the_best():
    rng = np.random.default_rng(0)
    base = rng.uniform(1, 2, 20)
    noise = rng.normal(0, 0.05, 20)
    noise -= noise.mean() - 0.001
    found = standings({"a": base, "b": base + noise, "c": base + 0.2})
    assert [found[name].best for name in "abc"] == [True, True, False]
    assert found["a"].wins + found["b"].wins == 20
    assert found["c"].wins == 0
    assert found["a"].low < base.mean() < found["a"].high


def test_with_one_future_only_equal_values_are_best():
    found = standings({"a": np.array([1.0]), "b": np.array([1.0]), "c": np.array([1.001])})
    assert [s.best for s in found.values()] == [True, True, False]
