"""Ratios to the optimum and goals of the shift experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.experiments.harness import page_table
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
    mixed = {
        row["physics"]: row["over_optimal"]["hybrid"]
        for row in results["physics"]
        if row["tasks"] == "mixed"
    }
    worst = results["dqn"]["worst"]
    asked: list[tuple[str, float, float, str]] = [
        ("largest difference in the document's five fixed rows", 0.0, difference, "s"),
        (f"RL Agent (DQN), with exploration, mean of {dqn['runs']}", 18.0, dqn["makespan"], "s"),
        (f"RL Agent (DQN), with exploration, worst of {dqn['runs']}", 18.0, worst, "s"),
        *(
            (f"hybrid, mixed tasks, {name}, over optimum", 1.05, value, "")
            for name, value in mixed.items()
        ),
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


# -- tables of the page ----------------------------------------------------------------


def page_tables(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the documentation page."""
    return {
        "strategies": _strategy_page(results),
        "tail": _tail_page(results),
        "physics": _physics_page(results, "mixed"),
        "physics_shifted": _physics_page(results, "shifted"),
        "streams": _stream_page(results),
        "fresh": _fresh_page(results),
        "probing": _probing_page(results),
        "cluster": _cluster_page(results),
    }


def _strategy_page(results: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("document", "makespan", "mean_task", "speedup")
    runs = {row["strategy"]: row["runs"] for row in results["strategies"]}
    names = {
        "RL Agent (DQN)": f"RL Agent (DQN), started all-GPU, mean of {runs['RL Agent (DQN)']}",
        "hybrid": "`hybrid`",
    }
    return page_table(
        {"strategy": None, "document": 2, "ours": 2, "mean task": 3, "speedup over Round Robin": 2},
        [
            [names.get(row["strategy"], row["strategy"]), *(row[key] for key in keys)]
            for row in results["strategies"]
        ],
    )


def _tail_page(results: Mapping[str, Any]) -> dict[str, Any]:
    dqn, goal = results["dqn"], "above 18 s"
    columns = {"seeds": 0, "mean": 2, "median": 2, "95th percentile": 2, "worst": 2, goal: 0}
    totals = dqn["makespans"]
    row = [len(totals), float(np.mean(totals)), *(dqn[k] for k in ("median", "p95", "worst"))]
    return page_table(columns, [[*row, dqn["above_18"]]])


def _physics_page(results: Mapping[str, Any], tasks: str) -> dict[str, Any]:
    rows = [row for row in results["physics"] if row["tasks"] == tasks]
    names = list(rows[0]["over_optimal"])
    columns: dict[str, int | None] = {"physics": None, "what differs": None}
    columns |= dict.fromkeys([f"`{n}`" if n == "hybrid" else n for n in names], 3)
    return page_table(
        columns | {"`hybrid`, worst draw": 3},
        [
            [
                row["physics"],
                row["about"],
                *(row["over_optimal"][n] for n in names),
                row["worst"]["hybrid"],
            ]
            for row in rows
        ],
    )


def _stream_page(results: Mapping[str, Any]) -> dict[str, Any]:
    columns = {"stream": None, "strategy": None, "runs": 0, "whole stream": 3}
    return page_table(
        {**columns, "after changes": None},
        [
            [
                row["stream"],
                row["strategy"],
                row["runs"],
                row["over_optimal"],
                ", ".join(f"{x:.2f}" for x in row["after_changes"]),
            ]
            for row in results["streams"]
        ],
    )


def _fresh_page(results: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("stream", "strategy", "runs", "over_optimal", "worst_over_optimal", "worst_after")
    columns = {"stream": None, "strategy": None, "draws": 0, "whole stream": 3, "worst draw": 3}
    return page_table(
        {**columns, "worst window after a change": 2},
        [[row[key] for key in keys] for row in results["fresh_streams"]],
    )


def _probing_page(results: Mapping[str, Any]) -> dict[str, Any]:
    columns = {"budget": 3, "the document's shift (s)": 2, "slow device, over optimum": 3}
    rows = [list(row.values()) for row in results["probing"]]
    return page_table({**columns, "recovery noticed after (tasks)": 0}, rows)


def _cluster_page(results: Mapping[str, Any]) -> dict[str, Any]:
    exact, noisy = (
        {row["policy"]: row for row in results["cluster"] if row["noise"] == noise}
        for noise in (0.0, 0.3)
    )
    names = sorted(exact, key=lambda name: exact[name]["makespan"])
    return page_table(
        {"policy": None, "information": None, "makespan (s)": 2, "makespan, noise 0.3 (s)": 2},
        [[n, exact[n]["information"], exact[n]["makespan"], noisy[n]["makespan"]] for n in names],
    )
