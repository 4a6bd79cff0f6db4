"""Random graphs like the published ones: their properties hold for every draw."""

from __future__ import annotations

import json

import numpy as np
import pytest

from weft.experiments.benchmarks.quality import QualityCase
from weft.experiments.imitation.amortised import (
    AmortisedRun,
    differences,
    possible_gain,
    published_like_cases,
    table_of,
    wide_cases,
)
from weft.experiments.imitation.published_like import RECIPES, draw_graph
from weft.formats import load
from weft.generators import measure_ccr
from weft.model import Problem
from weft.planners.search.clock import Clock, processor_time


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_a_draw_has_the_size_the_ratio_and_one_way_in_and_out(recipe) -> None:
    problem = draw_graph(recipe, 3)
    workflow = problem.workflow
    assert (problem.n, problem.p) == (recipe.tasks, recipe.devices)
    assert measure_ccr(problem) == pytest.approx(recipe.ccr)
    assert len(np.setdiff1d(np.arange(problem.n), workflow.dst)) == 1
    assert len(np.setdiff1d(np.arange(problem.n), workflow.src)) == 1
    seconds = problem.durations()
    h = recipe.heterogeneity
    assert seconds.max() <= 190.0 * (1 + h / 2) / (
        1 if not recipe.related else (1 + h / 2) * (1 - h / 2)
    )
    related = np.linalg.matrix_rank(seconds, tol=1e-6 * seconds.max()) == 1
    assert related == recipe.related
    assert (draw_graph(recipe, 3).durations() == seconds).all()
    assert not np.array_equal(draw_graph(recipe, 4).durations(), seconds)


def test_edges_are_as_many_as_in_the_published_graphs(data) -> None:
    folder = data / "static_graphs"
    known = [
        name
        for name, row in json.loads((folder / "results.json").read_text()).items()
        if str(row.get("shape")).startswith("layered")
    ]
    published = [load(folder / f"{name}.json") for name in known]
    drawn = [
        draw_graph(recipe, seed)
        for recipe in RECIPES
        if recipe.shape == "layered"
        for seed in range(3)
    ]
    edges = [np.mean([p.m / p.n for p in some]) for some in (published, drawn)]
    assert edges[1] == pytest.approx(edges[0], rel=0.1)


def test_sets_hold_three_ratios() -> None:
    for cases in (published_like_cases(1), wide_cases(1)):
        assert {case.ccr for case in cases} == {0.1, 1.0, 5.0}


def test_tables_by_hand() -> None:
    """HEFT 10 everywhere, one graph per CCR: a has 9, b has 8: 10 % and 20 % below, log(8 / 9)."""
    runs = [
        AmortisedRun(f"g{c}", c, name, 0.1, 0, value, 10.0, 0.1)
        for c in (0.1, 1.0, 5.0)
        for name, value in (("a", 9.0), ("b", 8.0))
    ]
    rows = {row["contender"]: row for row in table_of(runs)}
    assert rows["a"]["0.1"] == pytest.approx(0.1)
    assert rows["b"]["5"] == pytest.approx(0.2)
    row = differences(runs, "b", "a", 0.1)
    assert row["all"] == pytest.approx(np.log(8 / 9))
    assert row["all error"] == pytest.approx(0.0)
    assert row["1 error"] is None


def test_no_gain_is_possible_where_heft_is_the_best() -> None:
    chain = Problem.from_arrays(
        [[1.0, 2.0], [1.0, 2.0]], [[0, 1]], [1.0], bandwidth=1.0
    )  # 2 s on the first device: the bound
    rows = possible_gain([QualityCase("chain", chain, 0.1)], seconds=(0.02,))
    assert [row["below"] for row in rows] == pytest.approx([0.0, 0.0])


def test_processor_time_does_not_count_waiting() -> None:
    import time

    with processor_time():
        clock = Clock(1.0)
        time.sleep(0.05)
        assert clock.elapsed() < 0.05
    assert Clock(1.0).elapsed() >= 0.0
