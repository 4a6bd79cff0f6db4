"""Further sections of the page on conditional task graphs: changing probabilities, any graph, rollouts, even arrivals, two ways to wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.model.columns import FloatArray
from weft.report.figures import Series, line_figure
from weft.report.page import Figure, Figures, PageBlock, Table, Text
from weft.report.tables import Column, Columns, Row

Document = Mapping[str, Any]
SIZE = (5.4, 3.7)

TWO_WAYS = """\
In the paper a unit told to idle is blocked for 10 ms, whatever happens meanwhile. There is a way around it, which can be exploited: an \
action on a queue that another unit has emptied in the same step is a short wait; the unit does nothing and is asked again at the next \
event. weft's own rules and learned policies (not the paper's three rules) wait like this wherever another unit gives them the occasion. \
Numbers with the paper's waiting therefore tell partly who uses the gap. Nor do they all wait when nothing is in flight or due, which \
the paper's mask allows and which would never end.

The other semantics says what a user would expect: a unit that waits does so until the next event, and may not wait when nothing is \
in flight or due. Policies are trained with the one their card names; those trained for the paper's are played with it only, the others \
in both."""

REGULAR = """\
The paper's text lets a job arrive every 8 ms; its code, and all other numbers here, draw gaps from a normal distribution with deviation \
4 ms. Even arrivals are easier to serve for most. Policies were trained with drawn gaps; waiting is until the next event."""


def column(values: Sequence[float | None]) -> FloatArray:
    """Numbers for a figure; NaN for what is missing."""
    return np.array([np.nan if value is None else value for value in values], float)


# -- changes at run time ---------------------------------------------------------------


def adaptation(document: Document) -> list[PageBlock]:
    """Who follows a p(c) that moves."""
    found = document["adaptation"]
    told = (
        f"Completion times while p(c) moves, over {found['seeds']} seeds. Estimates forget: they are exponential means over some 500 "
        'outcomes of D; "never forgets" is the same policy with a plain mean over all outcomes, as in the paper. '
        "Draws differ much, so intervals are of the ratio draw by draw."
    )
    if found["online_learning"] is None:
        told += " No policy that goes on learning could take part: it needs torch and the policy it begins with."
    else:
        told += (
            f' "{found["online_learning"]}" begins as that policy and goes on with PPO on the very run it is judged by: its decisions are '
            "drawn, so it pays for what it tries, and some 20,000 of them are all it sees, where a training sees millions."
        )
    blocks: list[PageBlock] = [Text(told)]
    for kind, result in found["kinds"].items():
        columns: Columns = [
            "policy",
            Column("mean", "completion time (ms)", digits=4, best="min"),
            Column("over_best", "over the best", digits=4),
            Column("over_best_half_width", "±", digits=2),
        ]
        blocks.append(
            Table(
                result["rows"],
                columns,
                sort="mean",
                caption=f"{kind.capitalize()}: {result['about']}.",
            )
        )
        blocks.append(Figures(_change_figures(found["time"], kind, result)))
    return blocks


def _change_figures(time: Sequence[float], kind: str, result: Mapping[str, Any]) -> list[Figure]:
    hidden = {"unit-fifo", "pi1"}
    lines = {
        name: Series(time, column(line))
        for name, line in result["curves"].items()
        if name not in hidden
    }
    of = "mean over seeds" if kind == "steps" else "one draw"
    path = {"p(c)": Series(time, column(result["probability"]))}
    return [
        Figure(
            line_figure(
                lines,
                title=f"{kind.capitalize()}: completion time, {of}",
                x_label="seconds",
                y_label="ms",
                size=SIZE,
            )
        ),
        Figure(
            line_figure(
                path,
                title=f"{kind.capitalize()}: p(c)",
                x_label="seconds",
                y_label="p(c)",
                size=SIZE,
            )
        ),
    ]


def any_graph(document: Document) -> list[PageBlock]:
    """One policy on graphs it has never seen."""
    found = document["any_graph"]
    if not found["sets"]:
        return [
            Text(
                "The policy for any graph, conditional-any, is not shipped, so there is nothing to show."
            )
        ]
    told = (
        "conditional-any scores every pair of an idle unit and a kind of task by a small network whose weights are the same for all pairs, "
        "graphs and units; features are ratios and counts without a unit. It was trained on random conditional graphs, none of these. "
        f"Mean job completion time of each rule over its own, {found['draws']} draws of {found['jobs']:,} jobs on each stream: geometric "
        "mean over streams with the 95 % interval, the ratio where the rule does best, and the share of streams where the rule is quicker."
    )
    if "call graphs" not in found["sets"]:
        told += " Call graphs of real services are tried too where WEFT_DATA names the folder that has them."
    blocks: list[PageBlock] = [Text(told)]
    columns: Columns = [
        "policy",
        Column("over_any", "time / conditional-any", digits=4),
        Column("low", "from", digits=4),
        Column("high", "to", digits=4),
        Column("worst", "at its best", digits=4),
        Column("quicker", "quicker on", unit="%", digits=3),
    ]
    for result in found["sets"].values():
        won = result["rows"][0]["first"]
        caption = f"{result['streams']} streams: {result['about']}. No rule is quicker than conditional-any on {won:.0%} of them."
        blocks.append(Table(result["rows"], columns, sort="over_any", caption=caption))
    return blocks


ROLLOUTS = """\
At every step the choice of the network is tried against others, each with one unit's action changed: all of them in the same imagined \
futures, played to their end by the tuned index. Arrivals are drawn from their process, branches from the estimate; the real future is \
not looked at. The choice with the least time of jobs in the system is taken. That is 400 times the work of a network, so there \
are few seeds; waiting is until the next event, and all play the same draws."""


def rollouts(document: Document) -> list[PageBlock]:
    """One step of look-ahead beside what it is built on."""
    rows: list[Row] = []
    for found in document["rollouts"]:
        line = {f"{name}_over": ratio for name, ratio in found["over_authors"].items()}
        rows.append(
            {
                **found,
                "p": f"{found['probability']:g}",
                "time": found["mean"].get("rollout"),
                **line,
            }
        )
    if not rows:
        return [Text("Rollouts take part in the full experiment only.")]
    mean = {
        name: np.mean([found["over_authors"][name] for found in document["rollouts"]])
        for name in rows[0]["over_authors"]
    }  # type: ignore[attr-defined]
    columns: Columns = [
        Column("p", "p(c)"),
        Column("authors", "authors' pi4 (ms)", digits=4),
        Column("time", "rollouts (ms)", digits=4),
        Column("rollout_over", "rollouts", digits=4),
        *(Column(f"{name}_over", name, digits=4) for name in ("best", "index") if name in mean),
        Column("changed", "changed", unit="%", digits=3),
        Column("futures", "futures", digits=3),
        Column("ms_a_step", "ms a step", digits=2),
    ]
    means = ", ".join(f"{name} {value:.4f}" for name, value in mean.items())
    caption = (
        f"{rows[0]['seeds']} seed(s) of {document['jobs']:,} jobs at each p(c): times, then over the authors' pi4 (mean: {means}); "
        "the share of choices that were changed, futures, and what a step takes."
    )
    return [Text(ROLLOUTS), Table(rows, columns, caption=caption)]


def regular(document: Document) -> list[PageBlock]:
    """A job every 8 ms, as the text has it."""
    points = [f"{p:g}" for p in document["probabilities"]]
    rows: list[Row] = []
    for found in document["regular"]:
        line = {
            p: "\u221e" if x is None else f"{x:.2f}"
            for p, x in zip(points, found["mean"], strict=True)
        }
        rows.append({"policy": found["policy"], **line, "over": found["over_normal"]})
    columns: Columns = ["policy", *points, Column("over", "/ drawn gaps", digits=4)]
    table = Table(
        rows,
        columns,
        caption="Mean job completion time in ms at p(c) = 0 to 1; the last column: over that with drawn gaps.",
    )
    return [Text(REGULAR), table]


def waiting(document: Document) -> list[PageBlock]:
    """The two semantics side by side."""
    rows: dict[str, dict[str, Any]] = {}
    for found in document["summary"]:
        rows.setdefault(found["policy"], {"policy": found["policy"]})[found["waiting"]] = found[
            "average"
        ]
    for row in rows.values():
        row["ratio"] = (
            None
            if row.setdefault("event") is None or row["block"] is None
            else row["block"] / row["event"]
        )
    columns: Columns = [
        "policy",
        Column("event", "next event", digits=4),
        Column("block", "10 ms, as in the paper", digits=4),
        Column("ratio", "paper / event", digits=4),
    ]
    caption = "Over the authors' pi4, averaged over p(c), in both semantics."
    return [Text(TWO_WAYS), Table(list(rows.values()), columns, sort="ratio", caption=caption)]
