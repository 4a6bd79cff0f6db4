"""The imitation experiment at a tiny size."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra: learn)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra: learn)")

from weft.cli.main import main
from weft.experiments.imitation import experiment, runs, speed
from weft.experiments.imitation.contenders import heft
from weft.learn.imitation.deepsched import data
from weft.model import Problem, Workload


def test_reproduce_writes_results_and_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("WEFT_DATA", raising=False)
    tiny = experiment.ImitationPlan(
        problems=1, samples=6, epochs=2, shapes=2, lists=1, seconds=0.02
    )
    monkeypatch.setattr(experiment, "QUICK", tiny)
    monkeypatch.setattr(experiment, "TASKS", 120)
    monkeypatch.setattr(runs, "SIZES", ((10, 30), (30, 60), (60, 120)))
    monkeypatch.setattr(
        runs,
        "batch_problems",
        lambda seed, batch: [data.draw_problem(batch, tasks=20 + batch, devices=3)],
    )
    monkeypatch.setattr(speed, "SIZES", (20, 40, 60))
    monkeypatch.setattr(speed, "DEVICES", 4)
    assert main(["reproduce", "imitation", "--quick", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "Imitation of a compiled HEFT saves no time" in text
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert results["lists_from_repository"] is False
    assert {row["contender"] for row in results["speed"]} == {"HEFT", "deepsched", "paper", "GA"}
    assert {row["runtime"] for row in results["speed"]} == {"compiled", "torch", "onnxruntime"}
    assert {row["group"] for part in results["turnaround"].values() for row in part} == {
        "seen",
        "unseen",
        "paper's seen",
        "paper's unseen",
        "other structures",
        "job lists",
    }
    heft = [
        row["over_heft"]
        for part in results["turnaround"].values()
        for row in part
        if row["contender"] == "HEFT"
    ]
    assert heft == [1.0] * len(heft)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<svg" in page
    assert "Table I" in page


def test_turnaround_counts_from_arrival():
    # Two jobs of 2 s on one device, arriving at 0 and 1: finished at 2 and 4, so 2 s and 3 s.
    workload = Workload.of(Problem.from_arrays([[2.0]]), arrival=[0.0, 1.0])
    assert runs.turnaround(workload, heft) == 2.5
