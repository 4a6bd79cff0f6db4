"""Turnaround of contenders relative to HEFT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.experiments.harness import page_table
from weft.experiments.imitation import runs
from weft.model.explain.quantities import format_seconds
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


# -- tables of the page ----------------------------------------------------------------


def page_tables(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the documentation page."""
    return {
        "turnaround": _turnaround_page(document),
        "paper": _paper_page(document),
        "speed": _speed_page(document),
        "sizes": _sizes_page(document),
    }


def _turnaround_page(document: Mapping[str, Any]) -> dict[str, Any]:
    """Geometric means over HEFT with intervals, one row per set."""
    parts = [rows for part, rows in document["turnaround"].items() if part != "paper"]
    return _by_set([row for part in parts for row in part])


def _paper_page(document: Mapping[str, Any]) -> dict[str, Any]:
    return _by_set([row for row in document["turnaround"]["paper"] if row["size"] == "all"])


def _by_set(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return one row per contender, one column per set."""
    sets = list(dict.fromkeys((row["group"], row["size"]) for row in rows))
    names = [n for n in dict.fromkeys(row["contender"] for row in rows) if n != "HEFT"]
    by_key = {(row["contender"], row["group"], row["size"]): row for row in rows}
    columns: dict[str, int | None] = {"contender": None}
    columns |= {g if s == "all" else f"{g}, {s}": None for g, s in sets}
    cells = [[name, *(_cell(by_key.get((name, *key))) for key in sets)] for name in names]
    return page_table(columns, cells)


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['over_heft']:.3f} ({row['low']:.2f} to {row['high']:.2f})"


def _speed_page(document: Mapping[str, Any]) -> dict[str, Any]:
    sizes = list(dict.fromkeys(row["tasks"] for row in document["speed"]))
    rows: dict[tuple[str, str], list[str]] = {}
    for row in document["speed"]:
        seconds = row.get("generation_seconds", row["seconds"])
        name = "GA, one generation of 60" if row["contender"] == "GA" else row["contender"]
        rows.setdefault((name, row["runtime"]), []).append(format_seconds(seconds))
    for name, times in document["table_one"].items():
        rows[name, "document, Table I"] = [f"{seconds:g} s" for seconds in times.values()]
    columns = {"contender": None, "runtime": None} | {f"{n:,} tasks": None for n in sizes}
    return page_table(columns, [[*key, *cells] for key, cells in rows.items()])


def _sizes_page(document: Mapping[str, Any]) -> dict[str, Any]:
    sizes = list(dict.fromkeys(row["tasks"] for row in document["speed"]))
    shown = [row for row in document["speed"] if row["runtime"] in ("compiled", "onnxruntime")]
    chosen = [
        r for r in shown if not (r["contender"] == "deepsched" and r["runtime"] != "compiled")
    ]
    rows: dict[str, list[str]] = {}
    for row in chosen:
        text = f"{row['turnaround_over_heft']:.3f}"
        if "training_steps" in row:
            text += f" ({row['training_steps']} steps, {row['training_seconds']:.0f} s)"
        if "generations" in row:
            text += f" ({row['generations']} generations)"
        rows.setdefault(row["contender"], []).append(text)
    columns = {"contender": None} | {f"{n:,} tasks": None for n in sizes}
    return page_table(columns, [[name, *cells] for name, cells in rows.items()])
