"""`weft profile --function`: a user's function at several batch sizes becomes a batch curve."""

from __future__ import annotations

import json

import pytest

import weft
from weft.cli.main import main
from weft.formats.native.stream_toml import read_stream_toml
from weft.runtime.costs.batch_profile import profile_batches


def timed(seconds):
    """Return a function of lists that takes the given time, and its clock."""
    now = [0.0]

    def function(items):
        now[0] += seconds(len(items))

    return function, lambda: now[0]


def test_a_line_becomes_one_number():
    function, clock = timed(lambda b: 0.010 + 0.005 * b)
    found = profile_batches(function, None, clock=clock, sizes=(2, 8))
    assert found.sizes == (1, 2, 8)
    assert (found.alpha, found.beta) == pytest.approx((0.010, 0.005))
    assert found.curve() == pytest.approx(0.005 / 0.015, abs=1e-4)


def test_a_step_becomes_a_table():
    function, clock = timed(lambda b: 0.010 if b <= 4 else 0.030)
    found = profile_batches(function, None, clock=clock, sizes=(1, 4, 5, 6))
    assert found.curve() == pytest.approx([1.0, 1.0, 1.0, 1.0, 3.0, 3.0])


def test_the_first_call_becomes_the_set_up_and_the_lines_are_those_of_a_unit():
    calls = []

    def seconds(b):
        calls.append(b)
        return 2.0 if len(calls) == 1 else 0.1 + 0.1 * b

    function, clock = timed(seconds)
    lines = profile_batches(function, None, clock=clock, name="detect").toml()
    stream = read_stream_toml(
        '[arrivals]\ngap = "1 s"\n[[tasks]]\nname = "detect"\ntime = "200 ms"\n'
        f'[[units]]\nname = "gpu"\n{lines}',
        name="x",
    )
    cluster = stream.problem.cluster
    assert cluster.batch_growth(["detect"])[0, 0].tolist() == pytest.approx(
        [1 + 0.5 * b for b in range(8)]
    )
    assert cluster.setup_of(["detect"])[0, 0, 0] == pytest.approx(1.8)


@pytest.mark.parametrize("options", [{"sizes": (1,)}, {"sizes": (0, 2)}, {"repeats": 0}])
def test_useless_sizes_are_refused(options):
    with pytest.raises(weft.InvalidInput, match="at least one size above"):
        profile_batches(len, None, **options)


def test_errors_of_the_function_are_one_line():
    with pytest.raises(weft.InvalidInput, match="'f' raised KeyError for a list of 1 items"):
        profile_batches(lambda items: {}[0], None, name="f")


def test_the_command_measures_a_function_of_the_current_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "my_models.py").write_text(
        "def item():\n    return 3\n\ndef total(items):\n    return sum(items)\n"
    )
    monkeypatch.chdir(tmp_path)
    arguments = ["--item", "my_models:item", "--sizes", "1,3", "--out", "unit.toml", "--json"]
    assert main(["profile", "--function", "my_models:total", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sizes"] == [1, 3]
    assert "batch_curve = {" in (tmp_path / "unit.toml").read_text()
    assert main(["profile", "--function", "my_models:nothing"]) != 0
    assert "has no 'nothing'" in capsys.readouterr().err
