"""Further sections of the conditional report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.experiments.harness import line
from weft.model.columns import FloatArray
from weft.report.figures import Series
from weft.report.page import Figure, Figures, PageBlock, Table, Text
from weft.report.tables import Column, Columns, TableRow

Document = Mapping[str, Any]
SIZE = (4.8, 3.5)
SEMANTICS = {"event": "waiting until the next event", "block": "waiting as in the paper, 10 ms"}

WAITING = """\
In the paper an idle unit is blocked for 10 ms. A policy can avoid this: an action on a queue \
that another unit empties in the same step does nothing, and the unit decides again at the next \
event. weft's own rules and learned policies (not the paper's three rules) use this wherever they \
can, so numbers with the paper's waiting partly show which policies use this gap. No contender \
waits if nothing is running or due, which the paper's mask allows and which would never end.

In the other semantics a unit waits until the next event, and may not wait if nothing is running \
or due. Policies trained for the paper's semantics run only with it, the others with both."""

REGULAR = """\
In the paper's text a job arrives every 8 ms; its code, and all other numbers here, draw gaps \
from a normal distribution with a deviation of 4 ms. Regular arrivals are easier for most \
contenders. Policies were trained with drawn gaps; units wait until the next event."""

ROLLOUTS = """\
At every step the network's choice is compared with alternatives that change one unit's action. \
All of them run in the same sampled futures to the end, under the tuned index. Arrivals are \
sampled from their process and branches from the estimate; the real future is not used. The \
choice with the least total time of jobs in the system is taken. This costs 400 times the work of \
a network, so there are few seeds; units wait until the next event, and all contenders run on the \
same draws."""


def column(values: Sequence[float | None]) -> FloatArray:
    """Return numbers for a figure; NaN for None."""
    return np.array([np.nan if value is None else value for value in values], float)


# -- changes at run time ---------------------------------------------------------------


def adaptation(document: Document) -> list[PageBlock]:
    """Show results with a changing p(c)."""
    found = document["adaptation"]
    text = (
        f"Completion times with a changing p(c), {found['seeds']} seeds. Estimates are exponential "
        'means over about 500 outcomes of D; "unlimited memory" is the same policy with a mean '
        "over all outcomes, as in the paper. Draws differ much, so intervals are of the ratio per "
        "draw. "
    )
    if found["online_learning"] is None:
        text += "Online learning was not measured: it needs torch."
    else:
        text += (
            f'"{found["online_learning"]}" starts as that policy and continues PPO during the '
            "evaluation: its actions are sampled, so exploration costs time, and it has only about "
            "20,000 decisions, where a training has millions."
        )
    blocks: list[PageBlock] = [Text(text)]
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
    curves = {n: column(curve) for n, curve in result["curves"].items() if n not in hidden}
    best = np.fmin.reduce(list(curves.values())) if curves else np.ones(len(time))
    lines = {name: Series(time, curve / best) for name, curve in curves.items()}
    name = kind.capitalize()
    of = "mean over seeds" if kind == "steps" else "one draw"
    path = {"p(c)": Series(time, column(result["probability"]), steps=kind == "steps")}
    return [
        line(lines, f"{name}: completion time / best, {of}", "seconds", "ratio", size=SIZE),
        line(path, f"{name}: p(c)", "seconds", "p(c)", size=SIZE),
    ]


def any_graph(document: Document) -> list[PageBlock]:
    """Show results of one policy on unseen graphs."""
    found = document["any_graph"]
    if not found["sets"]:
        return [Text("Not measured.")]
    text = (
        "conditional-any scores every pair of idle unit and task kind with a small network that "
        "has the same weights for all pairs, graphs and units; its features are dimensionless. It "
        "was trained on random conditional graphs, none of these. Mean job completion time of each "
        f"rule over its own, {found['draws']} draws of {found['jobs']:,} jobs per stream: "
        "geometric mean over streams with the 95 % interval, the lowest ratio, and the share of "
        "streams on which the rule is faster."
    )
    if "call graphs" not in found["sets"]:
        text += " Call graphs of real services were skipped: WEFT_DATA does not have them."
    blocks: list[PageBlock] = [Text(text)]
    columns: Columns = [
        "policy",
        Column("over_any", "time / conditional-any", digits=4),
        Column("low", "from", digits=4),
        Column("high", "to", digits=4),
        Column("worst", "lowest ratio", digits=4),
        Column("quicker", "faster on", unit="%", digits=3),
    ]
    for result in found["sets"].values():
        won = result["rows"][0]["first"]
        caption = (
            f"{result['streams']} streams: {result['about']}. conditional-any is at least as fast "
            f"as every rule on {won:.0%} of them."
        )
        blocks.append(Table(result["rows"], columns, sort="over_any", caption=caption))
    return blocks


def rollouts(document: Document) -> list[PageBlock]:
    """Show rollouts beside the policies they are built on."""
    rows: list[TableRow] = []
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
        return [Text("Rollouts are part of the full experiment only.")]
    mean = {
        name: np.mean([found["over_authors"][name] for found in document["rollouts"]])
        for name in document["rollouts"][0]["over_authors"]
    }
    columns: Columns = [
        Column("p", "p(c)"),
        Column("authors", "authors' pi4 (ms)", digits=4),
        Column("time", "rollouts (ms)", digits=4),
        Column("rollout_over", "rollouts", digits=4),
        *(Column(f"{name}_over", name, digits=4) for name in ("best", "index") if name in mean),
        Column("changed", "changed", unit="%", digits=3),
        Column("futures", "futures", digits=3),
        Column("ms_per_step", "ms per step", digits=2),
    ]
    means = ", ".join(f"{name} {value:.4f}" for name, value in mean.items())
    caption = (
        f"{rows[0]['seeds']} seed(s) of {document['jobs']:,} jobs per p(c): times, ratios to the "
        f"authors' pi4 (mean: {means}), share of changed choices, futures, and time per step."
    )
    return [Text(ROLLOUTS), Table(rows, columns, caption=caption)]


def regular(document: Document) -> list[PageBlock]:
    """Show results with a job every 8 ms."""
    points = [f"{p:g}" for p in document["probabilities"]]
    rows: list[TableRow] = []
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
        caption="Mean job completion time in ms at p(c) = 0 to 1, and ratio to drawn gaps.",
    )
    return [Text(REGULAR), table]


def waiting(document: Document) -> list[PageBlock]:
    """Show both waiting semantics side by side."""
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
    caption = "Ratio to the authors' pi4, averaged over p(c), in both semantics."
    return [Text(WAITING), Table(list(rows.values()), columns, sort="ratio", caption=caption)]


# -- Figure 4 --------------------------------------------------------------------------


def figure_four(document: Document) -> list[PageBlock]:
    """Draw learning curves."""
    trained = document["training"]
    shown = [
        ("relative", "(a) over the best of the paper's rules", "completion time / best rule"),
        ("reward_rate", "(b) reward", "reward per time"),
        ("entropy", "(c) entropy of the policy", "nats"),
    ]
    figures = []
    for key, title, label in shown:
        lines = {row["policy"]: _curve(row["curve"], key) for row in trained}
        lines = {
            name: line for name, line in lines.items() if np.isfinite(np.asarray(line.y)).any()
        }
        if lines:
            figures.append(line(lines, title, "million samples", label, size=SIZE))
    text = (
        "From the model cards. (a) is the greedy policy on validation draws, over the best of "
        "FIFO, MRU and Depth-First at each p(c) of its training; below 1 is better. Some trainings "
        "start with imitation of a rule. Rewards at random p(c) are divided by the completion time "
        "of a simple rule, so (b) compares points of one curve, not curves. Later learning from "
        "rollouts is not drawn."
    )
    columns: Columns = [
        "policy",
        "about",
        Column("samples", "samples"),
        Column("cpu_seconds", "processor time", unit="s"),
        Column("imitation", "imitation samples"),
        Column("rollouts", "then rollouts", unit="s"),
        Column("seeds", "seeds tried"),
        Column("last", "over the best rule", digits=4),
    ]
    rows = [
        {
            **{key: row[key] for key in ("policy", "about", "samples", "cpu_seconds", "imitation")},
            "rollouts": row.get("rollouts_seconds"),
            "seeds": len(row["seeds"]) if row["seeds"] else 1,
            "last": min(
                (point["relative"] for point in row["curve"] if point["relative"] is not None),
                default=None,
            ),
        }
        for row in trained
    ]
    return [
        Text(text),
        Figures(figures),
        Table(
            rows,
            columns,
            caption="The paper's training took 15 minutes on a desktop with 24 cores.",
        ),
    ]


def _curve(points: Sequence[Mapping[str, Any]], key: str) -> Series:
    return Series([p["samples"] / 1e6 for p in points], column([p[key] for p in points]))


# -- Figure 5 --------------------------------------------------------------------------


def figure_five(document: Document) -> list[PageBlock]:
    """Draw the use of the units."""
    learned = [
        row["policy"]
        for row in document["summary"]
        if row["waiting"] == "event" and row["group"] in {"fixed", "adaptive"}
    ]
    names = [*learned, "index"]
    rows = [
        row for row in document["units"] if row["waiting"] == "event" and row["policy"] in names
    ]
    figures = []
    for unit in dict.fromkeys(row["unit"] for row in rows):
        lines = {}
        for name in names:
            own = [row for row in rows if row["policy"] == name and row["unit"] == unit]
            lines[name] = Series(
                [row["probability"] for row in own], column([row["concurrency"] for row in own])
            )
        figures.append(line(lines, unit, "p(c)", "concurrent tasks", size=SIZE))
    text = (
        "Mean number of concurrent tasks per unit over the whole run: at most 1 for a CPU (mean of "
        "both), 5 for GPU1 and 10 for GPU2. Full batches are not a goal: at high p(c) it is better "
        "to run F alone on the CPUs and keep the GPUs for short tasks."
    )
    return [
        Text(f"{text} {SEMANTICS['event'].capitalize()}."),
        Figures(figures),
        _slow_table(document, rows, names),
    ]


def _slow_table(
    document: Document, rows: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> Table:
    points = [p for p in (0.1, 0.5, 0.9) if p in document["probabilities"]]
    units = list(dict.fromkeys(row["unit"] for row in rows))
    table: list[TableRow] = []
    for name in names:
        for p in points:
            own = {
                row["unit"]: row
                for row in rows
                if row["policy"] == name and row["probability"] == p
            }
            line: dict[str, object] = {"policy": name, "p": f"{p:g}"}
            for unit in units:
                line |= {
                    f"{unit}_busy": own[unit]["busy"],
                    f"{unit}_share": own[unit]["share_of_slow"],
                    f"{unit}_batch": own[unit]["slow_batch"],
                }
            table.append(line)
    columns: Columns = [
        "policy",
        Column("p", "p(c)"),
        *(Column(f"{unit}_busy", f"{unit} busy", unit="%", digits=3) for unit in units),
        *(Column(f"{unit}_share", f"F on {unit}", unit="%", digits=3) for unit in units),
        *(
            Column(f"{unit}_batch", f"F in a batch, {unit}", digits=3)
            for unit in units
            if unit != "CPUs"
        ),
    ]
    return Table(
        table,
        columns,
        caption="Busy share of the units, units that run the slow task F, and its batch sizes.",
    )
