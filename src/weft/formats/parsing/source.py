"""Paths to bytes, text and plain JSON; every failure is one line that names the file."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput, WeftError

GZIP_MAGIC = b"\x1f\x8b"
MOST_BYTES = 2**31
"""A file may not unpack to more than this: a few kilobytes of gzip can stand for terabytes."""

LONGEST_LINE = 400


@contextmanager
def naming(where: str) -> Iterator[None]:
    """Prefix errors raised inside with the file name, on one line that any terminal can show."""
    try:
        yield
    except WeftError as error:
        raise type(error)(one_line(f"{where}: {error}")) from None
    except MemoryError:
        raise InvalidInput(f"{where}: needs more memory than there is") from None


def one_line(text: str) -> str:
    r"""Collapse white space, cut long text and escape characters that cannot be encoded.

    Examples
    --------
    >>> one_line("two\n  lines")
    'two lines'
    """
    flat = " ".join(text.split()).encode("utf-8", "backslashreplace").decode("utf-8")
    return flat if len(flat) <= LONGEST_LINE else f"{flat[: LONGEST_LINE - 4]} ..."


def read_bytes(path: Path) -> bytes:
    """Return the content of a file, unpacked if it is gzip (detected by content)."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InvalidInput("there is no such file") from None
    except IsADirectoryError:
        raise InvalidInput("this is a directory; give a file") from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be read: {error}") from None
    content = _unpack(raw) if raw.startswith(GZIP_MAGIC) else raw
    if not content.strip():
        raise InvalidInput("the file is empty")
    return content


def _unpack(raw: bytes) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            content = stream.read(MOST_BYTES + 1)
    except EOFError:
        raise InvalidInput("the gzip data is cut short") from None
    except (OSError, zlib.error) as error:
        raise InvalidInput(f"the gzip data is damaged: {error}") from None
    if len(content) > MOST_BYTES:
        raise InvalidInput(f"unpacks to more than {MOST_BYTES} bytes")
    return content


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
    """Parse strict JSON: no NaN literal, no key given twice, no nesting that exhausts the stack."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise InvalidInput(f"is not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidInput("is nested too deeply to be read") from None
    except InvalidInput:
        raise
    except ValueError as error:  # a whole number of more digits than Python converts
        raise InvalidInput(f"is not valid JSON: {error}") from None


def _refuse_constant(literal: str) -> Any:
    raise InvalidInput(
        f'is not strict JSON: {literal} is not a number; write null for NaN, "inf" for infinity'
    )


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for i, key in enumerate(keys) if key in keys[:i])
        raise InvalidInput(f"key '{twice}' is given twice in one object")
    return made


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, packed when its name ends with .gz; equal content gives equal bytes."""
    if path.name.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    try:
        path.write_bytes(content)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"cannot be written: {error}") from None


def suffix_of(path: Path) -> str:
    """Return the last suffix in lower case, without .gz.

    Examples
    --------
    >>> suffix_of(Path("a/montage.JSON.gz"))
    '.json'
    """
    name = path.name.removesuffix(".gz")
    return Path(name).suffix.lower()
