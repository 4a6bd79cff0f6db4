"""Fill the tables of the pages from docs/results/*.json: ``python docs/make_results.py``.

A page has ``<!-- table: file.name -->`` and ``<!-- end -->``; the lines between them are written by
this script. A test holds pages and data together.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

DOCS = Path(__file__).parent
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
TABLE = re.compile(r"(<!-- table: (\w+)\.(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Cell = str | float | None
Table = dict[str, list[list[Cell]] | list[Cell] | str]


def table_of(file: str, name: str) -> Table | None:
    """Read one table of docs/results/<file>.json; None if no command has written it yet."""
    path = DOCS / "results" / f"{file}.json"
    if not path.is_file():
        return None
    return json.loads(path.read_text(encoding="utf-8"))["tables"].get(name)


def markdown(table: Table | None) -> str:
    """Format a table as Markdown; `decimals` and `suffix` say how the numbers of a column look."""
    if table is None:
        return "*Not measured yet: the command of this page writes this table.*\n"
    columns, rows = table["columns"], table["rows"]
    decimals = table.get("decimals") or [None] * len(columns)
    suffixes = table.get("suffix") or [""] * len(columns)
    rule = ["--:" if side == "r" else "---" for side in table["align"]]
    body = [
        [_text(cell, *form) for cell, *form in zip(row, decimals, suffixes, strict=True)]
        for row in rows
    ]
    return "".join(_line(cells) for cells in ([str(c) for c in columns], rule, *body))


def _text(cell: Cell, decimals: int | None, suffix: str) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else f"{cell:,.{decimals or 0}f}{suffix}"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n".replace("|  |", "| |").replace("|  |", "| |")


def filled(page: str) -> str:
    """Return the text of a page with all its tables written from the data."""
    return TABLE.sub(lambda m: m[1] + markdown(table_of(m[2], m[3])) + m[4], page)


def main() -> None:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(f"tables of {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
