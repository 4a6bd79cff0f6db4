"""`weft train` and `weft evaluate` from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

import weft
from weft.cli.main import BAD_INPUT, DONE, INTERRUPTED, main
from weft.formats.native.stream_toml import load_stream
from weft.policies.conditional.evaluate import evaluate_network, options_of
from weft.policies.conditional.trained_network import read_network


@pytest.fixture
def small(tmp_path):
    text = """
        name = "small"
        jobs = 60
        tick = "1 ms"
        arrivals = {process = "poisson", gap = "8 ms"}
        tasks = [{name = "look", time = "5 ms"}, {name = "think", time = "20 ms"},
            {name = "pass", time = "1 ms"}]
        choices = [{task = "look", branches = {think = 0.3, pass = 0.7}, estimate = true}]
        units = [{name = "CPU", coefficient = 1.0, batch = 1},
            {name = "GPU", coefficient = 1.2, batch = 4}]
    """
    path = tmp_path / "small.toml"
    path.write_text(text, encoding="utf-8")
    return path


def training_of(stream, out):
    return ["train", "conditional", "--stream", str(stream), "--policy", "own", "--out", str(out)]


def test_streams_without_an_estimated_choice_are_evaluated_as_they_are(small, capsys):
    given = small.read_text(encoding="utf-8")
    small.write_text(given.replace(", estimate = true", ""), encoding="utf-8")
    line = ["evaluate", "fifo", "--stream", str(small), "--seeds", "1", "--json"]
    assert main(line) == DONE
    alone = json.loads(capsys.readouterr().out)
    assert main([*line, "--own"]) == DONE
    assert json.loads(capsys.readouterr().out) == alone
    assert main([*line, "--probabilities", "0.5"]) == 2
    assert "has no choice with estimate = true" in capsys.readouterr().err


def test_train_then_evaluate(small, tmp_path, capsys):
    pytest.importorskip(
        "torch", reason="training needs torch: pip install 'weft-scheduling[learn]'"
    )
    out = tmp_path / "trained"
    train = [*training_of(small, out), "--samples", "20000", "--seeds", "2"]
    assert main([*train, "--json"]) == DONE
    found = json.loads(capsys.readouterr().out)
    assert [row["seed"] for row in found["trainings"]] == [0, 1]
    assert (out / "own.safetensors").is_file()
    card = json.loads((out / "own.json").read_text(encoding="utf-8"))
    assert card["training"]["seeds"] == [0, 1]
    assert card["settings"]["environment"]["stream"] == "small"
    assert (
        main(
            [
                "evaluate",
                str(out / "own"),
                "fifo",
                "--stream",
                str(small),
                "--own",
                "--seeds",
                "3",
                "--json",
            ]
        )
        == DONE
    )
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["policy"] for row in rows] == [str(out / "own"), "fifo"]
    trained, stream = read_network(out / "own"), load_stream(small)
    options = options_of(trained)
    own = evaluate_network(trained.network, stream, [1, 2, 3], options=options)
    draws = [stream.draw(seed) for seed in (1, 2, 3)]
    fifo = [weft.simulate(jobs, "fifo", scenario=s).job_completion.mean() for jobs, s in draws]
    assert [row["seeds"] for row in rows] == [own.tolist(), fifo]
    assert [row["mean"] for row in rows] == [own.mean(), np.mean(fifo)]
    assert (
        main(["evaluate", "fifo", "--stream", str(small), "--probabilities", "0,1", "--seeds", "2"])
        == DONE
    )
    assert capsys.readouterr().out.count("±") == 2 * 3  # mean, p95 and p99


def test_an_interrupt_leaves_a_checkpoint(small, tmp_path, monkeypatch, capsys):
    ppo = pytest.importorskip(
        "weft.learn.ppo", reason="training needs torch: pip install 'weft-scheduling[learn]'"
    )
    improve = ppo._improve
    calls = []

    def interrupted(*args, **options):
        calls.append(1)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return improve(*args, **options)

    monkeypatch.setattr(ppo, "_improve", interrupted)
    out = tmp_path / "trained"
    assert main([*training_of(small, out), "--samples", "1e6"]) == INTERRUPTED
    assert "the best so far is in" in capsys.readouterr().err
    assert (
        json.loads((out / "own.json").read_text(encoding="utf-8"))["training"]["interrupted"]
        is True
    )


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("evaluate nonsense", "unknown policy 'nonsense'"),
        ("evaluate fifoo", "did you mean 'fifo'"),
        ("evaluate fifo --probabilities 2", "must be 1 or less"),
        ("evaluate fifo --stream gone.toml", "gone.toml"),
        ("evaluate unit-fifo --without expiry", "add --idle published"),
        ("evaluate unit-fifo --idle published --without expire", "did you mean 'expiry'"),
        ("train conditional --policy pi9", "did you mean"),
        ("train nothing", "unknown subcommand 'nothing' of weft train; known: "),
    ],
)
def test_bad_input_is_one_clear_line(line, words, capsys):
    assert main(line.split()) == BAD_INPUT
    err = capsys.readouterr().err.strip().splitlines()
    assert words in err[-1]


def test_the_best_policy_for_a_stream(small, tmp_path, capsys):
    out = tmp_path / "trained"
    line = ["train", "conditional", "--stream", str(small), "--seconds", "2", "--out", str(out)]
    assert main([*line, "--json"]) == DONE
    shown = capsys.readouterr()
    assert "measuring rules and policies on 'small'" in shown.err
    found = json.loads(shown.out)
    means = {row["policy"]: row["mean"] for row in found["rows"]}
    assert {"own", "fifo", "unit-fifo", "shortest-remaining", "conditional-any"} <= set(means)
    trained = {"linear", "wide", "ppo"} & set(found["held_back"])
    assert found["held_back"][found["origin"]] == min(found["held_back"][k] for k in trained)
    assert found["held_back"]["linear"] < found["held_back"]["fifo"]
    for start in (str(out / "own"), "shortest-remaining"):
        assert main([*line, "--start", start]) == DONE
        assert "fresh draws" in capsys.readouterr().out
    evaluate = ["evaluate", str(out / "own"), "--stream", str(small), "--own", "--seeds", "2"]
    assert main(evaluate) == DONE
    assert main([*line, "--start", "conditional-pi4"]) == BAD_INPUT
    assert "conditional-pi4" in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_policy_for_own_workflows(tmp_path, capsys):
    workflow, out = tmp_path / "w.json", tmp_path / "trained"
    weft.save(weft.generate("montage", images=4), workflow)
    machines = [str(workflow), "--gpus", "1xV100+1xT4"]
    line = ["train", "workflow", *machines, "--policy", "tuned-list", "--seconds", "0.2"]
    line += ["--jobs", "2", "--noise", "0.3", "--out", str(out)]
    assert main([*line, "--reward", "completion=1,energy=0.5", "--json"]) == DONE
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {"fifo", "heft", "tuned-list", str(out / "workflow")} <= {row["policy"] for row in rows}
    assert all(row["energy"] > 0 and row["completion"] <= row["makespan"] for row in rows)
    assert main(["simulate", *machines, "--policy", str(out / "workflow")]) == DONE
    assert main([*line, "--reward", "speed=1"]) == BAD_INPUT
    assert "unknown objective 'speed' in reward" in capsys.readouterr().err.strip().splitlines()[-1]


def test_habits_of_the_published_environment_by_name(capsys):
    # In the second draw queues are long, so the order of the heap matters.
    what = "evaluate unit-fifo --probabilities 0 --seeds 2 --jobs 3000 --json --idle"

    def mean(options: str) -> float:
        assert main([*what.split(), *options.split()]) == DONE
        return float(json.loads(capsys.readouterr().out)["rows"][0]["mean"])

    every, without = mean("published"), mean("published --without single-event,heap-order,expiry")
    assert without == pytest.approx(mean("block"), rel=1e-12)
    assert mean("published --without heap-order") == without
    assert mean("published --without expiry") == every != without
