"""Means over settings, wins over the published schedulers, and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.experiments.harness import ResultRows
from weft.experiments.streams.contenders import AT_ONCE, CONTENDERS, RULES, SPACES, WAITS, WITHIN
from weft.experiments.streams.testbed import PUBLISHED

RIVALS = ("GOODRL", "GPHH")


def summary(rows: ResultRows) -> list[dict[str, Any]]:
    """Return one row per contender: mean ratio to the rivals and settings below them."""
    measured = [name for c in CONTENDERS if (name := c.name) in rows[0]["measured"]]
    spaces = {c.name: c.space for c in CONTENDERS}
    names = [(f"{n} (published)", "published", n) for n in PUBLISHED]
    names += [(n, spaces[n], n) for n in measured]
    return [_summary(rows, *each) for each in names]


def _summary(rows: ResultRows, label: str, space: str, name: str) -> dict[str, Any]:
    source = "published" if space == "published" else "measured"
    own = np.array([row[source][name] for row in rows])
    found: dict[str, Any] = {"contender": label, "space": space, "mean": float(own.mean())}
    for rival in RIVALS:
        other = np.array([row["published"][rival] for row in rows])
        found[f"over_{rival}"] = float(np.exp(np.log(own / other).mean()))
        found[f"below_{rival}"] = int((own < other).sum())
    return found


def ranking(rows: ResultRows) -> list[dict[str, Any]]:
    """Return the mean flowtime of all policies, shortest first, also over `eft`."""
    names = list(rows[0]["measured"])
    means = {n: float(np.mean([row["measured"][n] for row in rows])) for n in names}
    ratios = {n: [row["measured"][n] / row["measured"]["eft"] for row in rows] for n in names}
    return [
        {
            "policy": name,
            "space": AT_ONCE.get(name, WAITS),
            "mean": means[name],
            "over_eft": float(np.exp(np.log(ratios[name]).mean())),
        }
        for name in sorted(names, key=lambda name: means[name])
    ]


def reproduced(rows: ResultRows) -> list[dict[str, Any]]:
    """Return how far the rules with the stale clock are from the published values."""
    found = []
    for rule in RULES:
        gaps = [
            abs(row["measured"][f"{rule}, stale clock"] / row["published"][rule] - 1)
            for row in rows
        ]
        equal = sum(gap < 1e-7 for gap in gaps)
        found.append({"rule": rule, "largest_difference": max(gaps), "equal": equal})
    return found


def verdicts(
    rows: ResultRows, summaries: ResultRows, *, published_length: bool
) -> list[dict[str, str]]:
    """Judge the claims that follow from the table."""
    by_name = {row["contender"]: row for row in summaries}
    eft, count = by_name["eft"], len(rows)
    best = min((r for r in summaries if r["space"] == WITHIN), key=lambda r: r["mean"])
    stale = by_name["HEFT, stale clock"]
    claims = [
        (
            "GOODRL and GPHH are ahead of HEFT",
            "only of a HEFT that reads the clock wrongly",
            (
                f"with the right clock the same rule takes {eft['mean'] / stale['mean']:.3f} of "
                f"its time and is below GOODRL in {eft['below_GOODRL']} and below GPHH in "
                f"{eft['below_GPHH']} of {count} settings"
            ),
        ),
        (
            "the best contender within the testbed's action space",
            best["contender"],
            f"{best['over_GOODRL']:.3f} of GOODRL's time",
        ),
    ]
    if not published_length:
        claims.append(
            (
                "these settings are the published ones",
                "no: fewer workflows",
                "a quick run compares the first workflows with means over all of them",
            )
        )
    return [dict(zip(("claim", "verdict", "measured"), each, strict=True)) for each in claims]


def page_tables(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the documentation page."""
    names = ("GOODRL", "GPHH", "HEFT")
    own = ("HEFT, stale clock", "eft", "rank-eft", "rank-first")
    return {
        "summary": {
            "columns": [
                "contender",
                "action space",
                "mean flowtime (s)",
                "over GOODRL",
                "below GOODRL",
                "over GPHH",
                "below GPHH",
            ],
            "align": ["l", "l", *"rrrrr"],
            "decimals": [0, 0, 1, 3, 0, 3, 0],
            "rows": [list(row.values()) for row in results["summary"]],
        },
        "few": {
            "columns": ["contender", "action space", "mean flowtime (s)"],
            "align": ["l", "l", "r"],
            "decimals": [0, 0, 1],
            "rows": [
                list(row.values())[:3]
                for row in results["few_summary"]
                if row["space"] != "published"
            ],
        },
        "every": {
            "columns": ["policy", "action space", "mean flowtime (s)", "over eft"],
            "align": ["l", "l", "r", "r"],
            "decimals": [0, 0, 1, 3],
            "rows": [list(row.values()) for row in results["every"]],
        },
        "settings": {
            "columns": ["setting", *(f"{n}, published" for n in names), *own],
            "align": ["l", *"r" * (len(names) + len(own))],
            "decimals": [0, *[2] * (len(names) + len(own))],
            "rows": [
                [
                    row["setting"],
                    *(row["published"][n] for n in names),
                    *(row["measured"][n] for n in own),
                ]
                for row in results["settings"]
            ],
        },
        "spaces": {
            "columns": ["action space", "what a contender may do"],
            "align": ["l", "l"],
            "rows": [[key, text] for key, text in SPACES.items()],
        },
        "reproduced": {
            "columns": [
                "rule",
                "settings equal to all published digits",
                "largest relative difference",
            ],
            "align": ["l", "r", "r"],
            "decimals": [0, 0, 7],
            "rows": [
                [r["rule"], r["equal"], r["largest_difference"]] for r in results["reproduced"]
            ],
        },
    }
