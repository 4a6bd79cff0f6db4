"""`weft view` and the output of verbs: pages from files, widths, and a first sign of life."""

from __future__ import annotations

import io
import json
import sys

import pytest

import weft
from weft.cli.main import main
from weft.cli.output import WIDTH, notice
from weft.report.gantt.html import gantt_html


def test_two_schedules_on_one_page(files, capsys, tmp_path):
    page = tmp_path / "page.html"
    given = [files["move"], files["stay"], "--problem", files["problem"], "--out", page]
    assert main(["view", *map(str, given)]) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    text = page.read_text(encoding="utf-8")
    assert "move takes 1 s longer than stay: 2 s more moving data, 1 s less computing." in text
    assert text.count('class="panel"') == 2
    assert "https://" not in text.replace("http://www.w3.org", "")


def test_a_trace_is_written_beside_its_file(files, capsys):
    assert main(["view", str(files["trace"]), "--json"]) == 0
    page = json.loads(capsys.readouterr().out)["page"]
    assert page == str(files["trace"].with_suffix(".view.html"))
    assert "fifo takes" in files["trace"].with_suffix(".view.html").read_text(encoding="utf-8")


def test_a_chart_of_the_same_name_stays(files, capsys):
    chart = files["trace"].with_suffix(".html")
    chart.write_text("mine", encoding="utf-8")
    assert main(["view", str(files["trace"])]) == 0
    assert capsys.readouterr().out == f"wrote {files['trace'].with_suffix('.view.html')}\n"
    assert chart.read_text(encoding="utf-8") == "mine"


def test_a_comparison_from_its_json(files, capsys, tmp_path):
    flags = ["--planners", "heft,round-robin", "--scenarios", "3", "--noise", "0.1", "--json"]
    assert main(["compare", str(files["problem"]), *flags]) == 0
    document = capsys.readouterr().out
    saved = tmp_path / "c.json"
    saved.write_text(document, encoding="utf-8")
    assert main(["view", str(saved)]) == 0
    text = (tmp_path / "c.view.html").read_text(encoding="utf-8")
    sentence = json.loads(document)["answers"]["two"]["sentences"][0]
    assert sentence in text
    assert "won 3 of 3" in text
    saved.write_text('{"answers": {"x": 1}}', encoding="utf-8")
    assert main(["view", str(saved)]) == 2
    assert "not a comparison of weft" in capsys.readouterr().err


def test_an_experiment_from_its_page(capsys, tmp_path):
    rows = [["heft", 1.167, "12 ms"], ["<b>eft", 2.0, "7 ms"]]
    table = {"columns": ["policy", "ratio", "time"], "decimals": [None, 2, None], "rows": rows}
    page = {"measured_with": "weft reproduce x", "provenance": "by hand", "tables": {"t": table}}
    saved = tmp_path / "page.json"
    saved.write_text(json.dumps(page), encoding="utf-8")
    assert main(["view", str(saved)]) == 0
    text = (tmp_path / "page.view.html").read_text(encoding="utf-8")
    assert "weft reproduce x: by hand." in text
    assert '<td class="number">1.17</td><td class="number">12 ms</td>' in text
    assert "&lt;b&gt;eft" in text
    rows[0].append("one more")
    saved.write_text(json.dumps(page), encoding="utf-8")
    assert main(["view", str(saved)]) == 2
    assert "not an experiment of weft" in capsys.readouterr().err
    saved.write_text('{"experiment": "shift"}', encoding="utf-8")
    assert main(["view", str(saved)]) == 2
    assert "report.html" in capsys.readouterr().err


def test_a_schedule_needs_its_problem(files, capsys):
    assert main(["view", str(files["move"])]) == 2
    assert "add --problem FILE" in capsys.readouterr().err
    assert not files["move"].with_suffix(".view.html").exists()


@pytest.mark.parametrize("topic", ["planners", "policies", "generators", "formats", "devices"])
def test_lists_fit_the_terminal(topic, capsys):
    assert main(["list", topic]) == 0
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= WIDTH


def test_a_comparison_fits_the_terminal():
    problem = weft.Problem.from_arrays([[200.0, 123.456], [301.5, 987.1]], [[0, 1]], [10.0])
    table = str(weft.compare(problem, ["heft", "heft-replanned"], scenarios=3, noise=0.3))
    assert max(map(len, table.splitlines())) <= WIDTH
    assert "± 95 %" in table


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_notice_comes_first_and_leaves_nothing():
    stream = Terminal()
    with notice("planning x", stream):
        assert stream.getvalue() == "weft: planning x ...\r"
    assert stream.getvalue().endswith("\r\x1b[K")
    quiet = io.StringIO()
    with notice("planning x", quiet):
        pass
    assert quiet.getvalue() == ""


def test_libraries_find_the_output_closed_when_the_verb_has_ended(monkeypatch):
    """colorama, which numba uses, writes an escape at the exit; it was shown as text."""
    seen = []
    monkeypatch.setattr("weft.cli.list.run", lambda args: seen.append(sys.stdout))
    assert main(["list"]) == 0
    assert seen[0].closed
    assert not sys.stdout.closed


def test_a_search_records_its_improvements():
    problem = weft.Problem.bind(
        weft.generate("cholesky", tiles=6, seed=1), weft.gpu_cluster("2xV100+2xT4")
    )
    plan = weft.plan(problem, "anytime", iterations=4000)
    values = [value for _, value in plan.history]
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(plan.makespan)
    assert weft.plan(problem, "heft").history == ()
    grown = weft.plan(problem, "genetic", generations=20)
    assert grown.history[-1][1] == pytest.approx(grown.makespan)
    if len(plan.history) > 1:
        assert "over the time of the search" in gantt_html(plan)
