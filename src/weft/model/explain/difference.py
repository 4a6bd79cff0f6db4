"""Two explanations beside each other: how much longer one takes, and where."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.explain.chain import PARTS
from weft.model.explain.explanation import Explanation
from weft.model.explain.quantities import format_seconds
from weft.typed import typed


@dataclass(frozen=True)
class ExplanationDifference:
    """How much longer the second of two plans or traces takes, and where."""

    sentence: str
    seconds: float
    parts: dict[str, float]

    def __str__(self) -> str:
        return self.sentence


@typed
def compare_explanations(one: Explanation, other: Explanation) -> ExplanationDifference:
    """State how much longer `other` takes than `one`, and which parts take that time.

    Examples
    --------
    >>> from weft.model import Problem, Schedule
    >>> from weft.model.explain import explain
    >>> problem = Problem.from_arrays([[2.0, 1.0], [3.0, 9.0]], [[0, 1]], [10.0], bandwidth=5.0)
    >>> stay = explain(Schedule.of(device=[0, 0], start=[0.0, 2.0], finish=[2.0, 5.0]), problem)
    >>> move = explain(Schedule.of(device=[1, 0], start=[0.0, 3.0], finish=[1.0, 6.0]), problem)
    >>> print(compare_explanations(stay, move))
    the second takes 1 s longer than the first: 2 s more moving data, 1 s less computing.
    """
    seconds = other.makespan - one.makespan
    parts = {part: other.parts[part] - one.parts[part] for part in PARTS}
    slow, fast = (other, one) if seconds >= 0 else (one, other)
    a, b = one.name or "the first", other.name or "the second"
    if a == b:
        a, b = "the first", "the second"
    if seconds >= 0:
        a, b = b, a
    if abs(seconds) <= 1e-9 * max(one.makespan, other.makespan):
        return ExplanationDifference(f"both take {format_seconds(one.makespan)}.", seconds, parts)
    text = f"{a} takes {format_seconds(abs(seconds))} longer than {b}"
    sign = 1.0 if seconds >= 0 else -1.0
    more = {part: sign * value for part, value in parts.items()}
    return ExplanationDifference(f"{text}{_where(slow, fast, more)}.", seconds, parts)


def _where(slow: Explanation, fast: Explanation, more: dict[str, float]) -> str:
    total, usual = slow.makespan - fast.makespan, fast.transfers()
    extra = {k: s - usual.get(k, 0.0) for k, s in slow.transfers().items()}
    key = max(extra, key=extra.__getitem__, default=None)
    if key is not None and abs(extra[key] - total) <= 0.05 * total:
        share = "all" if abs(extra[key] - total) <= 0.01 * total else "nearly all"
        return f", {share} of it one transfer: {slow.transfer_text(key)}"
    ranked = sorted(more.items(), key=lambda item: -abs(item[1]))
    words = [
        f"{format_seconds(abs(s))} {'more' if s > 0 else 'less'} {part}"
        for part, s in ranked
        if abs(s) > 0.01 * total
    ]
    return f": {', '.join(words)}" if words else ""
