"""A test server: the whole application in a thread of this process."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import uvicorn

from tests.support.waiting import WAIT_LIMIT
from weft.runtime.web.connections import BoundedConnection
from weft.runtime.web.server import ServerConfig, listening, make_app, opened
from weft.runtime.web.state import ApplicationLimits

TOKEN = "a token of the tests"
FUNCTIONS = "tests.support.web.functions"
ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def serving(folder, **options):
    """Yield a client that has the token, and the state of its server."""
    options = {"devices": 1, "functions": [FUNCTIONS], "token": TOKEN, **options}
    config = ServerConfig(folder=folder, **options)
    with opened(config) as (state, _, _), listening_to(make_app(state)) as client:
        yield client, state


@contextlib.contextmanager
def listening_to(app):
    """Yield a client of an application that has the token."""
    settings = uvicorn.Config(
        app, http=BoundedConnection, log_level="critical", ws="none", lifespan="off"
    )
    server = uvicorn.Server(settings)
    with listening("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            headers = {"authorization": f"Bearer {TOKEN}"}
            with httpx.Client(base_url=url, headers=headers, timeout=WAIT_LIMIT) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()


@contextlib.contextmanager
def server_process(folder, port=0):
    """Start a server of its own; yield its process and a client."""
    command = [
        sys.executable,
        "-m",
        "weft",
        "serve",
        "--json",
        "--port",
        str(port),
        "--devices",
        "1",
    ]
    options = ["--functions", FUNCTIONS, "--folder", str(folder / "serve"), "--no-history"]
    environment = {"WEFT_SERVE_TOKEN": TOKEN, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    with subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    ) as process:
        try:
            text = ""
            while not text.endswith("}\n"):
                line = process.stdout.readline()
                assert line, "the server did not start"
                text += line
            headers = {"authorization": f"Bearer {TOKEN}"}
            url = json.loads(text)["url"]
            with httpx.Client(base_url=url, headers=headers, timeout=WAIT_LIMIT) as client:
                yield process, client
        finally:
            process.kill()


def ended(client, run_id, seconds=WAIT_LIMIT):
    """Return a run once it has ended."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        run = client.get(f"/v1/runs/{run_id}").json()
        if run["state"] not in ("waiting", "running"):
            return run
        time.sleep(0.01)
    raise AssertionError(f"{run} did not end")


def limits(**options):
    return {"default": ApplicationLimits(**options)}
