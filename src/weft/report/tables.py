"""Tables from rows of dicts: aligned text for terminals, Markdown for documents, HTML for pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weft.errors import InvalidInput, UnknownName, visible
from weft.registry import closest
from weft.report.quantities import (
    MISSING,
    escaped,
    format_bytes,
    format_energy,
    format_money,
    format_number,
    format_seconds,
)

Row = Mapping[str, object]
Best = Literal["min", "max"]


@dataclass(frozen=True)
class Column:
    """How one key of the rows is shown.

    Parameters
    ----------
    key : of the rows; `title` : above the column, the key by default
    unit : "s", "B" and "J" choose a fitting unit for each value, "%" shows shares as percent,
        "money" shows amounts, anything else stands beside the title
    digits : significant digits; `places` : decimal places instead
    best : mark the smallest ("min") or largest ("max") value
    """

    key: str
    title: str = ""
    unit: str = ""
    digits: int = 4
    best: Best | None = None
    places: int | None = None

    @property
    def heading(self) -> str:
        """The title, with a unit that the values do not carry."""
        title = self.title or self.key.replace("_", " ")
        return f"{title} ({self.unit})" if self.unit not in {"", "%", *_FORMATS} else title

    def text(self, value: object) -> str:
        """A value as people read it."""
        if value is None:
            return MISSING
        if isinstance(value, bool | np.bool_):
            return "yes" if value else "no"
        if not _is_number(value):
            return str(value)
        number = float(value)  # type: ignore[arg-type]
        if np.isnan(number):
            return MISSING
        if self.unit == "%":
            return f"{self._figure(100 * number)} %"
        return _FORMATS[self.unit](number) if self.unit in _FORMATS else self._figure(number)

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


@dataclass(frozen=True)
class _Table:
    headings: list[str]
    cells: list[list[str]]
    numeric: list[bool]
    best: set[tuple[int, int]]


def table_text(
    rows: Iterable[Row],
    columns: Columns | None = None,
    *,
    sort: str | None = None,
    descending: bool = False,
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
    table = _table(rows, columns, sort, descending)
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
    rows: Iterable[Row],
    columns: Columns | None = None,
    *,
    sort: str | None = None,
    descending: bool = False,
    caption: str = "",
) -> str:
    """Return an HTML table that scrolls on narrow screens; the best values are marked."""
    table = _table(rows, columns, sort, descending)
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


def _table(
    rows: Iterable[Row], columns: Columns | None, sort: str | None, descending: bool
) -> _Table:
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
        rows = _sorted(rows, sort, descending)
    values = [[row.get(c.key) for c in made] for row in rows]
    return _Table(
        headings=[c.heading for c in made],
        cells=[[c.text(v) for c, v in zip(made, line, strict=True)] for line in values],
        numeric=[_numeric([line[j] for line in values]) for j in range(len(made))],
        best={
            (i, j)
            for j, c in enumerate(made)
            if c.best
            for i in _best_rows([line[j] for line in values], c.best)
        },
    )


def _sorted(rows: list[Row], key: str, descending: bool) -> list[Row]:
    """Sort stably: numbers, then texts; rows without a value come last either way."""
    present = [row for row in rows if _present(row.get(key))]
    numbers = sorted(
        (r for r in present if _is_number(r[key])),
        key=lambda r: float(r[key]),  # type: ignore[arg-type]
        reverse=descending,
    )
    texts = sorted(
        (r for r in present if not _is_number(r[key])),
        key=lambda r: str(r[key]),
        reverse=descending,
    )
    return [*numbers, *texts, *(row for row in rows if not _present(row.get(key)))]


def _best_rows(values: list[object], best: Best) -> list[int]:
    numbers = [float(v) if _is_number(v) else np.nan for v in values]  # type: ignore[arg-type]
    known = [v for v in numbers if not np.isnan(v)]
    if len(known) < 2:
        return []
    target = min(known) if best == "min" else max(known)
    return [i for i, v in enumerate(numbers) if v == target]


def _numeric(values: list[object]) -> bool:
    present = [v for v in values if v is not None]
    return bool(present) and all(_is_number(v) for v in present)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def _present(value: object) -> bool:
    if value is None:
        return False
    return not (_is_number(value) and np.isnan(float(value)))  # type: ignore[arg-type]


def _aligned(line: list[str], widths: list[int], numeric: list[bool]) -> str:
    return "  ".join(
        text.rjust(w) if right else text.ljust(w)
        for text, w, right in zip(line, widths, numeric, strict=True)
    ).rstrip()


def _one_line(text: str) -> str:
    return text if text.isprintable() else visible(" ".join(text.splitlines()))


def _number(numeric: bool) -> str:
    return ' class="number"' if numeric else ""


def _html_cell(table: _Table, row: int, column: int) -> str:
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
