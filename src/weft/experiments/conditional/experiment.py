"""Conditional experiment: completion time over the branch probability p(c).

Behind `weft reproduce conditional`: the authors' baselines draw by draw, rules and learned policies
at every p(c) in both waiting semantics, learning curves, unit usage, and probabilities that change
at run time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from weft.experiments.conditional import report
from weft.experiments.conditional.page import page_tables
from weft.experiments.conditional.runs import ConditionalPlan, RunSetup, StepSeeds, run_steps
from weft.experiments.conditional.statistics import ConditionalResults, summarise
from weft.experiments.harness import Checkpoint, finish
from weft.progress import Track
from weft.report.tables import Column, Columns, table_text

FULL = ConditionalPlan(10_000, StepSeeds(40, 6, regular=5, rollout=1), streams=60, processes=2)
QUICK = ConditionalPlan(4000, StepSeeds(4, 3, regular=2), streams=16, processes=2)


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    track: Track = iter,
    plan: ConditionalPlan | None = None,
) -> dict[str, Any]:
    """Run all steps; write and return the results.

    An interrupted experiment resumes from `progress.jsonl` in the folder.
    """
    begin = time.perf_counter()
    plan, folder = plan or (QUICK if quick else FULL), Path(folder)
    setup = RunSetup(plan)
    found = ConditionalResults(setup)
    checkpoint = Checkpoint.of(folder, plan, list(setup.entered))
    for step, result in run_steps(setup, checkpoint, track):
        found.add(step, result)
    results = summarise(found, quick=quick)
    results["seconds"] = time.perf_counter() - begin
    return finish(folder, results, report.write, checkpoint, page_tables(results))


def table(results: dict[str, Any]) -> str:
    """Return all contenders relative to the authors' pi4, as text."""
    columns: Columns = [
        "policy",
        "waiting",
        Column("average", "over the authors' pi4", digits=4),
        Column("half_width", "+-", digits=2),
        Column("worst", "worst", digits=4),
        Column("worst_at", "at p(c)"),
        Column("over_reference", "over the reference", digits=4),
    ]
    exact = ", ".join(
        f"{row['rule']} {row['ours']:.2f} (theirs {row['authors']:.2f})"
        for row in results["exact"]["rows"]
    )
    own = ", ".join(f"{name} ({waiting} waiting)" for waiting, name in results["reference"].items())
    text = table_text(results["summary"], columns, sort="average")
    return f"{text}\n\nreference: {own}\nseed 1, p(c) = 0.5, ms: {exact}"
