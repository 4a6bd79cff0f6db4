"""The benchmark of graphs in parts, on small graphs."""

from __future__ import annotations

import pytest

from weft.experiments.benchmarks import parts
from weft.experiments.benchmarks.parts import Case
from weft.generators.ccr import measure_ccr

CASES = [
    Case("layered", 300, 6, 1.0),
    Case("copies", 300, 6, 5.0, 2),
    Case("equal devices", 300, 6, 5.0, 3),
    Case("nodes", 300, 16, 5.0, 2),
]


def test_results_have_both_planners_and_only_valid_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LARGE", 400)  # less to compile
    pairs = [tuple(parts.measure(case, name) for name in ("heft", "partitioned")) for case in CASES]
    assert {figures["violations"] for pair in pairs for figures in pair} == {0}
    assert pairs[3][1]["moved_between_nodes"] == 0.0  # two nodes, two parts
    document = parts.results(parts.measured(pairs))  # type: ignore[arg-type]  # each has two
    table = document["tables"]["compared"]
    assert [row[1] for row in table["rows"]] == ["1", "5", "5", "5"]
    assert {len(row) for row in table["rows"]} == {len(table["columns"])} == {11}


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case.graph)
def test_the_ratio_is_the_one_asked_for(case: Case) -> None:
    assert measure_ccr(parts.problem_of(case)) == pytest.approx(case.ccr)
