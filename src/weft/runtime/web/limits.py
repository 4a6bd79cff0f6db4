"""Token, rate and refusals of a server."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from weft.errors import InvalidInput, WeftError
from weft.runtime.private_files import open_private

PAGE_HEADERS = {
    "content-security-policy": "frame-ancestors 'none'",  # the page has the rest of its policy
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""Headers of the live page."""

REQUEST_SECONDS = 30.0
"""Seconds a client may take to send a request or to read a part of a stream."""


class Refused(WeftError):
    """A request that gets no answer: its status, one line, and when to retry."""

    def __init__(self, status: int, text: str, *, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.retry_after = None if retry_after is None else max(1, ceil(retry_after))


@dataclass(frozen=True)
class Token:
    """The bearer token of a server; only its digest is stored.

    Examples
    --------
    >>> token = Token(hashlib.sha256(b"secret").hexdigest())
    >>> token.fits("Bearer secret"), token.fits("Bearer guess"), token.fits("")
    (True, False, False)
    """

    digest: str

    def fits(self, header: str) -> bool:
        """Compare the header of a request in constant time."""
        scheme, _, given = header.partition(" ")
        found = hashlib.sha256(given.strip().encode("utf-8", "replace")).hexdigest()
        return hmac.compare_digest(found, self.digest) and scheme.lower() == "bearer"


def own_token(folder: Path, given: str | None, *, new: bool = False) -> tuple[Token, str | None]:
    """Return the token of a folder, and its text if it is new.

    A token that is given is used as it is; otherwise one is made at the first start.
    """
    path = folder / "token.sha256"
    if given:
        return Token(hashlib.sha256(given.encode()).hexdigest()), None
    if path.is_file() and not new:
        stored = path.read_bytes().strip()
        if not re.fullmatch(rb"[0-9a-f]{64}", stored):
            raise InvalidInput(f"{path}: is not the digest of a token; make one with --new-token")
        return Token(stored.decode()), None
    text = secrets.token_urlsafe(32)
    digest = hashlib.sha256(text.encode()).hexdigest()
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    with open_private(draft, "x", encoding="ascii") as file:
        file.write(digest)
    draft.replace(path)
    return Token(digest), text


class Rate:
    """A token bucket: `per_second` requests per second, and up to this number at once.

    Examples
    --------
    >>> now = 0.0
    >>> rate = Rate(2.0, clock=lambda: now)
    >>> rate.take(), rate.take(), rate.take()
    (0.0, 0.0, 0.5)
    >>> now = 0.5
    >>> rate.take()
    0.0
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_second = per_second
        self._clock = clock
        self._left = max(per_second, 1.0)
        self._at = clock()

    def take(self) -> float:
        """Count a request; return 0, or the seconds after which to retry."""
        now = self._clock()
        most = max(self.per_second, 1.0)
        self._left = min(most, self._left + (now - self._at) * self.per_second)
        self._at = now
        if self._left >= 1.0:
            self._left -= 1.0
            return 0.0
        return (1.0 - self._left) / self.per_second
