"""Readers of the values of options."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

MAX_PORT = 65_535
"""The largest number of a port of TCP."""


def whole(least: float = -math.inf, most: float = math.inf) -> Callable[[str], int]:
    """Return a reader of whole numbers, `least` or more and `most` or less."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number") from None
        if value < least:
            raise argparse.ArgumentTypeError(f"{value} is below {least}")
        if value > most:
            raise argparse.ArgumentTypeError(f"{value} is above {most}")
        return value

    return read


def port(text: str) -> int:
    """Read the number of a port; 0 is any free one."""
    return whole(0, MAX_PORT)(text)


def number(
    *, above: float | None = None, least: float = -math.inf, most: float = math.inf
) -> Callable[[str], float]:
    """Return a reader of finite numbers within limits."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"'{text}' is not a number") from None
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"'{text}' is not finite")
        if above is not None and value <= above:
            raise argparse.ArgumentTypeError(f"{text} must be above {above:g}")
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(
                f"{text} must be {least:g} or more"
                if value < least
                else f"{text} must be {most:g} or less"
            )
        return value

    return read


def several(read: Callable[[str], T]) -> Callable[[str], list[T]]:
    """Return a reader of values separated by commas.

    Examples
    --------
    >>> several(whole(1))("1, 2,4")
    [1, 2, 4]
    """
    return lambda text: [read(part) for part in _parts(text)]


def names(text: str) -> list[str]:
    """Read names separated by commas, each name once.

    Examples
    --------
    >>> names("heft, cpop,heft")
    ['heft', 'cpop']
    """
    return list(dict.fromkeys(_parts(text)))


def output(text: str) -> Path:
    """Read the path of a file that can be written, as far as is known before."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder; give a file")
    if not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no folder '{path.parent}'")
    _refuse_link(path, text)
    if not path.exists():
        _refuse_read_only(path.parent, text)
    elif not os.access(path, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text} is not writable; give another file")
    return path


def folder(text: str) -> Path:
    """Read the path of a folder to write to, which is made where it is missing."""
    path = Path(text)
    place = next((p for p in (path, *path.parents) if os.path.lexists(p)), Path())
    if not place.is_dir():
        raise argparse.ArgumentTypeError(
            f"{text} is a file; give a folder"
            if place == path
            else f"{text}: '{place}' is a file, and no folder can be made in it"
        )
    _refuse_read_only(place, text)
    return path


def model(text: str) -> Path:
    """Read the path of a trained policy to write; its folder may be missing."""
    path = Path(text)
    folder(str(path.parent))
    return path


def _refuse_link(path: Path, text: str) -> None:
    if not path.is_symlink():
        return
    from weft.formats.parsing.source import LINKED, follows_links

    if not follows_links(path):
        raise argparse.ArgumentTypeError(f"{text}: {LINKED}; give the file itself")


def _refuse_read_only(place: Path, text: str) -> None:
    if not os.access(place, os.W_OK | os.X_OK):
        raise argparse.ArgumentTypeError(
            f"{text}: folder '{place}' is not writable; give another path"
        )


def page(text: str) -> Path:
    """Read the path of a page to write; a page is HTML."""
    path = output(text)
    if path.suffix.lower() not in {"", ".html", ".htm"}:
        raise argparse.ArgumentTypeError(f"{text} ends in '{path.suffix}'; a page ends in .html")
    return path


def chart(text: str) -> Path:
    """Read the path of a Gantt chart to write."""
    return _ending(text, "a Gantt chart", (".html", ".svg", ".png"))


def picture(text: str) -> Path:
    """Read the path of the picture of an answer to write."""
    return _ending(text, "a picture", (".html", ".svg", ".png"))


def problem_file(text: str) -> Path:
    """Read the path of a problem to write."""
    return _ending(text, "a problem", (".json", ".npz", ".json.gz", ".npz.gz"))


def result_file(text: str) -> Path:
    """Read the path of a schedule or a trace to write."""
    return _ending(text, "a schedule or a trace", (".json", ".npz", ".json.gz", ".npz.gz"))


def _ending(text: str, what: str, suffixes: tuple[str, ...]) -> Path:
    path = output(text)
    if not path.name.lower().endswith(suffixes):
        *others, last = suffixes
        known = f"{', '.join(others)} or {last}"
        raise argparse.ArgumentTypeError(f"{text} ends in '{path.suffix}'; {what} ends in {known}")
    return path


def _parts(text: str) -> list[str]:
    found = [part.strip() for part in text.split(",") if part.strip()]
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is an empty list; give at least one value")
    return found
