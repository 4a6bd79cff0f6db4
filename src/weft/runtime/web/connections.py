"""Connections of a server: the head of a request is bounded in size and time."""

from __future__ import annotations

import asyncio

from weft.errors import MissingExtra
from weft.runtime.web.limits import REQUEST_SECONDS

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
except ImportError as error:
    raise MissingExtra("uvicorn", "serve") from error

MAX_HEAD = 1 << 16
"""Bytes of the first line and the headers of a request; the rest of a packet may be more."""


class BoundedConnection(HttpToolsProtocol):
    """A connection that ends if the head of a request is endless or does not arrive.

    The token is in the head, so anyone may send one; uvicorn waits for its end forever and stores
    all of it.
    """

    _head = -1
    """Bytes of a head that has begun; -1: none has."""
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(  # type: ignore[override]  # TCP alone
        self, transport: asyncio.Transport
    ) -> None:
        """Expect the first head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass data on; refuse a head that is too large."""
        super().data_received(data)
        if self._head >= 0:
            self._head += len(data)
        if self._head > MAX_HEAD:
            self._refuse(f"The head of the request has more than {MAX_HEAD} bytes.")
        elif not self._answers() and not self.transport.is_closing():
            self._expect_head()  # such as an empty line, after which uvicorn would wait forever

    def on_message_begin(self) -> None:
        """Count the bytes of a head."""
        super().on_message_begin()
        self._head = 0
        self._expect_head()

    def on_headers_complete(self) -> None:
        """Begin the request."""
        self._head = -1
        self._stop_waiting()
        super().on_headers_complete()

    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self._late)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        self._deadline = None
        if self._answers():
            self._expect_head()  # the head of a later request waits for the answer, too
        else:
            self._refuse(f"The head of the request did not arrive within {REQUEST_SECONDS:g} s.")

    def _refuse(self, text: str) -> None:
        self._stop_waiting()
        if self._answers() or self.transport.is_closing():
            self.transport.close()
        else:
            self.send_400_response(text)
