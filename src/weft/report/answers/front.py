"""Sizing as a table, a picture of time against rent, and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.model.explain.quantities import format_number
from weft.planners.sizing import Rental, Sizing
from weft.report.answers.picture import save_answer
from weft.report.labels import shortened
from weft.report.palette import LIGHT, category
from weft.report.tables import Column, table_text

COLUMNS = (
    Column("machines"),
    Column("seconds", "makespan", unit="s"),
    Column("bound", unit="s"),
    Column("cost", "rent", unit="money"),
    Column("price", "per hour", unit="money"),
    Column("chosen"),
)


def sizing_text(found: Sizing) -> str:
    """Return the sentence and the front."""
    return "\n".join([found.sentence, "", table_text(_rows(found), COLUMNS)])


def save_front(found: Sizing, path: str | Path) -> Path:
    """Write the front to a .html, .svg or .png file."""
    return save_answer(
        path,
        lambda _, axes: _draw(found, axes),
        size=(7.5, 4.6),
        title="Which machines to rent",
        sentence=found.sentence,
        rows=_rows(found),
        columns=COLUMNS,
    )


def _rows(found: Sizing) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.as_dict()["front"]
    for row, rental in zip(rows, found.front, strict=True):
        row["chosen"] = "<--" if rental is found.best else ""
    return rows


def _draw(found: Sizing, axes: Any) -> None:
    x, y = [r.seconds for r in found.front], [r.cost for r in found.front]
    axes.plot(x, y, color=LIGHT["muted"], lw=1.2, drawstyle="steps-post")
    axes.scatter(x, y, s=40, color=category(0), zorder=2)
    if found.best is not None:
        axes.scatter([found.best.seconds], [found.best.cost], s=110, color=category(1), zorder=3)
    axes.set_xscale("log")
    axes.margins(0.15)
    for rental in _apart(found):
        _name(axes, rental, bold=rental is found.best)
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    if left < found.deadline < right:
        axes.axvline(found.deadline, color=LIGHT["muted"], lw=1.0, ls="--", zorder=0)
        axes.annotate("deadline", (found.deadline, high), fontsize=8, ha="right", va="top")
    if low < found.budget < high:
        axes.axhline(found.budget, color=LIGHT["muted"], lw=1.0, ls="--", zorder=0)
        axes.annotate("budget", (right, found.budget), fontsize=8, ha="right", va="bottom")
    ticks = sorted({x[0], x[len(x) // 2], x[-1]})
    axes.set_xticks(ticks, [format_number(value) for value in ticks])
    axes.minorticks_off()
    axes.grid(visible=True)
    axes.set_title("No other rental is both faster and cheaper")
    axes.set_xlabel("makespan (s), logarithmic")
    axes.set_ylabel("rent")


def _apart(found: Sizing) -> list[Rental]:
    """Return the rentals whose names do not overlap, with the chosen one."""
    costs = [r.cost for r in found.front]
    step = 0.06 * (max(costs) - min(costs))
    kept: list[Rental] = [] if found.best is None else [found.best]
    for rental in found.front:
        if all(abs(rental.cost - other.cost) > step for other in kept):
            kept.append(rental)
    return kept


def _name(axes: Any, rental: Rental, *, bold: bool) -> None:
    axes.annotate(
        shortened(str(rental), 28),
        (rental.seconds, rental.cost),
        xytext=(8, 4),
        textcoords="offset points",
        fontsize=8,
        fontweight="bold" if bold else "normal",
    )
