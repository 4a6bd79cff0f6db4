"""`weft serve`: what-if questions, running runs that are cancelled, and slow clients."""

from __future__ import annotations

import json
import socket
import time
from urllib.parse import urlsplit

import weft
from tests.support.waiting import WAIT_LIMIT, wait_until
from tests.support.web.server import TOKEN, ended, serving
from weft.formats.native.weft_json import write_json
from weft.formats.native.weft_schema import encode


def waits(gate):
    call = {"function": "wait_for", "kwargs": {"path": str(gate)}}
    return {
        "workflow": {"names": ["a", "b"], "work": [1, 1], "src": [0], "dst": [1]},
        "tasks": {"a": call, "b": {"function": "one"}},
    }


def running(client, document):
    """Submit a document; return its id once it runs."""
    run = client.post("/v1/runs", json=document).json()["id"]
    while client.get(f"/v1/runs/{run}").json()["state"] != "running":
        time.sleep(0.01)
    return run


def test_whatif_answers_as_the_library_does(tmp_path):
    problem = weft.Problem.from_arrays([[2.0], [2.0], [2.0]], devices=["cpu"])
    question = {"problem": json.loads(write_json(encode(problem))), "changes": ["add 1xdevice"]}
    with serving(tmp_path) as (client, _):
        answer = client.post("/v1/whatif", json=question)
        assert answer.json() == weft.whatif(problem, "add 1xdevice").as_dict()
        for changes, text in (
            (["double"], "unknown change"),
            ([], "give at least one change"),
            (["add 1xdevice"] * 21, "at most 20"),
            ("add", "changes"),
        ):
            refused = client.post("/v1/whatif", json={**question, "changes": changes})
            assert refused.status_code == 400
            assert text in refused.json()["error"]


def test_a_running_run_is_cancelled_and_its_device_goes_on(tmp_path):
    with serving(tmp_path / "serve") as (client, _):
        run = running(client, waits(tmp_path / "never"))
        answer = client.delete(f"/v1/runs/{run}")
        assert (answer.status_code, answer.json()["state"]) == (202, "cancelling")
        assert ended(client, run)["state"] == "cancelled"
        document = {"workflow": {"work": [1]}, "tasks": {"task": {"function": "one"}}}
        after = client.post("/v1/runs", json=document).json()["id"]
        assert ended(client, after)["results"] == {"t0": 1}


def connection(client):
    url = urlsplit(str(client.base_url))
    return socket.create_connection((url.hostname, url.port), timeout=WAIT_LIMIT)


HEAD = f"HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n"


def test_a_body_that_does_not_arrive_is_refused(tmp_path, monkeypatch):
    with serving(tmp_path) as (client, _):
        monkeypatch.setattr("weft.runtime.web.http.REQUEST_SECONDS", 0.2)
        with connection(client) as slow:
            slow.sendall(f"POST /v1/plan {HEAD}content-length: 100\r\n\r\n{{".encode())
            assert b"408" in slow.recv(4096).split(b"\r\n")[0]


def test_a_reader_that_stops_reading_loses_its_stream(tmp_path, monkeypatch):
    with serving(tmp_path / "serve") as (client, state):
        run = running(client, waits(tmp_path / "never"))
        monkeypatch.setattr("weft.runtime.web.http.REQUEST_SECONDS", 0.2)
        number, _ = state.runs.find(run)
        with connection(client) as stalled:
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.sendall(f"GET /v1/runs/{run}/events {HEAD}\r\n".encode())
            assert stalled.recv(12) == b"HTTP/1.1 200"
            for seq in range(100, 900):
                state.runs.store.event(number, seq, 0.0, "noted", {"text": "x" * 20_000})
            wait_until(lambda: state.runs.streams == 0)
        monkeypatch.undo()
        client.delete(f"/v1/runs/{run}")
        assert ended(client, run)["state"] == "cancelled"
