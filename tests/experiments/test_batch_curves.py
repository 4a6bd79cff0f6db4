"""The experiment on batch curves: its streams, its verdict, and the page written from its data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.experiments.batch_curves.experiment import CURVES, constant, curved, verdict
from weft.formats.native.stream_toml import load_stream
from weft.model.machines.capacity import offered_load

DATA = Path(__file__).parents[2] / "docs" / "results" / "batch_curves.json"


@pytest.mark.parametrize("name", CURVES)
def test_streams_have_the_published_growth_and_the_same_load(name):
    paper = load_stream("conditional-paper")
    stream = curved(paper, CURVES[name])
    assert offered_load(stream) == pytest.approx(offered_load(paper), rel=1e-6)
    assert offered_load(constant(stream)) < offered_load(stream)
    busy = curved(paper, CURVES[name], 0.9)
    assert offered_load(busy) == pytest.approx(0.9, rel=1e-6)
    assert constant(stream).arrivals == stream.arrivals
    published = {"RoBERTa": (4, 1.09), "EfficientNet": (8, 3.65), "YOLOv5": (8, 7.95)}
    if name in published:
        size, growth = published[name]
        assert stream.problem.cluster.batch_growth(["A"])[0, 3, size - 1] == pytest.approx(growth)


def test_the_verdict_counts_curves():
    rows = [{"curve": "a", "load": 0.9, "gain": 0.12}, {"curve": "b", "load": 0.9, "gain": 0.05}]
    assert "in 1 of 2 cases: a at 0.90." in verdict(rows)


def test_the_published_table_is_that_of_the_choices():
    found = json.loads(DATA.read_text(encoding="utf-8"))
    assert not found["quick"]
    assert found["verdict"] == verdict(found["choices"])
    rows = found["tables"]["choices"]["rows"]
    assert [row[-1] for row in rows] == [100 * row["gain"] for row in found["choices"]]
