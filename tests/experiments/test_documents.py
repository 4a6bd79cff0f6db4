"""All four documents at once: verdicts from results, files, and experiments that cannot run."""

from __future__ import annotations

import json
from pathlib import Path

from weft.cli.main import main
from weft.errors import MissingExtra
from weft.experiments.documents import experiment
from weft.experiments.documents.verdicts import FAILS, HOLDS, JUDGES, UNMEASURED, verdicts


def turnaround(group: str, contender: str, ratio: float) -> dict[str, object]:
    return {"group": group, "contender": contender, "size": "all", "over_heft": ratio}


def summary(policy: str, group: str, average: float) -> dict[str, object]:
    row = {"policy": policy, "group": group, "waiting": "event", "unfinished": 0}
    return row | {"average": average}


def timed(contender: str, runtime: str, tasks: int, seconds: float) -> dict[str, object]:
    return {"contender": contender, "runtime": runtime, "tasks": tasks, "seconds": seconds}


RESULTS = {
    "gpu-cluster": {
        "verdicts": [
            {"part": "document", "claim": "a", "verdict": "confirmed", "measured": "30 %"},
            {"part": "document", "claim": "b", "verdict": "not confirmed", "measured": "3 %"},
            {"part": "aim", "claim": "c", "verdict": "confirmed", "measured": ""},
        ]
    },
    "imitation": {
        "turnaround": {
            "paper": [
                turnaround("paper's unseen", "paper", 2.5),
                turnaround("paper's unseen", "random", 1.8),
            ],
            "stream": [
                turnaround("unseen", "deepsched", 1.001),
                turnaround("unseen", "GA (waiting)", 1.2),
            ],
        },
        "speed": [
            timed("HEFT", "compiled", 486, 0.001),
            timed("HEFT", "compiled", 84_654, 0.2),
            timed("paper", "onnxruntime", 486, 0.004),
            timed("paper", "onnxruntime", 84_654, 1.8),
        ],
    },
    "shift": {
        "strategies": [
            {"strategy": "Hybrid ML (RF)", "makespan": 122.918},
            {"strategy": "RL Agent (DQN)", "makespan": 14.0},
            {"strategy": "Offline Optimal", "makespan": 12.97},
        ],
        "dqn": {"p95": 14.7, "worst": 14.9, "makespans": [14.0] * 100},
        "physics": [
            {"physics": "cliffs", "tasks": "mixed", "over_optimal": {"hybrid": 1.06}},
            {"physics": "noise", "tasks": "mixed", "over_optimal": {"hybrid": 1.02}},
            {"physics": "noise", "tasks": "shifted", "over_optimal": {"hybrid": 9.0}},
        ],
    },
    "conditional": {
        "summary": [
            summary("fifo", "paper rule", 1.3),
            summary("mru", "paper rule", 1.2),
            summary("pi4", "adaptive", 1.01),
            summary("best", "adaptive", 0.95),
        ],
        "exact": {"rows": [{"rule": "fifo", "ours": 87.98, "authors": 87.98}]},
    },
}


def test_every_claim_has_a_verdict():
    rows = verdicts(RESULTS)
    by_claim = {row["claim"]: row for row in rows}
    assert (by_claim["a"]["verdict"], by_claim["b"]["verdict"]) == (HOLDS, FAILS)
    assert "c" not in by_claim  # an aim of weft, no claim of the document
    assert by_claim["the document's network plans as well as HEFT"]["verdict"] == FAILS
    assert by_claim["a network can imitate HEFT's schedules"]["verdict"] == HOLDS
    assert by_claim["the network takes 0.125 s at every size"]["verdict"] == FAILS
    assert by_claim["a forest trained on GPU tasks fails on CPU tasks"]["verdict"] == HOLDS
    (mixed,) = (row for row in rows if "mixed tasks" in row["claim"])
    assert mixed["verdict"] == FAILS
    assert "1 of 2 device models; hardest cliffs: 1.060" in mixed["measured"]
    (ahead,) = (row for row in rows if row["claim"].startswith("PPO with an estimate"))
    assert ahead["verdict"] == HOLDS
    assert "best rule (mru) 1.200" in ahead["measured"]
    assert by_claim["pi4 is the best policy"]["verdict"] == FAILS
    assert {row["document"] for row in rows} == {title for title, _ in JUDGES.values()}


def test_an_experiment_that_cannot_run_says_why():
    rows = verdicts(RESULTS | {"imitation": {"error": "needs torch"}})
    (row,) = (r for r in rows if r["document"].startswith("001"))
    assert (row["verdict"], row["measured"]) == (UNMEASURED, "needs torch")


def test_one_command_writes_one_page(tmp_path, monkeypatch, capsys):
    ran = []

    def simulated(step: experiment.DocumentStep) -> dict[str, object]:
        assert step.quick
        ran.append(step.name)
        Path(step.folder).mkdir(parents=True)
        text = json.dumps(RESULTS[step.name])
        (Path(step.folder) / "results.json").write_text(text, encoding="utf-8")
        return {"seconds": 1.0, "cpu_seconds": 2.0}

    monkeypatch.setattr(experiment, "run_document", simulated)
    monkeypatch.setattr(experiment, "PROCESSES", 1)
    assert main(["reproduce", "all", "--quick", "--out", str(tmp_path / "all")]) == 0
    assert sorted(ran) == sorted(JUDGES)
    assert "does not hold" in capsys.readouterr().out
    results = json.loads((tmp_path / "all" / "results.json").read_text(encoding="utf-8"))
    assert len(results["verdicts"]) == len(verdicts(RESULTS))
    page = json.loads((tmp_path / "all" / "page.json").read_text(encoding="utf-8"))
    assert page["measured_with"] == "weft reproduce all --quick"
    assert [row[1:] for row in page["tables"]["times"]["rows"]] == [[1.0, 2.0]] * len(JUDGES)
    assert "Verdicts on four documents" in (tmp_path / "all" / "report.html").read_text("utf-8")
    assert not (tmp_path / "all" / "progress.jsonl").exists()


def test_a_missing_extra_does_not_end_the_others(tmp_path, monkeypatch):
    def missing(folder: str, *, quick: bool) -> None:
        raise MissingExtra("torch", "learn")

    monkeypatch.setattr("weft.experiments.imitation.experiment.reproduce", missing)
    step = experiment.DocumentStep("imitation", str(tmp_path), quick=True)
    assert "torch" in experiment.run_document(step)["error"]
