"""The front of makespan, cost, energy and accuracy as table, picture and page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any

from weft.model.explain.quantities import format_number, format_seconds
from weft.planners.variants import FrontPlan
from weft.report.answers.picture import save_answer
from weft.report.palette import LIGHT, category
from weft.report.tables import Column, table_text

FIGURES = {"cost": "cost", "energy": "energy (J)", "accuracy": "accuracy (mean)"}
"""Figures beside the makespan, and their labels."""


def front_text(front: Sequence[FrontPlan]) -> str:
    """Return the sentence and the front as a table."""
    return "\n".join([front_sentence(front), "", table_text(_rows(front), _columns(front))])


def front_sentence(front: Sequence[FrontPlan]) -> str:
    """Return how many plans there are, and between which ends."""
    spans = [one.makespan for one in front]
    text = (
        f"{len(front)} plans that no other one found beats: makespan {format_seconds(min(spans))}"
    )
    text += f" to {format_seconds(max(spans))}"
    for name in _varying(front):
        values = [getattr(one, name) for one in front]
        text += f", {name} {format_number(min(values))} to {format_number(max(values))}"
    return f"{text}."


def save_trade_off(front: Sequence[FrontPlan], path: str | Path) -> Path:
    """Write the front to a .html, .svg or .png file, a panel per figure that differs."""
    names = _varying(front) or ["cost"]
    return save_answer(
        path,
        lambda figure, axes: _draw(front, names, figure, axes),
        size=(4.6 * len(names) + 0.6, 4.2),
        title="What the variants trade",
        sentence=front_sentence(front),
        rows=_rows(front),
        columns=_columns(front),
    )


def _varying(front: Sequence[FrontPlan]) -> list[str]:
    """Return the figures beside the makespan that differ on the front, accuracy first."""
    found = {name: {getattr(one, name) for one in front} for name in reversed(FIGURES)}
    known = {name: values for name, values in found.items() if not any(map(isnan, values))}
    return [name for name, values in known.items() if len(values) > 1]


def _columns(front: Sequence[FrontPlan]) -> list[Column]:
    shown = [name for name in FIGURES if any(_known(getattr(one, name)) for one in front)]
    columns = [
        Column("makespan", unit="s"),
        *(Column(name, unit="J" if name == "energy" else "") for name in shown),
    ]
    return [*columns, Column("variants")]


def _known(value: float) -> bool:
    return not isnan(value) and value != 0.0


def _rows(front: Sequence[FrontPlan]) -> list[dict[str, Any]]:
    return [{**one.as_dict(), "variants": counted(one.variants)} for one in front]


def counted(variants: Mapping[str, str]) -> str:
    """Return the variants in words: by task if there are few, else how many of each."""
    if len(variants) <= 4:
        return ", ".join(f"{task}: {name}" for task, name in variants.items())
    return ", ".join(f"{count} x {name}" for name, count in Counter(variants.values()).items())


def _draw(front: Sequence[FrontPlan], names: list[str], figure: Any, axes: Any) -> None:
    axes.remove()
    x = [one.makespan for one in front]
    for k, name in enumerate(names):
        panel = figure.add_subplot(1, len(names), k + 1)
        y = [getattr(one, name) for one in front]
        best = _steps(x, y, sign=-1.0 if name == "accuracy" else 1.0)
        panel.plot(*best, color=LIGHT["muted"], lw=1.2, drawstyle="steps-post", zorder=1)
        panel.scatter(x, y, s=34, color=category(k), zorder=2)
        panel.set_title(f"makespan and {name}")
        panel.set_xlabel("makespan (s)")
        panel.set_ylabel(FIGURES[name])
        panel.margins(0.1)
        panel.grid(visible=True)


def _steps(x: list[float], y: list[float], *, sign: float) -> tuple[list[float], list[float]]:
    """Return the points that are best in these two figures alone, by makespan."""
    kept: list[tuple[float, float]] = []
    for a, b in sorted(zip(x, (sign * v for v in y), strict=True)):
        if not kept or b < kept[-1][1]:
            kept.append((a, b))
    return [a for a, _ in kept], [sign * b for _, b in kept]
