"""A browser for tests: how it is started, and what may be wrong with a page."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from functools import cache

import pytest

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

SETTLED = """() => new Promise((done) => {
  let frames = 4;
  const next = () => (frames-- ? requestAnimationFrame(next) : setTimeout(done, 60));
  next();
})"""
"""Some frames were drawn: on a busy machine, a number of milliseconds says little."""


def settle(page):
    """Wait until a page has drawn what it was asked for."""
    page.evaluate(SETTLED)


OVERLAPS = """() => {
  const shown = [...document.querySelectorAll(
    "h1, h2, h3, p, dt, dd, td, th, button, label, output, time, .value, .at, .axis span, "
    + "figcaption, svg text")]
    .filter((e) => e.checkVisibility() && e.getClientRects().length && !e.closest(".unseen, .tip"))
    .filter((e) => !(e.closest(".dag") && e.closest("svg")) && e.textContent.trim());
  const boxes = shown.map((e) => [e, e.getBoundingClientRect()]), bad = [];
  boxes.forEach(([a, p], i) => boxes.slice(i + 1).forEach(([b, q]) => {
    if (a.contains(b) || b.contains(a) || a.closest(".wide") !== b.closest(".wide")) return;
    if (a.closest(".log") !== b.closest(".log")) return; // a log scrolls
    if ([a, b].some((e) => getComputedStyle(e).position === "sticky")) return;
    const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    if (x > 2 && y > 3) bad.push([a.textContent.slice(0, 30), b.textContent.slice(0, 30)]);
  }));
  return bad;
}"""
"""Pairs of texts that lie on each other."""

CLIPPED = """() => [...document.querySelectorAll(
    "h1, h2, h3, p, dd, td, th, label, output, .value, .at, .axis span, button")]
  .filter((e) => e.checkVisibility() && !e.closest(".wide, .unseen, .tip"))
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1
    || (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflow === "hidden"))
  .map((e) => e.textContent.slice(0, 40))"""
"""Texts that leave the page or are cut."""

OUTSIDE = """() => [...document.querySelectorAll("svg text")]
  .filter((e) => e.checkVisibility() && e.textContent.trim())
  .filter((e) => {
    const t = e.getBoundingClientRect(), b = e.ownerSVGElement.getBoundingClientRect();
    return t.right > b.right + 2 || t.left < b.left - 2 || t.bottom > b.bottom + 3; })
  .map((e) => e.textContent.slice(0, 40))"""
"""Labels of pictures that leave their picture."""

UNMARKED = """() => matchMedia("print").matches ? [] : [...document.querySelectorAll(".wide")]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
  .filter((e) => !e.classList.contains("more-right") && !e.classList.contains("more-left"))
  .map((e) => e.textContent.slice(0, 40))"""
"""Boxes that scroll sideways without a sign of it."""

COLOURS = """() => [...document.querySelectorAll("canvas.bars")].filter((c) => c.offsetWidth)
  .map((c) => {
    const { width, height } = c, seen = new Set();
    const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(c, 0, 0);
    const { data } = copy.getImageData(0, 0, width, height);
    for (let k = 0; k < data.length; k += 388) seen.add(data.slice(k, k + 3).join());
    return seen.size;
  })"""
"""Number of colours of each chart that is shown: a blank one has few."""

UNNAMED = """() => [
  ...document.querySelectorAll("button, select, input, canvas:not([aria-hidden])")]
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim() || e.labels?.length))
  .concat([...document.querySelectorAll("[aria-label]")].filter((e) => e.matches("button")
    && e.textContent.trim() && /[a-z]{3}/i.test(e.textContent)
    && !e.getAttribute("aria-label").toLowerCase().includes(e.textContent.trim().toLowerCase())))
  .map((e) => e.outerHTML.slice(0, 80))"""
"""Controls without a name, or with another one than they show."""

NARROW = "() => document.documentElement.scrollWidth > innerWidth + 1 ? ['the page'] : []"
BLANK = f"() => ({COLOURS})().filter((n) => n <= 3)"
FAULTS = {
    "overlapping": OVERLAPS,
    "clipped": CLIPPED,
    "outside": OUTSIDE,
    "unmarked": UNMARKED,
    "blank": BLANK,
    "unnamed": UNNAMED,
    "too wide": NARROW,
}
"""What may be wrong -> a function that lists where."""


def faults(evaluate):
    """Return what is wrong with a page; `evaluate` calls a JavaScript function in it."""
    found = {name: evaluate(script) for name, script in FAULTS.items()}
    return {name: places for name, places in found.items() if places}


@cache
def axe():
    """Return axe, which looks for barriers to readers; the test is skipped without it."""
    return pytest.importorskip("axe_playwright_python.sync_playwright").Axe()


def barriers(page):
    """Return the rules of axe that a page breaks, with examples."""
    found = axe().run(page).response["violations"]
    return [(v["id"], v["impact"], [n["html"][:90] for n in v["nodes"][:2]]) for v in found]


@contextmanager
def chromium():
    """Start Chromium; skip the test where there is none, unless in CI."""
    playwright = pytest.importorskip("playwright.sync_api")
    if CHROMIUM is None and "CI" not in os.environ:
        pytest.skip("no chromium on PATH")
    with playwright.sync_playwright() as p:
        started = p.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


def patient_context(browser, **options):
    """Return a context that waits as long as a busy machine takes; Playwright gives up at 30 s."""
    context = browser.new_context(**options)
    context.set_default_timeout(1e6)
    return context


@contextmanager
def listened(browser, said, *, width=1400, dark=False):
    """Open a page in a context of its own; what its console says is added to `said`."""
    touch = width < 600
    context = patient_context(
        browser,
        viewport={"width": width, "height": 900},
        color_scheme="dark" if dark else "light",
        has_touch=touch,
        is_mobile=touch,
    )
    page = context.new_page()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    try:
        yield page
    finally:
        context.close()
