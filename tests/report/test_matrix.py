"""Every page x light and dark x 1400 and 390 px x screen and print, in real browsers.

The suite looks at each page twice, 1400 px light and 390 px dark, on screen and on paper, and at
two of them in Firefox. ``make matrix`` takes all combinations; with WEFT_PAGES, a folder, it looks
at the HTML files there, too.
"""

from __future__ import annotations

import os

import pytest

from tests.support.web.browser import CHROMIUM, barriers, chromium, faults, listened, settle
from tests.support.web.firefox import FIREFOX, Firefox
from tests.support.web.pages import LIVE, STATIC, every_page

FULL = os.environ.get("WEFT_MATRIX") == "full"
FORMS = [(1400, False), (390, True), *([(1400, True), (390, False)] if FULL else [])]
"""(width, dark) that are looked at."""

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="no chromium on PATH"
)


@pytest.fixture(scope="module", name="pages")
def _pages(tmp_path_factory):
    with every_page(tmp_path_factory.mktemp("pages"), [*STATIC, *LIVE]) as found:
        yield found


@pytest.fixture(scope="module", name="browser")
def _browser():
    with chromium() as started:
        yield started


def names_of_pages():
    return [*STATIC, *LIVE, *(["more"] if "WEFT_PAGES" in os.environ else [])]


@pytest.mark.parametrize("name", names_of_pages())
@pytest.mark.parametrize(("width", "dark"), FORMS)
def test_pages_have_no_faults(browser, pages, name, width, dark):
    wanted = [name] if name in pages else [key for key in pages if key not in (*STATIC, *LIVE)]
    for key in wanted:
        said, (url, ready) = [], pages[key]
        with listened(browser, said, width=width, dark=dark) as page:
            page.goto(url)
            page.wait_for_selector(ready)
            settle(page)
            for media in ("screen", "print"):
                page.emulate_media(media=media)
                settle(page)
                assert faults(page.evaluate) == {}, (key, media)
            page.emulate_media(media="screen")
            assert barriers(page) == [], key
            assert page.locator("h1").count() == page.locator("main").count() == 1
        assert said == [], key


CHART = 'document.querySelector("section.gantt").chart'


@pytest.mark.parametrize("name", ["plan", "comparison", "run", "live run"])
def test_real_mouse_wheel_and_keys_move_every_chart(browser, pages, name):
    said, (url, ready) = [], pages[name]
    with listened(browser, said) as page:
        page.goto(url)
        page.wait_for_selector(ready)
        canvas = page.locator("canvas.bars").first
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + min(box["height"] / 2, 200)

        def view():
            settle(page)
            found = page.evaluate(f"{CHART}.view")
            return found["t0"], found["t1"]

        whole = view()
        page.mouse.click(x, y)
        page.keyboard.press("Escape")
        page.mouse.wheel(0, -240)
        near = view()
        assert near[1] - near[0] < 0.8 * (whole[1] - whole[0])
        page.mouse.down()
        page.mouse.move(x + 80, y, steps=4)
        page.mouse.up()
        dragged = view()
        assert dragged[0] < near[0]
        page.keyboard.press("ArrowRight")
        assert view()[0] > dragged[0]
        page.keyboard.press("0")
        assert view() == whole
        page.keyboard.press("n")
        assert page.evaluate(f"{CHART}.look.chosen") == 0
        assert page.locator(".details h3").first.is_visible()
    assert said == []


@pytest.mark.parametrize("name", ["trace", "live run"])
def test_fingers_choose_zoom_and_pan(browser, pages, name):
    said, (url, ready) = [], pages[name]
    with listened(browser, said, width=390, dark=True) as page:
        page.goto(url)
        page.wait_for_selector(ready)
        canvas = page.locator("canvas.bars").first
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        at = page.evaluate(
            f"(() => {{ const b = {CHART}.painter.box(0, {CHART}.view); "
            "return [(b.x0 + b.x1) / 2, b.y + b.h / 2]; })()"
        )
        page.touchscreen.tap(box["x"] + at[0], box["y"] + at[1])
        settle(page)
        assert page.evaluate(f"{CHART}.look.chosen") == 0
        span = page.evaluate(f"{CHART}.view.t1 - {CHART}.view.t0")
        middle, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        devtools = page.context.new_cdp_session(page)

        def fingers(kind, *places):
            points = [{"x": px, "y": y, "id": k} for k, px in enumerate(places)]
            devtools.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        fingers("touchStart", middle - 20, middle + 20)
        for reach in (30, 50, 70):
            fingers("touchMove", middle - reach, middle + reach)
        fingers("touchEnd")
        settle(page)
        assert page.evaluate(f"{CHART}.view.t1 - {CHART}.view.t0") < 0.7 * span
    assert said == []


def test_sliders_answer_to_keys(browser, pages):
    said, (url, ready) = [], pages["live run"]
    with listened(browser, said) as page:
        page.goto(url)
        page.wait_for_selector(ready)
        page.locator("#slider-1").focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(".said[data-ms]")
        assert "makespan" in page.locator(".said").inner_text()
    assert said == []


FIREFOX_PAGES = [*STATIC, *LIVE] if FULL else ["comparison", "live run"]


@pytest.mark.skipif(FIREFOX is None, reason="no firefox on PATH")
@pytest.mark.parametrize("dark", [False, True] if FULL else [False])
def test_pages_in_firefox(pages, tmp_path, dark):
    """Firefox speaks WebDriver BiDi itself: real wheel and keys, no driver beside it."""
    with Firefox(tmp_path, dark=dark) as firefox:
        for name in FIREFOX_PAGES:
            url, ready = pages[name]
            for width in (1400, 500) if FULL else (1400,):  # 500 px is its least width
                firefox.open(url, ready, width=width)
                found = faults(firefox.call)
                assert found == {}, (name, width)
                assert firefox.said == [], (name, width)
            if name in ("plan", "comparison", "live run"):
                firefox.call(f"() => {CHART}.parts.canvas.focus()")
                before = firefox.call(f"() => {CHART}.view.t1 - {CHART}.view.t0")
                firefox.wheel("canvas.bars", -240)
                near = firefox.call(f"() => {CHART}.view.t1 - {CHART}.view.t0")
                assert near < 0.8 * before
                firefox.press("0")
                assert firefox.call(f"() => {CHART}.view.t1 - {CHART}.view.t0") == before
            assert firefox.pdf_bytes() > 5_000
