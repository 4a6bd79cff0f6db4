"""Output of verbs: JSON or text on stdout, progress and failures on stderr."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import json
import math
import os
import sys
import sysconfig
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO, TypeVar

import weft
from weft.errors import InvalidInput, WeftError, visible

T = TypeVar("T")

WIDTH = 100
"""Columns of the widest output."""

BAR: dict[str, Any] = {
    "ascii": ".#",
    "bar_format": "[{bar:20}] {desc}: {n_fmt}/{total_fmt}, {elapsed}, {remaining} left{postfix}",
}
"""The one style of progress bars, as options of tqdm."""


def plain(value: Any) -> Any:
    """Return a value JSON can hold: arrays become lists, NaN and infinity become null.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"a": np.arange(2), "b": float("nan"), "c": np.float64(1.5)})
    {'a': [0, 1], 'b': None, 'c': 1.5}
    """
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if hasattr(value, "tolist"):  # an array or scalar of numpy, which is slow to import
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def emit(document: Any) -> None:
    """Print one JSON document on stdout."""
    json.dump(plain(document), sys.stdout, indent=2, allow_nan=False)
    print()


def show(args: argparse.Namespace, document: Any, text: str) -> None:
    """Print the document with --json, or else the text."""
    if args.json:
        emit(document)
    else:
        print(text)


def name_written(args: argparse.Namespace, *paths: Path | None) -> None:
    """Print one line per written file, unless stdout is for one JSON document."""
    for path in paths:
        if path is not None and not args.json:
            print(f"wrote {path}")


def wrapped(sentence: str) -> str:
    """Break a sentence into lines of the widest output.

    Examples
    --------
    >>> [len(line) for line in wrapped("word " * 30).splitlines()]
    [99, 49]
    """
    return textwrap.fill(sentence, WIDTH, break_long_words=False, break_on_hyphens=False)


def show_answer(
    args: argparse.Namespace, document: Any, text: str, save: Callable[[Path], object]
) -> None:
    """Write --picture; print the text, a sentence first, or with --json the document."""
    sentence, _, rest = text.partition("\n")
    try:
        if args.picture is not None:
            save(args.picture)
    finally:  # a full disk does not take the answer
        show(args, document, f"{wrapped(sentence)}\n{rest}")
    if args.picture is not None and not args.json:
        print(f"\nwrote {args.picture}")


class PlainOutput:
    """The stream that verbs print to: names in it cannot command the terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.over = False
        """The verb has ended: what libraries still print at the exit is not for people."""

    @property
    def closed(self) -> bool:
        """Tell libraries whether to write no more."""
        return self.over or self._stream.closed

    def write(self, text: str) -> int:
        """Write the text in characters that a terminal shows."""
        self._stream.write(visible(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def accept_all_characters() -> None:
    """Let stdout replace the characters that its encoding does not have."""
    codecs.register_error("weft", _replaced)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="weft")


def _replaced(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    found = error.object[error.start : error.end]
    return "".join({"µ": "u", "±": "+-"}.get(c, "?") for c in found), error.end


def open_closed() -> None:
    """Let output that the caller closed (`weft list >&-`) go nowhere.

    The descriptors are taken too, so that no file which is opened later receives output.
    """
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_WRONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            null = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115  # stays open
            setattr(sys, name, null)


@contextlib.contextmanager
def stdout_aside() -> Iterator[None]:
    """Redirect all other output to stderr: stdout is for one JSON document."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)  # the descriptor too: processes that are started inherit it
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def notice(text: str, stream: TextIO | None = None) -> Iterator[None]:
    """Show a line on a terminal at once; later output replaces it."""
    stream = stream or sys.stderr
    shown = stream.isatty()
    if shown:
        stream.write(f"weft: {visible(' '.join(text.split()))} ...\r")
        stream.flush()
    try:
        yield
    finally:
        if shown:
            stream.write("\r\x1b[K")
            stream.flush()


def track(items: Iterable[T], *, total: int | None = None, what: str = "") -> Iterator[T]:
    """Pass items on, with a progress bar on stderr when a person looks at it."""
    if not sys.stderr.isatty():
        yield from items
        return
    from tqdm import tqdm

    yield from tqdm(items, total=total, desc=what, file=sys.stderr, leave=False, **BAR)


@contextlib.contextmanager
def users_code(what: str) -> Iterator[None]:
    """Print the user's frames of a failure; raise one line that begins with `what`."""
    try:
        yield
    except WeftError:
        raise
    except SystemExit as left:
        raise InvalidInput(
            f"{what} called sys.exit({'' if left.code is None else repr(left.code)}), and nothing "
            "was run; put such calls under: if __name__ == '__main__'"
        ) from None
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        print(_frames_of_user(error), end="", file=sys.stderr)
        text = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        raise InvalidInput(f"{what} failed: {text}") from None


def _frames_of_user(error: Exception) -> str:
    """Return the frames of the user's files, and the line of a syntax error."""
    shown = [f for f in traceback.extract_tb(error.__traceback__) if _is_users(f.filename)]
    head = "Traceback (most recent call last):\n" if shown else ""
    place = traceback.format_exception_only(error)[:-1] if isinstance(error, SyntaxError) else []
    return head + "".join([*traceback.format_list(shown), *place])


def _is_users(filename: str) -> bool:
    """Return whether a file belongs neither to weft nor to Python and its packages."""
    known = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
    folders = [Path(weft.__file__).parent, *map(Path, known)]
    path = Path(filename)
    return path.exists() and not any(path.is_relative_to(folder) for folder in folders)
