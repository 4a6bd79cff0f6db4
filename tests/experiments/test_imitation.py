"""The imitation experiment at a tiny size."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed (extra: learn)")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (extra: learn)")

from weft.cli.main import main
from weft.experiments.imitation import contenders, experiment, runs, speed
from weft.experiments.imitation.contenders import heft
from weft.learn.imitation.deepsched import data
from weft.model import Problem, Workload
from weft.model.check import check


def test_reproduce_writes_results_and_a_report(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("WEFT_DATA", raising=False)
    tiny = experiment.ImitationPlan(
        problems=1, steps=2, large_seconds=0.0, shapes=2, lists=1, seconds=0.005
    )
    monkeypatch.setattr(experiment, "QUICK", tiny)
    monkeypatch.setattr(experiment, "TASKS", 60)
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
    every = {"HEFT", "deepsched", "paper", "GA", *contenders.TRIVIAL}
    assert {row["contender"] for row in results["speed"]} == every
    tables = json.loads((tmp_path / "page.json").read_text(encoding="utf-8"))["tables"]
    assert "HEFT's favourite" in [row[0] for row in tables["paper"]["rows"]]
    assert len(tables["sizes"]["columns"]) == 4
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


def test_trivial_baselines_by_hand():
    # Four independent tasks on two devices; the second is twice as fast.
    problem = Problem.from_arrays(np.tile([2.0, 1.0], (4, 1)))
    fastest = contenders.always_fastest(problem)
    assert (fastest.device.tolist(), fastest.makespan) == ([1, 1, 1, 1], 4.0)
    in_turn = contenders.round_robin(problem)
    assert sorted(in_turn.device.tolist()) == [0, 0, 1, 1]
    assert contenders.fixed_device(problem, 0).makespan == 8.0
    for baseline in contenders.TRIVIAL.values():
        assert check(problem, baseline(problem)) == []
    # A task that cannot run on the chosen device goes where it takes least.
    only = Problem.from_arrays([[np.inf, 3.0]])
    assert contenders.fixed_device(only, 0).device.tolist() == [1]


def test_searches_take_processor_seconds():
    problem = data.draw_problem(3, tasks=20, devices=3)
    for planner in (contenders.anytime, contenders.genetic):
        options = {"objective": "waiting"} if planner is contenders.genetic else {}
        assert check(problem, planner(problem, seconds=0.01, **options)) == []
