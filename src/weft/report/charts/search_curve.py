"""Best makespan and bound over the time of a search, as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.model.explain.quantities import format_seconds
from weft.report.palette import variable

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 170, 12, 110, 12, 26


@dataclass(frozen=True)
class SearchCurve:
    """The best makespan of a search over time, down to its proven bound (0: none)."""

    history: Sequence[tuple[float, float]]
    seconds: float
    bound: float = 0.0

    def html(self, mark: str) -> str:
        """Return a step line, a dashed line for the bound, and their values at the right."""
        end = max(self.seconds, self.history[-1][0])
        values = [value for _, value in self.history]
        low, high = min([*values, *([self.bound] if self.bound > 0 else [])]), max(values)
        room = (high - low) or max(high, 1e-300)

        def x(seconds: float) -> float:
            return LEFT + (WIDTH - LEFT - RIGHT) * seconds / max(end, 1e-300)

        def y(value: float) -> float:
            return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / room

        path = f"M{x(self.history[0][0]):.1f} {y(values[0]):.1f}"
        path += "".join(f"H{x(t):.1f}V{y(v):.1f}" for t, v in self.history[1:])
        last = y(values[-1])
        stroke = f'fill="none" style="stroke:{variable("c0")}" stroke-width="2"'
        best = _label(WIDTH - RIGHT + 6, last + 4, f"best {format_seconds(values[-1])}")
        lines = [f'<path d="{path}H{x(end):.1f}" {stroke}/>', best]
        if self.bound > 0:
            at = y(self.bound)
            lines.append(
                f'<path d="M{LEFT} {at:.1f}H{x(end):.1f}" style="stroke:{variable("ink")}" '
                'stroke-dasharray="4 3"/>'
            )
            apart = max(at + 4, last + 18)
            lines.append(_label(WIDTH - RIGHT + 6, apart, f"bound {format_seconds(self.bound)}"))
        lines.append(_label(LEFT, HEIGHT - 8, "0 s of search"))
        lines.append(_label(x(end), HEIGHT - 8, format_seconds(end), "end"))
        return (
            f'<figure id="{mark}" class="search"><svg viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" style="max-width:100%;height:auto" font-size="12" role="img" '
            f'aria-label="Best makespan over the time of the search">{"".join(lines)}</svg>'
            "<figcaption>Best makespan over the time of the search.</figcaption></figure>"
        )


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'style="fill:{variable("ink")}">{text}</text>'
    )
