"""Streams experiment: a published testbed, its rules, rivals and weft's policies.

Behind `weft reproduce streams`: the 24 settings of DWS-Testbed (20,000 workflows each) in weft's
simulator. The files are read from the data folder.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from weft.experiments.harness import PROCESSES, Checkpoint, described, finish, write_page
from weft.experiments.streams import report
from weft.experiments.streams.contenders import CONTENDERS
from weft.experiments.streams.runs import FEW, FIRST, StreamStep, run_step, steps
from weft.experiments.streams.statistics import page_tables, ranking, reproduced, summary, verdicts
from weft.experiments.streams.testbed import JOBS, TestbedSetting, find_testbed
from weft.progress import Track
from weft.report.tables import table_text


def reproduce(folder: str | Path, *, quick: bool = False, track: Track = iter) -> dict[str, Any]:
    """Run all settings; write and return the results. An interrupted run resumes."""
    begin, folder = time.perf_counter(), Path(folder)
    published = find_testbed().settings()
    todo = steps([setting for setting, _ in published], quick=quick)
    checkpoint = Checkpoint.of(folder, todo, [c.name for c in CONTENDERS])
    simulated = dict(checkpoint.run(run_step, todo, processes=PROCESSES, track=track))
    few, rows = (_rows(published, simulated, n) for n in (FEW, FEW if quick else JOBS))
    first = _rows(published, simulated, FIRST, every=True)
    results: dict[str, Any] = {
        **described("streams", quick=quick),
        "jobs": FEW if quick else JOBS,
        "few_jobs": FEW,
        "first_jobs": FIRST,
        "settings": rows,
        "summary": summary(rows),
        "few_summary": summary(few),
        "every": ranking(first),
        "reproduced": reproduced(rows),
    }
    results["verdicts"] = verdicts(rows, results["summary"], published_length=not quick)
    results["seconds"] = time.perf_counter() - begin
    results["tables"] = page_tables(results)
    write_page(folder, results, results["tables"])
    return finish(folder, results, report.write, checkpoint)


def _rows(
    published: list[tuple[TestbedSetting, dict[str, float]]],
    simulated: dict[StreamStep, dict[str, Any]],
    jobs: int,
    *,
    every: bool = False,
) -> list[dict[str, Any]]:
    """Return one row per setting: published and measured mean flowtimes."""
    rows = []
    for setting, known in published:
        found = simulated[StreamStep(setting, jobs, every=every)]
        measured = {name: each["flowtime"] for name, each in found.items()}
        spent = {name: each["seconds"] for name, each in found.items()}
        rows.append(
            {"setting": str(setting), "published": known, "measured": measured, "seconds": spent}
        )
    return rows


def table(results: dict[str, Any]) -> str:
    """Return the summary, the check by published values and the verdicts as text."""
    parts = [
        table_text(results["summary"], report.SUMMARY_COLUMNS),
        table_text(results["reproduced"], report.REPRODUCED_COLUMNS),
        *(f"{v['claim']}: {v['verdict']} ({v['measured']})" for v in results["verdicts"]),
    ]
    return "\n\n".join(parts)
