"""Ratios with bootstrap intervals, targets, ablation and times, from the steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.experiments.families.contenders import (
    BASELINE,
    CHOSEN,
    CONSTANT,
    CONTENDERS,
    HAND_MADE,
    PART,
    REFERENCE,
)
from weft.experiments.harness import ResultRows
from weft.formats.model_file import bundled_models, find_model, read_model
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
KIND = {c.name: c.kind for c in CONTENDERS}
PARTS = tuple(c.name for c in CONTENDERS if c.kind == PART)


def by_condition(simulated: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, list[Any]]:
    """Group the results by condition; single-node clusters are a further group."""
    groups: dict[str, list[Any]] = {name: [] for name in (*FAMILY_CONDITIONS, SINGLE)}
    for condition, result in simulated:
        groups[condition].append(result)
        if result["cluster"] in SINGLE_NODE and condition not in LOADS:
            groups[SINGLE].append(result)
    return {name: results for name, results in groups.items() if results}


def ratio_rows(groups: Mapping[str, ResultRows]) -> list[dict[str, Any]]:
    """Return one row per condition and contender: its figure over the baseline's."""
    rows = []
    for condition, results in groups.items():
        base = REFERENCE if condition in LOADS else BASELINE
        for name in results[0]["figures"]:
            own = [r for r in results if name in r["figures"]]
            seconds = [r["seconds"].get(name, 0.0) for r in own]
            rows.append(
                {
                    "condition": condition,
                    "contender": name,
                    "kind": KIND.get(name, "reference"),
                    "cases": len(own),
                    "over": base,
                    **_ratio(own, name, base),
                    "milliseconds": 1e3 * float(np.median(seconds)),
                }
            )
    return rows


def ablation_rows(groups: Mapping[str, ResultRows]) -> list[dict[str, Any]]:
    """Return the ratios of the search policy and its parts, on the parts' cases."""
    same = {
        c: [r for r in results if "search alone" in r["figures"]] for c, results in groups.items()
    }
    rows = ratio_rows({c: results for c, results in same.items() if results})
    return [row for row in rows if row["contender"] in (CHOSEN, *PARTS)]


def network_rows(
    groups: Mapping[str, ResultRows], chosen: str = CHOSEN, constant: str = CONSTANT
) -> list[dict[str, Any]]:
    """Return the ratios of a policy over itself with constants for the network."""
    rows = []
    for condition, results in groups.items():
        own = [r for r in results if constant in r["figures"]]
        if own:
            found = _ratio(own, chosen, constant)
            earned = "yes" if found["high"] < 1.0 else "no"
            rows.append({"condition": condition, "cases": len(own), **found, "earned": earned})
    return rows


def _ratio(results: ResultRows, name: str, base: str) -> dict[str, float]:
    own, other = ([r["figures"][key] for r in results] for key in (name, base))
    if len(results) < 2:
        return dict.fromkeys(("ratio", "low", "high"), own[0] / other[0])
    found = geometric_mean_ratio(own, other, draws=2_000)
    return {"ratio": found.estimate, "low": found.low, "high": found.high}


def target_rows(groups: Mapping[str, ResultRows], rows: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return one row per target: reached or not, and the best hand-made rule."""
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
    ratios = results["ratios"]
    names = list(dict.fromkeys(r["contender"] for r in ratios))
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
        "all": _wide([r for r in ratios if r["contender"] not in PARTS]),
        "ablation": _wide(results["ablation"]),
        "network": _earned_table("network over constants", results["network"]),
        "switch": _earned_table("with the switch over without", results["switch"]),
        "times": {
            "columns": [
                "contender",
                "ms per task, one job",
                "ms per task, streams",
                "training, minutes",
            ],
            "align": ["l", "r", "r", "r"],
            "rows": [
                [
                    name,
                    *(_mean_time(ratios, name, stream=s) for s in (False, True)),
                    _minutes(results["training_seconds"].get(name)),
                ]
                for name in names
                if name in KIND
            ],
        },
    }


def _earned_table(what: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "columns": ["condition", "cases", what, "interval", "below 1"],
        "align": [*"lrrrl"],
        "rows": [
            [
                r["condition"],
                f"{r['cases']}",
                f"{r['ratio']:.3f}",
                f"{r['low']:.3f} to {r['high']:.3f}",
                r["earned"],
            ]
            for r in rows
        ],
    }


def training_seconds() -> dict[str, float]:
    """Return the processor time of the training of each contender that has a card."""
    found = {}
    for name in bundled_models():
        if name in KIND:
            seconds = read_model(find_model(name)).training.get("cpu_seconds")
            if isinstance(seconds, int | float):
                found[name] = float(seconds)
    return found


def _minutes(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds / 60:.1f}"


def _wide(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return ratios, one column per condition; the last row counts the cases."""
    conditions, names = (
        list(dict.fromkeys(row[key] for row in rows)) for key in ("condition", "contender")
    )
    found = {(row["contender"], row["condition"]): f"{row['ratio']:.3f}" for row in rows}
    cases = [max(r["cases"] for r in rows if r["condition"] == c) for c in conditions]
    return {
        "columns": ["contender", *conditions],
        "align": ["l", *"r" * len(conditions)],
        "rows": [
            *([name, *(found.get((name, c)) for c in conditions)] for name in names),
            ["cases", *map(str, cases)],
        ],
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
