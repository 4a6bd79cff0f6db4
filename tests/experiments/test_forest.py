"""The random forest: equality with scikit-learn and ONNX, bad input."""

from __future__ import annotations

import numpy as np
import pytest

from weft.errors import InvalidInput, MissingExtra
from weft.experiments.onnx_session import onnx_session
from weft.experiments.shift import forest as module
from weft.experiments.shift.forest import LEAF, NODE, Forest, fit_sklearn, write_onnx


def two_trees() -> Forest:
    """x0 <= 1 gives 10, else x1 <= 2 gives 20, else 30; and a tree that always says 4."""
    nodes = np.array(
        [
            (1.0, 2, 0),
            (10.0, 0, LEAF),
            (2.0, 4, 1),
            (20.0, 0, LEAF),
            (30.0, 0, LEAF),
            (4.0, 0, LEAF),
        ],
        NODE,
    )
    return Forest(("a", "b"), nodes, np.array([0, 5]), centre=np.zeros(2), spread=np.ones(2))


def test_known_answers():
    rows = [[0.0, 9.0], [1.0, 9.0], [2.0, 2.0], [2.0, 3.0]]
    assert two_trees().predict(rows).tolist() == [
        7.0,
        7.0,
        12.0,
        17.0,
    ]  # (10 + 4) / 2, at the threshold too; (20 + 4) / 2; (30 + 4) / 2
    assert [two_trees().predict_one(row) for row in rows] == [7.0, 7.0, 12.0, 17.0]


def test_features_are_standardised_first():
    whole = two_trees()
    scaled = Forest(
        whole.names,
        whole.nodes,
        whole.roots,
        centre=np.array([10.0, 0.0]),
        spread=np.array([2.0, 1.0]),
    )
    assert scaled.predict_one([12.0, 0.0]) == 7.0  # (12 - 10) / 2 = 1
    assert scaled.predict_one([12.1, 0.0]) == 12.0


def test_the_same_in_onnxruntime(tmp_path):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra: learn)")
    write_onnx(two_trees(), tmp_path / "forest.onnx")
    rows = np.array([[0.0, 9.0], [1.0, 9.0], [2.0, 2.0], [2.0, 3.0]], np.float32)
    found = onnx_session(tmp_path / "forest.onnx").run(None, {"rows": rows})[0]
    assert found[:, 0].tolist() == [7.0, 7.0, 12.0, 17.0]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_same_as_scikit_learn_to_the_last_bit(seed):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: learn)")
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 3))
    model, centre, spread = fit_sklearn(
        x, x[:, 0] * np.sin(x[:, 1]) + 0.1 * rng.normal(size=300), trees=20, depth=8, seed=seed
    )
    flat = Forest.from_sklearn(model, centre, spread, names="abc")
    asked = 2 * rng.normal(size=(200, 3))
    assert flat.predict(asked).tolist() == model.predict((asked - centre) / spread).tolist()


def test_training_is_repeatable():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: learn)")
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(100, 2)), rng.normal(size=100)
    one, other = (Forest.train(x, y, names=("a", "b"), trees=5) for _ in range(2))
    assert one.nodes.tobytes() == other.nodes.tobytes()


def test_a_forest_that_knows_one_answer():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra: learn)")
    flat = Forest.train(np.arange(20.0)[:, None], np.ones(20), names=("a",), trees=3)
    assert len(flat.nodes) == 3
    assert flat.predict_one([1e9]) == 1.0


@pytest.mark.parametrize(
    ("at", "node"),
    [
        (0, (1.0, 0, 0)),  # back to itself: a walk would never end
        (2, (2.0, 5, 1)),  # into the next tree
        (2, (2.0, 99, 1)),  # beyond the last node
        (0, (1.0, 2, 2)),  # a third feature of two
        (0, (1.0, 2, -7)),
        (0, (np.nan, 2, 0)),
        (4, (2.0, 5, 1)),  # the last node of a tree cannot have children
    ],
)
def test_nodes_that_lead_astray_are_refused(at, node):
    good = two_trees()
    nodes = good.nodes.copy()
    nodes[at] = node
    with pytest.raises(InvalidInput, match=r"leads outside its tree|must be finite"):
        Forest(good.names, nodes, good.roots, good.centre, good.spread)


def test_bad_rows_and_a_missing_extra_are_named(monkeypatch):
    with pytest.raises(InvalidInput, match="a, b"):
        two_trees().predict_one([1.0])
    with pytest.raises(InvalidInput, match="a, b"):
        two_trees().predict([[1.0]])
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="scikit-learn"):
        Forest.train([[1.0]], [1.0], names=("a",))
