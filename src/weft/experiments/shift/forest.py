"""A random forest, trained by scikit-learn and evaluated by compiled code.

Nodes are in depth-first order: the left child follows its parent, so a node is a threshold, a
feature and the index of the right child. A leaf has feature -1 and its value in place of the
threshold. The sum runs over the trees in order, as in scikit-learn: predictions are equal to the
last bit.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import InvalidInput, MissingExtra
from weft.formats.onnx_graph import LEARNING, node, write_model
from weft.model.columns import FloatArray, IntArray
from weft.sim.kernel.jit import njit

LEAF = -1
NODE = np.dtype([("threshold", np.float64), ("right", np.int32), ("feature", np.int32)])
"""16 bytes per node: four nodes per cache line."""


@dataclass(frozen=True, eq=False)
class Forest:
    """Regression trees on standardised features, whose predictions are averaged.

    Examples
    --------
    >>> nodes = np.array([(0.5, 2, 0), (10.0, 0, LEAF), (20.0, 0, LEAF)], NODE)
    >>> stump = Forest(("x",), nodes, np.array([0]), centre=np.zeros(1), spread=np.ones(1))
    >>> stump.predict_one([0.3]), stump.predict([[0.3], [0.7]]).tolist()
    (10.0, [10.0, 20.0])
    """

    names: tuple[str, ...]
    nodes: NDArray[Any]
    roots: IntArray
    centre: FloatArray
    spread: FloatArray

    def __post_init__(self) -> None:
        """Check the nodes: every path goes forwards inside its tree and so ends in a leaf."""
        k, nodes, roots = len(self.names), self.nodes, self.roots
        scales = self.centre.shape, self.spread.shape
        if nodes.dtype != NODE or nodes.ndim != 1 or scales != ((k,), (k,)):
            raise InvalidInput(
                f"a forest of {k} features needs nodes of {NODE.names} and {k} centres and spreads"
            )
        if (
            not len(roots)
            or roots[0] != 0
            or (np.diff(roots) <= 0).any()
            or roots[-1] >= len(nodes)
        ):
            raise InvalidInput("the trees of a forest must begin at node 0 and follow each other")
        inner = np.flatnonzero(nodes["feature"] != LEAF)
        end = np.append(roots[1:], len(nodes))[np.searchsorted(roots, inner, side="right") - 1]
        right, feature = nodes["right"][inner], nodes["feature"][inner]
        bad = (feature < 0) | (feature >= k) | (right <= inner + 1) | (right >= end)
        if bad.any():
            raise InvalidInput(
                f"node {inner[bad][0]} of the forest leads outside its tree or reads an unknown "
                "feature"
            )
        if (
            not np.isfinite(nodes["threshold"]).all()
            or not np.isfinite(self.centre).all()
            or not (np.isfinite(self.spread) & (self.spread > 0)).all()
        ):
            raise InvalidInput(
                "thresholds, centres and spreads of a forest must be finite, and spreads above zero"
            )

    @classmethod
    def train(
        cls,
        features: ArrayLike,
        target: ArrayLike,
        *,
        names: Sequence[str],
        trees: int = 100,
        depth: int | None = 15,
        min_split: int = 5,
        seed: int = 42,
    ) -> Forest:
        """Train a forest with scikit-learn on standardised features (the extra `learn`)."""
        fitted = fit_sklearn(
            features, target, trees=trees, depth=depth, min_split=min_split, seed=seed
        )
        return cls.from_sklearn(*fitted, names=names)

    @classmethod
    def from_sklearn(
        cls, model: Any, centre: FloatArray, spread: FloatArray, *, names: Sequence[str]
    ) -> Forest:
        """Flatten a fitted `RandomForestRegressor` with one output."""
        trees = [_flattened(estimator.tree_) for estimator in model.estimators_]
        roots = np.concatenate(([0], np.cumsum([len(t) for t in trees])[:-1])).astype(np.int64)
        for tree, root in zip(trees, roots.tolist(), strict=True):
            tree["right"][tree["feature"] != LEAF] += root
        scales = np.asarray(centre, float), np.asarray(spread, float)
        return cls(tuple(names), np.concatenate(trees), roots, *scales)

    def predict_one(self, features: ArrayLike) -> float:
        """Predict one row, as schedulers do thousands of times per second."""
        row = np.ascontiguousarray(features, np.float64)
        if row.shape != (len(self.names),):
            raise InvalidInput(
                f"features have shape {row.shape}; "
                f"expected {len(self.names)} numbers: {', '.join(self.names)}"
            )
        return float(_predict_one(self.nodes, self.roots, self.centre, self.spread, row))

    def predict(self, features: ArrayLike) -> FloatArray:
        """Return (n,) predictions for rows of features."""
        rows = np.array(features, float, ndmin=2)
        if rows.shape[1] != len(self.names):
            raise InvalidInput(
                f"features have shape {rows.shape}; "
                f"expected one column for each of: {', '.join(self.names)}"
            )
        return np.array(
            [_predict_one(self.nodes, self.roots, self.centre, self.spread, row) for row in rows]
        )


def fit_sklearn(
    features: ArrayLike,
    target: ArrayLike,
    *,
    trees: int = 100,
    depth: int | None = 15,
    min_split: int = 5,
    seed: int = 42,
) -> tuple[Any, FloatArray, FloatArray]:
    """Return scikit-learn's forest with the centre and spread of the features.

    A constant feature is only centred, as by scikit-learn's StandardScaler.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise MissingExtra("scikit-learn", "learn")
    from sklearn.ensemble import RandomForestRegressor

    rows = np.asarray(features, float)
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    model = RandomForestRegressor(
        n_estimators=trees,
        max_depth=depth,
        min_samples_split=min_split,
        random_state=seed,
        n_jobs=1,
    )
    model.fit((rows - centre) / spread, np.asarray(target, float))
    return model, centre, spread


def _flattened(tree: Any) -> NDArray[Any]:
    """Return the nodes of a tree; scikit-learn numbers depth first, left child first."""
    left, right = np.asarray(tree.children_left), np.asarray(tree.children_right)
    leaf = left < 0
    if (left[~leaf] != np.flatnonzero(~leaf) + 1).any():
        raise InvalidInput("the tree is not numbered depth first; grow it without max_leaf_nodes")
    nodes = np.zeros(len(left), NODE)
    nodes["threshold"] = np.where(leaf, np.asarray(tree.value)[:, 0, 0], tree.threshold)
    nodes["right"] = np.where(leaf, 0, right)
    nodes["feature"] = np.where(leaf, LEAF, tree.feature)
    return nodes


def write_onnx(forest: Forest, path: Path) -> None:
    """Write an ONNX file that maps "rows" to "prediction".

    Rows are (batch, features), float32 and standardised.

    ONNX holds thresholds and leaves in single precision, so predictions agree to about seven
    digits only.
    """
    nodes, sizes = forest.nodes, np.diff(np.append(forest.roots, len(forest.nodes)))
    tree, root = np.repeat(np.arange(len(sizes)), sizes), np.repeat(forest.roots, sizes)
    number = np.arange(len(nodes)) - root
    leaf = nodes["feature"] == LEAF
    trees = node(
        "TreeEnsembleRegressor",
        ["rows"],
        "prediction",
        domain=LEARNING,
        n_targets=1,
        aggregate_function="AVERAGE",
        nodes_treeids=tree.tolist(),
        nodes_nodeids=number.tolist(),
        nodes_featureids=np.where(leaf, 0, nodes["feature"]).tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_values=np.where(leaf, 0.0, nodes["threshold"]).tolist(),
        nodes_truenodeids=np.where(leaf, 0, number + 1).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, nodes["right"] - root).tolist(),
        target_treeids=tree[leaf].tolist(),
        target_nodeids=number[leaf].tolist(),
        target_ids=[0] * int(leaf.sum()),
        target_weights=nodes["threshold"][leaf].tolist(),
    )
    inputs: dict[str, list[int | str]] = {"rows": ["batch", len(forest.names)]}
    write_model(
        path,
        [trees],
        constants={},
        inputs=inputs,
        outputs={"prediction": ["batch", 1]},
        name="forest",
    )


@njit
def _predict_one(
    nodes: NDArray[Any], roots: IntArray, centre: FloatArray, spread: FloatArray, row: FloatArray
) -> float:
    """Walk every tree; features are compared in single precision, as in scikit-learn."""
    x = np.empty(len(row), np.float32)
    for j in range(len(row)):
        x[j] = np.float32((row[j] - centre[j]) / spread[j])
    total = 0.0
    for t in range(len(roots)):
        at = roots[t]
        while nodes[at].feature >= 0:
            node = nodes[at]
            at = at + 1 if x[node.feature] <= node.threshold else np.int64(node.right)
        total += nodes[at].threshold
    return total / len(roots)
