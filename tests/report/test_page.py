"""Figures and pages."""

from __future__ import annotations

import builtins
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from tests.support.report_examples import EVIL, Page, diamond, eventful
from weft.errors import InvalidInput, MissingExtra
from weft.report.charts.scatter import Scatter, ScatterPoint
from weft.report.figures import (
    Series,
    bar_figure,
    line_figure,
    pareto_figure,
    pareto_front,
    spread_out,
)
from weft.report.gantt.static import save_gantt
from weft.report.page import (
    Dag,
    Facts,
    Figure,
    Figures,
    Gantts,
    Section,
    Table,
    Text,
    report_html,
    write_report,
)

FIGURES = {
    "line": lambda: line_figure(
        {EVIL: Series([1, 10], [1, 2], [0, 1], [2, 3]), "$b$": Series([1, 10], [3, 4])},
        title=EVIL,
        x_label="x",
        y_label="$",
        log_x=True,
        log_y=True,
    ),
    "bar": lambda: bar_figure(
        {"a": {EVIL: 1.0, "y": 2.0}, "b": {"y": 3.0}},
        title="t",
        y_label="s",
        errors={"a": {"y": 0.1}},
        baseline=1.0,
    ),
    "pareto": lambda: pareto_figure(
        {"a": (1, 3), EVIL: (2, 2), "c": (3, 3)}, title="t", x_label="x", y_label="y", log_x=True
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_inline_deterministic_and_follow_the_page(name):
    made = FIGURES[name]()
    root = ET.fromstring(made)
    assert root.tag.endswith("svg")
    assert root.get("role") == "img"
    assert made == FIGURES[name]()
    assert "var(--ink" in made
    assert not [e for e in root.iter() if e.tag.endswith(("img", "script"))]


def test_figures_use_the_palette_of_the_page():
    assert "var(--c0,#5165a7)" in FIGURES["line"]()


def test_pareto_front():
    # b beats d on both axes, c ties b on y and loses on x, equal points do not beat each other.
    assert pareto_front({"a": (1, 5), "b": (2, 2), "c": (3, 2), "d": (4, 4), "e": (1, 5)}) == [
        "a",
        "b",
        "e",
    ]


def test_figures_refuse_what_does_not_fit():
    with pytest.raises(InvalidInput, match=r"line 'a' has 2 x values and 1 y values"):
        line_figure({"a": Series([1, 2], [1])}, title="t", x_label="", y_label="")


def test_without_matplotlib_the_extra_is_named(monkeypatch, tmp_path):
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'weft-scheduling\[report\]'"):
        save_gantt(eventful(), tmp_path / "a.png")
    assert save_gantt(eventful(), tmp_path / "a.html").stat().st_size > 10_000


def test_a_whole_page(tmp_path):
    problem, schedule = diamond(EVIL)
    sections = [
        Section(
            EVIL,
            [Facts({EVIL: EVIL}), Text(f"{EVIL}\n\nsecond"), Table([{"a": EVIL}], caption=EVIL)],
        ),
        Section(
            "charts",
            [
                Gantts({EVIL: schedule, "again": schedule}, problem, caption=EVIL),
                Gantts({"trace": eventful()}),
            ],
        ),
        Section(
            "pictures",
            [
                Dag(problem.workflow, caption=EVIL),
                Figures([Figure(FIGURES["bar"](), EVIL), Figure(FIGURES["pareto"]())]),
            ],
        ),
    ]
    path = write_report(tmp_path / "r.html", title=EVIL, lead=EVIL, sections=sections, footer=EVIL)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("script") == 6  # three charts, two groups of tabs, the page's own
    assert page.tags.count("h2") == 3
    assert page.tags.count("nav") == 1
    assert "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    outside = [
        v
        for k, v in page.attributes
        if k in ("src", "href", "xlink:href") and not str(v).startswith(("#", "data:image/png"))
    ]
    assert outside == ["data:,"]  # the empty icon
    ids = [v for k, v in page.attributes if k == "id" and str(v).startswith("s") and "-" in str(v)]
    assert len(ids) == len(set(ids)) == 3
    assert text == report_html(title=EVIL, lead=EVIL, sections=sections, footer=EVIL)


def test_an_empty_page():
    assert Page(report_html(title="nothing", sections=[])).tags.count("main") == 1


def test_lines_are_named_at_their_ends():
    flat = {name: Series([0, 1], [1.0, 1.0]) for name in ("first", "second")}
    drawn = line_figure(flat, title="t", x_label="x", y_label="y")
    assert (drawn.count(">first<"), drawn.count(">second<")) == (1, 1)
    assert 'id="legend' not in drawn


@pytest.mark.parametrize("heights", [[], [0.2], [0.1, 0.1, 0.1], [0.0, 0.02, 0.5, 0.52, 0.53]])
def test_names_are_pushed_apart_no_more_than_needed(heights):
    places = spread_out(heights, 0.1)
    assert all(b - a > 0.0999 for a, b in pairwise(places))
    assert sum(places) == pytest.approx(sum(heights))


def test_every_execution_is_a_point_and_the_band_is_counted():
    points = [
        ScatterPoint(EVIL, 0, 1.0, 1.9),
        ScatterPoint("b", 1, 1.0, 2.1),
        ScatterPoint("c", 1, 0.0, 0.0),
    ]
    drawn = Scatter(points, ("a", EVIL)).html("s")
    assert drawn.count("<circle") == 3
    assert EVIL not in drawn
    assert "1 of 3 executions" in drawn
    assert Scatter([], ()).html("s") == ""
