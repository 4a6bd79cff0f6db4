"""Fill the tables of the pages from docs/results/*.json: ``python docs/make_results.py``.

A page has ``<!-- table: file.name -->`` and ``<!-- end -->``; the lines between them are written by
this script. A test holds pages and data together.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import fill

DOCS = Path(__file__).parent
PAGES = (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md")))
TABLE = re.compile(r"(<!-- table: (\w+)\.(\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Cell = str | float | None
Table = dict[str, list[list[Cell]] | list[Cell] | str]


def written(file: str, name: str) -> str:
    """Return one table of docs/results/<file>.json, and a note if it was typed by hand."""
    path = DOCS / "results" / f"{file}.json"
    found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {"tables": {}}
    by_hand = found.get("transcribed", {}).get(name)
    return markdown(found["tables"].get(name)) + (note(**by_hand) if by_hand else "")


def note(command: str, date: str) -> str:
    """Say plainly that figures were typed from the output of a command, and when."""
    when = f"at the latest on {date}; not measured since"
    text = f"*Typed by hand from the output of {command}, {when}.*"
    return f"\n{fill(text, 100, break_on_hyphens=False)}\n"


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
    return TABLE.sub(lambda m: m[1] + written(m[2], m[3]) + m[4], page)


def main() -> None:
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        if (new := filled(text)) != text:
            path.write_text(new, encoding="utf-8")
            print(f"tables of {path.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
