"""`weft serve`: what-if questions, running runs that are cancelled, and slow clients."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import socket
import time
from urllib.parse import urlsplit

import pytest

import weft
from tests.support.waiting import WAIT_LIMIT, wait_until
from tests.support.web.server import TOKEN, ended, serving
from weft.formats.native.weft_json import write_json
from weft.formats.native.weft_schema import encode
from weft.runtime.web.http import AccessControl
from weft.runtime.web.limits import Token


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


def test_a_head_that_does_not_arrive_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.runtime.web.connections.REQUEST_SECONDS", 0.2)
    with serving(tmp_path) as (client, _):
        for text in ("", "\r\n", f"GET /v1/runs {HEAD}"):
            with connection(client) as slow:
                slow.sendall(text.encode())
                assert slow.recv(4096).startswith(b"HTTP/1.1 400")
        with connection(client) as slow:  # after a request, too
            slow.sendall(f"GET /v1/runs {HEAD}\r\n".encode())
            read = b""
            while not read.endswith(b"}"):
                read += slow.recv(4096)
            assert read.startswith(b"HTTP/1.1 200")
            slow.sendall(b"\r\n")
            assert slow.recv(4096).startswith(b"HTTP/1.1 400")


def test_a_head_without_end_is_refused(tmp_path):
    with serving(tmp_path) as (client, _), connection(client) as endless:
        endless.sendall(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):  # it is closed before all is sent
            for _ in range(1 << 14):
                endless.sendall(b"x: " + b"y" * 4096 + b"\r\n")
            pytest.fail("64 MiB of headers were read")


@pytest.mark.parametrize("begun", [False, True])
def test_a_request_ends_with_its_server(begun):
    sent = []

    async def answer(scope, receive, send):
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"a", "more_body": True})
        waits.set()
        await asyncio.Event().wait()

    async def send(message):
        sent.append(message)

    async def main():
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
        request = asyncio.create_task(AccessControl(answer, Token(digest))(scope, None, send))
        await waits.wait()
        request.cancel()  # as uvicorn does
        await request

    waits = asyncio.Event()
    asyncio.run(main())
    assert sent[0]["status"] == (200 if begun else 503)
    assert not sent[-1].get("more_body")
    assert sent[-1]["type"] == "http.response.body"


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
