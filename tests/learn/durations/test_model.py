"""The online duration model: equality with least squares, changes, files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InvalidInput
from weft.learn.durations.model import DurationModel, Prediction


def plain(k: int, **options: float) -> DurationModel:
    """A model without logarithms of features, forgetting or alarms."""
    return DurationModel(
        tuple(f"x{i}" for i in range(k)), **{"forgetting": 1.0, "alarm": np.inf, **options}
    )


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 60), k=st.integers(1, 4))
def test_without_forgetting_it_is_batch_least_squares(seed, n, k):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(n, k)), rng.normal(size=n)
    model = plain(k)
    for row, value in zip(x, y, strict=True):
        model.observe(row, float(np.exp(value)))
    z = np.column_stack([np.ones(n), x])
    ridge = (0.1 / 10.0) ** 2 * np.eye(k + 1)  # the wide prior a model begins with
    batch = np.linalg.solve(z.T @ z + ridge, z.T @ y)
    np.testing.assert_allclose(model.moments.weight, batch, rtol=1e-6, atol=1e-8)


def test_noise_is_estimated_and_quantiles_cover():
    # log t = 1 + 2 x + 0.3 e: after 400 tasks the scale is near 0.3, and the 10 % to 90 % band
    # holds about 80 % of new tasks.
    rng = np.random.default_rng(1)
    model = plain(1)
    for x in rng.normal(size=400):
        model.observe([x], float(np.exp(1 + 2 * x + 0.3 * rng.normal())))
    assert model.predict([0.0]).scale == pytest.approx(0.3, rel=0.1)
    x = rng.normal(size=(2000, 1))
    seconds = np.exp(1 + 2 * x[:, 0] + 0.3 * rng.normal(size=2000))
    guesses = [model.predict(row) for row in x]
    low, middle, high = (np.array([g.quantile(q) for g in guesses]) for q in (0.1, 0.5, 0.9))
    assert ((low < middle) & (middle < high)).all()
    assert np.mean((low <= seconds) & (seconds <= high)) == pytest.approx(0.8, abs=0.04)


def test_far_from_the_data_it_is_less_sure():
    model = plain(1)
    model.fit(np.linspace(0, 1, 50)[:, None], np.ones(50))
    assert model.predict([20.0]).scale > 3 * model.predict([0.5]).scale


def test_offline_data_is_worth_what_was_said():
    # Offline: 1 s, worth 4. Then 4 observations of e s at the same place: the mean of the
    # logarithms is (4 * 0 + 4 * 1) / 8 = 0.5.
    model = plain(1, worth=4.0, noise=1e-3)
    model.fit([[-1.0], [1.0]], [1.0, 1.0])
    for _ in range(4):
        model.observe([0.0], np.e)
    assert model.predict([0.0]).centre == pytest.approx(0.5, abs=1e-4)


@pytest.mark.parametrize("factor", [0.05, 20.0])
def test_it_recovers_from_a_change_within_ten_tasks_and_again(factor):
    rng = np.random.default_rng(2)
    model = DurationModel(("size",), logs=("size",))
    size = rng.uniform(1, 10, 400)
    model.fit(size[:100, None], size[:100])
    slowdown = 1.0
    for phase, start in enumerate(range(100, 400, 100)):
        slowdown = factor if phase % 2 == 0 else 1.0
        for x in size[start : start + 10]:
            model.observe([x], slowdown * x)
        for x in size[start + 10 : start + 100]:
            assert model.predict([x]).median == pytest.approx(slowdown * x, rel=0.35)
            model.observe([x], slowdown * x)


def test_it_follows_a_drift():
    model = DurationModel(("size",), logs=("size",), forgetting=0.9)
    wrong = []
    for k in range(300):
        seconds = float(np.exp(0.01 * k))  # a hundredth a task: twenty times slower in the end
        wrong.append(abs(np.log(model.predict([2.0]).median / seconds)))
        model.observe([2.0], seconds)
    assert max(wrong[50:]) < 0.15


def test_one_straggler_is_no_change():
    model = DurationModel(("size",), logs=("size",))
    model.fit([[1.0], [2.0], [4.0]], [1.0, 2.0, 4.0])
    for _ in range(20):
        model.observe([2.0], 2.0)
    model.observe([2.0], 200.0)
    assert model.moments.changes[0]["trust"] == 1.0  # the prior keeps its trust
    for _ in range(3):
        model.observe([2.0], 2.0)
    assert model.predict([2.0]).median == pytest.approx(2.0, rel=0.6)


def test_bad_input_is_named():
    model = DurationModel(("size", "heat"), logs=("size",))
    with pytest.raises(InvalidInput, match=r"'size' of row 0 is 0\.0"):
        model.predict([0.0, 1.0])
    with pytest.raises(InvalidInput, match="'heat' of row 0 is nan"):
        model.predict([1.0, np.nan])
    with pytest.raises(InvalidInput, match="size, heat"):
        model.predict([1.0])
    with pytest.raises(InvalidInput, match=r"-1\.0 s"):
        model.observe([1.0, 1.0], -1.0)
    with pytest.raises(InvalidInput, match="one duration per row"):
        model.fit([[1.0, 1.0]], [1.0, 2.0])
    with pytest.raises(InvalidInput, match="'bulk'"):
        DurationModel(("size",), logs=("bulk",))
    with pytest.raises(InvalidInput, match=r"forgetting is 1\.5"):
        DurationModel(("size",), forgetting=1.5)
    with pytest.raises(InvalidInput, match="quantile 1"):
        Prediction(0.0, 1.0, 5.0).quantile(1)
