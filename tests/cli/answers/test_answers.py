"""`weft whatif` and `weft size`: text, JSON, pictures and errors."""

from __future__ import annotations

import json

import pytest

import weft
from weft.cli.main import main

PRICES = """\
[[devices]]
kind = "large"
count = 2
speed = 4.0
price = "4.5 /h"
[[devices]]
kind = "small"
count = 3
price = 1
"""


@pytest.fixture
def files(tmp_path):
    """Six tasks of an hour without edges, and a catalogue."""
    tasks = weft.Workflow(work=[3600.0] * 6, src=[], dst=[], data=[], name="six")
    weft.save(tasks, tmp_path / "six.json")
    (tmp_path / "prices.toml").write_text(PRICES)
    return str(tmp_path / "six.json"), str(tmp_path / "prices.toml"), tmp_path


def run(capsys, *argv):
    code = main(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def test_what_if(files, capsys):
    tasks, prices, _ = files
    # As it is, rounds of 15 minutes: 8 tasks per hour on the large ones. Without them: 2 h.
    code, out, _ = run(capsys, "whatif", tasks, "--cluster", prices, "--remove", "2xlarge")
    assert code == 0
    assert out.startswith("With 2 large fewer, the makespan is 2 h instead of ")
    assert "the rent is 6 instead of" in out
    argv = ("whatif", tasks, "--cluster", prices, "--speed", "large=2", "--add", "1xsmall@2")
    code, out, _ = run(capsys, *argv, "--json")
    found = json.loads(out)
    assert found["changes"] == ["speed large=2.0", "add 1xsmall@2.0"]
    assert found["saved"] == found["before"]["makespan"] - found["after"]["makespan"] > 0


def test_tornado(files, capsys):
    tasks, prices, folder = files
    for suffix in ("svg", "png", "html"):
        picture = folder / f"tornado.{suffix}"
        argv = ("whatif", tasks, "--cluster", prices, "--tornado", "--picture", str(picture))
        code, out, err = run(capsys, *argv)
        assert code == 0, err
        assert "speed of large" in out
        assert picture.stat().st_size > 1000
    assert "speed of large" in (folder / "tornado.html").read_text(encoding="utf-8")
    code, out, _ = run(capsys, "whatif", tasks, "--cluster", prices, "--tornado", "--json")
    rows = json.loads(out)["rows"]
    assert {row["what"] for row in rows} >= {"one large", "one small", "speed of small"}
    assert rows[0]["better"] is not None


def test_size(files, capsys):
    tasks, prices, folder = files
    for suffix in ("svg", "png", "html"):
        picture = folder / f"front.{suffix}"
        argv = ("size", tasks, "--catalogue", prices, "--deadline", "2h", "--picture", str(picture))
        code, out, err = run(capsys, *argv)
        assert code == 0, err
        assert out.startswith("Rent 3 small: 2 h for 6; ")
        assert picture.stat().st_size > 1000
    code, out, _ = run(capsys, "size", tasks, "--catalogue", prices, "--budget", "100", "--json")
    found = json.loads(out)
    assert found["complete"] is True
    assert found["best"] == found["front"][0]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (("whatif", "F", "--cluster", "C"), "give either changes or --tornado"),
        (("whatif", "F", "--cluster", "C", "--add", "1x"), "unknown kind of device '1x'"),
        (("whatif", "F", "--cluster", "C", "--add", "small", "--picture", "x.svg"), "--tornado"),
        (("whatif", "F", "--cluster", "C", "--tornado", "--picture", "x.pdf"), "ends in '.pdf'"),
        (("size", "F", "--catalogue", "C", "--deadline", "soon"), "it must be a number"),
        (("size", "F"), "--catalogue"),
    ],
)
def test_errors_are_one_line(files, capsys, argv, complaint):
    place = {"F": files[0], "C": files[1]}
    code, out, err = run(capsys, *(place.get(a, a) for a in argv))
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_plans_print_energy_and_rent(files, capsys):
    tasks, prices, _ = files
    _, out, _ = run(capsys, "plan", tasks, "--cluster", prices)
    assert "(all devices until the end, 12.00 per hour)" in out
    _, out, _ = run(capsys, "plan", tasks, "--gpus", "2xT4", "--json")
    found = json.loads(out)
    assert found["energy"] > 0
    assert found["cost"] == 0
    _, out, _ = run(capsys, "compare", tasks, "--cluster", prices, "--planners", "heft")
    assert "rent" in out.splitlines()[2]
    assert "energy" not in out
    _, out, _ = run(capsys, "simulate", tasks, "--cluster", prices)
    assert any(line.split()[:1] == ["cost"] for line in out.splitlines())
