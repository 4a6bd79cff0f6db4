"""Files of one picture: an SVG, a PNG, or a page with its sentence and table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.errors import InvalidInput
from weft.formats.parsing.source import write_file
from weft.report.matplot import drawing, inline_svg, png_bytes, svg_bytes
from weft.report.page import Figure, Section, Table, write_report
from weft.report.tables import Column, TableRow


def save_answer(
    path: str | Path,
    draw: Callable[[Any, Any], None],
    *,
    size: tuple[float, float],
    title: str,
    sentence: str,
    rows: Sequence[TableRow],
    columns: Sequence[str | Column],
) -> Path:
    """Write a picture (.svg, .png), or a page with sentence and table (.html)."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".html", ".svg", ".png"):
        raise InvalidInput(
            f"'{path.name}' ends in '{path.suffix}'; a picture is written to .html, .svg or .png"
        )
    with drawing(*size) as (figure, axes):
        draw(figure, axes)
        if suffix == ".svg":
            write_file(path, svg_bytes(figure))
        elif suffix == ".png":
            write_file(path, png_bytes(figure))
        else:
            picture = Figure(inline_svg(figure, label=sentence))
            section = Section("In numbers", [picture, Table(rows, columns)])
            write_report(path, title=title, lead=sentence, sections=[section])
    return path
