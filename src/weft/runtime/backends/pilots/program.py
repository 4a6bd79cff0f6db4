"""The program of a pilot: reads its input, connects to the driver, runs tasks."""

from __future__ import annotations

import contextlib
import os
import socket
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import NamedTuple

from weft.runtime.backends.local.worker import main as serve
from weft.runtime.backends.pilots.listener import Handshake, keep_alive
from weft.runtime.backends.real import machine

BOOTSTRAP = """\
import pickle, sys
path, argv, facts = pickle.loads(sys.stdin.buffer.read())
sys.path[:], sys.argv[:] = path, argv
from weft.runtime.backends.pilots.program import main
main(*facts)
"""
"""Program text; facts and key come on standard input, which only the pilot can read."""

CONNECT_SECONDS = 30.0


class PilotFacts(NamedTuple):
    """Number and key of a pilot, address of the driver, a file in its shared memory."""

    number: int
    address: tuple[str, int]
    key: bytes
    marker: str


def main(*facts: object) -> None:
    """Connect to the driver and run its orders until the connection closes."""
    pilot = PilotFacts(*facts)  # type: ignore[arg-type]  # the driver pickled them in this order
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)  # with the children of its tasks
    connected = socket.create_connection(pilot.address, timeout=CONNECT_SECONDS)
    connected.settimeout(None)
    keep_alive(connected)
    connection = Connection(connected.detach())
    answer_challenge(connection, pilot.key)
    deliver_challenge(connection, pilot.key)
    shares = Path(pilot.marker).exists()
    connection.send(tuple(Handshake(pilot.number, os.getpid(), machine(), shares)))
    serve(connection)
