"""The server of one run's live page, on loopback.

It has threads in the run's own process.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from weft.arguments import whole
from weft.errors import InvalidInput, WeftError
from weft.formats.parsing.record import Record
from weft.formats.parsing.source import decode_text, one_line, parse_json
from weft.planners.whatif.answer import whatif
from weft.runtime.web.answers import MAX_CHANGES, plain
from weft.runtime.web.limits import PAGE_HEADERS, REQUEST_SECONDS, Token
from weft.runtime.web.live.board import LiveBoard

MAX_BODY = 1 << 16

TICK = 1.0
"""Seconds between two statuses on a stream."""

MAX_STREAMS = 20


class LiveServer:
    """Server of a page, the events of a board and what-if answers during a run.

    Requests for data need the token; the page has no data and reads the token from the fragment of
    its address, which browsers do not send.
    """

    def __init__(self, board: LiveBoard, page: bytes, *, port: int = 0) -> None:
        port = whole(port, "port", least=0, most=65_535)
        self.board, self.page = board, page
        secret = secrets.token_urlsafe(24)
        self.token = Token(hashlib.sha256(secret.encode()).hexdigest())
        self.streams = 0
        self.lock = threading.Lock()
        try:
            self._http = _Server(("127.0.0.1", port), _PageHandler)
        except OSError as error:
            raise InvalidInput(
                f"port {port} cannot be used: {error.strerror or error}; give another --port"
            ) from None
        self._http.live = self
        self.url = f"http://127.0.0.1:{self._http.server_port}/runs/live#token={secret}"
        self._thread = threading.Thread(
            target=self._http.serve_forever, name="weft-live", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give pages that are open a moment for the last events, then end."""
        if not self.board.over:
            self.board.finish("failed")
        limit = time.monotonic() + 2.0
        while self.streams and time.monotonic() < limit:
            time.sleep(0.02)
        self._http.shutdown()
        self._http.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    live: LiveServer

    def handle_error(self, *_: Any) -> None:
        """Ignore clients that leave."""


class _PageHandler(BaseHTTPRequestHandler):
    server: _Server
    timeout = REQUEST_SECONDS
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path, live = self.path.partition("?")[0], self.server.live
        if path == "/" or path.startswith("/runs/"):
            self._send(200, live.page, "text/html; charset=utf-8", PAGE_HEADERS)
        elif self._allowed():
            if path == "/v1/runs/live/chart":
                self._json(200, live.board.opening)
            elif path == "/v1/runs/live/events":
                self._stream()
            else:
                self._json(404, {"error": "there is no such page"})

    def do_POST(self) -> None:
        if self._allowed():
            try:
                self._json(200, plain(self._whatif()))
            except WeftError as error:
                self._json(400, {"error": one_line(str(error))})

    def log_message(self, *_: Any) -> None:
        """Write no log: the terminal belongs to the run."""

    def _allowed(self) -> bool:
        if self.server.live.token.fits(self.headers.get("authorization", "")):
            return True
        self.close_connection = True
        self._json(401, {"error": "the bearer token is missing or wrong"})
        return False

    def _whatif(self) -> dict[str, Any]:
        length = self.headers.get("content-length", "")
        if self.path != "/v1/whatif" or not length.isdecimal() or int(length[:9]) > MAX_BODY:
            self.close_connection = True
            raise InvalidInput(f"POST /v1/whatif takes a body of at most {MAX_BODY} bytes")
        record = Record(parse_json(decode_text(self.rfile.read(int(length)))), "the request")
        record.only(("changes", "run"))
        before, changes = self.server.live.board.plan, record.strings("changes")
        if before is None:
            raise InvalidInput("this run has no plan that could be changed")
        if len(changes) > MAX_CHANGES:
            raise InvalidInput(f"{len(changes)} changes; at most {MAX_CHANGES} are answered")
        planner = before.planner or "heft"
        return whatif(before.problem, changes, planner=planner, before=before).as_dict()

    def _stream(self) -> None:
        live, after = self.server.live, self.headers.get("last-event-id", "0")
        seq = int(after[:15]) if after.isascii() and after.isdecimal() else 0
        with live.lock:
            full = live.streams >= MAX_STREAMS
            live.streams += not full
        if full:
            self._json(429, {"error": f"{MAX_STREAMS} streams are open"})
            return
        try:
            self.close_connection = True
            self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("cache-control", "no-store")
            self.end_headers()
            self._events(seq)
        finally:
            with live.lock:
                live.streams -= 1

    def _events(self, seq: int) -> None:
        board, over, first = self.server.live.board, False, True
        while not over:
            news = board.after(seq, TICK)
            parts = [
                f"id: {event['seq']}\nevent: {event['kind']}\ndata: {_text(event)}\n\n"
                for event in news
            ]
            seq = news[-1]["seq"] if news else seq
            over = board.over and seq >= len(board.events)
            status = board.status()
            if first and status:
                status["history"], first = board.history(), False
            parts.append(f"event: status\ndata: {_text(status)}\n\n")
            self.wfile.write("".join(parts).encode())
            self.wfile.flush()

    def _json(self, status: int, content: Any) -> None:
        self._send(status, _text(content).encode(), "application/json", {})

    def _send(self, status: int, body: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(status)
        fields = {"content-type": kind, "content-length": str(len(body)), **headers}
        for name, value in {"cache-control": "no-store", **fields}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _text(content: Any) -> str:
    return json.dumps(plain(content), allow_nan=False, separators=(",", ":"))
