"""The limits of what readers accept, checked before memory is taken.

A few kilobytes of a file can stand for gigabytes of memory. Every reader counts first:

- bytes: of a file, after it is unpacked (`MAX_BYTES`, or the variable WEFT_MAX_BYTES)
- cells: numbers in dense tables and entries of lists (`MAX_CELLS`, or WEFT_MAX_CELLS). A device
  takes one cell per link, a task and an edge a fixed number each. A part of a text counts by the
  memory and time of its objects in Python: a cell is about 30 bytes and 100 ns, so that a text
  within the limit takes at most about 500 MB and two seconds.
- depth: of nested JSON and XML (`MAX_DEPTH`)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from weft.errors import InvalidInput

MAX_BYTES = 128 * 2**20
MAX_CELLS = 2**24
MAX_DEPTH = 200
MAX_NUMBER_LENGTH = 1000
"""The most characters of one number with a unit."""

LINK_TABLES = 4
"""Number of (p, p) tables of a cluster: bandwidth, latency, seconds per byte, and a spare."""
TASK_CELLS = 8
EDGE_CELLS = 2
LINE_CELLS, WORD_CELLS = 32, 5
"""Cells that one line of a text and one word or cell of a line count for."""
ENTRY_CELLS, QUOTE_CELLS, COLON_CELLS, CONTAINER_CELLS = 3, 1, 4, 12
"""Cells that parts of a JSON text count for: commas, quotes (two a string), colons, containers."""
RECORD_CELLS, JSON_LINE_CELLS, KEY_CELLS = 64, 160, 16
"""Cells of one row of a table or object of a list, of one line of JSON, and of one key."""

LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
"""The characters at which `str.splitlines` ends a line."""

BYTES_VARIABLE, CELLS_VARIABLE = "WEFT_MAX_BYTES", "WEFT_MAX_CELLS"


def max_bytes() -> int:
    """Return the most bytes a file may have after it is unpacked."""
    return _limit(BYTES_VARIABLE, MAX_BYTES)


def max_cells() -> int:
    """Return the most cells that the content of one file may take."""
    return _limit(CELLS_VARIABLE, MAX_CELLS)


def check_bytes(count: int) -> None:
    """Refuse a file that has, or unpacks to, too many bytes."""
    if count > max_bytes():
        raise InvalidInput(
            f"has more than {max_bytes()} bytes when unpacked, the most that is read; "
            f"raise the limit with {BYTES_VARIABLE}"
        )


def check_cells(cells: int, what: str) -> None:
    """Refuse something that takes too many cells; `what` names it with its size.

    Examples
    --------
    >>> check_cells(10**9, "a table of 1000000 x 1000")
    Traceback (most recent call last):
    ...
    weft.errors.InvalidInput: a table of 1000000 x 1000 takes 1000000000 cells; at most 16777216 \
are read; raise the limit with WEFT_MAX_CELLS
    """
    if cells > max_cells():
        raise InvalidInput(
            f"{what} takes {_digits(cells)} cells; at most {max_cells()} are read; "
            f"raise the limit with {CELLS_VARIABLE}"
        )


def json_cells(content: bytes) -> int:
    """Return the cells that a JSON text counts for."""
    opened = content.count(b"[") + content.count(b"{")
    return (
        ENTRY_CELLS * content.count(b",")
        + QUOTE_CELLS * content.count(b'"')
        + COLON_CELLS * content.count(b":")
        + CONTAINER_CELLS * opened
    )


def split_lines(text: str, *, cells: int = LINE_CELLS) -> list[str]:
    """Return the lines of a text; each line counts for `cells` cells."""
    count = sum(map(text.count, LINE_ENDS)) - text.count("\r\n")
    check_cells(cells * count, f"a text of {count} lines")
    return text.splitlines()


def split_words(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the words of each line; refuse texts of too many words."""
    count, most = 0, max_cells() // WORD_CELLS
    for line in lines:
        words = line.split(maxsplit=most - count)
        count += len(words)
        check_cells(WORD_CELLS * count, f"a text of {count} words or more")
        yield words


def check_devices(count: int) -> None:
    """Refuse a cluster whose links take too many cells."""
    check_cells(LINK_TABLES * count * count, f"a cluster of {_digits(count)} devices")


def check_graph(tasks: int, edges: int) -> None:
    """Refuse a workflow of too many tasks and edges."""
    check_cells(
        TASK_CELLS * tasks + EDGE_CELLS * edges, f"a workflow of {tasks} tasks and {edges} edges"
    )


def _digits(number: int) -> str:
    return str(number) if number < 10**20 else "more than 1e20"


def _limit(variable: str, default: int) -> int:
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 18) or int(text) < 1:
        raise InvalidInput(f"{variable} is {text[:60]!r}; it must be a whole number, 1 or more")
    return int(text)
