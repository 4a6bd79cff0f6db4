"""Tables of the documentation page, from the results of the GPU-cluster experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.experiments.gpu_cluster.contenders import CONTENDERS, FAIR
from weft.experiments.harness import page_table

BASELINE = FAIR[0]
"""Makespans of the page are relative to those of this contender."""


def page_tables(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables: a verdict on every claim and aim, and makespans over the baseline."""
    return {"verdict": _verdict_table(results), "makespan": _makespan_table(results)}


def _verdict_table(results: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("part", "claim", "measured", "verdict")
    columns = dict.fromkeys(("of the", "claim or aim", "measured", "verdict"))
    return page_table(columns, [[row[key] for key in keys] for row in results["verdicts"]])


def _makespan_table(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return ratios of geometric means of one job, with a column per condition."""
    conditions, rows = results["conditions"], []
    for ccr in results["ccrs"]:
        means = [
            dict(results["rankings"].get(f"tasks {condition} {ccr}", ()))
            for condition in conditions
        ]
        for name in (c.name for c in CONTENDERS if c.name != BASELINE):
            ratios = [
                mean[name] / mean[BASELINE] if {name, BASELINE} <= set(mean) else None
                for mean in means
            ]
            if any(ratio is not None for ratio in ratios):
                rows.append([f"{ccr:g}", name, *ratios])
    columns = {"CCR": None, "contender": None, **dict.fromkeys(conditions, 3)}
    return page_table(columns, rows)
