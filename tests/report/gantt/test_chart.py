"""The data behind Gantt charts, and the page around them, without a browser."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.report_examples import (
    EVIL,
    Page,
    diamond,
    eventful,
    evil_page,
    in_order,
    layered,
)
from weft.errors import InvalidInput
from weft.model import Cluster, Problem, Schedule, Workflow
from weft.report.document import SCRIPTS, compact, embedded_json
from weft.report.gantt.chart import Chart
from weft.report.gantt.html import chart_data, gantt_html
from weft.report.gantt.static import save_gantt
from weft.report.labels import escaped
from weft.report.palette import CATEGORIES, DARK, DARK_CATEGORIES, LIGHT, contrast, text_on


def data_of(text: str) -> dict:
    return json.loads(Page(text).scripts[0])


def test_rows_and_facts_of_a_schedule():
    problem, schedule = diamond()
    chart = Chart.of(schedule, problem)
    # Busy: 2 + 3 + 1 + 1 = 7 of 9 s x 2 devices = 38.9 %.
    assert chart.facts() == [
        ("makespan", "9 s"),
        ("tasks", "4"),
        ("devices", "2"),
        ("busy", "38.9 %"),
    ]
    data = data_of(gantt_html(schedule, problem))
    assert data["rows"] == {
        "task": [0, 1, 3, 2],
        "device": [0, 0, 0, 1],
        "start": [0, 2, 8, 6],
        "finish": [2, 5, 9, 7],
    }
    assert data["kinds"] == ["kind a", "kind b", "kind c", "kind d"]
    assert data["links"]["perByte"][data["links"]["every"]] == 1.0


def test_rows_of_a_trace():
    chart = Chart.of(eventful())
    # Lanes are grouped by node: g0 and g1 on n0 come before h0 on n1.
    assert chart.lanes.tolist() == [0, 2, 1]
    assert [label for label, _ in chart.facts()] == [
        "makespan",
        "executions",
        "devices",
        "busy",
        "jobs",
        "copies",
        "lost",
        "cancelled",
    ]
    slot, size = chart.slots
    assert (slot[:3].tolist(), size[:3].tolist()) == ([0, 1, 0], [2, 2, 1])
    # The slowdown has no end: it lasts until the trace ends. A failure has slowdown inf, which JSON
    # cannot say: null.
    assert chart_data(chart)["pauses"] == [[0, 6.0, 11.0, 2.0], [1, 3.0, 4.0, None]]
    assert chart_data(chart)["outcome"] == [0, 0, 1]


def test_a_plan_is_drawn_without_naming_its_problem():
    problem, schedule = diamond()

    @dataclass
    class Plan:
        problem: Problem
        schedule: Schedule
        planner: str = "by hand"

    assert Chart.of(Plan(problem, schedule)).title == "diamond: by hand"


@pytest.mark.parametrize(
    "make",
    [lambda: (Schedule.of(device=[], start=[], finish=[]), Problem.from_arrays([[1.0]])), diamond],
)
def test_every_kind_of_file(make, tmp_path):
    first, second = make()
    schedule, problem = (first, second) if isinstance(first, Schedule) else (second, first)
    magic = {"html": b"<!DOCTYPE html>", "svg": b"<?xml", "png": b"\x89PNG"}
    for suffix, start in magic.items():
        assert (
            save_gantt(schedule, tmp_path / f"a.{suffix}", problem).read_bytes().startswith(start)
        )


def test_refusals_name_the_remedy(tmp_path):
    problem, schedule = diamond()
    with pytest.raises(
        InvalidInput, match=r"give its problem too: gantt_html\(schedule, problem\)"
    ):
        gantt_html(schedule)
    with pytest.raises(InvalidInput, match=r"Schedule, a Plan or a Trace, not of int"):
        gantt_html(3)  # type: ignore[arg-type]  # a wrong value
    with pytest.raises(InvalidInput, match=r"is of device 1, but 'problem' has 1 devices"):
        gantt_html(schedule, Problem.from_arrays(np.ones((4, 1))))
    with pytest.raises(InvalidInput, match=r"'a.svgg' ends in '.svgg'.*did you mean '.svg'"):
        save_gantt(schedule, tmp_path / "a.svgg", problem)


def test_names_are_data():
    page = Page(evil_page())
    assert page.tags.count("script") == 2
    assert "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    data = json.loads(page.scripts[0])
    assert (
        data["templates"][0]["names"][0] == data["kinds"][0] == data["devices"]["names"][0] == EVIL
    )


@given(st.text())
@settings(max_examples=200)
def test_embedded_json_is_the_same_json_without_markup(text):
    made = embedded_json({text: [text]})
    assert json.loads(made) == {text: [text]}
    assert not set("<>&") & set(made)
    assert made.isascii()


@given(st.text())
def test_escaped_text_is_text(text):
    parser = Page(f'<p title="{escaped(text)}">{escaped(text)}</p>')
    assert parser.tags == ["p"]
    assert [name for name, _ in parser.attributes] == ["title"]


def test_the_page_needs_nothing_from_outside():
    problem, schedule = diamond()
    text = gantt_html(schedule, problem)
    assert not re.search(r"https?://", text)
    assert not {"img", "iframe", "object"} & set(Page(text).tags)
    # An empty icon, so that browsers do not ask the server for one.
    assert re.findall(r"<link[^>]*>", text) == ['<link rel="icon" href="data:,">']
    policy = dict(Page(text).attributes)["content"]
    assert "default-src 'none'" in text
    assert policy is not None
    assert "connect-src" not in text  # nothing but the page's own script is let through


def test_the_same_chart_gives_the_same_bytes(tmp_path):
    problem = layered(40, 4)
    schedule = in_order(problem)
    for suffix in ("html", "svg", "png"):
        one, two = (
            save_gantt(schedule, tmp_path / f"{k}.{suffix}", problem).read_bytes() for k in "ab"
        )
        assert one == two
    assert b"dc:date" not in (tmp_path / "a.svg").read_bytes()


def test_columns_are_short():
    assert compact(np.array([3.0, 4.0])) == [3, 4]
    assert compact(np.array([1 / 3, 1e4])) == [
        0.333333,
        10000.0,
    ]  # ten digits of 1e4 leave six after the point
    problem = layered(5000, 16)
    assert (
        len(
            gantt_html(
                Schedule.of(
                    device=np.arange(5000) % 16,
                    start=np.arange(5000) / 7,
                    finish=np.arange(5000) / 7 + 0.1,
                ),
                problem,
            )
        )
        < 8e5
    )


def test_dollar_signs_are_no_mathematics(tmp_path):
    workflow = Workflow(work=[1.0], src=[], dst=[], data=[], names=("cost_$x^$",))
    problem = Problem.bind(workflow, Cluster(speed=[1.0]))
    made = save_gantt(
        Schedule.of(device=[0], start=[0], finish=[1]),
        tmp_path / "a.svg",
        problem,
        title="$\\frac{$",
    )
    assert "cost_$x^$" in made.read_text(encoding="utf-8")


def test_colours_are_legible():
    for color in (*CATEGORIES, *DARK_CATEGORIES):
        assert contrast(color, text_on(color)) >= 4.5
    for page, colors in ((LIGHT, CATEGORIES), (DARK, DARK_CATEGORIES)):
        for ink in ("ink", "muted", "accent", "bad", "good"):
            assert contrast(page[ink], page["paper"]) >= 4.5
        assert min(contrast(color, page["paper"]) for color in colors[:8]) >= 3.0
        assert len(set(colors)) == len(colors)


DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.052]],
    "deuteranopia": [[0.3673, 0.8606, -0.228], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
"""Linear RGB as seen (Machado, Oliveira and Fernandes 2009, table 1, severity 1)."""

XYZ = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]


def seen_as_lab(color, deficiency):
    """CIELAB of a colour as a reader with a deficiency sees it (white: D65)."""
    rgb = np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(DEFICIENCIES[deficiency]) @ linear, 0, 1)
    x = np.array(XYZ) @ seen / [0.9505, 1.0, 1.0888]
    f = np.where(x > (6 / 29) ** 3, np.cbrt(x), x / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("colors", [CATEGORIES, DARK_CATEGORIES], ids=["light", "dark"])
def test_the_first_eight_colours_differ_for_colour_blind_readers(deficiency, colors):
    labs = [seen_as_lab(color, deficiency) for color in colors[:8]]
    nearest = min(float(np.linalg.norm(a - b)) for i, a in enumerate(labs) for b in labs[i + 1 :])
    assert nearest >= 15


def test_scripts_never_write_markup():
    from weft.report.document import asset

    for name in SCRIPTS:
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\("
            r"|new Function|fetch\(|XMLHttpRequest",
            asset(name),
        )
