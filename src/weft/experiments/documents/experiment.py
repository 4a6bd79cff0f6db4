"""Behind `weft reproduce all`: four experiments, and one page of verdicts.

The imitation and the shift experiment use one process each and run side by side; the other two use
two processes each and run one after the other. An interrupted run resumes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from weft.errors import MissingExtra
from weft.experiments.documents.verdicts import JUDGES, verdicts
from weft.experiments.harness import (
    PROCESSES,
    Checkpoint,
    Keyed,
    Stopwatch,
    describe_machine,
    fingerprint,
    page_table,
    write_experiment_page,
    write_results,
)
from weft.progress import Track
from weft.report.page import Facts, Section, Table, Text
from weft.report.palette import colors_by_name
from weft.report.tables import Column, Columns, table_text

ALONE = ("imitation", "shift")
"""Experiments of one process; the others have processes of their own."""
COLUMNS: Columns = ["claim", "published", "measured", "verdict"]


@dataclass(frozen=True)
class DocumentStep(Keyed, key="{name}"):
    """One experiment in a folder of its own."""

    name: str
    folder: str
    quick: bool


def reproduce(folder: str | Path, *, quick: bool = False, track: Track = iter) -> dict[str, Any]:
    """Run the four experiments; write and return verdicts.

    Every experiment also writes its own results and report, into a folder of its name.
    """
    watch, folder = Stopwatch(), Path(folder)
    steps = [DocumentStep(name, str(folder / name), quick) for name in JUDGES]
    checkpoint = Checkpoint(folder / "progress.jsonl", fingerprint(steps, list(JUDGES)))
    alone = [step for step in steps if step.name in ALONE]
    spent = dict(checkpoint.run(run_document, alone, processes=PROCESSES, track=track))
    rest = [step for step in steps if step.name not in ALONE]
    spent |= dict(checkpoint.run(run_document, rest, processes=1, track=track))
    found = {step.name: _read(step, spent[step]) for step in steps}
    rows = verdicts(found)
    results: dict[str, Any] = {
        "experiment": "all",
        "quick": quick,
        "machine": describe_machine(),
        "experiments": [
            {
                "experiment": step.name,
                "seconds": spent[step].get("seconds"),
                "cpu_seconds": spent[step].get("cpu_seconds"),
            }
            for step in steps
        ],
        "verdicts": rows,
        **watch.spent(),
    }
    columns = dict.fromkeys(("document", "claim", "published", "measured", "verdict"))
    cells = [[row[key] for key in columns] for row in rows]
    times = [list(row.values()) for row in results["experiments"]]
    tables = {
        "verdicts": page_table(columns, cells),
        "times": page_table({"experiment": None, "seconds": 0, "processor seconds": 0}, times),
    }
    write_results(folder, results, tables)
    write_page(folder / "report.html", results)
    checkpoint.delete()
    return results


def run_document(step: DocumentStep) -> dict[str, Any]:
    """Run one experiment; return its time, or why it cannot run."""
    watch, module = Stopwatch(), step.name.replace("-", "_")
    try:
        experiment = import_module(f"weft.experiments.{module}.experiment")
        experiment.reproduce(step.folder, quick=step.quick)
    except MissingExtra as error:
        return {"error": str(error)}
    return watch.spent()


def _read(step: DocumentStep, spent: dict[str, Any]) -> dict[str, Any]:
    if "error" in spent:
        return spent
    text = (Path(step.folder) / "results.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def table(results: dict[str, Any]) -> str:
    """Return the verdicts as text."""
    columns: Columns = ["document", "claim", "published", "measured", "verdict"]
    times = ", ".join(
        f"{row['experiment']} {row['seconds']:.0f} s"
        for row in results["experiments"]
        if row["seconds"] is not None
    )
    return f"{table_text(results['verdicts'], columns)}\n\n{times}; all {results['seconds']:.0f} s"


@colors_by_name()
def write_page(path: Path, results: Mapping[str, Any]) -> Path:
    """Write the page from the results."""
    rows = results["verdicts"]
    counts = {
        v: sum(r["verdict"] == v for r in rows) for v in dict.fromkeys(r["verdict"] for r in rows)
    }
    titles = {name: title for name, (title, _) in JUDGES.items()}
    sections = [Section("Verdicts", [Facts({v: str(n) for v, n in counts.items()})])]
    for name, title in titles.items():
        own = [row for row in rows if row["document"] == title]
        link = f"Details: {name}/report.html"
        sections.append(Section(title, [Table(own, COLUMNS), Text(link)]))
    times: Columns = [
        "experiment",
        Column("seconds", unit="s", places=0),
        Column("cpu_seconds", "processor time", unit="s", places=0),
    ]
    sections.append(Section("Time", [Table(results["experiments"], times)]))
    return write_experiment_page("all", path, results, sections)
