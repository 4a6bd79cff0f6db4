"""The limits of what readers accept, checked before memory is taken.

A few kilobytes of a file can stand for gigabytes of memory. Every reader counts first:

- bytes: of a file, after it is unpacked (`MAX_BYTES`, or the variable WEFT_MAX_BYTES)
- cells: numbers in dense tables and entries of lists (`MAX_CELLS`, or WEFT_MAX_CELLS). A device
  takes as many cells as it has links, a task and an edge a fixed number each.
- depth: of nested JSON and of dotted keys in TOML (`MAX_DEPTH`)
"""

from __future__ import annotations

import os

from weft.errors import InvalidInput

MAX_BYTES = 256 * 2**20
MAX_CELLS = 2**24
MAX_DEPTH = 200
MAX_NUMBER_LENGTH = 1000
"""The most characters of one number with a unit."""

LINK_TABLES = 4
"""(p, p) tables of a cluster: bandwidth, latency, seconds per byte and one in the making."""
TASK_CELLS = 8
EDGE_CELLS = 2
LINE_CELLS = 4
"""Cells that one line of a text counts for."""
CONTAINER_CELLS = 8
"""Cells that one list or object of a JSON text counts for; an empty list takes 64 bytes."""

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
