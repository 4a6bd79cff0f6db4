"""Names with terminal escapes, HTML and mathtext come out as text, whatever verb prints them."""

from __future__ import annotations

import json
import xml.dom.minidom

import pytest

import weft
from weft.cli.main import main
from weft.errors import InvalidInput, visible
from weft.report.tables import table_text
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.progress import device_lines

NAMES = (
    "\x1b[31mred\x1b[0m\x07",
    "<script>alert(1)</script>",
    "$\\frac{1$ & \"q\" 'p'",
    "two\nlines\r\u202e",
    "a`b|c*d",
)
SCRIPT = """
import weft

HOSTILE = {names!r}

@weft.task
def one(x):
    return x

def build():
    tasks = [weft.task(one, kind=name)(i) for i, name in enumerate(HOSTILE)]
    return tasks
"""


@pytest.fixture(autouse=True)
def own_files(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_HISTORY", str(tmp_path / "home" / "history.sqlite"))
    monkeypatch.setenv("WEFT_RUNS", str(tmp_path / "runs"))


def problem():
    workflow = weft.Workflow(
        work=[1.0, 2.0, 3.0, 4.0, 5.0],
        src=[0, 0, 1, 2, 3],
        dst=[1, 2, 3, 3, 4],
        data=[1.0] * 5,
        names=NAMES,
        kinds=NAMES,
        kind=[0, 1, 2, 3, 4],
        name=NAMES[0],
    )
    cluster = weft.Cluster(
        speed=[1.0, 2.0],
        names=NAMES[:2],
        kinds=NAMES[2:4],
        nodes=(NAMES[0], NAMES[2]),
        bandwidth=1e9,
        name=NAMES[1],
    )
    return weft.Problem.bind(workflow, cluster)


def printed(capsys, *arguments):
    """Run a verb; every line it prints must be one that a terminal only shows."""
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    assert [line for line in (out + err).split("\n") if not line.isprintable()] == []
    return code, out, err


def test_verbs_print_names_as_text(capsys, tmp_path):
    path, plan, trace = (tmp_path / n for n in ("p.json", "s.json", "t.json"))
    weft.save(problem(), path)
    code, text, _ = printed(capsys, "plan", path, "--out", plan)
    assert code == 0
    assert "\\x1b[31mred" in text
    assert "two lines" in text
    assert printed(capsys, "compare", path)[0] == 0
    assert printed(capsys, "simulate", path, "--out", trace)[0] == 0
    assert "\\x1b[31mred" in printed(capsys, "explain", plan, "--problem", path)[1]
    assert printed(capsys, "explain", trace, "--task", NAMES[0])[0] == 0
    code, text, _ = printed(capsys, "plan", path, "--json")
    assert set(json.loads(text)["schedule"]["task_name"]) == set(NAMES)  # data stays as it is


def test_runs_and_the_history_print_names_as_text(capsys, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(names=NAMES[:3]))
    page = tmp_path / "page.html"
    assert printed(capsys, "run", script, "--devices", 1, "--report", page)[0] == 0
    assert "<script>alert" not in page.read_text(encoding="utf-8")
    assert "\x1b" not in page.read_text(encoding="utf-8")
    assert "\\x1b[31mred" in printed(capsys, "history")[1]


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan", "\x1b[31m.json"),
        ("plan", "x.json", "--planner", "\x1b[31m"),
        ("\x1b[31m",),
        ("plan", "--\x1b[31m"),
        ("generate", "\x1b[31m"),
        ("list", "\x1b[31m"),
    ],
)
def test_arguments_in_errors_are_text(capsys, arguments):
    assert printed(capsys, *arguments)[0] == 2


def test_pages_and_charts_hold_names_as_text(tmp_path):
    plan = weft.plan(problem())
    for name in ("g.html", "g.svg", "g.png"):
        weft.save_gantt(plan, tmp_path / name)  # a warning of matplotlib would be an error here
    page = (tmp_path / "g.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "\x1b" not in page
    chart = (tmp_path / "g.svg").read_text(encoding="utf-8")
    shown = "".join(
        node.firstChild.data if node.firstChild else ""
        for node in xml.dom.minidom.parseString(chart).getElementsByTagName("text")
    )
    assert "$\\frac{1$" in shown  # a formula would not be one string
    assert "\\x1b[31mred" in shown
    weft.save(plan, tmp_path / "c.chrome.json")
    events = json.loads((tmp_path / "c.chrome.json").read_text())["traceEvents"]
    assert {e["name"] for e in events if e["ph"] == "X"} == set(NAMES)


def test_messages_tables_and_the_live_display():
    assert str(InvalidInput("task '\x1b[31m' \ud800\nis odd")) == "task '\\x1b[31m' \\ud800\nis odd"
    assert visible("plain\ttext\n") == "plain\ttext\n"
    text = table_text([{"task": name} for name in NAMES])
    assert all(line.isprintable() for line in text.split("\n"))
    life = LiveLifecycle(weft.Workload.of(problem()))
    assert all(line.isprintable() for line in device_lines(life, 80))
