"""Random graphs like the published ones: their properties hold for every draw."""

from __future__ import annotations

import json

import numpy as np
import pytest

from weft.experiments.benchmarks.published_like import RECIPES, draw_graph
from weft.formats import load
from weft.generators import measure_ccr
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


def test_processor_time_does_not_count_waiting() -> None:
    import time

    with processor_time():
        clock = Clock(1.0)
        time.sleep(0.05)
        assert clock.elapsed() < 0.05
    assert Clock(1.0).elapsed() >= 0.0
