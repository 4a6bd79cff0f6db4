"""The table of the lab, from the lines of its rounds: medians, intervals and ratios."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from benchmarks.lab.lab import TOP
from benchmarks.lab.ways import FIRST, OWN, PLAN, POLICIES
from benchmarks.lab.workloads import WORKLOADS

RESULTS = TOP / "docs" / "results"
TITLES = {"dask": "Dask", "ray": "Ray"}

Rounds = dict[tuple[str, str, str], list[float]]
"""(engine, workload, way) -> seconds of its rounds."""


def rounds_of(rows: Sequence[dict[str, Any]]) -> Rounds:
    """Return the seconds by engine, workload and way."""
    found: Rounds = {}
    for row in rows:
        found.setdefault((row["engine"], row["workload"], row["way"]), []).append(row["seconds"])
    return found


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of the median by the bootstrap, 95 %."""
    rng = np.random.default_rng(0)
    drawn = np.median(rng.choice(values, (4000, len(values))), axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return float(low), float(high)


def best_policy(rounds: Rounds, engine: str, workload: str) -> str | None:
    """Return the policy with the least median."""
    known = [p for p in POLICIES if (engine, workload, p) in rounds]
    return min(known, key=lambda p: median(rounds[engine, workload, p]), default=None)


def tables(rounds: Rounds) -> dict[str, Any]:
    """Return the tables of seconds and of ratios, one row per engine and workload."""
    seconds, ratios = [], []
    gains: dict[tuple[str, str], list[float]] = {}
    for engine, title in TITLES.items():
        for workload in WORKLOADS:
            if (engine, workload, OWN) not in rounds:
                continue
            policy = best_policy(rounds, engine, workload)
            ways = {"own": OWN, "first": FIRST, "plan": PLAN, "policy": policy}
            cells = {name: rounds.get((engine, workload, way or "")) for name, way in ways.items()}
            own = median(rounds[engine, workload, OWN])
            shown = [None if c is None else _shown(c) for c in cells.values()]
            seconds.append([title, workload, *shown, policy])
            row: list[Any] = [title, workload]
            for name in ("first", "plan", "policy"):
                values = cells[name]
                ratio = None if values is None else own / median(values)
                row.append(None if ratio is None else round(ratio, 2))
                if ratio is not None:
                    gains.setdefault((engine, name), []).append(ratio)
            ratios.append([*row, min(len(c) for c in cells.values() if c is not None)])
        if (engine, "plan") in gains:
            means = [_mean(gains.get((engine, n), [])) for n in ("first", "plan", "policy")]
            ratios.append([title, "geometric mean", *means, None])
    first = ["engine", "workload"]
    return {
        "seconds": {
            "columns": [*first, "alone", "weft, first run", "plan", "best policy", "which"],
            "align": "llrrrrl",
            "rows": seconds,
        },
        "ratios": {
            "columns": [*first, "first run", "plan", "best policy", "rounds"],
            "align": "llrrrr",
            "decimals": [None, None, 2, 2, 2, 0],
            "rows": ratios,
        },
    }


def faults_table(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the table of hosts that failed, from the lines of `faults`."""
    shown = [
        [TITLES[r["engine"]], r["workload"], r["fault"], r["outcome"], r["seconds"], len(r["left"])]
        for r in rows
    ]
    return {
        "columns": ["engine", "workload", "fault", "result", "seconds until it", "left"],
        "align": "llllrr",
        "decimals": [None, None, None, None, 1, 0],
        "rows": shown,
    }


def explained_table(rows: Sequence[dict[str, Any]], traces: Path) -> dict[str, Any]:
    """Return the explanations of the plans: of each workload, the run of the median."""
    found = []
    for engine, title in TITLES.items():
        for workload in WORKLOADS:
            runs = sorted(
                (row["seconds"], row["round"])
                for row in rows
                if (row["engine"], row["workload"], row["way"]) == (engine, workload, PLAN)
            )
            if runs:
                number = runs[(len(runs) - 1) // 2][1]
                path = traces / f"{engine}-{workload}-{PLAN}-{number}.txt"
                found.append([title, workload, path.read_text(encoding="utf-8")])
    return {"columns": ["engine", "workload", "plan"], "align": "lll", "rows": found}


def _mean(values: Sequence[float]) -> float | None:
    return round(math.exp(sum(map(math.log, values)) / len(values)), 2) if values else None


def _shown(values: Sequence[float]) -> str:
    low, high = interval(values)
    return f"{median(values):.1f} s ({low:.1f} to {high:.1f})"


def write(rows: Sequence[dict[str, Any]], *, note: str, extra: dict[str, Any]) -> Path:
    """Write docs/results/lab.json; `extra` has tables of other commands, which are kept."""
    path = RESULTS / "lab.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"tables": {}}
    made = {
        "measured_with": "python -m benchmarks.lab run, then python -m benchmarks.lab table",
        "provenance": f"{note}; {os.cpu_count()} cores, {platform.machine()}"
        if rows
        else before["provenance"],
        "tables": {**before["tables"], **(tables(rounds_of(rows)) if rows else {}), **extra},
        "rounds": list(rows) or before.get("rounds", []),
    }
    path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return path
