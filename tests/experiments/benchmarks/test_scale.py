"""The benchmark of scale, on small problems."""

from __future__ import annotations

import numpy as np

from weft.experiments.benchmarks import large, scale
from weft.experiments.benchmarks.speed import BenchMeasure


def test_results_have_every_change_and_only_valid_plans() -> None:
    sizes = [large.measure(n, 4, checked=True) for n in (200, 400)]
    assert [f["violations"] for f in sizes] == [0, 0]
    lines = [
        BenchMeasure("HEFT", "", figures={"sizes": sizes}),
        scale.replanning(300, 5),
        scale.searching(300, 4, 0.02),
    ]
    answers = lines[1].figures["answers"]
    assert isinstance(answers, list)
    assert {a["violations"] for a in answers} == {0}
    assert all(a["above"] <= 0.0 for a in answers)  # small problems are planned again, too
    assert min(lines[2].figures["gains"]) >= 0.0  # type: ignore[call-overload]  # a list here
    tables = scale.results(lines)["tables"]
    assert isinstance(tables, dict)
    assert [row[0] for row in tables["planning"]["rows"]] == ["200", "400"]
    assert len(tables["replanning"]["rows"]) == len(answers) == 7


def test_large_graphs_are_those_of_before() -> None:
    """One source, one sink, and edges between neighbouring layers only."""
    edges = np.asarray(large.layered(101, 3, degree=3)["edges"])
    layer = [0, *((i - 1) // 10 + 1 for i in range(1, 100)), 99]
    assert {layer[v] - layer[u] for u, v in edges.tolist() if v != 100} == {1}
    assert len(np.unique(edges, axis=0)) == len(edges)
