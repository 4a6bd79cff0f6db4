"""Every kind of page that weft makes, for the browsers of the tests."""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

import weft
from tests.support.report_examples import eventful, layered, scripted
from tests.support.streams import two_stages
from tests.support.web.server import TOKEN, listening_to, serving
from weft.formats.native.stream_toml import read_stream_toml
from weft.report.figures import Series, bar_figure, line_figure, pareto_figure
from weft.report.gantt.html import gantt_html
from weft.report.page import Facts, Figure, Figures, Section, Table, Text, report_html
from weft.report.pages.live import draw_live, live_page
from weft.report.palette import colors_by_name
from weft.report.run_report import predicted_trace, write_run_report
from weft.runtime.web.http import AccessControl
from weft.runtime.web.limits import Token
from weft.runtime.web.live.board import LiveBoard
from weft.runtime.web.live.server import LiveServer
from weft.runtime.web.state import PageSource


def comparison():
    """A page with an answer, a table, charts in tabs and a workflow."""
    found = weft.compare(
        layered(40, 4), ["heft", "cpop", "eft", "round-robin"], scenarios=3, noise=0.2
    )
    return report_html(
        title="Comparison", sections=[found._page_section(w) for w in found.workloads]
    )


def run(folder):
    """The page of a run, over its prediction."""
    trace = scripted(LiveBoard(draw_live))
    path = folder / "run.html"
    write_run_report(trace, path, predicted_trace(trace, "eft"), name="scripted")
    return path.read_text(encoding="utf-8")


def experiment():
    """A page as experiments write them: facts, figures with many names, and a wide table."""
    names = [f"policy-{word}" for word in ("heft", "eft", "fifo", "search", "learned", "random")]
    rng, steps = np.random.default_rng(3), np.arange(1, 9)
    with colors_by_name():
        lines = {n: Series(steps, 40 + k + rng.random(8)) for k, n in enumerate(names)}
        figures = [
            line_figure(lines, title="By load", x_label="load", y_label="completion time, ms"),
            bar_figure(
                {n: {"mean": 40.0 + k} for k, n in enumerate(names)}, title="Means", y_label="ms"
            ),
            pareto_figure(
                {n: (1.0 + k, 9.0 - k) for k, n in enumerate(names)},
                title="Trade-off",
                x_label="cost",
                y_label="time, s",
            ),
        ]
    rows = [{"policy": n, **{f"p = {k / 10}": 1.167 * (k + 1) for k in range(12)}} for n in names]
    blocks = [Text("Six policies under eight loads."), Facts({"policies": "6", "loads": "8"})]
    sections = [
        Section("Result", [*blocks, Figures([Figure(drawn) for drawn in figures])]),
        Section("In numbers", [Table(rows)]),
    ]
    return report_html(title="An experiment", sections=sections)


STATIC = {
    "plan": lambda _: gantt_html(weft.plan(layered(60, 4), "heft")),
    "trace": lambda _: gantt_html(eventful()),
    "comparison": lambda _: comparison(),
    "run": run,
    "experiment": lambda _: experiment(),
}
"""Pages that are files: name -> text, from a folder to write in."""


@contextmanager
def live_run(_):
    """A run that has ended, and its page with the report."""
    board = LiveBoard(draw_live)
    scripted(board)
    with LiveServer(board, live_page()) as server:
        yield server.url, "html[data-done=true]"


@contextmanager
def live_running(folder):
    """A run of a service that goes on: one task is done, one runs."""
    with _service(folder) as (client, run_id):
        yield f"{_url(client)}/runs/{run_id}#token={TOKEN}", "section.gantt[data-rows='2']"


@contextmanager
def live_serve(folder):
    """A service with a run that goes on."""
    with _service(folder) as (client, _):
        yield f"{_url(client)}/#token={TOKEN}", "td:text('running')"


@contextmanager
def live_cascade(_):
    """A cascade that has answered thirty requests."""
    from weft.runtime.web.cascade import CascadeApp

    stages = {
        "small": weft.Stage(lambda batch: [(x, "unsure" if x % 3 else "sure") for x in batch]),
        "large": weft.Stage(lambda batch: [(x, None) for x in batch]),
    }
    stream = read_stream_toml(two_stages(), name="stream")
    token = Token(hashlib.sha256(TOKEN.encode()).hexdigest())
    page = PageSource(live_page(), draw_live)
    with weft.Cascade(weft.CascadeDescription(stream, stages, policy="fifo")) as cascade:
        app = AccessControl(CascadeApp(cascade, page=page), token, page=True)
        with listening_to(app) as client:
            for x in range(30):
                assert client.post("/v1/requests?timeout=60", json=x).status_code == 200
            yield f"{_url(client)}/#token={TOKEN}", "html[data-seen='30'] .over-time:visible"


LIVE = {
    "live run": live_run,
    "live run that goes on": live_running,
    "live serve": live_serve,
    "live cascade": live_cascade,
}
"""Pages of servers: name -> context of (address, selector that tells that all is there)."""


@contextmanager
def every_page(folder, names):
    """Yield name -> (address, selector) of the pages that are wanted."""
    with ExitStack() as stack:
        found = {}
        for name in names:
            place = folder / name.replace(" ", "-")
            place.mkdir(exist_ok=True)
            if name in LIVE:
                found[name] = stack.enter_context(LIVE[name](place))
                continue
            path = place / "page.html"
            path.write_text(STATIC[name](place), encoding="utf-8")
            found[name] = path.as_uri(), "html[data-ready=true]"
        for path in sorted(Path(os.environ.get("WEFT_PAGES", os.devnull)).glob("*.html")):
            found[path.name] = path.resolve().as_uri(), "html[data-ready=true]"
        yield found


@contextmanager
def _service(folder):
    gate = folder / "gate"
    call = {"function": "wait_for", "kwargs": {"path": str(gate)}}
    document = {
        "workflow": {"names": ["load", "train"], "work": [1, 1], "src": [0], "dst": [1]},
        "tasks": {"load": {"function": "one"}, "train": call},
    }
    page = PageSource(live_page(), draw_live)
    with serving(folder / "serve", page=page) as (client, _):
        run_id = client.post("/v1/runs", json=document).json()["id"]
        while client.get(f"/v1/runs/{run_id}").json()["state"] != "running":
            time.sleep(0.01)
        try:
            yield client, run_id
        finally:
            gate.touch()


def _url(client):
    return str(client.base_url).rstrip("/")
