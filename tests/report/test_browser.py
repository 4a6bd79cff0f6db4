"""Charts and pages in a real browser, with real mouse, wheel, touch and keys."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.support.report_examples import EVIL, diamond, eventful, evil_page, in_order, layered
from tests.support.waiting import WAIT_LIMIT
from tests.support.web.browser import CHROMIUM, COLOURS, chromium, patient_context, settle
from weft.model import Problem, Schedule
from weft.report.gantt.html import gantt_html
from weft.report.page import Dag, Facts, Gantts, Section, Table, Text, report_html

if CHROMIUM is None and "CI" not in os.environ:
    pytest.skip("no chromium on PATH", allow_module_level=True)

CHART = 'document.querySelector("section.gantt").chart'
Opener = Callable[..., Any]


@pytest.fixture(scope="module", name="browser")
def _browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture
def opened(browser, tmp_path) -> Iterator[Opener]:
    """Open a page and collect its console; at the end it must have said nothing."""
    contexts, said = [], []

    def open_page(html: str, *, width=1200, height=800, dark=False, touch=False, quiet=True) -> Any:
        file = Path(tmp_path) / f"page{len(contexts)}.html"
        file.write_text(html, encoding="utf-8")
        context = patient_context(
            browser,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            has_touch=touch,
            is_mobile=touch,
        )
        contexts.append(context)
        page = context.new_page()
        page.said = []
        log = said if quiet else page.said
        page.on("console", lambda message: log.append(message.text))
        page.on("pageerror", lambda error: log.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready=true]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []


def spot(page: Any, task: str) -> tuple[float, float]:
    """Return the middle of a task's bar on the screen; the chart is scrolled into sight."""
    canvas = page.locator("canvas.bars").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    x, y = page.evaluate(
        f"""(name) => {{ const c = {CHART}, m = c.model;
          const r = [...Array(m.n).keys()].find((k) => m.name(k) === name);
          const b = c.painter.box(r, c.view); return [(b.x0 + b.x1) / 2, b.y + b.h / 2]; }}""",
        task,
    )
    return box["x"] + x, box["y"] + y


def ask(page: Any, expression: str) -> Any:
    """Evaluate an expression about the first chart, called `chart`."""
    settle(page)
    return page.evaluate(f"(() => {{ const chart = {CHART}; return {expression}; }})()")


def compared() -> str:
    """A page with tables, answers, charts in tabs and a workflow."""
    problem = layered(40, 4)
    comparison = weft.compare(problem, ["heft", "cpop", "round-robin"], scenarios=3, noise=0.2)
    sections = [comparison._page_section(w) for w in comparison.workloads]
    wide = {f"column {k}": 1.5 * k for k in range(14)}
    return report_html(title="Comparison", sections=[*sections, Section("T", [Table([wide])])])


def test_a_small_schedule_is_drawn(opened):
    problem, schedule = diamond()
    page = opened(gantt_html(schedule, problem))
    root = page.locator("section.gantt")
    assert [root.get_attribute(f"data-{k}") for k in ("ready", "rows", "bars")] == [
        "true",
        "4",
        "4",
    ]
    assert page.locator("html").get_attribute("data-error") is None


def test_a_chart_of_a_new_size_is_not_blank(opened):
    page = opened(gantt_html(*reversed(diamond())))
    settle(page)
    (before,) = page.evaluate(COLOURS)
    (at_once,) = page.evaluate(f"() => {{ {CHART}.resize(); return ({COLOURS})(); }}")
    assert at_once == before > 3


def test_a_click_says_why(opened):
    problem, schedule = diamond()
    page = opened(gantt_html(schedule, problem))
    page.mouse.click(*spot(page, "c"))
    # 4 bytes at 1 byte per second from a's end at 2: there at 6. c ends at 7, 1 byte back: 8.
    found = ask(page, "{ from: chart.look.parents[0].arrival, to: chart.look.children[0].arrival }")
    assert found == {"from": 6, "to": 8}
    details = page.locator(".details").inner_text()
    assert "c starts on d1 at 6 s: 4 B from a on d0 arrive after 4 s" in details
    assert "4 B in 4 s" in details
    # On d0 c would have run after b, from 5 to 6.
    assert page.locator(".others tr").first.inner_text().split() == ["d0", "6", "s", "\u22121", "s"]
    page.mouse.click(*spot(page, "c"))
    assert ask(page, "chart.look.chosen") == -1


def test_keys_walk_the_critical_chain(opened):
    problem, schedule = diamond()
    page = opened(gantt_html(schedule, problem))
    assert ask(page, "chart.look.chain")
    assert ask(page, "chart.model.chain.map((r) => chart.model.name(r))") == ["a", "c", "d"]
    page.locator("canvas.bars").focus()
    chosen = []
    for key in ("p", "p", "p", "c"):
        page.keyboard.press(key)
        chosen.append(page.locator("section.gantt").get_attribute("data-chosen"))
    assert chosen == ["d", "c", "a", "c"]
    page.keyboard.press("k")
    assert not ask(page, "chart.look.chain")


def test_choosing_keeps_its_cause_in_view(opened):
    problem = Problem.from_arrays(
        [[1.0, 1.0], [1.0, 1.0], [900.0, 900.0]], [[0, 1]], [50.0], bandwidth=1.0
    )
    schedule = Schedule.of(device=[0, 1, 0], start=[0, 51, 1], finish=[1, 52, 901])
    page = opened(gantt_html(schedule, problem))
    page.get_by_placeholder("Find a task").fill("t1")
    page.keyboard.press("Enter")
    view = ask(page, "chart.view")
    assert view["t0"] <= 1
    assert view["t1"] >= 52
    assert view["t1"] - view["t0"] < 500


def test_moving_about(opened):
    problem, schedule = diamond()
    page = opened(gantt_html(schedule, problem))
    x, y = spot(page, "b")
    whole, at = ask(page, "chart.view"), ask(page, f"chart.painter.time({x}, chart.view)")
    page.mouse.move(x, y)
    for _ in range(8):
        page.mouse.wheel(0, -120)
    near = ask(page, "chart.view")
    assert near["t1"] - near["t0"] < 0.2 * (whole["t1"] - whole["t0"])
    assert near["t0"] < at < near["t1"]
    page.mouse.down()
    page.mouse.move(x + 50, y, steps=3)
    page.mouse.up()
    dragged = ask(page, "chart.view")
    assert dragged["t0"] < near["t0"]
    page.keyboard.press("ArrowRight")
    assert ask(page, "chart.view")["t0"] > dragged["t0"]
    page.keyboard.press("0")
    assert ask(page, "chart.view") == whole
    rows = []
    for key in ("n", "n", "b", "Escape"):
        page.keyboard.press(key)
        rows.append(ask(page, "chart.look.chosen"))
    assert rows == [0, 1, 0, -1]


def test_fingers_pan_and_choose(opened):
    problem, schedule = diamond()
    page = opened(gantt_html(schedule, problem), width=390, touch=True)
    page.touchscreen.tap(*spot(page, "b"))
    assert page.locator("section.gantt").get_attribute("data-chosen") == "b"


def test_pointing_shows_a_bar_or_why_nothing_runs(opened):
    page = opened(gantt_html(eventful()))
    page.mouse.move(*spot(page, "small"))
    text = page.locator(".tip").inner_text()
    for word in ("small", "g0", "n0", "0 (cascade)", "0 s", "2 s", "2 together"):
        assert word in text, word
    rows = ask(page, "[chart.model.n, +chart.root.dataset.bars, chart.model.lanes]")
    assert rows == [7, 7, [0, 2, 1]]
    for style in ("down", "lost"):
        assert page.locator(f".swatch.{style}").count() == 1
    assert ask(page, "[0, 1, 2].map((job) => chart.model.taken(job, 0))") == [True, True, False]
    problem, schedule = diamond()
    page = opened(gantt_html(schedule, problem))
    x, y = spot(page, "c")
    page.mouse.move(x - 200, y)
    assert "idle for 6 s" in page.locator(".tip").inner_text()
    assert "data of a" in page.locator(".tip").inner_text()


def test_lanes_are_sorted_and_folded(opened):
    problem = layered(60, 4)
    page = opened(gantt_html(weft.plan(problem, "heft")))
    busy = ask(page, "chart.painter.shown.map((lane) => chart.model.busy[lane])")
    page.get_by_label("Order of lanes").select_option("busy")
    by_busy = ask(page, "chart.painter.shown.map((lane) => chart.model.busy[lane])")
    assert by_busy == sorted(busy, reverse=True)
    page.get_by_label("Order of lanes").select_option("node")
    box = page.locator("canvas.bars").bounding_box()
    page.mouse.click(box["x"] + 20, box["y"] + 52)
    assert ask(page, "[...chart.painter.collapsed]") == ["n0"]
    assert ask(page, "chart.painter.shown.length") == 2


def test_names_do_not_become_code(opened):
    page = opened(evil_page())
    assert page.locator("html").get_attribute("data-hacked") is None
    assert page.locator("section.gantt").get_attribute("data-bars") == "2"
    page.mouse.click(*spot(page, EVIL))
    page.mouse.move(*spot(page, "b"))
    assert page.locator(".details h3").first.inner_text() == EVIL
    page.get_by_placeholder("Find a task").fill("</SCRIPT>")
    assert ask(page, "chart.found.length") == 1
    assert page.locator("img").count() == 0
    assert page.locator("html").get_attribute("data-hacked") is None


def test_the_policy_refuses_foreign_scripts(opened):
    problem, schedule = diamond()
    foreign = "<script>document.documentElement.dataset.hacked = 1</script></body>"
    page = opened(gantt_html(schedule, problem).replace("</body>", foreign), quiet=False)
    assert page.locator("html").get_attribute("data-hacked") is None
    assert any("Content Security Policy" in text for text in page.said)


def test_thousands_of_tasks(opened):
    problem = layered(5000, 16)
    rng = np.random.default_rng(1)
    device, length = np.arange(5000) % 16, rng.lognormal(0, 0.5, 5000)
    finish = np.zeros(5000)
    for d in range(16):
        finish[device == d] = np.cumsum(length[device == d])
    page = opened(
        gantt_html(Schedule.of(device=device, start=finish - length, finish=finish), problem)
    )
    whole, width = ask(page, "[+chart.root.dataset.bars, chart.painter.plot]")
    assert 4000 < whole <= 16 * (width + 1)  # narrow bars are painted by pixel
    page.get_by_placeholder("Find a task").fill("t4321")
    page.keyboard.press("Enter")
    assert ask(page, "chart.root.dataset.chosen") == "t4321"
    assert 0 < ask(page, "+chart.root.dataset.bars") < whole
    page.keyboard.press("Escape")
    ask(page, "chart.choose(-1)")
    page.mouse.click(*spot(page, "t4321"))
    assert ask(page, "chart.root.dataset.chosen") == "t4321"


def test_bars_below_a_pixel_are_gathered(opened):
    n = 100_000
    at = np.repeat(np.arange(n // 2, dtype=float), 2)
    page = opened(
        gantt_html(
            Schedule.of(device=np.arange(n) % 2, start=at, finish=at + 0.9),
            Problem.from_arrays(work=np.ones(n), speed=[1.0, 1.0]),
        )
    )
    rows, bars, width = ask(page, "[chart.model.n, +chart.root.dataset.bars, chart.painter.plot]")
    assert rows == n
    assert 0 < bars <= 2 * (width + 1)


def test_searching(opened):
    problem = layered(60, 4)
    page = opened(gantt_html(in_order(problem), problem))
    page.get_by_placeholder("Find a task").fill("T5")
    assert page.locator(".found").inner_text() == "11 found"
    found = ask(page, "chart.found.map((r) => chart.model.name(r)).sort()")
    assert found == sorted(["t5", *(f"t5{k}" for k in range(10))])
    page.keyboard.press("Enter")
    assert page.locator("section.gantt").get_attribute("data-chosen") in found


def test_tabs_share_zoom_and_selection_and_compare(opened):
    problem, schedule = diamond()
    slow = Schedule.of(device=[0, 0, 0, 0], start=[0, 2, 5, 16], finish=[2, 5, 6, 17])
    sections = [
        Section("One", [Facts({"a": EVIL}), Text(EVIL), Table([{"x": EVIL, "y": 1.0}])]),
        Section("Two", [Gantts({EVIL: schedule, "slow": slow}, problem)]),
        Section("Three", [Dag(problem.workflow)]),
    ]
    page = opened(report_html(title=EVIL, sections=sections), width=500, height=900)
    assert page.locator("html").get_attribute("data-hacked") is None
    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == [EVIL, "slow"]
    page.mouse.click(*spot(page, "b"))
    page.keyboard.press("+")
    view = ask(page, "chart.view")
    tabs.nth(1).click()
    second = page.locator("section.gantt").nth(1)
    state = second.evaluate("(s) => [s.dataset.bars, s.dataset.chosen, s.chart.view]")
    assert (int(state[0]) > 0, state[1]) == (True, "b")
    assert (state[2]["t0"], state[2]["t1"]) == (view["t0"], view["t1"])
    second.get_by_label("Compare with").select_option("0")
    text = second.locator(".difference").inner_text()
    assert "1 of 4 tasks run elsewhere" in text
    assert "8 s longer" in text
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_workflow_and_the_chart_show_the_same_task(opened):
    problem, schedule = diamond()
    sections = [Section("s", [Gantts({"x": schedule}, problem), Dag(problem.workflow)])]
    page = opened(report_html(title="t", sections=sections))
    nodes = page.locator(".dag [data-task]")
    chain = nodes.evaluate_all("(n) => n.map((e) => e.classList.contains('chain'))")
    assert chain == [True, False, True, True]
    nodes.nth(1).click()
    assert page.locator("section.gantt").get_attribute("data-chosen") == "b"
    page.mouse.click(*spot(page, "c"))
    chosen = nodes.evaluate_all("(n) => n.map((e) => e.classList.contains('chosen'))")
    assert chosen == [False, False, True, False]


def shown_charts(page: Any, wanted: int) -> int:
    """Return how many charts are shown, once there are so many, or after some patience."""
    limit = time.monotonic() + WAIT_LIMIT
    while (found := len(page.evaluate(COLOURS))) != wanted and time.monotonic() < limit:
        page.wait_for_timeout(50)
    return found


def test_print_shows_every_chart_and_screens_only_the_open_one(opened):
    page = opened(compared())
    assert shown_charts(page, 1) == 1
    page.emulate_media(media="print")
    assert shown_charts(page, 3) == 3
    assert not page.locator(".tools").first.is_visible()
    assert len(page.pdf()) > 20_000
    page.emulate_media(media="screen")
    assert shown_charts(page, 1) == 1


def sheets(pdf: bytes) -> int:
    """Return the number of pages of a PDF."""
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_a_page_that_is_printed_at_once_has_all_its_charts_on_paper(opened):
    """Six charts in tabs: a browser lays out its sheets right after it says that it prints."""
    plan = weft.plan(layered(30, 3), "heft")
    charts = {f"plan {k}": plan for k in range(6)}
    page = opened(report_html(title="t", sections=[Section("s", [Gantts(charts)])]))
    at_once = sheets(page.pdf())
    assert shown_charts(page, 1) == 1  # the screen is as before
    page.emulate_media(media="print")
    assert shown_charts(page, 6) == 6
    assert at_once == sheets(page.pdf()) > 1


def test_a_wide_table_keeps_its_first_column_and_shows_that_it_scrolls(opened):
    rows = [{"policy": "heft", **{f"column {k}": 1.167 * k for k in range(14)}}]
    page = opened(report_html(title="t", sections=[Section("s", [Table(rows)])]), width=390)
    box = page.locator(".wide")
    assert "more-right" in box.get_attribute("class")
    box.evaluate("(e) => { e.scrollLeft = 300; }")
    page.wait_for_selector(".wide.more-left")
    first, outer = page.locator("td").first.bounding_box(), box.bounding_box()
    assert abs(first["x"] - outer["x"]) < 1
    assert first["width"] > 60
    assert first["height"] < 60  # names are not broken letter by letter
