"""Families experiment: search in the loop on families on which nothing was chosen.

Behind `weft reproduce families`: 60 cases in each condition, all contenders on the same cases in
the same simulator. Measured graphs are read from the data folder where it has some; the other cases
come from generators fitted to the families.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.families import report
from weft.experiments.families.contenders import CONTENDERS, REFERENCE, UNSWITCHED
from weft.experiments.families.runs import run_step, steps
from weft.experiments.families.statistics import (
    ablation_rows,
    by_condition,
    network_rows,
    page_tables,
    ratio_rows,
    target_rows,
    training_seconds,
)
from weft.experiments.harness import PROCESSES, Checkpoint, described, finish
from weft.progress import Track
from weft.report.tables import table_text


def reproduce(folder: str | Path, *, quick: bool = False, track: Track = iter) -> dict[str, Any]:
    """Run all cases; write and return the results. An interrupted run resumes."""
    begin, folder = time.perf_counter(), Path(folder)
    todo = steps(quick=quick)
    checkpoint = Checkpoint.of(folder, todo, [c.name for c in CONTENDERS])
    simulated = [
        (step.condition, result)
        for step, result in checkpoint.run(run_step, todo, processes=PROCESSES, track=track)
    ]
    results = summarise(simulated, quick=quick)
    results["seconds"] = time.perf_counter() - begin
    return finish(folder, results, report.write, checkpoint)


def summarise(simulated: list[tuple[str, dict[str, Any]]], *, quick: bool) -> dict[str, Any]:
    """Return the statistics of finished steps."""
    groups = by_condition(simulated)
    rows = ratio_rows(groups)
    results: dict[str, Any] = {
        **described("families", quick=quick),
        "contenders": {c.name: {"kind": c.kind, "about": c.about} for c in CONTENDERS},
        "share_measured": float(np.mean([r["measured"] for _, r in simulated])),
        "ratios": rows,
        "targets": target_rows(groups, rows),
        "ablation": ablation_rows(groups),
        "network": network_rows(groups),
        "switch": network_rows(groups, REFERENCE, UNSWITCHED),
        "training_seconds": training_seconds(),
    }
    results["tables"] = page_tables(results)
    return results


def table(results: dict[str, Any]) -> str:
    """Return the targets and the ratios of all contenders as text."""
    return "\n\n".join(
        (
            table_text(results["targets"], report.TARGET_COLUMNS),
            table_text(results["ratios"], report.RATIO_COLUMNS),
        )
    )
