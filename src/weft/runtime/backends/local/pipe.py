"""Framed messages between the driver and a worker process.

The driver's end never blocks on sending: unsent bytes stay in a buffer. So a worker may be busy or
sending a large answer itself, and the two never wait for each other in a circle.
"""

from __future__ import annotations

import os
import select
import struct
from multiprocessing.connection import Connection

_HEAD = struct.Struct("<Q")
"""Length of a message, written before it."""

HEAD_SIZE = _HEAD.size

CHUNK = 1 << 16
"""Bytes per read. Python allocates this memory before each read; above 128 kB, the system would map
and clear pages for every message."""


class MessagePipe:
    """One end of a connection between two processes.

    Parameters
    ----------
    blocking : sending and receiving wait until they can proceed

    Examples
    --------
    >>> import multiprocessing
    >>> here, there = (MessagePipe(end, blocking=False) for end in multiprocessing.Pipe())
    >>> here.put(b"one"), here.put(b"two"), here.flush()
    (None, None, True)
    >>> there.take(), there.take()
    ([b'one', b'two'], [])
    >>> here.close()
    >>> there.take()
    Traceback (most recent call last):
    EOFError: the other end is closed
    >>> there.close()
    """

    def __init__(self, connection: Connection, *, blocking: bool) -> None:
        self._connection = connection
        self.fd = connection.fileno()
        self._file = _identity(self.fd)
        os.set_blocking(self.fd, blocking)
        self._in = bytearray()
        self._out = bytearray()

    def put(self, message: bytes) -> None:
        """Queue a message for the next `flush`."""
        self._out += _HEAD.pack(len(message))
        self._out += message

    def flush(self) -> bool:
        """Send queued bytes; return whether all were sent. `take` reports a closed end."""
        try:
            while self._out:
                del self._out[: os.write(self.fd, self._out)]
        except BlockingIOError:
            return False
        except OSError:
            self._out.clear()
        return True

    def take(self) -> list[bytes]:
        """Return the whole messages that have arrived; `EOFError` if no more can follow."""
        try:
            data = os.read(self.fd, CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            raise EOFError("the other end is closed")
        rest = self._in
        if rest:
            rest += data
        whole = rest or data  # mostly the read before left nothing
        found, at, there = [], 0, len(whole)
        while there - at >= HEAD_SIZE:
            end = at + HEAD_SIZE + _HEAD.unpack_from(whole, at)[0]
            if end > there:
                break
            found.append(bytes(whole[at + HEAD_SIZE : end]))
            at = end
        if rest:
            del rest[:at]
        else:
            rest += data[at:]
        return found

    def readable(self) -> bool:
        """Return whether there is something to take."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        return bool(poll.poll(0))

    def is_open(self) -> bool:
        """Return whether the descriptor of this end is still open and still its own."""
        try:
            return _identity(self.fd) == self._file
        except OSError:
            return False

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


def _identity(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_dev, found.st_ino
