"""Names with terminal escapes, HTML and mathtext come out as text, whatever verb prints them."""

from __future__ import annotations

import io
import json
import xml.dom.minidom

import pytest

import weft
from weft.cli.main import main
from weft.cli.output import notice
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


def hostile_catalogue(path):
    """Write machines with hostile names and prices."""
    devices = [
        f"[[devices]]\nname = {json.dumps(name)}\nkind = {json.dumps(name)}\nprice = {k + 1}\n"
        f"speed = {5 - k}\ncount = 2\nnode = {json.dumps(name)}\n"
        for k, name in enumerate(NAMES)
    ]
    path.write_text('[links]\nbandwidth = "1 GB/s"\n' + "".join(devices), encoding="utf-8")
    return path


def shown_in(path):
    """Return the texts of a picture; a page must hold no element of a name."""
    text = path.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "\x1b" not in text
    if path.suffix == ".html":
        return text
    nodes = xml.dom.minidom.parseString(text).getElementsByTagName("text")
    return "".join(node.firstChild.data for node in nodes if node.firstChild)


@pytest.mark.parametrize("suffix", ["svg", "html", "png"])
def test_answers_print_and_draw_names_as_text(capsys, tmp_path, suffix):
    path, picture = tmp_path / "p.json", tmp_path / f"picture.{suffix}"
    weft.save(problem(), path)
    assert printed(capsys, "whatif", path, "--tornado", "--picture", picture)[0] == 0
    if suffix == "svg":
        assert "$\\frac{1$" in shown_in(picture)
    code, text, _ = printed(capsys, "whatif", path, "--speed", f"{NAMES[2]}=2")
    assert code == 0, text
    catalogue = hostile_catalogue(tmp_path / "prices.toml")
    size = ("size", path, "--catalogue", catalogue, "--deadline", "1h", "--picture", picture)
    weft.save(problem().workflow, path)
    code, text, err = printed(capsys, *size)
    assert code == 0, err
    assert "\\x1b[31mred" in text
    if suffix != "png":
        shown_in(picture)


def test_variants_print_and_draw_names_as_text(capsys, tmp_path):
    path, ways, picture = (tmp_path / n for n in ("p.json", "v.toml", "front.html"))
    weft.save(problem(), path)
    rows = [
        f"[[variants]]\nof = {json.dumps(NAMES[0])}\nname = {json.dumps(name)}\n"
        f"factor = {k + 1}\naccuracy = {k}\n"
        for k, name in enumerate(NAMES[1:4])
    ]
    ways.write_text("".join(rows), encoding="utf-8")
    assert printed(capsys, "plan", path, "--variants", ways)[0] == 0
    pareto = ("plan", path, "--variants", ways, "--pareto", "--picture", picture)
    code, text, err = printed(capsys, *pareto)
    assert code == 0, err
    assert "two lines" in text
    shown_in(picture)


def test_explanations_and_differences_print_names_as_text(capsys, tmp_path):
    path, one, other = (tmp_path / n for n in ("p.json", "a.json", "b.json"))
    weft.save(problem(), path)
    for out, planner in ((one, "heft"), (other, "round-robin")):
        assert printed(capsys, "plan", path, "--planner", planner, "--out", out)[0] == 0
    explain = ("explain", one, "--problem", path, "--against", other)
    assert printed(capsys, *explain)[0] == 0
    assert "<script>alert" not in weft.plan(problem())._repr_html_()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_notices_show_file_names_as_text():
    stream = Terminal()
    with notice("reading \x1b[31mred\n.json", stream):
        pass
    assert stream.getvalue() == "weft: reading \\x1b[31mred .json ...\r\r\x1b[K"
