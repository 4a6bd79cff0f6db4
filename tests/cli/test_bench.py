"""`weft bench`: tables, files and refusals; the measurements themselves have tests elsewhere."""

from __future__ import annotations

import json

import pytest

from weft.cli.main import BAD_INPUT, DONE, main
from weft.experiments.benchmarks import quality, speed
from weft.experiments.benchmarks.speed import BenchMeasure

MEASURES = [
    BenchMeasure("HEFT 10 x 2", "1.0 ms", "2 ms", "3 ms: 3 times as long", {"seconds": 1e-3}),
    BenchMeasure("weft --help", "70.0 ms", "0.5 s", figures={"seconds": 0.07}),
]


@pytest.fixture
def _measured(monkeypatch):
    monkeypatch.setattr(speed, "measures", lambda **_: iter(MEASURES))


@pytest.mark.usefixtures("_measured")
def test_speed_is_a_table_a_document_and_a_file(tmp_path, capsys):
    assert main(["bench", "--out", str(tmp_path / "new" / "speed.json")]) == BAD_INPUT
    assert "there is no folder" in capsys.readouterr().err
    assert main(["bench", "--out", str(tmp_path / "speed.json")]) == DONE
    out = capsys.readouterr().out
    assert "HEFT 10 x 2  1.0 ms   2 ms   3 ms: 3 times as long" in out
    assert out.endswith("Seconds of processor time.\n")
    assert main(["bench", "--json"]) == DONE
    document = json.loads(capsys.readouterr().out)
    assert [m["what"] for m in document["measures"]] == ["HEFT 10 x 2", "weft --help"]
    written = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))
    assert written["measures"] == document["measures"]


def test_quality_compares_planners_on_generated_graphs(monkeypatch, tmp_path, capsys):
    cases = quality.generated_cases(tasks=(12,), devices=2)[:1]
    monkeypatch.setattr(quality, "generated_cases", lambda: cases)
    monkeypatch.setattr(quality, "QUICK", ("heft", "olb"))
    monkeypatch.setattr(quality, "scores", _without_searches(quality.scores))
    monkeypatch.setattr(quality, "decodes_per_second", lambda: 1234.5)
    assert main(["bench", "--quality", "--quick", "--out", str(tmp_path / "q.json")]) == DONE
    out = capsys.readouterr().out
    assert out.startswith("1 graphs; mean gap to the best known makespan")
    assert "1,234 schedules per second" in out
    scores = json.loads((tmp_path / "q.json").read_text(encoding="utf-8"))["scores"]
    assert {s["planner"] for s in scores} == {"heft", "olb"}
    assert min(s["gap"] for s in scores) == 0.0  # the best of the run


def _without_searches(scores):
    return lambda cases, *, budgets: scores(cases, budgets=budgets, searches=())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--graphs", "x"], "--graphs counts only with --quality"),
        (["--quality", "--large"], "are different benchmarks; give one of them"),
        (["--quality", "--graphs", "nowhere"], "'nowhere' has no results.json"),
    ],
)
def test_wrong_options_are_one_line(options, complaint, capsys):
    assert main(["bench", *options]) == BAD_INPUT
    assert complaint in capsys.readouterr().err
