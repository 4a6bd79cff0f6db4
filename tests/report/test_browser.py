"""Charts and pages in a real browser: drawing, interaction, and names that are no code."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.report.test_chart import evil_page
from tests.support.report_examples import EVIL, diamond, eventful, in_order, layered
from weft.model import Problem, Schedule
from weft.report.gantt_html import gantt_html
from weft.report.page import Dag, Facts, Gantts, Section, Table, Text, report_html

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH")

QUIET = (
    "--no-first-run",
    "--disable-sync",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--enable-logging=stderr",
    *QUIET,
)
WAIT = ("--virtual-time-budget=4000", "--dump-dom")

HANDS = """
const root = document.querySelector("section.gantt"), chart = root.chart;
const canvas = root.querySelector("canvas.bars");
const press = (type, x, y, more) => {
  const box = canvas.getBoundingClientRect();
  canvas.dispatchEvent(new PointerEvent(type, {
    pointerId: 1, clientX: box.left + x, clientY: box.top + y, bubbles: true, ...more }));
};
const row = (name) => [...Array(chart.model.n).keys()].find((r) => chart.model.name(r) === name);
const middle = (name) => {
  const b = chart.painter.box(row(name), chart.view); return [(b.x0 + b.x1) / 2, b.y + b.h / 2]; };
const click = (name) => {
  press("pointerdown", ...middle(name)); press("pointerup", ...middle(name)); };
const frame = () => new Promise((go) => setTimeout(go, 60));
"""
"""What a reader's hands do, for the scripts of the tests."""


def dom(page: str, folder: Path, *, size: str = "1200,800") -> tuple[str, str]:
    """The page's elements after its scripts ran, and what it said on the console."""
    file = folder / "page.html"
    file.write_text(page, encoding="utf-8")
    command = [
        str(CHROMIUM),
        *FLAGS,
        *WAIT,
        f"--window-size={size}",
        f"--user-data-dir={folder / 'profile'}",
        file.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    said = [line for line in done.stderr.decode(errors="replace").splitlines() if "CONSOLE" in line]
    return done.stdout.decode(), "\n".join(said)


def ask(page: str, script: str, folder: Path, *, size: str = "1200,800") -> dict:
    """Run a script on the page's chart, without the policy that would refuse the script."""
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    assert bare != page
    # Frames by the clock: a browser without a screen draws when it likes.
    bare = bare.replace(
        "<head>", "<head><script>window.requestAnimationFrame = (f) => setTimeout(f, 8);</script>"
    )
    run = f"setTimeout(async () => {{ {HANDS} const answer = await (async () => {{ {script} }})();"
    run += "document.documentElement.dataset.answer = JSON.stringify(answer); }, 200);"
    shown, said = dom(bare.replace("</body>", f"<script>{run}</script></body>"), folder, size=size)
    assert not said
    root = re.search(r"<html[^>]*>", shown)
    assert root is not None
    assert "data-hacked" not in root[0]
    found = re.search(r'data-answer="([^"]*)"', root[0])
    assert found is not None, root[0]
    return json.loads(html.unescape(found[1]))


def test_a_small_schedule_is_drawn(tmp_path):
    problem, schedule = diamond()
    shown, said = dom(gantt_html(schedule, problem), tmp_path)
    assert not said
    assert 'data-ready="true"' in shown
    assert 'data-rows="4"' in shown
    assert 'data-bars="4"' in shown
    assert "data-error" not in shown


def test_a_click_shows_parents_children_and_transfers(tmp_path):
    problem, schedule = diamond()
    script = """
      click("c");
      const [p] = chart.look.parents, [k] = chart.look.children, name = (r) => chart.model.name(r);
      const said = root.querySelector(".details").textContent;
      click("c");
      return { parent: name(p.from), arrival: p.arrival, child: name(k.to),
        back: k.arrival, said, after: chart.look.chosen };
    """
    answer = ask(gantt_html(schedule, problem), script, tmp_path)
    # 4 bytes at 1 byte a second from a's end at 2: there at 6. c ends at 7, 1 byte back: 8. A
    # second click clears.
    assert (
        answer["parent"],
        answer["arrival"],
        answer["child"],
        answer["back"],
        answer["after"],
    ) == ("a", 6, "d", 8, -1)
    assert "4 B in 4 s" in answer["said"]


def test_moving_about(tmp_path):
    problem, schedule = diamond()
    script = """
      const whole = { ...chart.view }, x = 500;
      const at = chart.painter.time(x, chart.view), box = canvas.getBoundingClientRect();
      const at60 = { clientX: box.left + x, clientY: box.top + 60, cancelable: true };
      const wheel = (deltaY) => canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, ...at60 }));
      for (let k = 0; k < 8; k++) wheel(-100);
      const near = { ...chart.view }, still = chart.painter.time(x, chart.view);
      press("pointerdown", 400, 60); press("pointermove", 450, 60); press("pointerup", 450, 60);
      const dragged = { ...chart.view };
      const key = (name) => canvas.dispatchEvent(
        new KeyboardEvent("keydown", { key: name, cancelable: true }));
      key("ArrowRight"); const right = { ...chart.view };
      key("0"); const reset = { ...chart.view };
      key("n"); const first = chart.look.chosen;
      key("n"); const second = chart.look.chosen; key("Escape");
      for (let k = 0; k < 500; k++) wheel(100);
      return { whole, near, at, still, dragged, right, reset, first, second,
        cleared: chart.look.chosen, far: chart.view };
    """
    a = ask(gantt_html(schedule, problem), script, tmp_path)
    assert abs(a["at"] - a["still"]) < 1e-9
    assert a["near"]["t1"] - a["near"]["t0"] < 0.2 * (a["whole"]["t1"] - a["whole"]["t0"])
    assert a["dragged"]["t0"] < a["near"]["t0"] < a["right"]["t0"]
    assert a["reset"] == a["whole"] == a["far"]
    assert (a["first"], a["second"], a["cleared"]) == (0, 1, -1)


def test_pointing_shows_what_a_bar_is(tmp_path):
    script = """
      press("pointermove", ...middle("small"));
      await frame();
      const tip = root.querySelector(".tip");
      const counts = { down: root.querySelectorAll(".swatch.down").length,
        lost: root.querySelectorAll(".swatch.lost").length };
      const { lanes, n } = chart.model;
      return { hidden: tip.hidden, text: tip.innerText, lanes, rows: n,
        bars: +root.dataset.bars, ...counts };
    """
    a = ask(gantt_html(eventful()), script, tmp_path)
    assert not a["hidden"]
    for word in ("small", "g0", "n0", "0 (cascade)", "0 s", "2 s", "2 together"):
        assert word in a["text"], word
    assert (a["rows"], a["bars"], a["lanes"], a["down"], a["lost"]) == (7, 7, [0, 2, 1], 1, 1)


def test_a_branch_not_taken_is_told_apart(tmp_path):
    trace = eventful()
    script = "return [0, 1, 2].map((job) => chart.model.taken(job, 0));"
    assert ask(gantt_html(trace), script, tmp_path) == [True, True, False]


def test_names_do_not_become_code(tmp_path):
    # With the page's policy, and again without it: escaping alone must hold.
    shown, said = dom(evil_page(), tmp_path)
    assert not said
    assert "data-hacked" not in shown
    assert 'data-bars="2"' in shown
    script = """
      click(chart.model.name(0)); press("pointermove", ...middle("b"));
      const search = root.querySelector("input"); search.value = "<" + "/SCRIPT>";
      search.dispatchEvent(new Event("input"));
      await frame();
      const heading = root.querySelector(".details h3").textContent;
      return { name: chart.model.name(0), heading, found: chart.found.length,
        images: document.images.length };
    """
    other = tmp_path / "bare"
    other.mkdir()
    a = ask(evil_page(), script, other)
    assert a == {"name": EVIL, "heading": EVIL, "found": 1, "images": 0}


def test_the_policy_refuses_foreign_scripts(tmp_path):
    problem, schedule = diamond()
    page = gantt_html(schedule, problem).replace(
        "</body>", "<script>document.documentElement.dataset.hacked = 1</script></body>"
    )
    shown, said = dom(page, tmp_path)
    assert "data-hacked" not in shown
    assert "Content Security Policy" in said


def test_thousands_of_tasks(tmp_path):
    problem = layered(5000, 16)
    rng = np.random.default_rng(1)
    device = np.arange(5000) % 16
    length = rng.lognormal(0, 0.5, 5000)
    finish = np.zeros(5000)
    for d in range(16):
        finish[device == d] = np.cumsum(length[device == d])
    page = gantt_html(Schedule.of(device=device, start=finish - length, finish=finish), problem)
    script = """
      const whole = +root.dataset.bars;
      chart.go("t4321"); await frame();
      const hit = chart.hit(...middle("t4321"));
      return { whole, near: +root.dataset.bars,
        found: chart.model.name(hit), chosen: root.dataset.chosen };
    """
    a = ask(page, script, tmp_path)
    assert 4000 < a["whole"] <= 5000
    assert 0 < a["near"] < a["whole"]
    assert (a["found"], a["chosen"]) == ("t4321", "t4321")


def test_bars_below_a_pixel_are_gathered(tmp_path):
    n = 100_000
    at = np.repeat(np.arange(n // 2, dtype=float), 2)
    page = gantt_html(
        Schedule.of(device=np.arange(n) % 2, start=at, finish=at + 0.9),
        Problem.from_arrays(work=np.ones(n), speed=[1.0, 1.0]),
    )
    a = ask(
        page,
        "return { rows: chart.model.n, bars: +root.dataset.bars, width: chart.painter.plot };",
        tmp_path,
    )
    assert a["rows"] == n
    assert 0 < a["bars"] <= 2 * (a["width"] + 1)


def test_searching(tmp_path):
    problem = layered(60, 4)
    script = """
      const search = root.querySelector("input");
      search.value = "T5"; search.dispatchEvent(new Event("input"));
      const said = root.querySelector(".found").textContent;
      search.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
      return { said, chosen: root.dataset.chosen,
        all: chart.found.map((r) => chart.model.name(r)).sort() };
    """
    a = ask(gantt_html(in_order(problem), problem), script, tmp_path)
    assert a["said"] == "11 found"
    assert a["all"] == sorted(["t5", *(f"t5{k}" for k in range(10))])
    assert a["chosen"] in a["all"]


def test_a_phone_does_not_scroll_sideways(tmp_path):
    problem, schedule = diamond()
    script = "return { page: document.documentElement.scrollWidth, room: innerWidth };"
    a = ask(gantt_html(schedule, problem), script, tmp_path, size="500,800")
    assert a["page"] <= a["room"]


def test_a_report_with_tabs(tmp_path):
    problem, schedule = diamond()
    slow = Schedule.of(device=[0, 0, 0, 0], start=[0, 2, 5, 16], finish=[2, 5, 6, 20])
    sections = [
        Section("One", [Facts({"a": EVIL}), Text(EVIL), Table([{"x": EVIL, "y": 1.0}])]),
        Section("Two", [Gantts({EVIL: schedule, "slow": slow}, problem)]),
        Section("Three", [Dag(problem.workflow)]),
    ]
    page = report_html(title=EVIL, sections=sections)
    shown, said = dom(page, tmp_path)
    assert not said
    assert "data-hacked" not in shown
    script = """
      const tabs = [...document.querySelectorAll("[role=tab]")];
      const charts = [...document.querySelectorAll("section.gantt")];
      const before = charts.map((c) => c.dataset.bars || null);
      tabs[1].click(); await frame();
      const panels = [...document.querySelectorAll("[role=tabpanel]")].map((p) => p.hidden);
      const ends = charts.map((c) => c.chart.model.end), labels = tabs.map((t) => t.textContent);
      return { before, after: charts[1].dataset.bars, labels, panels, ends,
        wide: document.documentElement.scrollWidth <= innerWidth };
    """
    other = tmp_path / "bare"
    other.mkdir()
    a = ask(page, script, other, size="500,900")
    assert (a["before"], a["after"]) == (["4", None], "4")
    assert (a["labels"], a["panels"], a["wide"]) == ([EVIL, "slow"], [True, False], True)
    assert a["ends"] == [20, 20]  # one time axis for all
