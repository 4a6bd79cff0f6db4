"""The driver's side of a pilot, before and after it connects."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Literal, Protocol

from weft.runtime.backends.leftover_processes import end_descendants
from weft.runtime.backends.local.pipe import MessagePipe
from weft.runtime.backends.local.process import WorkerLink, cause_of, pauses
from weft.runtime.backends.local.worker import Setting
from weft.runtime.backends.pilots.device import PilotDevice
from weft.runtime.backends.pilots.listener import Handshake
from weft.runtime.backends.real import machine

END_SECONDS = 5.0
"""Seconds, more on a busy machine, in which a batch system must say how a process ended."""


class PilotJob(Protocol):
    """The job of a pilot in the batch system."""

    def exit_code(self) -> int | None:
        """Return its exit code, or its signal as a negative number; None: not known yet."""
        ...

    def cancel(self) -> None:
        """Cancel the job; if it has not started, it never does."""
        ...


class LatePipe(MessagePipe):
    """A pipe whose other end connects later; messages wait until then."""

    def __init__(self) -> None:
        self.fd = -1
        self._in, self._out = bytearray(), bytearray()

    def connect(self, connection: Connection) -> None:
        """Send the waiting messages; later ones go through the connection."""
        waiting = bytes(self._out)
        super().__init__(connection, blocking=False)
        self._out += waiting

    def flush(self) -> bool:
        """Send queued bytes, if there is a connection."""
        return self.fd < 0 or super().flush()

    def close(self) -> None:
        """Close this end, if there is one."""
        if self.fd >= 0:
            super().close()
            self.fd = -1


class PilotLink(WorkerLink):
    """A worker that was submitted to a batch system."""

    box: LatePipe

    def __init__(
        self,
        device: int,
        spec: PilotDevice,
        token: str,
        *,
        start_seconds: float,
        arrivals: Callable[[float], None],
    ) -> None:
        super().__init__(device, token, LatePipe())
        self.spec = spec
        self._arrivals = arrivals
        """Waits some seconds for pilots and connects them."""
        self.job: PilotJob | None = None
        self.connected = False
        self.shares_memory = False
        self._deadline = time.perf_counter() + start_seconds
        self._same_clock = False

    def connect(self, handshake: Handshake, connection: Connection, folder: str) -> None:
        """Take the connection of its process."""
        self.connected = True
        self._same_clock = handshake.machine == machine()
        self.pid = handshake.pid if self._same_clock else 0
        self.shares_memory = handshake.shares
        self.offset = 0.0 if self._same_clock else float("inf")
        connection.send(
            Setting(self.spec.name, folder if handshake.shares else "", (), self.spec.memory)
        )
        self.box.connect(connection)

    @property
    def overdue(self) -> bool:
        """Return whether the batch system did not start it in time."""
        return not self.connected and time.perf_counter() > self._deadline

    def handshake(self) -> bool:
        """Wait for the connection, then for the expected answers."""
        while not self.connected and not self.overdue and self.exit_code() is None:
            self._arrivals(0.2)
        return self.connected and super().handshake()

    def record_handshake(self, message: tuple[Any, ...]) -> None:
        """Compare clocks: the least delay is the best estimate."""
        super().record_handshake(message)
        if not self._same_clock:
            self.offset = min(self.offset, time.perf_counter() - message[2])

    def exit_code(self, seconds: float = 0.0) -> int | None:
        """Return the exit code that the batch system reports."""
        for _ in pauses(seconds, each=0.02):
            code = None if self.job is None else self.job.exit_code()
            if self.job is None or code is not None:
                return code
        return None

    def kill(self) -> None:
        """Cut the connection: the pilot ends itself with the children of its tasks."""
        if self.box.fd >= 0:
            with socket.socket(fileno=os.dup(self.box.fd)) as end:
                end.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Cut the connection and give up the job."""
        self.ended = True
        self.box.close()
        if self.job is not None:
            self.job.cancel()
            self.job = None

    def end_cause(self) -> tuple[str, Literal["exited", "killed"]]:
        """Clean up after a lost pilot; return the cause and the fault."""
        code = self.exit_code(END_SECONDS)
        self.end()
        if self.pid:
            end_descendants(self.token)
        return cause_of(code)
