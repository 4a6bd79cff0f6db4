"""The answer on top of pages: sentences, bars by cause, and the marks of the best."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import weft
from tests.support.report_examples import diamond, eventful, layered
from weft.generators import generate_problem
from weft.model import Schedule
from weft.report.causes.cause_data import cause_data
from weft.report.causes.contenders import Answer, ContenderBar
from weft.report.causes.waterfall import Waterfall
from weft.report.figures import Series, line_figure
from weft.report.gantt.chart import Chart
from weft.report.gantt.html import gantt_html
from weft.report.palette import colors_by_name, numbers_of
from weft.report.run_report import _cell, _cell_shares, gantt_text

CLUSTER = "4xV100+2xA100+4xT4"


@pytest.fixture(scope="module")
def epigenomics():
    problem = generate_problem("epigenomics", CLUSTER, lanes=3, chunks=12, ccr=0.5, seed=7)
    return weft.compare(problem, ["heft", "lookahead", "round-robin"])


def test_the_demo_says_what_costs_heft_its_time(epigenomics):
    answer = epigenomics.answer(epigenomics.workloads[0])
    head, difference, chain = answer.sentences
    assert head.startswith("epigenomics on 4 V100, 2 A100, 4 T4: lookahead, 65.16 s, at most 7.4 %")
    assert difference == (
        "heft takes 18.26 s longer than lookahead, all of it one transfer: "
        "57.34 GB from mapMerge_0 to mapMerge_all."
    )
    assert chain == "Both compute 63.02 s on their critical chains."
    bars = {bar.name: bar for bar in answer.bars}
    assert bars["heft"].parts["computing"] == pytest.approx(63.10, abs=0.005)
    assert bars["heft"].parts["moving data"] == pytest.approx(20.32, abs=0.005)
    assert [bar.best for bar in answer.bars] == [True, False, False]


def test_bars_longer_than_twice_the_best_are_cut_and_numbered(epigenomics):
    made = epigenomics.answer(epigenomics.workloads[0]).html("a")
    rows = re.findall(r'<div role="listitem".*?</div>', made)
    assert ["▸" in row for row in rows] == [False, False, True]
    assert "<strong>304.83 s</strong>" in rows[2]
    widths = [sum(map(float, re.findall(r"width:([\d.]+)%", row))) for row in rows]
    assert widths[0] == pytest.approx(50, abs=0.01)  # the scale is twice the best
    assert widths[1] == pytest.approx(50 * 83.42 / 65.16, abs=0.1)
    assert widths[2] == pytest.approx(100, abs=0.01)


@pytest.mark.parametrize("high", [None, float("nan")])
def test_a_bar_that_is_cut_is_longer_than_the_others(high):
    bars = [ContenderBar(n, s, {"computing": s}, high=high) for n, s in {"a": 7.0, "b": 1}.items()]
    rows = re.findall(r'<div role="listitem".*?</div>', Answer(bars).html("a"))
    widths = [float(re.search(r"width:([\d.]+)%", row)[1]) for row in rows]
    assert widths == [100, 50]
    assert ["▸" in row for row in rows] == [True, False]


def test_bars_of_other_objectives_are_to_scale():
    table = weft.compare(layered(30, 3), ["heft", "cpop"], scenarios=2, noise=0.1, objective="mean")
    answer = table.answer(table.workloads[0])
    assert "▸" not in answer.html("a")


def test_sentences_on_single_scenarios_say_so():
    table = weft.compare(layered(30, 3), ["heft", "round-robin"], scenarios=2, noise=0.1)
    head, difference, *_ = table.answer(table.workloads[0]).sentences
    assert "In the first scenario" not in head
    assert difference.startswith("In the first scenario, round-robin takes ")


def test_a_comparison_marks_all_of_the_best():
    problem = layered(30, 3)
    table = weft.compare(problem, ["heft", "heft", "round-robin"], scenarios=4, noise=0.1)
    assert [row.best for row in table.rows] == [True, True, False]
    assert str(table).count("*") == 2
    assert "cannot be told apart" in table.answer(table.workloads[0]).html("a")
    assert sum(row.wins for row in table.rows) >= 4


@pytest.mark.parametrize("planner", ["heft", "round-robin", "heft-deft"])
def test_the_chain_of_a_chart_is_that_of_the_explanation(planner):
    plan = weft.plan(layered(60, 4), planner)
    chart, found = Chart.of(plan), weft.explain(plan)
    data = cause_data(chart)
    assert [(chart.task_name(r), float(chart.start[r])) for r in data["chain"]] == [
        (found.task_name(r).removesuffix(" (copy)"), float(found.table.start[r]))
        for r in found.chain
    ]
    assert sum(s[2] - s[1] for s in data["segments"]) == pytest.approx(found.makespan, abs=1e-9)
    for part, start, finish, row, *_ in data["segments"]:
        if data["parts"][part] == "computing":
            assert (chart.start[row], chart.finish[row]) == pytest.approx((start, finish))
    for row in data["chain"]:
        assert data["tasks"][str(row)][0].startswith(chart.task_name(row))


def test_a_solo_page_has_sentence_bound_and_parts():
    plan = weft.plan(layered(40, 4), "heft")
    page = gantt_html(plan)
    assert weft.explain(plan).sentence in page
    assert "above the bound" in page
    assert "proven bound" in page
    assert "moving data" in page


def test_charts_of_nothing_and_of_odd_traces_have_pages():
    problem, _ = diamond()
    nothing = Schedule.of(device=[], start=[], finish=[])
    assert cause_data(Chart.of(nothing, problem)) is None
    assert "runs nothing" in gantt_html(nothing, problem)
    assert Chart.of(eventful()).explanation.sentence in gantt_html(eventful())


def test_an_answer_escapes_names():
    made = Answer((ContenderBar("<b>", 1.0, {"computing": 1.0}, about="<i>"),)).html("m")
    assert "<b>" not in made.replace('<b class="', "")
    assert "&lt;b&gt;" in made
    assert "&lt;i&gt;" in made


def test_a_waterfall_leads_from_one_makespan_to_the_other():
    problem, schedule = diamond()
    slow = Schedule.of(device=[0, 0, 1, 0], start=[0, 2, 7, 11], finish=[2, 6, 9, 12])
    one, other = weft.explain(schedule, problem), weft.explain(slow, problem)
    fall = Waterfall(one, other, ("predicted", "measured"))
    steps = fall.steps()
    assert steps[0][1] == one.makespan == 9
    assert steps[-1][2] == pytest.approx(other.makespan)
    assert all(a[2] == b[1] for a, b in pairwise(steps))
    assert "predicted" in fall.html("m")
    assert fall.html("m").count('role="listitem"') == len(steps) + 2


def test_letters_show_how_busy_a_device_is():
    # Of 40 cells of 1 s each device is busy for a quarter: short bars leave most cells empty.
    problem = weft.Problem.from_arrays(np.full((20, 1), 0.5))
    start = 2.0 * np.arange(20)
    trace = weft.simulate(
        problem, Schedule.of(device=np.zeros(20, int), start=start, finish=start + 0.5)
    )
    lane, axis, legend = gantt_text(trace, width=10).splitlines()
    assert lane == "d0 |AAAAAAAAAA|"  # the simulator starts tasks as soon as it can
    assert (axis.split(), legend.startswith("A = task")) == (["0", "10", "s"], True)
    shares = _cell_shares(trace, 40)
    assert shares.sum() / 40 == pytest.approx(trace.utilisation)
    assert "".join(_cell(np.array([x, 0.0]), "A!") for x in (0.1, 0.3, 0.8)) == ".aA"


def test_colours_follow_names_within_a_page():
    line = {"heft": Series([1, 2], [1, 2]), "cpop": Series([1, 2], [2, 3])}
    with colors_by_name():
        line_figure(line, title="a", x_label="", y_label="")
        assert numbers_of(["peft", "cpop"]) == [2, 1]
    assert numbers_of(["peft", "cpop"]) == [0, 1]
