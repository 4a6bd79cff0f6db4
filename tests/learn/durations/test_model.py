"""The online duration model: equality with least squares, changes, files."""

from __future__ import annotations

import json

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


def test_one_row_and_many_rows_agree():
    model = DurationModel(("size", "heat"), logs=("size",))
    model.fit([[1.0, 0.0], [4.0, 1.0], [9.0, 0.5]], [1.0, 3.0, 5.0])
    rows = [[2.0, 0.3], [7.0, 0.9]]
    assert model.expected(rows).tolist() == [model.predict(row).expected for row in rows]


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
    pace = 1.0
    for phase, start in enumerate(range(100, 400, 100)):
        pace = factor if phase % 2 == 0 else 1.0
        for x in size[start : start + 10]:
            model.observe([x], pace * x)
        for x in size[start + 10 : start + 100]:
            assert model.predict([x]).median == pytest.approx(pace * x, rel=0.35)
            model.observe([x], pace * x)


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
    assert model.moments.watch[2] == 1.0  # the prior keeps its trust
    for _ in range(3):
        model.observe([2.0], 2.0)
    assert model.predict([2.0]).median == pytest.approx(2.0, rel=0.6)


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_files_hold_everything(tmp_path, ending):
    model = DurationModel(("size", "heat"), logs=("size",), forgetting=0.9, worth=7.0)
    model.fit([[1.0, 0.0], [4.0, 1.0], [9.0, 0.5]], [1.0, 3.0, 5.0])
    model.observe([2.0, 0.5], 9.0)
    path = tmp_path / f"model{ending}"
    model.save(path)
    again = DurationModel.load(path)
    assert (again.names, again.logs, again.forgetting, again.worth) == (
        model.names,
        model.logs,
        0.9,
        7.0,
    )
    for seconds in (4.0, 40.0, 40.0, 40.0):  # the same now, and the same ever after
        assert again.predict([3.0, 0.2]) == model.predict([3.0, 0.2])
        assert again.observe([3.0, 0.2], seconds) == model.observe([3.0, 0.2], seconds)


def test_a_model_that_never_alarms_is_standard_json(tmp_path):
    plain(1).save(tmp_path / "model.json")
    assert "Infinity" not in (tmp_path / "model.json").read_text(encoding="utf-8")
    assert DurationModel.load(tmp_path / "model.json").alarm == np.inf


def test_a_model_that_never_alarms_goes_through_npz(tmp_path):
    plain(1).save(tmp_path / "model.npz")
    assert DurationModel.load(tmp_path / "model.npz").alarm == np.inf


def test_broken_files_are_refused(tmp_path):
    path = tmp_path / "model.json"
    plain(1, alarm=5.0).save(path)
    good = json.loads(path.read_text())
    for broken in (
        "",
        "[]",
        "{}",
        json.dumps({**good, "sum_precision": [[1.0]]}),
        json.dumps({**good, "sum_noise": [0.0, 1.0]}),
    ):
        path.write_text(broken)
        with pytest.raises(InvalidInput, match="not a duration model"):
            DurationModel.load(path)
    path.write_text(json.dumps({**good, "sum_precision": [[-1.0, 0.0], [0.0, 1.0]]}))
    with pytest.raises(InvalidInput, match="positive definite"):
        DurationModel.load(path)
    np.savez(tmp_path / "model.npz", format=np.array([object()], object))
    with pytest.raises(InvalidInput, match="not a duration model"):
        DurationModel.load(tmp_path / "model.npz")
    with pytest.raises(InvalidInput, match=r"json or \.npz"):
        plain(1).save(tmp_path / "model.txt")


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
