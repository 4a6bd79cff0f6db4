"""A HyperQueue server with one worker, in a process that ends with this one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput, WeftError
from weft.runtime.backends.leftover_processes import VARIABLE, end_descendants, new_token
from weft.runtime.backends.payload import make_folder, remove_folder

PROGRAM = """\
import sys
from hyperqueue.cluster import LocalCluster, WorkerConfig
cluster = LocalCluster(sys.argv[1], WorkerConfig(cores=int(sys.argv[2])))
sys.stdin.read()
cluster.stop()
"""
"""The server reads until the driver closes the pipe, or dies."""

START_SECONDS = 60.0
END_SECONDS = 5.0


def hyperqueue() -> Any:
    """Return the package, or say how to install it."""
    try:
        return import_module("hyperqueue")
    except ImportError:
        raise InvalidInput(
            "the hyperqueue backend needs HyperQueue: pip install 'weft-scheduling[hyperqueue]'"
        ) from None


class OwnServer:
    """A server and a worker with some cores, reachable through its folder."""

    def __init__(self, cores: int) -> None:
        self._token = new_token()
        self.folder = make_folder()
        self._process = subprocess.Popen(  # noqa: S603  # this Python, this program
            [sys.executable, "-c", PROGRAM, str(self.folder), str(cores)],
            env={**os.environ, VARIABLE: self._token},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,  # HyperQueue prints a table
            process_group=0,  # Ctrl-C is for the driver, which ends it
        )

    def client(self) -> Any:
        """Connect to the server once it is up."""
        deadline = time.perf_counter() + START_SECONDS
        while self._process.poll() is None and time.perf_counter() < deadline:
            if (self.folder / "hq-current" / "access.json").exists():
                return connected(self.folder)
            time.sleep(0.01)
        raise WeftError(
            f"the HyperQueue server did not start (exit code {self._process.returncode})"
        )

    def close(self) -> None:
        """End the server, its worker and their tasks."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        end_descendants(self._token)
        remove_folder(self.folder)


def connected(folder: Path | str) -> Any:
    """Return a client of the server whose folder this is."""
    try:
        return hyperqueue().Client(str(Path(folder).expanduser()))
    except InvalidInput:
        raise
    except Exception as error:  # noqa: BLE001  # HyperQueue raises no own class
        text = " ".join(str(error).split())[:300]
        raise WeftError(f"there is no HyperQueue server at '{folder}': {text}") from None


def request(amounts: Sequence[tuple[str, float]], cpus: int) -> Any:
    """Return HyperQueue's form of a request."""
    protocol = import_module("hyperqueue.ffi.protocol")
    return protocol.ResourceRequest(cpus=cpus, resources=dict(amounts))
