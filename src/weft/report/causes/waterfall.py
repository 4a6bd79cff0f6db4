"""From one makespan to another, part by part: predicted to measured."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.explain import Explanation, compare_explanations
from weft.model.explain.quantities import format_seconds
from weft.report.causes.contenders import PART_COLORS
from weft.report.palette import variable


@dataclass(frozen=True, eq=False)
class Waterfall:
    """Bars from the first makespan to the second; the steps sum to the difference."""

    first: Explanation
    second: Explanation
    names: tuple[str, str]

    def steps(self) -> list[tuple[str, float, float]]:
        """(part, from, to) in seconds, without parts that are equal."""
        at, found = self.first.makespan, []
        parts = compare_explanations(self.first, self.second).parts
        limit = 1e-9 * max(self.first.makespan, self.second.makespan)
        for part, seconds in sorted(parts.items(), key=lambda item: -item[1]):
            if abs(seconds) > limit:
                found.append((part, at, at + seconds))
                at += seconds
        return found

    def html(self, mark: str) -> str:
        """Return one row per total and per step."""
        before, after = self.first.makespan, self.second.makespan
        scale = max([before, after, *(max(a, b) for _, a, b in self.steps())]) or 1.0
        rows = [_row(self.names[0], 0.0, before, scale, "accent", format_seconds(before))]
        for part, a, b in self.steps():
            sign = "+" if b > a else "\N{MINUS SIGN}"
            text = f"{sign}{format_seconds(abs(b - a))}"
            rows.append(_row(part, min(a, b), max(a, b), scale, PART_COLORS[part], text))
        rows.append(_row(self.names[1], 0.0, after, scale, "accent", format_seconds(after)))
        return f'<div class="contenders waterfall" id="{mark}" role="list">{"".join(rows)}</div>'


def _row(name: str, low: float, high: float, scale: float, color: str, text: str) -> str:
    left, wide = f"{100 * low / scale:.3f}%", f"{100 * (high - low) / scale:.3f}%"
    bar = f'<i style="margin-left:{left};width:{wide};background:{variable(color)}"></i>'
    return (
        f'<div role="listitem"><span class="who">{name}</span><span class="track">{bar}</span>'
        f'<span class="value"><strong>{text}</strong></span></div>'
    )
