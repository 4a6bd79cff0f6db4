"""The tables of the documentation page, from the results of the experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.experiments.conditional.contenders import ORDER
from weft.experiments.harness import page_table

WAYS = {"event": "event", "block": "paper"}
"""Way to wait -> table with the completion times."""


def page_tables(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return table name -> table."""
    tables = {name: _times(results, waiting) for waiting, name in WAYS.items()}
    if results["any_graph"]["sets"]:
        tables["any_graph"] = _any_graph(results["any_graph"]["sets"])
    if results["rollouts"]:
        tables["rollout"] = _rollouts(results["rollouts"])
    return tables


def _times(results: Mapping[str, Any], waiting: str) -> dict[str, Any]:
    """Return mean completion times by policy and p(c), also over the authors' pi4."""
    points = results["probabilities"]
    rows: list[list[Any]] = [["authors' pi4", *results["published_pi4"], 1.0, 1.0]]
    summary = [row for row in results["summary"] if row["waiting"] == waiting]
    for row in sorted(summary, key=lambda row: (row["average"] is None, row["average"])):
        means = [
            cell["mean"]
            for cell in results["grid"]
            if cell["waiting"] == waiting and cell["policy"] == row["policy"]
        ]
        rows.append([_name(row["policy"]), *means, row["average"], row["worst"]])
    columns = {"mean JCT in ms, p(c) =": None, **{f"{p:g}": 2 for p in points}}
    return page_table({**columns, "mean": 4, "worst": 3}, rows)


def _any_graph(sets: Mapping[str, Any]) -> dict[str, Any]:
    """Return the time of each rule over that of `conditional-any`, by set of streams."""
    found = [{row["policy"]: row for row in one["rows"]} for one in sets.values()]
    own, *rules = found[0]
    rows = [[_name(name), *(_interval(by_name[name]) for by_name in found)] for name in rules]
    rows.append(
        ["streams on which no rule is quicker", *(f"{one[own]['first']:.0%}" for one in found)]
    )
    columns = {f"{one['streams']} streams: {kind}": None for kind, one in sets.items()}
    return page_table({"rule": None, **columns}, rows)


def _name(contender: str) -> str:
    """Return a contender by the name under which `weft` has it."""
    if " " in contender:
        return contender
    return f"`conditional-{contender}`" if contender in ORDER else f"`{contender}`"


def _interval(row: Mapping[str, Any]) -> str:
    return f"{row['over_any']:.3g} ({row['low']:.3g} to {row['high']:.3g})"


def _rollouts(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Return rollouts and their base policies relative to the authors' pi4, by p(c)."""
    names = list(found[0]["over_authors"])
    rows: list[list[Any]] = [
        [
            f"{row['probability']:g}",
            *(row["over_authors"][name] for name in names),
            100 * row["changed"],
            row["ms_per_step"],
        ]
        for row in found
    ]
    means = [sum(row["over_authors"][name] for row in found) / len(found) for name in names]
    rows.append(["mean", *means, None, None])
    columns = {"p(c)": None, **{_name(name): 3 for name in names}}
    return page_table({**columns, "choices changed, %": 0, "ms per step": 1}, rows)
