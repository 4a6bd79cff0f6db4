"""`weft reproduce conditional`: a tiny run with two policies; the report is self-contained."""

from __future__ import annotations

import json
import re
from itertools import islice

import numpy as np
import pytest

from weft.cli.main import main
from weft.errors import Unsupported
from weft.experiments.conditional import experiment as conditional
from weft.experiments.conditional.contenders import StreamEvaluator, contenders
from weft.experiments.conditional.runs import Step, StepSeeds, run_steps
from weft.experiments.harness import Checkpoint
from weft.formats import model_file
from weft.formats.native.stream_toml import load_stream
from weft.policies.conditional.networks import network_of
from weft.policies.conditional.trained_network import TrainedNetwork, save_network

TINY = conditional.ConditionalPlan(80, StepSeeds(2, 2), checked=100)
AUTHORS = conditional.ConditionalPlan(80, StepSeeds(2, 1), checked=10_000)


def level_network(inputs: int):
    """Prefers nothing, so each unit takes the first kind that is ready: A before B before C."""
    arrays = {
        "input.mean": np.zeros(inputs),
        "input.scale": np.ones(inputs),
        "0.weight": np.zeros((28, inputs)),
        "0.bias": np.zeros(28),
    }
    return network_of(arrays, units=4, actions=7)


def learned(
    inputs: int = 31, *, probability: float | str = "random", waiting: str = "event"
) -> TrainedNetwork:
    shown = {
        "name": "steps",
        "version": 1,
        "watched": ["D"],
        "estimate": inputs == 31,
        "window": 500.0,
    }
    world = {
        "name": "weft/Conditional-v0",
        "idle": waiting,
        "probability": probability,
        "jobs": 100,
    }
    curve = [
        {"samples": 1000.0, "reward_rate": -9.0, "entropy": 0.5, "score": -2.5},
        {"samples": 2000.0, "score": -2.6},
    ]
    training = {
        "samples": 2000,
        "cpu_seconds": 1.5,
        "seed": 0,
        "score": -2.6,
        "settings": {"imitation": 0},
        "curve": curve,
    }
    return TrainedNetwork(
        "any", level_network(inputs), shown, world, training, about="prefers nothing"
    )


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A folder that stands for the one of shipped policies."""
    folder = tmp_path / "shipped"
    folder.mkdir()
    index = json.loads((model_file.BUNDLED / "index.json").read_text(encoding="utf-8"))
    (folder / "index.json").write_text(json.dumps(index), encoding="utf-8")
    numbers = (model_file.BUNDLED / "index.safetensors").read_bytes()
    (folder / "index.safetensors").write_bytes(numbers)
    monkeypatch.setattr(model_file, "BUNDLED", folder)
    return folder


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(conditional, "QUICK", TINY)


def test_the_command_writes_numbers_and_a_page(tmp_path, shipped, monkeypatch, capsys):
    monkeypatch.setattr(conditional, "QUICK", AUTHORS)
    save_network(learned(), shipped / "conditional-pi4")
    save_network(learned(30, probability=0.5), shipped / "conditional-pi1")
    out = tmp_path / "out"
    assert main(["reproduce", "conditional", "--quick", "--out", str(out), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results == json.loads((out / "results.json").read_text())

    # The authors' means for seed 1 at p(c) = 0.5, to the digit, and what they were drawn from.
    assert {row["rule"]: round(row["ours"], 2) for row in results["exact"]["rows"]} == {
        "unit-fifo": 87.98,
        "unit-mru": 93.80,
        "unit-depth-first": 89.99,
    }
    assert all(row["same"] for row in results["exact"]["rows"])
    assert results["exact"]["jobs"]["ours"] == {"ABC": 5080, "ABDE": 2471, "ABDF": 2449}
    assert results["exact"]["arrivals"]["ours"] == [
        14.4974,
        20.0504,
        25.9377,
        29.6458,
        39.9013,
        41.1074,
    ]
    for row in results["baselines"]:
        assert row["ours"] == pytest.approx(row["authors"], rel=0.04), row

    assert results["reference"] == {"event": "pi4", "block": "pi4"}
    grid = {(row["waiting"], row["policy"], row["probability"]): row for row in results["grid"]}
    assert grid["event", "pi4", 0.3]["relative"] == 1.0
    # Both networks prefer nothing and act alike; only one of them would have been shown an
    # estimate.
    assert grid["event", "pi1", 0.3]["seeds"] == grid["event", "pi4", 0.3]["seeds"]
    row = grid["event", "unit-fifo", 0.5]
    assert row["mean"] == pytest.approx(np.mean(row["seeds"]))
    assert row["over_authors"] == pytest.approx(row["mean"] / 74.58)
    # t(0.975, 1) = 12.706; the deviation of a mean of two is half their distance
    assert row["half_width"] == pytest.approx(
        12.7062 * abs(row["seeds"][0] - row["seeds"][1]) / 2, rel=1e-4
    )
    assert {r["policy"]: r["group"] for r in results["summary"]}["pi1"] == "fixed"

    curves = {row["policy"]: row["curve"] for row in results["training"]}
    assert curves["pi4"][1]["relative"] / curves["pi4"][0]["relative"] == pytest.approx(
        np.exp(-0.1)
    )
    tables = json.loads((out / "page.json").read_text())["tables"]
    by_policy = {cells[0]: cells[1:] for cells in tables["event"]["rows"]}
    assert by_policy["`unit-fifo`"][5] == row["mean"]  # p(c) = 0.5
    assert {"authors' pi4", "`conditional-pi4`"} <= set(by_policy)
    assert len(tables["paper"]["columns"]) == len(tables["paper"]["rows"][0]) == 14
    page = (out / "report.html").read_text()
    assert not re.search(
        r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//|url\(\s*[\"']?(?:https?:)?//|@import", page
    )
    for words in ("87.98", "(b) trained at one p(c)"):
        assert words in page


def test_rules_alone_are_compared_with_the_index(tmp_path, shipped, tiny):
    results = conditional.reproduce(tmp_path / "out", quick=True)
    assert results["reference"] == {"event": "index", "block": "index"}
    assert results["adaptation"]["online_learning"] is None
    for kind in ("steps", "walk"):
        rows = results["adaptation"]["kinds"][kind]["rows"]
        best = min(rows, key=lambda row: row["mean"])
        assert (best["over_best"], best["over_best_half_width"]) == (1.0, 0.0)
        assert {row["policy"] for row in rows} == {
            "unit-fifo",
            "shortest-remaining",
            "index",
            "index, unlimited memory",
        }
    steps = results["adaptation"]["kinds"]["steps"]["probability"]
    assert (steps[0], steps[len(steps) // 2], steps[-1]) == (0.9, 0.1, 0.9)


def test_a_network_of_another_stream_is_refused(shipped):
    save_network(learned(29), shipped / "conditional-odd")
    with pytest.raises(Unsupported, match="reads 29 numbers for 4 units"):
        contenders(load_stream("conditional-paper"))


def test_units_are_counted_by_tasks_and_by_batches(shipped):
    """One job A B C at a time on four units: each task runs alone, 8 ms on a CPU."""
    stream = load_stream("conditional-paper").with_jobs(2)
    evaluator = StreamEvaluator(stream)
    fifo = contenders(stream)["unit-fifo"]
    fleet = evaluator.run(fifo, "event", (np.array([0.0, 100.0]), np.zeros((2, 2), np.int64)))
    usage = evaluator.usage()
    usage.add(fleet)
    assert evaluator.units == {"CPUs": [0, 1], "GPU1": [2], "GPU2": [3]}
    assert usage.span == 124.0  # the second job arrives at 100 and takes 3 x 8 ms
    assert usage.task_ticks.tolist() == [48.0, 0.0, 0.0, 0.0]
    assert usage.busy_ticks.tolist() == [48.0, 0.0, 0.0, 0.0]
    assert usage.tasks[0].tolist() == [2, 2, 2, 0, 0, 0]


def test_a_batch_counts_once_as_busy_time(shipped):
    """Five jobs at time 0: units take 1, 1 and 3 of the A's; GPU1 runs three tasks in 10 ms."""
    stream = load_stream("conditional-paper").with_jobs(5)
    evaluator = StreamEvaluator(stream)
    fifo = contenders(stream)["unit-fifo"]
    usage = evaluator.usage()
    usage.add(evaluator.run(fifo, "event", (np.zeros(5), np.zeros((5, 2), np.int64))))
    a = evaluator.kinds.index("A")
    assert usage.tasks[:, a].tolist() == [1, 1, 3, 0]
    assert usage.batches[:, a].tolist() == pytest.approx([1, 1, 1, 0])
    assert usage.task_ticks.sum() >= usage.busy_ticks.sum() + 20


def test_a_policy_that_only_waits_finishes_late(tmp_path, shipped, tiny):
    """It may not wait while nothing is in flight or due, so runs end, but one task at a time."""
    policy = learned(waiting="block")
    bias = np.zeros(28)
    bias[6::7] = 1.0  # the last action of every unit
    arrays = {
        "input.mean": np.zeros(31),
        "input.scale": np.ones(31),
        "0.weight": np.zeros((28, 31)),
        "0.bias": bias,
    }
    lazy = TrainedNetwork(
        "any",
        network_of(arrays, units=4, actions=7),
        policy.observation,
        policy.environment,
        policy.training,
    )
    save_network(lazy, shipped / "conditional-best")
    results = conditional.reproduce(tmp_path / "out", quick=True)
    rows = [row for row in results["summary"] if row["policy"] == "best"]
    assert [row["waiting"] for row in rows] == ["block"]  # trained for it, and run with it only
    assert rows[0]["unfinished"] == 0
    assert rows[0]["average"] > 3
    assert all(row["policy"] != "best" for row in results["regular"])


class _Setup:
    """Three steps that count how often they are done."""

    plan = conditional.ConditionalPlan(1, StepSeeds(1, 1))

    def __init__(self) -> None:
        self.done: list[str] = []

    def steps(self) -> list[Step]:
        return [Step("point", i, 1) for i in range(3)]

    def run(self, step: Step) -> int:
        self.done.append(step.key)
        return int(step.place) * 10


def test_a_run_that_was_stopped_goes_on(tmp_path):
    path = tmp_path / "out" / "progress.jsonl"
    first, second, third = _Setup(), _Setup(), _Setup()
    list(islice(run_steps(first, Checkpoint(path, "this"), iter), 2))
    path.write_text(path.read_text() + '{"key": "point 2 1", "resu')  # stopped while it wrote
    assert [result for _, result in run_steps(second, Checkpoint(path, "this"), iter)] == [
        0,
        10,
        20,
    ]
    assert (first.done, second.done) == (["point 0 1", "point 1 1"], ["point 2 1"])
    assert [
        result for _, result in run_steps(third, Checkpoint(path, "another program"), iter)
    ] == [0, 10, 20]
    assert len(third.done) == 3
