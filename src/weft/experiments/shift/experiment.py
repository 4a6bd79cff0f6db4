"""Shift experiment: offline knowledge under a shift of the workload.

Behind `weft reproduce shift`: the document's pipeline with its device model, seeds and accounting;
then queues and parallelism in the simulator, shifts that are undone, repeated or gradual, a device
that changes speed, and other device models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from weft.experiments.harness import Stopwatch, describe_machine, write_results
from weft.experiments.shift import report
from weft.experiments.shift.contenders import shifted_tasks, train_forest, training_tasks
from weft.experiments.shift.runs import STEPS, ShiftResults
from weft.experiments.shift.statistics import goals, page_tables
from weft.progress import Track
from weft.report.tables import table_text


def reproduce(folder: str | Path, *, quick: bool = False, track: Track = iter) -> dict[str, Any]:
    """Run all steps; write and return the results."""
    clock = Stopwatch()
    generator = np.random.RandomState(99)
    test, training = shifted_tasks(generator), training_tasks()
    found = ShiftResults(quick, training, test, train_forest(training), generator)
    results = found.document
    results |= {"experiment": "shift", "quick": quick, "machine": describe_machine()}
    for step in track(list(STEPS)):
        step(found)
    results["goals"] = goals(results)
    results |= clock.spent()
    write_results(Path(folder), results, page_tables(results))
    report.write(Path(folder) / "report.html", found)
    return results


def table(results: dict[str, Any]) -> str:
    """Return the document's table with our values beside it, and the goals, as text."""
    strategies = table_text(results["strategies"], report.STRATEGY_COLUMNS)
    return f"{strategies}\n\n{table_text(results['goals'], report.GOAL_COLUMNS)}"
