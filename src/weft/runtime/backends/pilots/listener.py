"""Connections of pilots; both sides prove that they have the key of the run."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections import deque
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import NamedTuple

from weft.errors import InvalidInput

HANDSHAKE_SECONDS = 20
"""Seconds in which a connection must prove its key."""

SILENT_MILLISECONDS = 30_000
"""Milliseconds without an answer of the other host after which a connection counts as lost."""


class Handshake(NamedTuple):
    """First message of a pilot; `shares`: it can read the folder of the run."""

    number: int
    pid: int
    machine: str
    shares: bool


class PilotListener:
    """A socket for pilots, served by a thread.

    `wake_read` is readable when pilots have arrived.
    """

    def __init__(self, host: str) -> None:
        self.key = secrets.token_bytes(32)
        try:
            self._socket = socket.create_server((host, 0))
        except OSError as error:
            raise InvalidInput(
                f"cannot listen at '{host}' ({error}); give host=, an address of this machine that "
                "the workers reach"
            ) from None
        self.address: tuple[str, int] = (host, self._socket.getsockname()[1])
        self.wake_read, self._wake_write = os.pipe()
        for end in (self.wake_read, self._wake_write):
            os.set_blocking(end, False)
        self._arrived: deque[tuple[Handshake, Connection]] = deque()
        self._closed = False
        self._lock = threading.Lock()
        threading.Thread(target=self._serve, daemon=True).start()

    def arrivals(self) -> list[tuple[Handshake, Connection]]:
        """Return the pilots that arrived since the last call."""
        with contextlib.suppress(BlockingIOError):
            os.read(self.wake_read, 4096)
        with self._lock:
            found = list(self._arrived)
            self._arrived.clear()
        return found

    def close(self) -> None:
        """Stop listening, and drop pilots that were not taken."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for _, connection in self._arrived:
                connection.close()
            os.close(self.wake_read)
            os.close(self._wake_write)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends accept in the thread
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connected, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._authenticate, args=(connected,), daemon=True).start()

    def _authenticate(self, connected: socket.socket) -> None:
        keep_alive(connected)
        limit_silence(connected, HANDSHAKE_SECONDS)
        connection = Connection(connected.detach())
        try:
            deliver_challenge(connection, self.key)
            answer_challenge(connection, self.key)
            handshake = Handshake(*connection.recv())
        except (OSError, EOFError, AuthenticationError, TypeError):
            connection.close()
            return
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._arrived.append((handshake, connection))
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake_write, b"\0")


def keep_alive(connected: socket.socket) -> None:
    """Detect a host that is cut off, on either side; send packets at once."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", SILENT_MILLISECONDS),
    ):
        if hasattr(socket, name):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def limit_silence(connected: socket.socket, seconds: int) -> None:
    """Bound blocking reads; 0: no bound.

    Set on the socket, as `Connection` has no timeout.
    """
    value = seconds.to_bytes(8, "little") + bytes(8)  # struct timeval
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
