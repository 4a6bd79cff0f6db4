"""One page of verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.experiments.documents.verdicts import JUDGES
from weft.experiments.harness import write_experiment_page
from weft.report.page import Facts, Section, Table, Text
from weft.report.palette import colors_by_name
from weft.report.tables import Column, Columns

COLUMNS: Columns = ["claim", "published", "measured", "verdict"]


@colors_by_name()
def write(path: Path, results: Mapping[str, Any]) -> Path:
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
