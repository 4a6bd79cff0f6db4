"""`Seed`: a sound file that is changed and read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Seed(NamedTuple):
    """A file and how to read it; `beside` are files that must be next to it.

    `share` of the files are made where reading takes long.
    """

    suffix: str
    content: bytes
    read: Callable[[Path], object]
    beside: tuple[tuple[str, bytes], ...] = ()
    share: float = 1.0
