"""Turnaround of contenders relative to HEFT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.experiments.imitation import runs
from weft.report.statistics import geometric_mean_ratio


def summary(
    scores: Sequence[Mapping[str, Any]], names: Sequence[str], *, by_size: bool = True
) -> list[dict[str, Any]]:
    """Return mean ratios to HEFT by group, size and contender."""
    rows = []
    for group in dict.fromkeys(score["group"] for score in scores):
        inside = [score for score in scores if score["group"] == group]
        sizes = [runs.size_of(low) for low, _ in runs.SIZES] if by_size else []
        for size in [*(s for s in sizes if any(score["size"] == s for score in inside)), "all"]:
            chosen = [score for score in inside if size in ("all", score["size"])]
            rows += [_row(chosen, name) | {"group": group, "size": size} for name in names]
    return rows


def _row(scores: Sequence[Mapping[str, Any]], name: str) -> dict[str, Any]:
    own, base = [score[name] for score in scores], [score["HEFT"] for score in scores]
    ratio = geometric_mean_ratio(own, base)
    return {
        "contender": name,
        "problems": len(scores),
        "over_heft": ratio.estimate,
        "low": ratio.low,
        "high": ratio.high,
        "ratio_of_means": float(np.mean(own) / np.mean(base)),
        "worst": float(np.max(np.array(own) / np.array(base))),
    }
