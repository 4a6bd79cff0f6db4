"""The answer on top of a page: a sentence, and a bar per contender split by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.model.explain import PARTS, Explanation, compare_explanations
from weft.model.explain.quantities import format_seconds
from weft.report.gantt.chart import Chart
from weft.report.labels import escaped
from weft.report.palette import swatch, variable
from weft.report.tables import Column

PART_COLORS = dict(zip(PARTS, ("c0", "bad", "ink", "c5", "c3", "muted"), strict=True))
"""Colours of the parts of a critical chain, as names of the palette."""

CLIPPED = 2.0
"""Bars longer than this many times the best are cut off and carry their number."""


class ContenderBar(NamedTuple):
    """One contender: its seconds, their parts, and its standing over drawn futures."""

    name: str
    seconds: float
    parts: Mapping[str, float]
    low: float | None = None
    high: float | None = None
    wins: int | None = None
    best: bool = False
    about: str = ""

    @property
    def end(self) -> float:
        """Where the bar and its interval end, in seconds; an interval may be NaN."""
        return self.high if self.high is not None and self.high > self.seconds else self.seconds

    @classmethod
    def of(cls, chart: Chart) -> ContenderBar:
        """Make the bar of one plan or trace."""
        found = chart.explanation
        return cls(chart.title, found.makespan, found.parts, about=found.sentence)


@dataclass(frozen=True)
class Answer:
    """Sentences, then bars; `bound` is drawn as a line across (0: none)."""

    bars: Sequence[ContenderBar]
    bound: float = 0.0
    sentences: Sequence[str] = ()
    futures: int = 1

    def html(self, mark: str) -> str:
        """Return the sentences, the bars and their legend."""
        said = self.sentences or [bar.about for bar in self.bars[:1] if bar.about]
        text = "".join(f'<p class="answer">{escaped(s)}</p>' for s in said)
        return f'<div class="answers" id="{mark}">{text}{self._bars()}</div>'

    def document(self) -> dict[str, object]:
        """Return the sentences and bars as plain data."""
        return {"sentences": list(self.sentences), "bars": [bar._asdict() for bar in self.bars]}

    def _bars(self) -> str:
        shown = [bar for bar in self.bars if bar.seconds > 0]
        if not shown:
            return ""
        limit = CLIPPED * min(bar.seconds for bar in shown)
        scale = max([self.bound, *(bar.end for bar in shown if bar.seconds <= limit)])
        if any(bar.seconds > limit for bar in shown):
            scale = max(scale, limit)  # bars that are cut off are the longest
        texts = Column("seconds", unit="s").texts([bar.seconds for bar in shown])
        rows = "".join(self._row(bar, scale, text) for bar, text in zip(shown, texts, strict=True))
        top = ""
        if self.bound > 0:
            label = f"proven bound {format_seconds(self.bound)}"
            line = f'<span class="at" style="left:{_percent(self.bound, scale)}">{label}</span>'
            top = f'<div class="head"><span></span><span class="track">{line}</span></div>'
        return f'<div class="contenders" role="list">{top}{rows}</div>{self._legend(shown)}'

    def _row(self, bar: ContenderBar, scale: float, text: str) -> str:
        cut = bar.seconds > scale * (1 + 1e-9)
        full = scale if cut else bar.seconds
        pieces = "".join(
            f'<i style="width:{_percent(seconds / bar.seconds * full, scale)};'
            f'background:{variable(PART_COLORS[part])}" title="{part} {format_seconds(seconds)}">'
            "</i>"
            for part, seconds in bar.parts.items()
            if seconds > 0
        )
        if self.bound > 0:
            pieces += f'<b class="bound" style="left:{_percent(self.bound, scale)}"></b>'
        if bar.low is not None and bar.high is not None and bar.high > bar.low and not cut:
            left, wide = _percent(bar.low, scale), _percent(bar.high - bar.low, scale)
            pieces += f'<b class="interval" style="left:{left};width:{wide}"></b>'
        name = f'<button type="button" data-open="{escaped(bar.name)}">{escaped(bar.name)}</button>'
        star = '<span class="best" title="among the best">★</span> ' if bar.best else ""
        end = "▸ " if cut else ""
        return (
            f'<div role="listitem" title="{escaped(bar.about)}"><span class="who">{star}'
            f'{name}</span><span class="track">{pieces}</span><span class="value">{end}'
            f"<strong>{text}</strong> {self._notes(bar)}</span></div>"
        )

    def _notes(self, bar: ContenderBar) -> str:
        notes = []
        if self.bound > 0:
            notes.append(f"+{100 * max(0.0, bar.seconds / self.bound - 1):.0f} %")
        if self.futures > 1 and bar.wins is not None:
            notes.append(f"won {bar.wins} of {self.futures}")
        moving = bar.parts.get("moving data", 0.0)
        data = ""
        if moving > 0.1 * bar.seconds:
            data = f' <strong class="moving">{format_seconds(moving)} moving data</strong>'
        return f"{', '.join(notes)}{',' if notes and data else ''}{data}"

    def _legend(self, bars: Sequence[ContenderBar]) -> str:
        used = [part for part in PARTS if any(bar.parts.get(part, 0.0) > 0 for bar in bars)]
        keys = [swatch(variable(PART_COLORS[part]), part) for part in used]
        if self.futures > 1:
            keys.append('<span><i class="whisker"></i>95 % interval of the mean</span>')
        if any(bar.best for bar in bars):
            best_count = sum(bar.best for bar in bars)
            label = "best" if best_count == 1 else f"best: these {best_count} cannot be told apart"
            keys.append(f'<span><span class="best">★</span>{label}</span>')
        return f'<p class="keys">On the critical chain: {"".join(keys)}</p>'


def difference_sentences(found: Mapping[str, Explanation]) -> list[str]:
    """Return sentences on the best contender, the first, against another one.

    The other one has the longest transfer on its critical chain that the best does not have; if no
    transfer matters, it is the runner-up.

    Examples
    --------
    >>> from weft.model import Problem
    >>> from weft.model.explain import explain
    >>> from weft.planners import plan
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 9.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> found = {name: explain(plan(problem, name)) for name in ("single-device", "heft")}
    >>> difference_sentences(found)[0]
    'heft takes 1 s longer than single-device: 2 s more moving data, 1 s less computing.'
    """
    if len(found) < 2:
        return [one.sentence for one in found.values()]
    best, *others = found.values()
    usual = best.transfers()

    def longest(other: Explanation) -> float:
        return max((s - usual.get(k, 0.0) for k, s in other.transfers().items()), default=0.0)

    others = [other for other in others if other.makespan <= CLIPPED * best.makespan] or others
    other = max(others, key=longest)
    if longest(other) < 0.05 * best.makespan:
        other = others[0]
    first, second = best.parts["computing"], other.parts["computing"]
    chain = f"On their critical chains {best.name or 'the first'} computes {format_seconds(first)}"
    if abs(first - second) <= 0.01 * max(first, second):
        chain = f"Both compute {format_seconds(first)} on their critical chains."
    else:
        chain += f" and {other.name or 'the second'} {format_seconds(second)}."
    return [compare_explanations(best, other).sentence, chain]


def _percent(value: float, scale: float) -> str:
    return f"{100 * value / scale:.3f}%" if scale > 0 else "0"
