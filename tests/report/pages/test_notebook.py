"""Results in notebooks: HTML without scripts, pictures, and tables."""

from __future__ import annotations

import builtins
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import weft
from tests.support.report_examples import EVIL, Page, diamond, eventful, layered
from weft.model import Schedule
from weft.report.charts.small_chart import small_chart
from weft.report.gantt.chart import Chart


@pytest.fixture(scope="module")
def results():
    problem = layered(40, 4)
    plan = weft.plan(problem, "heft")
    return {
        "problem": problem,
        "plan": plan,
        "schedule": plan.schedule,
        "trace": eventful(),
        "comparison": weft.compare(problem, ["heft", "cpop"], scenarios=2, noise=0.1),
    }


@pytest.mark.parametrize("name", ["problem", "plan", "schedule", "trace", "comparison"])
def test_html_has_no_script_and_frames_have_all_rows(results, name):
    result = results[name]
    page = Page(result._repr_html_())
    assert "script" not in page.tags
    assert page.tags.count("div") > 3
    rows = {"problem": 40, "plan": 40, "schedule": 40, "trace": 7, "comparison": 2}[name]
    assert len(result.to_frame()) == rows


@pytest.mark.parametrize("name", ["problem", "plan", "schedule", "trace", "comparison"])
def test_text_is_short_and_says_what_the_html_says(results, name):
    text = str(results[name])
    assert 0 < len(text) < 1000
    assert "array(" not in text
    assert pytest.importorskip("IPython.lib.pretty").pretty(results[name]) == text


def test_text_says_why(results):
    found = weft.explain(results["plan"])
    sentence, numbers = str(results["plan"]).split("\n")
    assert sentence == str(found) == found.sentence
    assert "tasks 40" in numbers
    assert "bound" in numbers
    problem = str(results["problem"])
    assert "of work, each task on its fastest device." in problem
    assert "tasks 40" in problem
    assert str(results["schedule"]).startswith("rows 40, devices 4, makespan ")
    answer = weft.tornado(results["problem"])
    assert str(answer) == answer.sentence
    pretty = pytest.importorskip("IPython.lib.pretty").pretty
    assert [pretty(found), pretty(answer)] == [found.sentence, answer.sentence]


def test_html_says_why(results):
    assert weft.explain(results["plan"]).sentence in results["plan"]._repr_html_()
    assert "<svg" in results["plan"]._repr_html_()
    assert weft.explain(results["trace"]).makespan == 11
    assert "11 s" in results["trace"]._repr_html_()
    assert "95 % interval" in results["comparison"]._repr_html_()
    assert "blue" in results["problem"]._repr_html_()


def test_frames_name_tasks_and_devices(results):
    frame = results["plan"].to_frame()
    assert frame["finish"].max() == results["plan"].makespan
    assert set(frame["device"]) <= set(results["problem"].cluster.names)
    assert list(results["trace"].to_frame()["status"]).count("lost") == 1
    assert results["comparison"].to_frame()["contender"].iloc[0] == "heft"


@pytest.mark.parametrize("name", ["problem", "plan", "trace", "comparison"])
def test_plots_are_svg(results, name, tmp_path):
    picture = results[name].plot()
    assert ET.fromstring(picture._repr_svg_()).tag.endswith("svg")
    assert picture.save(tmp_path / "p.svg").stat().st_size > 1000


def test_a_schedule_is_plotted_with_its_problem(results):
    with pytest.raises(weft.InvalidInput, match="give its problem"):
        results["schedule"].plot()
    assert "<svg" in results["schedule"].plot(problem=results["problem"]).svg


def test_names_are_escaped():
    problem, schedule = diamond(EVIL)
    assert "<img" not in small_chart(Chart.of(schedule, problem))
    assert "<img" not in problem._repr_html_()


def test_large_charts_show_load_instead_of_bars():
    n = 4000
    problem = weft.Problem.from_arrays(work=np.ones(n), speed=[1.0])
    at = np.arange(n, dtype=float)
    schedule = Schedule.of(device=np.zeros(n, int), start=at, finish=at + 0.5)
    made = small_chart(Chart.of(schedule, problem))
    shades = [float(x) for x in re.findall(r'fill-opacity="([\d.]+)"', made)]
    assert len(shades) < 150
    assert np.mean(shades) == pytest.approx(0.5, abs=0.02)


def test_without_pandas_the_extra_is_named(results, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **more):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *args, **more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(weft.MissingExtra, match=r"pandas is not installed.*\[notebook\]"):
        results["plan"].to_frame()
