"""The live page: a run to its end, a server that is started again, tokens and what-if."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request

import pytest

from tests.support.report_examples import scripted
from tests.support.waiting import WAIT_LIMIT
from tests.support.web.browser import chromium, patient_context
from tests.support.web.pages import live_cascade
from tests.support.web.server import TOKEN, server_process, serving
from weft.model import Problem, Workload
from weft.report.gantt.chart import Chart
from weft.report.gantt.html import chart_data
from weft.report.pages.live import draw_live, live_page
from weft.runtime.backends.protocol import Started
from weft.runtime.engine.live_lifecycle import LiveLifecycle
from weft.runtime.web.live.board import LiveBoard
from weft.runtime.web.live.server import LiveServer
from weft.runtime.web.state import PageSource

RUN = 'document.getElementById("live").run'


@pytest.fixture(name="browser", scope="module")
def _browser():
    with chromium() as started:
        yield started


def waits(gate):
    """Return a document of two tasks: the second waits for a file."""
    call = {"function": "wait_for", "kwargs": {"path": str(gate)}}
    return {
        "workflow": {"names": ["a", "b"], "work": [1, 1], "src": [0], "dst": [1]},
        "tasks": {"a": {"function": "one"}, "b": call},
    }


def plain(data):
    return json.loads(json.dumps(data))


def test_events_hold_every_row_of_the_trace():
    board = LiveBoard(draw_live)
    trace = scripted(board)
    rows = [event for event in board.events if event["kind"] == "execution"]
    keys = ("task", "device", "start", "finish", "status", "batch")
    columns = [getattr(trace, key).tolist() for key in keys]
    assert sorted(tuple(row[key] for key in keys) for row in rows) == sorted(
        zip(*columns, strict=True)
    )
    kinds = [event["kind"] for event in board.events]
    assert (kinds[0], kinds[-2:]) == ("begun", ["report", "ended"])
    said = [event.get("text", "") for event in board.events]
    assert any("d1 is lost" in text for text in said)
    assert any(text.startswith("planned again: d1 is lost") for text in said)
    assert board.status()["waiting"] == {}


def test_the_clock_of_a_run_starts_with_its_first_event():
    board = LiveBoard(draw_live)
    problem = Problem.from_arrays([[2.0], [3.0]], [[0, 1]])
    life = LiveLifecycle(Workload.of(problem))
    board.begin(life, "eft")
    assert (board.status()["now"], board.status()["done"]) == (0.0, 0)
    assert board.opening["reference"] == "reference: heft"
    board.started(life, Started(0, 0, 0.5))
    assert board.status()["now"] >= 0.5


def request(server, path, *, token="", body=None):
    headers = {"authorization": f"Bearer {token}"} if token else {}
    url = server.url.partition("/runs/")[0] + path
    with urllib.request.urlopen(
        urllib.request.Request(url, body, headers), timeout=WAIT_LIMIT
    ) as answer:
        return answer.read()


def test_data_needs_the_token_and_the_page_does_not():
    board = LiveBoard(draw_live)
    scripted(board)
    with LiveServer(board, live_page()) as server:
        assert server.url.startswith("http://127.0.0.1:")
        token = server.url.rpartition("=")[2]
        assert token.encode() not in request(server, "/runs/live")
        for path in ("/v1/runs/live/chart", "/v1/runs/live/events", "/v1/whatif"):
            for wrong in ("", "wrong"):
                with pytest.raises(urllib.error.HTTPError) as error:
                    request(server, path, token=wrong)
                assert error.value.code == 401
        text = request(server, "/v1/runs/live/events", token=token).decode()
        assert text.count("event: execution") == sum(
            event["kind"] == "execution" for event in board.events
        )
        body = json.dumps({"changes": ["faster task=2"]}).encode()
        answer = json.loads(request(server, "/v1/whatif", token=token, body=body))
        assert answer["after"]["makespan"] < answer["before"]["makespan"]
        with pytest.raises(urllib.error.HTTPError) as error:
            request(server, "/v1/whatif", token=token, body=b'{"changes": ["dance"]}')
        assert "unknown change" in json.load(error.value)["error"]


def test_the_policy_lets_the_page_talk_to_its_server_only():
    page = live_page().decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert "default-src 'none'" in policy
    assert policy.endswith("connect-src 'self'")
    assert "unsafe" not in policy.replace("style-src 'unsafe-inline'", "")


def test_at_the_end_the_page_holds_what_the_report_holds(browser):
    board, said = LiveBoard(draw_live), []
    trace = scripted(board)
    with LiveServer(board, live_page()) as server, patient_context(browser) as context:
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(server.url)
        assert "token" not in page.url
        page.wait_for_selector("html[data-done=true]")
        static = plain(chart_data(Chart.of(trace, title="measured")))
        assert page.evaluate(f"{RUN}.chart.model.data") == static
        rows = page.evaluate(f"{RUN}.data().rows")  # from events alone
        for key in static["rows"]:
            assert rows[key] == pytest.approx(static["rows"][key])
        assert "d1 is lost" in page.locator(".log").inner_text()
        page.locator("#slider-1").fill("4")
        page.wait_for_selector(".said[data-ms]")
        assert "makespan" in page.locator(".said").inner_text()
    assert said == []


def test_the_page_of_a_service_shows_runs_to_their_end(browser, tmp_path):
    gate, errors = tmp_path / "gate", []
    with (
        serving(tmp_path / "serve", page=PageSource(live_page(), draw_live)) as (client, _),
        patient_context(browser) as context,
    ):
        page, url = context.new_page(), str(client.base_url).rstrip("/")
        page.on("pageerror", lambda error: errors.append(str(error)))
        assert client.get("/runs/x", headers={"authorization": ""}).status_code == 200
        page.goto(f"{url}/#token={TOKEN}")
        page.wait_for_selector("text=default")
        run = client.post("/v1/runs", json=waits(gate)).json()["id"]
        page.locator(f"text={run}").click()
        page.wait_for_selector("section.gantt[data-rows='2']")  # one done, one running
        assert "b" in page.locator("table").first.inner_text().split()
        page.locator("#slider-0").fill("2")
        page.wait_for_selector(".said[data-ms]")
        assert "nothing changes" in page.locator(".said").inner_text()  # a chain of two
        gate.touch()
        page.wait_for_selector("html[data-done=true]")
        page.reload()  # an ended run is shown, too
        page.wait_for_selector("html[data-done=true]")
        assert page.evaluate(f"{RUN}.rows.map((r) => r.task)") == [0, 1]
        assert client.get("/v1/runs/none/chart").status_code == 404
    assert errors == []


def test_the_page_recovers_when_the_server_is_killed_and_started_again(browser, tmp_path):
    gate, errors = tmp_path / "gate", []
    with patient_context(browser) as context:
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        with server_process(tmp_path) as (process, client):
            run, url = client.post("/v1/runs", json=waits(gate)).json()["id"], client.base_url
            page.goto(f"{str(url).rstrip('/')}/runs/{run}#token={TOKEN}")
            page.wait_for_selector("section.gantt[data-rows='2']")
            process.kill()
        page.wait_for_selector("#link[data-state=lost]")
        with server_process(tmp_path, port=url.port):
            page.wait_for_selector("#link[data-state=live]")
            gate.touch()
            page.wait_for_selector("html[data-done=true]")
            assert page.locator("#link").inner_text() == "done"
            assert page.evaluate(f"{RUN}.rows.map((r) => r.task)") == [0, 1]
    assert errors == []


def test_the_page_of_a_cascade_counts_requests_that_failed(browser, tmp_path):
    with live_cascade(tmp_path) as (address, shown):
        place, _, _ = address.partition("/#")
        head = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        wrong = urllib.request.Request(f"{place}/v1/requests", b'"no number"', head)
        with pytest.raises(urllib.error.HTTPError, match="422"):
            urllib.request.urlopen(wrong)
        context = patient_context(browser)
        page = context.new_page()
        page.goto(address)
        page.wait_for_selector(shown.replace("30", "31"))
        facts = page.locator("dl.facts").first.inner_text()
        context.close()
    assert "30 of 31" in facts
    assert re.search(r"failed\s+1\b|\b1\s+failed", facts)
