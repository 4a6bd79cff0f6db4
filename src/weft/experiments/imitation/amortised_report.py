"""The part of the DeepSched page that answers its question: what is worth imitating is a planner that is slow and better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.experiments.imitation.amortised import (
    GOALS,
    RATIOS,
    ROOM_COLUMNS,
    columns,
    difference_columns,
    difference_rows,
)
from weft.report.figures import bar_figure
from weft.report.page import Figure, Figures, Table, Text

SHORT, LONG = 0.025, 0.1

ABOUT = """\
"amortised" learned from the search planner "anytime" with a second's moves. One pass of its network, eight samples around it and \
a few quick planners compete; the best is annealed further with moves along the critical path. "moves alone" is the same without \
the network: the difference is what the network is worth. "one pass" is the network without any search. The planners take turns \
on every graph; every schedule is checked. Below HEFT: mean over graphs of 1 - makespan / makespan of HEFT."""

ROOM = "How much there is to gain at the lowest ratio of communication: what long searches find, and what no schedule can surpass."


def best(part: Mapping[str, Any], contender: str, limit: float) -> dict[str, Any]:
    """The row of a contender with a limit."""
    return dict(
        next(row for row in part["rows"] if (row["contender"], row["limit"]) == (contender, limit))
    )


def verdict(found: Mapping[str, Any]) -> list[str]:
    """What the numbers say, set by set."""
    return [_said(name, part, str(found["clock"])) for name, part in found["sets"].items()]


def _said(name: str, part: Mapping[str, Any], clock: str) -> str:
    row = best(part, "amortised", SHORT)
    shares = " / ".join(f"{100 * row[f'{c:g}']:.2f}" for c in RATIOS)
    wanted = " / ".join(f"{100 * GOALS[c]:.1f}" for c in RATIOS)
    missed = [c for c in RATIOS if row[f"{c:g}"] <= GOALS[c]]
    goal = (
        "surpassed at all three"
        if not missed
        else "missed at CCR " + ", ".join(f"{c:g}" for c in missed)
    )
    text = f"{part['graphs']} {name}: with 25 ms ({clock}) amortised is {shares} % below HEFT at CCR 0.1 / 1 / 5 (goal {wanted}: {goal})."
    if 0.1 in missed and part["room"]:
        most = max((r for r in part["room"] if r["limit"] is not None), key=lambda r: r["limit"])
        bound = next(r for r in part["room"] if r["limit"] is None)
        reach, limit = 100 * most["below"], 100 * bound["below"]
        text += f" At CCR 0.1, {most['limit']:g} s of search reach {reach:.2f} %, and no schedule more than {limit:.2f} %."
    for other in ("anytime", "moves alone"):
        change = next(
            r
            for r in part["differences"]
            if r["comparison"] == f"amortised over {other}" and r["limit"] == LONG
        )
        text += f" With 100 ms it is {_compared(change, other)}."
    return text


def _compared(change: Mapping[str, Any], other: str) -> str:
    mean, error = 100 * change["all"], 100 * (change["all error"] or 0.0)
    word = "shorter than" if mean < 0 else "longer than"
    certain = "" if abs(mean) > 2 * error else ", which is within chance"
    return f"{abs(mean):.2f} \u00b1 {error:.2f} % {word} {other}{certain}"


def blocks(found: Mapping[str, Any]) -> Iterator[Any]:
    """What stands in the section."""
    yield Text(ABOUT)
    yield from (Text(text) for text in verdict(found))
    yield Figures([Figure(_picture(name, part)) for name, part in found["sets"].items()])
    for name, part in found["sets"].items():
        yield Table(
            part["rows"],
            columns(),
            caption=f"{part['graphs']} {name}, {found['seeds']} seeds; {found['clock']}.",
        )
        caption = "Mean over graphs of the logarithm of the ratio, \u00b1 its standard error; negative: the first is shorter."
        yield Table(difference_rows(part["differences"]), difference_columns(), caption=caption)
        if part["room"]:
            yield Table(part["room"], ROOM_COLUMNS, caption=ROOM)


def _picture(name: str, part: Mapping[str, Any]) -> str:
    bars: dict[str, dict[str, float]] = {}
    for row in part["rows"]:
        label = (
            row["contender"]
            if row["limit"] is None
            else f"{row['contender']}, {1000 * row['limit']:.0f} ms"
        )
        bars[label] = {f"CCR {c:g}": 100 * row[f"{c:g}"] for c in RATIOS}
    return bar_figure(bars, title=f"{name[0].upper()}{name[1:]}", y_label="% below HEFT")
