"""Waiting for the pipes of many processes at once."""

from __future__ import annotations

import os
import select
from math import ceil, inf

LONGEST = 86_400.0
"""Seconds of one wait: the system refuses those of months."""


class FilePoll:
    """Files to wait for; the time of a wait depends only on the number of ready files.

    `select.poll` hands all files to the system in each wait, so it is used only where there is no
    epoll. A forked process shares the list of an epoll with its parent and leaves it alone.

    Examples
    --------
    >>> here, there = os.pipe()
    >>> poll = FilePoll()
    >>> poll.register(here)
    >>> poll.wait(0.0), os.write(there, b"x"), poll.wait(inf) == [(here, select.POLLIN)]
    ([], 1, True)
    >>> poll.unregister(here)
    >>> poll.wait(0.0), os.close(here), os.close(there)
    ([], None, None)
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        self._poll = self._epoll or select.poll()

    def register(self, file: int) -> None:
        """Wait until a file has something to read, from now on."""
        self._poll.register(file, select.POLLIN)

    def unregister(self, file: int) -> None:
        """Do not wait for a file any more; call it before the file is closed."""
        if os.getpid() == self._owner:
            self._poll.unregister(file)

    def await_room(self, file: int, *, wanted: bool) -> None:
        """Wait also until a file can be written to, or not."""
        self._poll.modify(file, select.POLLIN | (select.POLLOUT if wanted else 0))

    def wait(self, seconds: float) -> list[tuple[int, int]]:
        """Return (file, what is new) as soon as there is something.

        Return nothing after `seconds`, or after a day: then wait again.
        """
        if seconds == inf:
            return self._poll.poll(None)
        seconds = min(seconds, LONGEST)
        return self._poll.poll(seconds if self._epoll is not None else ceil(1000.0 * seconds))
