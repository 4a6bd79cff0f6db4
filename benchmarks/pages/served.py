"""A `weft serve` process for the benchmarks of its pages and of its load."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Server(NamedTuple):
    """A server that listens."""

    url: str
    token: str
    pid: int


@contextmanager
def served(place: Path, functions: str, *options: str) -> Iterator[Server]:
    """Serve the functions of a module of this text from the folder `place`; end the server."""
    module = place / "served_functions.py"
    module.write_text(functions, encoding="ascii")
    token = secrets.token_urlsafe()
    command = [sys.executable, "-m", "weft", "serve", "--json", "--port", "0", "--no-history"]
    command += ["--folder", str(place / "serve"), "--functions", str(module), *options]
    environment = {**os.environ, "WEFT_SERVE_TOKEN": token}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            text = ""
            while not text.endswith("}\n"):
                text += server.stdout.readline()
            yield Server(json.loads(text)["url"], token, server.pid)
        finally:
            server.kill()
