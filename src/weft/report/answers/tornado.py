"""A what-if as a table; a tornado as a table, a picture and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from weft.model.explain.quantities import format_seconds
from weft.planners.whatif import Tornado, TornadoRow, WhatIf
from weft.report.answers.picture import save_answer
from weft.report.labels import shortened
from weft.report.palette import LIGHT, category
from weft.report.tables import Column, table_text

MOST_BARS = 20
"""Most rows of the picture."""
WIDTH = 44
"""Most characters of a name in a table."""


def before_and_after(answer: WhatIf) -> str:
    """Return makespan, bound, energy and rent of the plan before and after."""
    plans = {"as it is": answer.before, "changed": answer.after}
    keys = ("makespan", "bound", "energy", "cost")
    rows = [{"plan": n, **{k: getattr(p, k) for k in keys}} for n, p in plans.items()]
    return table_text(rows, _used([Column("plan"), *_figures()], rows))


def tornado_text(found: Tornado) -> str:
    """Return the sentence and the table."""
    head = f"{found.before.planner}: makespan {format_seconds(found.before.makespan)}"
    return "\n".join([f"{head}. {found.sentence}", "", table_text(_rows(found), _columns(found))])


def save_tornado(found: Tornado, path: str | Path) -> Path:
    """Write the tornado to a .html, .svg or .png file."""
    bars = len(_bars(found))
    return save_answer(
        path,
        lambda _, axes: _draw(found, axes),
        size=(7.5, 1.6 + 0.3 * bars),
        title=f"What would change the makespan of {found.before.problem.name}",
        sentence=found.sentence,
        rows=_rows(found),
        columns=_columns(found),
    )


def _figures() -> list[Column]:
    times = [Column("makespan", unit="s"), Column("bound", unit="s")]
    return [*times, Column("energy", unit="J"), Column("cost", "rent", unit="money")]


def _used(columns: list[Column], rows: list[dict[str, Any]]) -> list[Column]:
    """Leave out energy and rent where no device has power or a price."""
    return [c for c in columns if c.key not in ("energy", "cost") or any(r[c.key] for r in rows)]


def _rows(found: Tornado) -> list[dict[str, Any]]:
    return [{**row.as_dict(), "what": shortened(row.what, WIDTH)} for row in found.rows]


def _columns(found: Tornado) -> list[Column]:
    times = [
        Column("what", "change of"),
        Column("saved", "better saves", unit="s", best="max"),
        Column("better_makespan", "makespan", unit="s"),
        Column("lost", "worse loses", unit="s"),
    ]
    rent = Column("better_cost", "better: rent", unit="money")
    return [*times, rent] if found.before.cost else times


def _bars(found: Tornado) -> list[TornadoRow]:
    """Return the rows that change anything; the table has all."""
    return [row for row in found.rows if row.saved or row.lost][:MOST_BARS]


def _draw(found: Tornado, axes: Any) -> None:
    rows = _bars(found)
    at, before = range(len(rows)), found.before.makespan
    axes.barh(at, [-row.saved for row in rows], left=before, color=category(0), label="better")
    axes.barh(at, [row.lost for row in rows], left=before, color=category(1), label="worse")
    axes.axvline(before, color=LIGHT["ink"], lw=1.2)
    axes.set_yticks(at, [shortened(row.what, 32) for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.08)
    axes.grid(visible=True, axis="x")
    axes.set_title(f"±{100 * found.share:g} %, or one device more or less")
    axes.set_xlabel("makespan (s)")
    axes.legend(fontsize=9, loc="lower right")
