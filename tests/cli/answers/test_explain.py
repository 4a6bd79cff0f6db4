"""`weft explain`: schedules with their problem, traces, one task, two plans, and errors."""

from __future__ import annotations

import json

import pytest

from weft.cli.main import main


def run(capsys, *argv):
    code = main(["explain", *map(str, argv)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_schedule_with_its_problem(files, capsys):
    code, out, _ = run(capsys, files["move"], "--problem", files["problem"])
    assert code == 0
    lines = out.splitlines()
    assert lines[0].startswith("move.json takes 6 s: 4 s (67 %) computing and 2 s (33 %) moving")
    assert "  computing                        4 s    66.7 %" in lines
    assert lines[-1].split()[:2] == ["t1", "d0"]
    assert lines[-1].endswith("10 B from t0 on d1 arrive after 2 s")


def test_as_json(files, capsys):
    _, out, _ = run(capsys, files["move"], "--problem", files["problem"], "--json")
    found = json.loads(out)
    assert found["makespan"] == 6.0
    assert sum(found["parts"].values()) == 6.0
    assert [row["cause"] for row in found["chain"]] == ["arrival", "input"]
    assert [gap["reason"] for gap in found["idle"]] == ["before its first task", "no work"]


def test_a_trace_needs_no_problem(files, capsys):
    code, out, _ = run(capsys, files["trace"])
    assert code == 0
    assert out.startswith("fifo takes ")


def test_one_task(files, capsys):
    given = (files["move"], "--problem", files["problem"], "--task", "t1")
    code, out, _ = run(capsys, *given)
    assert code == 0
    assert out.splitlines() == [
        "t1 starts on d0 at 3 s: 10 B from t0 on d1 arrive after 2 s; d0 is free from 0 s.",
        "  it could end 0 s later",
        "  on d1 it would end at 10 s",  # its data is there at 1, and it takes 9 s
    ]
    _, out, _ = run(capsys, *given, "--json")
    assert json.loads(out)["executions"][0]["alternatives"] == {"d0": 6.0, "d1": 10.0}


def test_two_plans(files, capsys):
    given = (files["move"], "--problem", files["problem"], "--against", files["stay"])
    _, out, _ = run(capsys, *given)
    expected = (
        "move.json takes 1 s longer than stay.json: 2 s more moving data, 1 s less computing."
    )
    assert " ".join(out.split()).endswith(expected)
    _, out, _ = run(capsys, *given, "--json")
    assert json.loads(out)["against"]["seconds"] == 1.0


def test_the_problem_is_that_of_the_schedule_beside_a_trace(files, capsys):
    found = []
    for first, second in (("move", "trace"), ("trace", "move")):
        argv = (files[first], "--against", files[second], "--problem", files["problem"], "--json")
        code, out, _ = run(capsys, *argv)
        assert code == 0
        found.append(json.loads(out))
    assert found[0]["makespan"] == 6.0
    assert found[0]["against"]["seconds"] == 6.0 - found[1]["makespan"]
    assert found[1]["against"]["seconds"] == found[1]["makespan"] - 6.0


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("move",), "holds a schedule; add --problem FILE"),
        (("problem",), "holds a problem, not a schedule"),
        (("trace", "--gpus", "1xT4"), "leave --gpus out"),
        (("trace", "--against", "trace", "--problem", "problem"), "leave --problem out"),
        (("trace", "--against", "trace", "--gpus", "1xT4"), "leave --gpus out"),
        (("trace", "--task", "t7"), "unknown task 't7'"),
        (("trace", "--task", "t1", "--against", "x"), "either --task or --against"),
    ],
)
def test_bad_input_is_one_line(files, capsys, argv, message):
    code, out, err = run(capsys, *(files.get(a, a) for a in argv))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
