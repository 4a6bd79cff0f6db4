"""The outcomes of campaigns as tables of the documentation, with their provenance."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.chaos.campaigns import Tally
from tests.chaos.soak import Soak
from weft.experiments.harness import describe_machine, page_table

TITLES = {
    "local": "local processes",
    "driver": "drivers, resumed",
    "dask": "Dask",
    "ray": "Ray",
    "cascade": "units of a cascade",
}
"""Campaign -> how its row is called, in the order of the rows."""

CAMPAIGN = {
    "killed": None,
    "runs": 0,
    "kills": 0,
    "right": 0,
    "clear errors": 0,
    "finished tasks repeated": 0,
    "processes left": 0,
    "files left": 0,
    "traces valid": 0,
    "load": 0,
}
SERVICE = {
    "submissions": 0,
    "kills": 0,
    "right": 0,
    "clear errors": 0,
    "refused: queue full": 0,
    "processes left": 0,
    "files left": 0,
    "traces valid": 0,
    "load": 0,
}
SOAK = {"": None, "early": None, "middle": None, "end": None, "per minute, second half": 3}


def add_results(path: Path, command: str, tallies: Mapping[str, Tally], soak: Soak | None) -> None:
    """Add campaigns to a file of results, in place of earlier ones of the same kind."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    tables: dict[str, Any] = known.get("tables", {})
    day, load = time.strftime("%Y-%m-%d", time.gmtime()), os.getloadavg()[2]
    rows = {row[0]: row for row in tables.get("campaigns", {"rows": []})["rows"]}
    made = {}
    for name, tally in tallies.items():
        if name == "service":
            made["service"] = page_table(SERVICE, [_row(tally, "repeated", load)])
        else:
            rows[TITLES[name]] = [TITLES[name], *_row(tally, "refused", load)]
    ordered = [rows[title] for title in TITLES.values() if title in rows]
    if ordered:
        made["campaigns"] = page_table(CAMPAIGN, ordered)
    if soak is not None:
        made |= soak_tables(soak)
    ran = [*tallies, *(["soak"] if soak is not None else [])]
    note = f"{command}, on {day}; load of the last 15 minutes {load:.0f}"
    document = {
        **known,
        "measured_with": "python -m tests.chaos --out docs/results/chaos.json",
        "provenance": known.get("provenance", {}) | dict.fromkeys(ran, note),
        "machine": describe_machine(),
        "tables": tables | made,
    }
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def _row(tally: Tally, without: str, load: float) -> list[Any]:
    return [*(value for name, value in tally.numbers.items() if name != without), load]


def soak_tables(soak: Soak) -> dict[str, Any]:
    """Return the figures of a soak at three moments, and its counts."""
    last = len(soak.samples) - 1
    moments = [soak.samples[k] for k in (last // 6, last // 2, last)]
    titles = [f"after {round(sample.minute)} min" for sample in moments]
    rows = [
        [
            title,
            *(form.format(getattr(s, name)) for s in moments),
            round(soak.growth(name), 6) + 0.0,
        ]
        for title, name, form in (
            ("memory with its processes", "megabytes", "{:.1f} MB"),
            ("descriptors", "descriptors", "{}"),
            ("threads", "threads", "{}"),
        )
    ]
    table = page_table(dict(zip(["", *titles, list(SOAK)[-1]], SOAK.values(), strict=True)), rows)
    off = 100 * max(abs(offset) for offset in soak.offsets().values())
    counts = {"submissions": 0, "most off its share, %": 2, "urgent": 0, "urgent, not first": 0}
    row = [soak.submissions, off, soak.urgent, soak.urgent_late]
    return {"soak": table, "soak_counts": page_table(counts, [row])}
