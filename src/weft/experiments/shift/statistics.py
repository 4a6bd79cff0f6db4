"""Ratios to the optimum and goals of the shift experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.experiments.shift.tasks import TaskSequence
from weft.model.columns import FloatArray

LEARNERS = ("RL Agent (DQN)", "hybrid")
WINDOW = 25
"""Tasks per point of a curve."""


def within(
    sequence: TaskSequence, spent: FloatArray, change: int, *, after: int = 50, window: int = 50
) -> float:
    """Return time over optimum in a window `after` tasks after a change."""
    part = slice(change + after, change + after + window)
    return float(spent[part].sum() / sequence.optimal[part].sum())


def window_ratios(spent: FloatArray, best: FloatArray) -> FloatArray:
    """Return time over the optimum in consecutive windows."""
    shape = (-1, WINDOW)
    return np.asarray(spent.reshape(shape).sum(axis=1) / best.reshape(shape).sum(axis=1))


def recovery(spent: FloatArray, best: FloatArray, change: int, end: int) -> int | None:
    """Return the tasks from a change to a window within 10 % of the optimum."""
    for k in range(change, end):
        part = slice(k, k + WINDOW)
        if spent[part].sum() <= 1.1 * best[part].sum():
            return k - change
    return None


def goals(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return goals, measured values and whether each goal is met."""
    rows = {row["strategy"]: row for row in results["strategies"]}
    fixed = [r for n, r in rows.items() if r["document"] is not None and n not in LEARNERS]
    difference = max(abs(round(r["makespan"], 2) - r["document"]) for r in fixed)
    dqn, hybrid = (rows[name] for name in LEARNERS)
    undone = {
        r["strategy"]: r["after_changes"][-1]
        for r in results["streams"]
        if r["stream"] == "reversed"
    }
    asked: list[tuple[str, float, float, str]] = [
        ("largest difference in the document's five fixed rows", 0.0, difference, "s"),
        (f"RL Agent (DQN), with exploration, mean of {dqn['runs']}", 18.0, dqn["makespan"], "s"),
        ("hybrid (5 % above the optimum)", 13.6, hybrid["makespan"], "s"),
        *(
            (f"{name}, tasks 51 to 100 after a reversed shift, over optimum", 1.1, undone[name], "")
            for name in LEARNERS
        ),
        ("one prediction of the forest", 20.0, results["forest"]["flat_microseconds"], "µs"),
    ]
    return [
        {"goal": name, "at_most": most, "measured": value, "unit": unit, "met": value <= most}
        for name, most, value, unit in asked
    ]
