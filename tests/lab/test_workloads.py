"""Workloads of the lab: right results, on all engines alike."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.lab.driver import same
from benchmarks.lab.ways import promised
from benchmarks.lab.workloads import WORKLOADS, at_once
from benchmarks.lab.workloads.cholesky import cholesky, tile
from benchmarks.lab.workloads.genome import genome

import weft

SMALL = 0.01


@pytest.mark.parametrize("name", WORKLOADS)
def test_graphs_of_dask_give_the_serial_result(name: str) -> None:
    dask = pytest.importorskip("dask")
    expected = WORKLOADS[name](at_once, SMALL)
    graph = WORKLOADS[name](lambda function, *args: dask.delayed(function)(*args), SMALL)
    assert same(graph.compute(scheduler="sync"), expected)


@pytest.mark.parametrize("name", ["cholesky", "genome"])
def test_tasks_of_weft_give_the_serial_result(name: str) -> None:
    trace = weft.run(WORKLOADS[name](promised, SMALL), devices=1, history=False)
    assert same(trace.value, WORKLOADS[name](at_once, SMALL))
    assert weft.check(trace.workload, trace) == []


def test_cholesky_is_that_of_numpy() -> None:
    size, tiles = 10, 4  # as in `cholesky` for a scale of 0.01
    rows = [[tile(i, j, size, tiles) for j in range(i + 1)] for i in range(tiles)]
    blocks = [[rows[i][j] if j <= i else rows[j][i].T for j in range(tiles)] for i in range(tiles)]
    whole = np.linalg.cholesky(np.block(blocks))
    found = cholesky(at_once, SMALL)
    places = [(i, j) for i in range(tiles) for j in range(i + 1)]
    for (total, norm), (i, j) in zip(found, places, strict=True):
        block = whole[i * size : (i + 1) * size, j * size : (j + 1) * size]
        assert total == pytest.approx(float(block.sum()))
        assert norm == pytest.approx(float(np.linalg.norm(block)))


def test_variants_are_where_the_sample_differs() -> None:
    found = genome(at_once, 0.05)
    planted = range(0, 80_000, 1009)
    assert set(found) <= set(planted)
    assert len(found) > 0.8 * len(planted)  # some places have too few reads


def test_results_that_differ_are_noticed() -> None:
    assert same({"a": [1.0, (2, 3)]}, {"a": [1.0 + 1e-12, (2, 3)]})
    assert not same({"a": [1.0]}, {"a": [1.1]})
    assert not same([1.0], [1.0, 2.0])
    assert not same({"b": 1.0}, {"a": 1.0})
