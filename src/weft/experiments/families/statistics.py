"""Ratios with bootstrap intervals, targets, the ablation and times, from the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.experiments.families.contenders import (
    BASELINE,
    CHOSEN,
    CONTENDERS,
    HAND_MADE,
    PART,
    REFERENCE,
)
from weft.generators.families.distribution import FAMILY_CONDITIONS, LOADS, SINGLE_NODE
from weft.report.statistics import geometric_mean_ratio

SINGLE = "single node"
TARGETS = {
    "static": 0.93,
    "noisy .3": 0.96,
    "noisy .5": 0.96,
    "failing": 0.93,
    "biased": 0.93,
    "changing": 0.93,
    "stream .8": 0.93,
    "stream .95": 0.93,
    SINGLE: 0.97,
}
Results = Sequence[Mapping[str, Any]]
KIND = {c.name: c.kind for c in CONTENDERS}


def by_condition(played: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, list[Any]]:
    """Group the results by condition; single-node clusters also form a group of their own."""
    groups: dict[str, list[Any]] = {name: [] for name in (*FAMILY_CONDITIONS, SINGLE)}
    for condition, result in played:
        groups[condition].append(result)
        if result["cluster"] in SINGLE_NODE and condition not in LOADS:
            groups[SINGLE].append(result)
    return {name: results for name, results in groups.items() if results}


def ratio_rows(groups: Mapping[str, Results]) -> list[dict[str, Any]]:
    """Return one row per condition and contender: its figure over that of the baseline."""
    rows = []
    for condition, results in groups.items():
        base = REFERENCE if condition in LOADS else BASELINE
        for name in results[0]["figures"]:
            if all(name in r["figures"] for r in results):
                found = _ratio(results, name, base)
                kind = KIND.get(name, "reference")
                milliseconds = 1e3 * float(np.mean([r["seconds"].get(name, 0) for r in results]))
                rows.append(
                    {
                        "condition": condition,
                        "contender": name,
                        "kind": kind,
                        "cases": len(results),
                        "over": base,
                        **found,
                        "milliseconds": milliseconds,
                    }
                )
    return rows


def _ratio(results: Results, name: str, base: str) -> dict[str, float]:
    own, other = ([r["figures"][key] for r in results] for key in (name, base))
    if len(results) < 2:
        return dict.fromkeys(("ratio", "low", "high"), own[0] / other[0])
    found = geometric_mean_ratio(own, other, draws=2_000)
    return {"ratio": found.estimate, "low": found.low, "high": found.high}


def target_rows(groups: Mapping[str, Results], rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return one row per target: reached or not, and the best hand-made rule beside it."""
    found = []
    for condition, target in TARGETS.items():
        if condition not in groups:
            continue
        results = groups[condition]
        here = {r["contender"]: r for r in rows if r["condition"] == condition}
        own = here[CHOSEN]
        rule = min((r for r in here.values() if r["kind"] == HAND_MADE), key=lambda r: r["ratio"])
        beside = _ratio(results, CHOSEN, rule["contender"])
        clairvoyant = here.get("clairvoyant", {}).get("ratio")
        found.append(
            {
                "condition": condition,
                "cases": len(results),
                "over": own["over"],
                "ratio": own["ratio"],
                "low": own["low"],
                "high": own["high"],
                "target": target,
                "reached": "yes" if own["ratio"] <= target else "no",
                "best_rule": rule["contender"],
                "over_rule": beside["ratio"],
                "rule_low": beside["low"],
                "rule_high": beside["high"],
                "clear": "yes" if beside["high"] < 1.0 else "no",
                "clairvoyant": clairvoyant,
            }
        )
    return found


def page_tables(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the documentation page."""
    conditions = list(dict.fromkeys(r["condition"] for r in results["ratios"]))
    ratio = {(r["contender"], r["condition"]): r for r in results["ratios"]}
    names = list(dict.fromkeys(r["contender"] for r in results["ratios"]))

    def cell(name: str, condition: str) -> str | None:
        row = ratio.get((name, condition))
        return None if row is None else f"{row['ratio']:.3f}"

    def wide(chosen: Sequence[str]) -> dict[str, Any]:
        return {
            "columns": ["contender", *conditions],
            "align": ["l", *"r" * len(conditions)],
            "rows": [[name, *(cell(name, c) for c in conditions)] for name in chosen],
        }

    parts = [n for n in names if KIND.get(n) == PART]
    spent = {
        name: [r["milliseconds"] for r in results["ratios"] if r["contender"] == name]
        for name in names
        if name in KIND
    }
    return {
        "targets": {
            "columns": [
                "condition",
                "cases",
                "over",
                "ratio",
                "interval",
                "target",
                "reached",
                "best hand-made rule",
                "over it",
                "interval",
                "clairvoyant",
            ],
            "align": [*"lrlrrrllrrr"],
            "rows": [
                [
                    r["condition"],
                    f"{r['cases']}",
                    r["over"],
                    f"{r['ratio']:.3f}",
                    f"{r['low']:.3f} to {r['high']:.3f}",
                    f"{r['target']:.2f}",
                    r["reached"],
                    r["best_rule"],
                    f"{r['over_rule']:.3f}",
                    f"{r['rule_low']:.3f} to {r['rule_high']:.3f}",
                    None if r["clairvoyant"] is None else f"{r['clairvoyant']:.3f}",
                ]
                for r in results["targets"]
            ],
        },
        "all": wide([n for n in names if n not in parts]),
        "ablation": wide([CHOSEN, *parts]),
        "times": {
            "columns": ["contender", "mean ms per task, one job", "mean ms per task, streams"],
            "align": ["l", "r", "r"],
            "rows": [
                [name, *(_mean_time(results["ratios"], name, stream=s) for s in (False, True))]
                for name in spent
            ],
        },
    }


def _mean_time(rows: Sequence[Mapping[str, Any]], name: str, *, stream: bool) -> str | None:
    own = [
        r["milliseconds"]
        for r in rows
        if r["contender"] == name
        and r["condition"] != SINGLE
        and (r["condition"] in LOADS) == stream
    ]
    return f"{np.mean(own):.3f}" if own else None
