"""Bad requests to a server: each gets one clear line, and no error of the server."""

from __future__ import annotations

import hashlib
import json
import random
import socket
from collections.abc import Sequence
from pathlib import Path

import httpx

import weft
from tests.fuzz.mutations import ODD_VALUES, mutated
from tests.fuzz.seeds.state import CASCADE, STREAM
from tests.support.instances import cut_trace
from tests.support.waiting import WAIT_LIMIT
from tests.support.web.server import TOKEN, listening_to, serving
from weft.formats import to_text
from weft.runtime.web.cascade import CascadeApp
from weft.runtime.web.http import AccessControl
from weft.runtime.web.limits import Token

WORKFLOW = {"names": ["a", "b"], "work": [1, 1], "kinds": ["one"], "src": [0], "dst": [1]}
CLUSTER = {"speed": [1.0, 2.0], "names": ["x", "y"], "bandwidth": 1e6}
PLAN = {"task": [0, 1], "device": [0, 0], "start": [0, 1], "finish": [1, 2]}
STAGES = """def load(setting):
    return 1

def small(_, batch):
    return [(1, None) for _ in batch]
"""
REQUESTS = (
    ("POST", "/v1/runs?application=default&priority=1", {"workflow": WORKFLOW}),
    ("POST", "/v1/runs", {"workflow": WORKFLOW, "tasks": {"a": {"function": "add", "args": [1]}}}),
    ("POST", "/v1/runs", [{"workflow": WORKFLOW}, {"workflow": WORKFLOW}]),
    ("POST", "/v1/plan", {"workflow": WORKFLOW, "cluster": CLUSTER, "planner": "heft", "seed": 1}),
    ("POST", "/v1/plan", {"problem": {"workflow": WORKFLOW, "cluster": CLUSTER}}),
    ("POST", "/v1/simulate", {"workflow": WORKFLOW, "policy": "fifo", "noise": 0.1, "seed": 2}),
    ("POST", "/v1/explain", {"workflow": WORKFLOW, "planner": "heft"}),
    ("POST", "/v1/explain", {"workflow": WORKFLOW, "cluster": CLUSTER, "schedule": PLAN}),
    ("POST", "/v1/explain", {"trace": json.loads(to_text(cut_trace()))}),
    ("POST", "/v1/whatif", {"workflow": WORKFLOW, "cluster": CLUSTER, "changes": ["add 1 x"]}),
    ("GET", "/v1/runs?state=done&limit=5", None),
    ("GET", "/v1/runs/none/spans", None),
    ("GET", "/v1/runs/none/chart", None),
    ("GET", "/v1/history", None),
    ("GET", "/v1/openapi.json", None),
    ("GET", "/v1/runs/none", None),
    ("GET", "/v1/runs/none/events", None),
    ("DELETE", "/v1/runs/none", None),
    ("GET", "/metrics", None),
)
CASCADE_REQUESTS = (
    ("POST", "/v1/requests?timeout=5&priority=1", {"a": [1, 2]}),
    ("POST", "/v1/requests", "text"),
    ("POST", "/v1/policy", {"policy": "conditional-any", "stream": "stream.toml"}),
    ("POST", "/v1/policy", {"policy": "fifo"}),
    ("POST", "/v1/policy", {"policy": "a\0", "stream": "\ud800"}),
    ("GET", "/v1/status", None),
)
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "X")


def http_failures(count: int, folder: Path, *, first: int = 0) -> list[str]:
    """Send `count` changed requests to a server; return a line for each bad answer."""
    with serving(folder, rate=1e9, max_body=20_000) as (client, state):
        found = _bad_answers(client, REQUESTS, range(first, first + count))
        if client.get("/v1/applications").status_code != 200:
            found.append("the server does not answer any more")
        left = [run.facts["id"] for run in list(state.runs.active.values())]
        if len(left) > state.applications["default"].queue:
            found.append(f"{len(left)} runs are left")
    return found


def cascade_failures(count: int, folder: Path, *, first: int = 0) -> list[str]:
    """Send `count` changed requests to the server of a cascade."""
    (folder / "fuzz_stages.py").write_text(STAGES, encoding="ascii")
    (folder / "stream.toml").write_text(STREAM, encoding="ascii")
    (folder / "cascade.toml").write_text(CASCADE.replace("stages:", "fuzz_stages:"))
    token = Token(hashlib.sha256(TOKEN.encode()).hexdigest())
    with (
        weft.Cascade(folder / "cascade.toml") as cascade,
        listening_to(
            AccessControl(CascadeApp(cascade, max_body=20_000), token, rate=1e9)
        ) as client,
    ):
        found = _bad_answers(client, CASCADE_REQUESTS, range(first, first + count))
        if client.get("/v1/status").status_code != 200:
            found.append("the server does not answer any more")
    return found


def _bad_answers(
    client: httpx.Client, requests: Sequence[tuple[str, str, object]], numbers: range
) -> list[str]:
    found, place = [], (client.base_url.host, client.base_url.port)
    for number in numbers:
        request, whole = _request(random.Random(f"http {number}"), requests)
        try:
            with socket.create_connection(place, timeout=WAIT_LIMIT) as link:
                link.sendall(request)
                if not whole:
                    link.shutdown(socket.SHUT_WR)  # the server may wait for more
                with link.makefile("rb") as answer:
                    trouble = _trouble(answer, request, whole=whole)
        except OSError as error:  # the server may close a connection that makes no sense
            trouble = f"{error} for {request[:300]!r}" if whole else None
        if trouble:
            found.append(f"http {number}: {trouble}")
    return found


def _request(rng: random.Random, requests: Sequence[tuple[str, str, object]]) -> tuple[bytes, bool]:
    """Return a request, and whether it is one that must get an answer."""
    method, path, content = rng.choice(requests)
    body = b"" if content is None else json.dumps(content).encode()
    if body and rng.random() < 0.8:
        body = mutated(body, ".json", rng)
    if rng.random() < 0.15:
        method = rng.choice(METHODS)
    if rng.random() < 0.25:
        path = mutated(path.encode(), ".txt", rng).decode("latin-1")
        path = path.replace("\r", "").replace("\n", "").replace(" ", "%20")
    headers = {"host": "x", "authorization": f"Bearer {TOKEN}", "connection": "close"}
    headers["content-length"] = str(len(body))
    whole = rng.random() >= 0.15
    if not whole:
        key = rng.choice([*headers, "last-event-id", "transfer-encoding", "expect", "content-type"])
        odd = str(rng.choice(ODD_VALUES)).encode("utf-8", "replace").decode("latin-1")
        headers[key] = odd.replace("\r", "").replace("\n", "")
    head = "".join(f"{key}: {value}\r\n" for key, value in headers.items())
    text = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace") + body
    if rng.random() < 0.05:
        return mutated(text, ".bin", rng), False
    return text, whole


def _trouble(answer, request: bytes, *, whole: bool) -> str | None:
    """Return what is wrong with an answer, or None."""
    status = answer.readline(1000)
    if not status:
        return f"no answer to {request[:300]!r}" if whole else None
    code = int(status.split()[1])
    if code >= 500 and code != 504:  # 504: longer than its time limit, on a busy machine
        return f"{code} for {request[:300]!r}"
    head = b""
    while (line := answer.readline(10_000)).strip():
        head += line
    body = answer.read()
    if b"Traceback" in body:
        return f"a traceback for {request[:300]!r}"
    # A request whose length is wrong may be two requests, and get two answers.
    if whole and code >= 400 and b"application/json" in head and body:
        error = json.loads(body)["error"]
        if not error or not error.isprintable() or len(error) > 600:
            return f"a message that is no plain line: {error[:200]!r}"
    return None
