"""Tables from rows of dicts: aligned text, Markdown and HTML."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

import numpy as np

from weft.errors import InvalidInput, UnknownName, visible
from weft.model.explain.quantities import (
    MISSING,
    format_bytes,
    format_energy,
    format_money,
    format_number,
    format_seconds,
    unit_of,
)
from weft.registry import closest
from weft.report.labels import escaped

TableRow = Mapping[str, object]
Best = Literal["min", "max"]


@dataclass(frozen=True)
class Column:
    """The form of one key of the rows.

    Parameters
    ----------
    key : of the rows; `title` : above the column, the key by default
    unit : "s", "B" and "J" choose a fitting unit, "%" shows shares as percent, "money" shows
        amounts, anything else stands beside the title
    digits : significant digits of the median; `places` : decimal places instead
    best : mark the smallest ("min") or largest ("max") value
    marked : key of the rows that says which values are marked, instead of `best`
    """

    key: str
    title: str = ""
    unit: str = ""
    digits: int = 4
    best: Best | None = None
    places: int | None = None
    marked: str = ""

    @property
    def heading(self) -> str:
        """The title, with a unit that the values do not carry."""
        title = self.title or self.key.replace("_", " ")
        return f"{title} ({self.unit})" if self.unit not in {"", "%", *_FORMATS} else title

    def text(self, value: object) -> str:
        """Format a value."""
        if value is None:
            return MISSING
        if isinstance(value, bool | np.bool_):
            return "yes" if value else "no"
        if not _is_number(value):
            return str(value)
        number = float(value)
        if np.isnan(number):
            return MISSING
        if self.unit == "%":
            return f"{self._figure(100 * number)} %"
        return _FORMATS[self.unit](number) if self.unit in _FORMATS else self._figure(number)

    def texts(self, values: Sequence[object]) -> list[str]:
        """Format all values of a column in one unit, with equal decimal places.

        Values that would read as 0 or need another unit keep their own.
        """
        known: list[Any] = [v for v in values if _is_number(v)]
        sizes = sorted(abs(float(v)) for v in known if v and np.isfinite(float(v)))
        own = self.places is not None or self.unit in {"J", "money"} or not sizes
        shared = None if own else self._shared(sizes)
        return [self.text(v) if shared is None else self._aligned(v, *shared) for v in values]

    def _shared(self, sizes: Sequence[float]) -> tuple[float, int, str] | None:
        """Return scale, decimal places and unit that fit all of these sizes, or None."""
        middle, largest = sizes[len(sizes) // 2], sizes[-1]
        scale, unit = unit_of(middle, self.unit)
        if largest >= 1e15 or (self.unit == "s" and largest >= 600) or middle * scale < 1e-4:
            return None
        if all(abs(n * scale - round(n * scale)) < 1e-9 * max(1.0, n * scale) for n in sizes):
            return scale, 0, unit
        places = min(max(self.digits - 1 - int(np.floor(np.log10(middle * scale))), 0), 9)
        while places and all(f"{n * scale:.{places}f}".endswith("0") for n in sizes):
            places -= 1  # zeros at the end of every value say nothing
        return scale, places, unit

    def _aligned(self, value: object, scale: float, places: int, unit: str) -> str:
        number = float(value) if _is_number(value) else np.nan
        shown = abs(number) * scale
        if not np.isfinite(number) or (shown and shown < 0.5 * 10.0**-places):
            return self.text(value)
        return f"{number * scale + 0.0:,.{places}f}{unit}"  # no minus before a zero

    def _figure(self, number: float) -> str:
        return (
            format_number(number, digits=self.digits)
            if self.places is None
            else f"{number:.{self.places}f}"
        )


_FORMATS: dict[str, Callable[[float], str]] = {
    "s": format_seconds,
    "B": format_bytes,
    "J": format_energy,
    "money": format_money,
}

Columns = Sequence[str | Column]


def interval_columns(estimate: Column) -> list[Column]:
    """Return the columns of an estimate and its interval, with the same digits."""
    return [estimate, *(replace(estimate, key=end, title="") for end in ("low", "high"))]


@dataclass(frozen=True)
class _TextTable:
    headings: list[str]
    cells: list[list[str]]
    numeric: list[bool]
    best: set[tuple[int, int]]


def table_text(
    rows: Iterable[TableRow], columns: Columns | None = None, *, sort: str | None = None
) -> str:
    """Aligned plain text; the best values carry a star.

    Examples
    --------
    >>> rows = [{"planner": "cpop", "makespan": 86.0}, {"planner": "heft", "makespan": 80.0}]
    >>> columns = ["planner", Column("makespan", unit="s", best="min")]
    >>> print(table_text(rows, columns, sort="makespan"))
    planner  makespan
    -------  --------
    heft       80 s *
    cpop       86 s
    """
    table = _table(rows, columns, sort)
    starred = {j for _, j in table.best}
    cells = [
        [
            _one_line(text) + (" *" if (i, j) in table.best else "  " if j in starred else "")
            for j, text in enumerate(line)
        ]
        for i, line in enumerate(table.cells)
    ]
    widths = [max(map(len, column)) for column in zip(table.headings, *cells, strict=True)]
    lines = [table.headings, ["-" * w for w in widths], *cells]
    return "\n".join(_aligned(line, widths, table.numeric) for line in lines)


def table_html(
    rows: Iterable[TableRow],
    columns: Columns | None = None,
    *,
    sort: str | None = None,
    caption: str = "",
) -> str:
    """Return an HTML table that scrolls on narrow screens; the best values are marked."""
    table = _table(rows, columns, sort)
    head = "".join(
        f'<th scope="col"{_number(n)}>{escaped(h)}</th>'
        for h, n in zip(table.headings, table.numeric, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(_html_cell(table, i, j) for j in range(len(line))) + "</tr>"
        for i, line in enumerate(table.cells)
    )
    about = f"<caption>{escaped(caption)}</caption>" if caption else ""
    inner = f"{about}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="wide" tabindex="0"><table>{inner}</table></div>'


def _table(rows: Iterable[TableRow], columns: Columns | None, sort: str | None) -> _TextTable:
    rows = list(rows)
    keys = list(dict.fromkeys(key for row in rows for key in row))
    made = [
        c if isinstance(c, Column) else Column(c) for c in (keys if columns is None else columns)
    ]
    if not made:
        raise InvalidInput("a table needs rows or columns")
    for key in [c.key for c in made if rows] + ([sort] if sort is not None and rows else []):
        if key not in keys:
            raise UnknownName(f"no row has the column '{key}'{closest(key, keys)}")
    if sort is not None:
        rows.sort(key=lambda row: _order(row.get(sort)))
    values = [[row.get(c.key) for c in made] for row in rows]
    columned = [c.texts([line[j] for line in values]) for j, c in enumerate(made)]
    return _TextTable(
        headings=[c.heading for c in made],
        cells=[list(line) for line in zip(*columned, strict=True)] if values else [],
        numeric=[_numeric([line[j] for line in values]) for j in range(len(made))],
        best={
            (i, j)
            for j, c in enumerate(made)
            for i in _marked_rows(c, rows, [line[j] for line in values])
        },
    )


def _order(value: object) -> tuple[int, float, str]:
    """Return the place of a value: numbers, then texts, then those that are missing."""
    if _is_number(value):
        number = float(value)
        return (2, 0.0, "") if np.isnan(number) else (0, number, "")
    return (2, 0.0, "") if value is None else (1, 0.0, str(value))


def _marked_rows(column: Column, rows: Sequence[TableRow], values: list[object]) -> list[int]:
    if column.marked:
        return [i for i, row in enumerate(rows) if row.get(column.marked)]
    return _best_rows(values, column.best) if column.best else []


def _best_rows(values: list[object], best: Best) -> list[int]:
    numbers = [float(v) if _is_number(v) else np.nan for v in values]
    known = [v for v in numbers if not np.isnan(v)]
    if len(known) < 2:
        return []
    target = min(known) if best == "min" else max(known)
    return [i for i, v in enumerate(numbers) if v == target]


_NUMBER = re.compile(r"∞|[-+±\u2212]?\d[\d,]*(\.\d+)?( ?(%|[kMGT]?B|[mµn]?s))?( ± \d[\d.,]*)?")
"""A number that was formatted already, with its unit or interval."""


def _numeric(values: list[object]) -> bool:
    present = [v for v in values if v not in (None, "", MISSING)]
    return bool(present) and all(
        _is_number(v) or (isinstance(v, str) and _NUMBER.fullmatch(v)) for v in present
    )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _aligned(line: list[str], widths: list[int], numeric: list[bool]) -> str:
    return "  ".join(
        text.rjust(w) if right else text.ljust(w)
        for text, w, right in zip(line, widths, numeric, strict=True)
    ).rstrip()


def _one_line(text: str) -> str:
    return text if text.isprintable() else visible(" ".join(text.splitlines()))


def _number(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def _html_cell(table: _TextTable, row: int, column: int) -> str:
    text = escaped(table.cells[row][column])
    classes = [
        name
        for name, holds in (
            ("number", table.numeric[column]),
            ("best", (row, column) in table.best),
        )
        if holds
    ]
    title = ' title="best"' if "best" in classes else ""
    return f'<td class="{" ".join(classes)}"{title}>{text}</td>' if classes else f"<td>{text}</td>"
