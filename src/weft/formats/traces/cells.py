"""Tables of text, one record per line; errors name the line and the column."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from weft.arguments import shown, unique_names
from weft.errors import InvalidInput
from weft.formats.parsing.limits import RECORD_CELLS, WORD_CELLS, check_cells, split_lines

T = TypeVar("T")

MISSING = frozenset({"", "-", "NA", "N/A", "None", "Unknown", "null"})
"""Cells without a value."""

_SIZE = re.compile(r"(\d{1,30}(?:\.\d{1,30})?) ?([KMGTPE]?)i?B?[nc]?", re.IGNORECASE)
_STEPS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
_CLOCK = re.compile(
    r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,9}(?:\.\d{1,9})?)|(\d{1,9}(?:\.\d{1,9})?)"
)


@dataclass(frozen=True)
class Cells:
    """One record of a table."""

    line: int
    values: dict[str, str]

    def text(self, *columns: str, default: str = "") -> str:
        """Return the first of the columns that has a value."""
        return next((v for c in columns if (v := self.values.get(c, "")) not in MISSING), default)

    def read(self, reader: Callable[[str], T], default: T, *columns: str) -> T:
        """Return the first of the columns that has a value, read, or the default."""
        for column in columns:
            cell = self.values.get(column, "")
            if cell in MISSING:
                continue
            try:
                return reader(cell)
            except (ValueError, OverflowError) as error:
                raise InvalidInput(
                    f"line {self.line}, column '{column}' is {shown(cell)}; it must be {error}"
                ) from None
        return default


def table(text: str, delimiter: str, *, needed: Sequence[str] = ()) -> list[Cells]:
    r"""Return the records of a text whose first line names the columns.

    Examples
    --------
    >>> table("a|b\n1|2\n", "|")[0].values
    {'a': '1', 'b': '2'}
    """
    check_cells(WORD_CELLS * text.count(delimiter), "a table of this size")
    lines = split_lines(text, cells=RECORD_CELLS)
    filled = [(i, line) for i, line in enumerate(lines, 1) if line.strip()]
    header = [name.strip() for name in filled[0][1].split(delimiter)] if filled else []
    unique_names(header, "column")
    for column in needed:
        if column not in header:
            raise InvalidInput(f"line 1 has no column '{column}'")
    made = []
    for number, line in filled[1:]:
        cells = line.split(delimiter)
        if len(cells) != len(header):
            raise InvalidInput(
                f"line {number} has {len(cells)} cells, but there are {len(header)} columns"
            )
        values = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        made.append(Cells(number, values))
    return made


def number(cell: str) -> float:
    """Read a finite number, 0 or more."""
    try:
        value = float(cell) if len(cell) < 40 else math.inf
    except ValueError:
        value = math.inf
    if not 0 <= value < math.inf:
        raise ValueError("a number, 0 or more")
    return value


def whole(cell: str) -> int:
    """Read a whole number, 1 or more."""
    if not (cell.isascii() and cell.isdigit() and len(cell) < 10) or int(cell) < 1:
        raise ValueError("a whole number, 1 or more")
    return int(cell)


def binary_size(cell: str) -> float:
    """Read bytes such as ``29.8 MB`` or ``512K``, in steps of 1024 as in the engines.

    Examples
    --------
    >>> binary_size("2 KB"), binary_size("7")
    (2048.0, 7.0)
    """
    match = _SIZE.fullmatch(cell)
    if match is None:
        raise ValueError("a size such as 29.8 MB or 512K")
    return float(match[1]) * 1024.0 ** _STEPS[match[2].upper()]


def clock(cell: str) -> float:
    """Read ``[days-][hours:]minutes:seconds`` or seconds.

    Examples
    --------
    >>> clock("1-02:00:05"), clock("01:30"), clock("7.5")
    (93605.0, 90.0, 7.5)
    """
    match = _CLOCK.fullmatch(cell)
    if match is None or (match[1] and match[2] is None):
        raise ValueError("a time such as 1-02:30:00, 01:30:00 or 90")
    if match[5]:
        return float(match[5])
    days, hours, minutes = (int(part or 0) for part in match.group(1, 2, 3))
    return 86400.0 * days + 3600.0 * hours + 60.0 * minutes + float(match[4])


def moment(cell: str) -> float:
    """Read a date and time of ISO 8601, by default UTC, as seconds since 1970."""
    try:
        when = datetime.fromisoformat(cell)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("a date and time such as 2026-01-31T12:00:00") from None
