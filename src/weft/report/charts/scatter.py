"""Every task as a point: seconds measured over predicted, both logarithmic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.model.explain.quantities import format_seconds
from weft.report.labels import escaped, shortened
from weft.report.palette import CATEGORIES, swatch, variable

WIDTH, HEIGHT, LEFT, BELOW = 560, 380, 64, 44
POINTS_UP_TO = 2000
SHORTEST = 1e-6
"""Seconds: shorter tasks are drawn as if they took this long."""


@dataclass(frozen=True)
class ScatterPoint:
    """One execution."""

    name: str
    kind: int
    predicted: float
    measured: float


@dataclass(frozen=True, eq=False)
class Scatter:
    """Executions around right predictions, with a band from half to twice of them."""

    points: Sequence[ScatterPoint]
    kinds: Sequence[str]

    def html(self, mark: str) -> str:
        """Return a figure with its legend and a sentence; nothing without points."""
        if not self.points:
            return ""
        step = -(-len(self.points) // POINTS_UP_TO)
        keys = "".join(
            swatch(_color(kind), escaped(shortened(name, 32)))
            for kind, name in enumerate(self.kinds)
        )
        every = "" if step == 1 else f" Every {step}th execution is drawn."
        return (
            f'<figure id="{mark}"><p class="keys">{keys}</p>{self._svg(step)}'
            f"<figcaption>{self._sentence()}{every}</figcaption></figure>"
        )

    def _sentence(self) -> str:
        within = sum(0.5 <= p.measured / max(p.predicted, SHORTEST) <= 2.0 for p in self.points)
        return (
            f"{within:,} of {len(self.points):,} executions took between half and twice the "
            "predicted time (the band)."
        )

    def _svg(self, step: int) -> str:
        seconds = [max(s, SHORTEST) for p in self.points for s in (p.predicted, p.measured)]
        low, high = math.log10(min(seconds)) - 0.15, math.log10(max(seconds)) + 0.15
        across, up = (WIDTH - LEFT - 12) / (high - low), (HEIGHT - BELOW - 12) / (high - low)

        def x(s: float) -> float:
            return LEFT + (math.log10(max(s, SHORTEST)) - low) * across

        def y(s: float) -> float:
            return HEIGHT - BELOW - (math.log10(max(s, SHORTEST)) - low) * up

        first, last = 10.0**low, 10.0**high
        corners = [(first, first * 2), (last / 2, last), (last, last), (last, last / 2)]
        corners += [(first * 2, first), (first, first)]
        band = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in corners)
        diagonal = f'x1="{x(first):.1f}" y1="{y(first):.1f}" x2="{x(last):.1f}" y2="{y(last):.1f}"'
        body = [
            f'<polygon points="{band}" style="fill:{variable("line")};opacity:.45"/>',
            f'<line {diagonal} style="stroke:{variable("muted")}" stroke-dasharray="4 4"/>',
            *(_tick(s, x(s), y(s)) for s in _ticks(low, high)),
            *(_circle(p, x(p.predicted), y(p.measured)) for p in self.points[::step]),
            f'<text x="{WIDTH - 12}" y="{HEIGHT - 8}" text-anchor="end">predicted</text>',
            f'<text x="{LEFT + 6}" y="28">measured</text>',
        ]
        return (
            '<svg class="scatter" role="img" aria-label="Measured over predicted seconds of every '
            f'execution" viewBox="0 0 {WIDTH} {HEIGHT}" style="max-width:{WIDTH}px;width:100%;'
            f'fill:{variable("muted")}" font-size="12">{"".join(body)}</svg>'
        )


def _color(kind: int) -> str:
    return variable(f"c{kind % len(CATEGORIES)}")


def _ticks(low: float, high: float) -> list[float]:
    """Return powers of ten; with fewer than two of them, 1, 2 and 5 of each."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    tens = [10.0**k for k in powers if low <= k <= high]
    fine = [m * 10.0**k for k in powers for m in (1, 2, 5) if low <= math.log10(m) + k <= high]
    return tens if len(tens) > 1 else fine


def _tick(seconds: float, x: float, y: float) -> str:
    name, line = format_seconds(seconds), f'style="stroke:{variable("line")}"'
    return (
        f'<line x1="{x:.1f}" y1="12" x2="{x:.1f}" y2="{HEIGHT - BELOW}" {line}/>'
        f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 12}" y2="{y:.1f}" {line}/>'
        f'<text x="{x:.1f}" y="{HEIGHT - BELOW + 16}" text-anchor="middle">{name}</text>'
        f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'
    )


def _circle(point: ScatterPoint, x: float, y: float) -> str:
    said = (
        f"{point.name}: predicted {format_seconds(point.predicted)}, "
        f"measured {format_seconds(point.measured)}"
    )
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="4" style="fill:{_color(point.kind)};fill-opacity:.75"'
    return f"<circle {place}><title>{escaped(said)}</title></circle>"
