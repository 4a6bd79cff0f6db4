"""Paths to bytes, text and JSON; every failure is one line that names the file."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import re
import select
import stat
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from weft.errors import InvalidInput, WeftError, cause, visible
from weft.formats.parsing import limits

GZIP_MAGIC = b"\x1f\x8b"
CHUNK = 2**20
LONGEST_LINE = 400
PIPE_SECONDS = 5.0
"""Seconds for which the reader of a pipe waits for its writer."""

LINKED = "it is a symbolic link, which weft does not follow"

_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_BRACKETS = re.compile(r"[^\[\]{}]++")


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Prefix errors raised inside with the file name; they become one plain line."""
    try:
        yield
    except WeftError as error:
        raise type(error)(one_line(f"{where}: {error}")) from None
    except MemoryError:
        raise InvalidInput(f"{where}: needs more memory than there is") from None


def one_line(text: str) -> str:
    r"""Collapse white space, cut long text and escape terminal control characters.

    Examples
    --------
    >>> one_line("two\n  lines"), one_line("red: \x1b[31m")
    ('two lines', 'red: \\x1b[31m')
    """
    flat = " ".join(text[: 4 * LONGEST_LINE].split())
    flat = visible(flat)  # controls, terminal escapes, lone surrogates, marks of direction
    cut = len(flat) > LONGEST_LINE or len(text) > 4 * LONGEST_LINE
    return f"{flat[: LONGEST_LINE - 4]} ..." if cut else flat


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzip; see `limits` for its size."""
    try:
        pipe = stat.S_ISFIFO(path.stat().st_mode)
        with io.BytesIO(_read_pipe(path)) if pipe else path.open("rb") as opened:
            stream = opened if opened.seekable() else io.BytesIO(_read(opened))
            packed = stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            stream.seek(0)
            content = _unpack(stream) if packed else _read(stream)
    except FileNotFoundError:
        raise InvalidInput("there is no such file") from None
    except IsADirectoryError:
        raise InvalidInput("this is a directory; give a file") from None
    except EOFError:
        raise InvalidInput("the gzip data is cut short") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InvalidInput(f"the gzip data is damaged: {error}") from None
    except InvalidInput:
        raise
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {cause(error)}") from None
    if not content[:CHUNK].strip() and not content.strip():
        raise InvalidInput("the file is empty")
    return content


def _read_pipe(path: Path) -> bytes:
    """Read a named pipe; refuse one that no process writes to, as reading never ends."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        begun = select.poll()
        begun.register(descriptor, select.POLLIN)
        first, until = b"", time.monotonic() + PIPE_SECONDS
        try:  # without a writer, a pipe is at its end; if its writer is not ready, reading blocks
            while not (first := os.read(descriptor, CHUNK)) and not begun.poll(10):
                if time.monotonic() > until:
                    raise InvalidInput(
                        f"this is a pipe that no process wrote to for {PIPE_SECONDS:g} s"
                    )
        except BlockingIOError:
            pass
        os.set_blocking(descriptor, True)
        return _read(stream, first)


class _Meter:
    """A counter of the bytes and cells of a content.

    If the content begins like JSON, the parts of JSON are counted, else the lines.
    """

    def __init__(self) -> None:
        self._bytes = self._cells = 0
        self._json: bool | None = None

    def add(self, chunk: bytes) -> None:
        """Count a chunk; refuse the content as soon as it is too large."""
        self._bytes += len(chunk)
        limits.check_bytes(self._bytes)
        if self._json is None and (start := chunk.removeprefix(codecs.BOM_UTF8).lstrip()[:1]):
            self._json = start in {b"{", b"["}
        if self._json:
            self._cells += limits.json_cells(chunk)
            limits.check_cells(self._cells, "a text of this size")
        else:
            self._cells += limits.LINE_CELLS * chunk.count(b"\n")
            limits.check_cells(self._cells, "a text of this size")


def _read(stream: IO[bytes], first: bytes = b"") -> bytes:
    meter, chunks = _Meter(), [first]
    meter.add(first)
    while chunk := stream.read(CHUNK):
        meter.add(chunk)
        chunks.append(chunk)
    return b"".join(chunks)


def _unpack(stream: IO[bytes]) -> bytes:
    # Unpack twice: first only to count, then to keep the content. So a bomb takes no memory.
    meter = _Meter()
    with gzip.GzipFile(fileobj=stream) as unpacked:
        while chunk := unpacked.read(CHUNK):
            meter.add(chunk)
        unpacked.seek(0)
        return unpacked.read()


def decode_text(content: bytes) -> str:
    """Return the text of a UTF-8 file."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"is neither text nor a known binary format (byte 0x{content[error.start]:02x} at "
            f"{error.start})"
        ) from None


def parse_json(text: str) -> Any:
    """Parse strict JSON; refuse NaN literals, keys given twice and deep nesting."""
    _refuse_depth(text)
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except RecursionError:
        raise InvalidInput("is nested too deeply to be read") from None
    except InvalidInput:
        raise
    except ValueError as error:  # also a whole number of more digits than Python converts
        raise InvalidInput(f"is not valid JSON: {error}") from None


def _refuse_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= limits.MAX_DEPTH:
        return
    marks = _BRACKETS.sub("", _STRING.sub("", text)).encode("ascii")
    codes = np.frombuffer(marks, np.uint8)
    depth = np.where((codes == ord("[")) | (codes == ord("{")), 1, -1).cumsum()
    if depth.size and int(depth.max()) > limits.MAX_DEPTH:
        raise InvalidInput(
            f"is nested too deeply to be read: at most {limits.MAX_DEPTH} lists and objects "
            "may be inside each other"
        )


def _refuse_constant(literal: str) -> Any:
    raise InvalidInput(
        f'is not strict JSON: {literal} is not a number; write null for NaN, "inf" for infinity'
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    limits.check_cells(limits.KEY_CELLS * len(pairs), f"an object of {len(pairs)} keys")
    made = dict(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise InvalidInput(f"key '{twice}' is given twice in one object")
    return made


def is_there(path: Path) -> bool:
    """Return whether a file or folder exists; False for names that no file can have.

    Examples
    --------
    >>> is_there(Path("x" * 300)), is_there(Path("."))
    (False, True)
    """
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, packed if its name ends with .gz; equal content gives equal bytes.

    In a folder of several users, a symbolic link could lead to any file of this user. So links are
    not followed, except those of the system in /dev.
    """
    if path.name.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    hard = 0 if follows_links(path) else getattr(os, "O_NOFOLLOW", 0)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0) | hard
    try:
        with os.fdopen(os.open(path, flags, 0o666), "wb") as file:
            file.write(content)
    except (OSError, ValueError) as error:
        linked = os.path.islink(path)  # noqa: PTH114  # is_symlink raises if a name is too long
        why = LINKED if hard and linked else cause(error)
        raise InvalidInput(f"cannot be written: {why}") from None


def follows_links(path: Path) -> bool:
    """Return whether a path is in /dev, where links are those of the system."""
    return path.is_relative_to("/dev") and "shm" not in path.parts[:3]


def write_file(path: Path, content: bytes | str) -> Path:
    """Write a file as `write_bytes` does; errors name it."""
    with naming(str(path)):
        write_bytes(path, content.encode() if isinstance(content, str) else content)
    return path


def suffix_of(path: Path) -> str:
    """Return the last suffix in lower case, without .gz.

    Examples
    --------
    >>> suffix_of(Path("a/montage.JSON.gz"))
    '.json'
    """
    name = path.name.removesuffix(".gz")
    return Path(name).suffix.lower()
